# SPDX-License-Identifier: Apache-2.0
"""`use`, `unuse`, `used` on a real routing table, in a network namespace of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ltp_switcher.daemon.routes import used
from ltp_switcher.daemon.routes.plan import prefix_of
from ltp_switcher.errors import ConfigError

# The host's kernel has no `mutant`; reno stands in for its name alone.
PROGRAM = """
import sys
from ltp_switcher.daemon.routes import plan
plan.CONGESTION_CONTROL = "reno"
from ltp_switcher.daemon.cli.main import main
sys.exit(main())
"""


class Host:
    """A network namespace with a device, an address and a default route for each family."""

    def __init__(self, folder: Path) -> None:
        self.name = f"ltp-routes-{uuid.uuid4().hex[:8]}"
        self.file = folder / "prefixes"
        self._run("ip", "netns", "add", self.name)
        self.ip("link", "add", "up0", "type", "veth", "peer", "name", "up1")
        for device in ("lo", "up0", "up1"):
            self.ip("link", "set", device, "up")
        self.ip("address", "add", "192.0.2.2/24", "dev", "up0")
        self.ip("address", "add", "2001:db8:1::2/64", "dev", "up0", "nodad")
        self.ip("route", "add", "default", "via", "192.0.2.1", "metric", "100")
        self.ip("-6", "route", "add", "default", "via", "2001:db8:1::1")

    def _run(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def ip(self, *arguments: str) -> str:
        return self._run("ip", "-n", self.name, *arguments)

    def routes(self) -> set[str]:
        lines = self.ip("route").splitlines() + self.ip("-6", "route").splitlines()
        return {" ".join(line.split()) for line in lines}

    def command(self, *arguments: str) -> list[str]:
        inside = ["ip", "netns", "exec", self.name, sys.executable, "-c", PROGRAM]
        return [*inside, *arguments, "--file", str(self.file)]

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=60
        )

    def close(self) -> None:
        self._run("ip", "netns", "delete", self.name)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    if os.geteuid() or not Path("/proc/sys/net").exists():
        pytest.skip("needs root, for a network namespace of its own")
    made = Host(tmp_path)
    yield made
    made.close()


def test_use_adds_a_copy_and_unuse_takes_it_back(host: Host) -> None:
    before = host.routes()
    done = host.call("use", "203.0.113.0/24", "2001:db8:cafe::/48")
    assert done.returncode == 0, done.stderr
    added = host.routes() - before
    assert {"203.0.113.0/24 via 192.0.2.1 dev up0 proto 109 metric 100 congctl reno"} <= added
    assert any(line.startswith("2001:db8:cafe::/48 via 2001:db8:1::1 dev up0 proto 109") for line in added)
    assert before <= host.routes()
    assert host.call("use", "203.0.113.0/24").returncode == 0
    assert host.routes() - before == added
    told = json.loads(host.call("used", "--json").stdout)
    assert [one["prefix"] for one in told] == ["203.0.113.0/24", "2001:db8:cafe::/48"]
    assert all(one["routes"] for one in told)
    assert host.call("unuse", "--all").returncode == 0
    assert host.routes() == before
    assert not host.file.exists()


def test_the_default_route_itself_is_used_by_halves(host: Host) -> None:
    before = host.routes()
    assert host.call("use", "0.0.0.0/0").returncode == 0
    halves = {line.split()[0] for line in host.routes() - before}
    assert halves == {"0.0.0.0/1", "128.0.0.0/1"}
    assert before <= host.routes()


def test_what_is_wrong_is_refused_and_changes_nothing(host: Host) -> None:
    before = host.routes()
    for arguments, words in (
        (("use", "203.0.113.1/24"), "host bits"),
        (("unuse", "203.0.113.0/24"), "no prefix is used"),
        (("unuse",), "--all"),
    ):
        done = host.call(*arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert host.routes() == before


def test_following_moves_ours_with_the_gateway_and_ends_with_the_file(host: Host) -> None:
    before = host.routes()
    host.file.write_text("203.0.113.0/24\n")
    follower = subprocess.Popen(host.command("used", "--follow"), stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(host, "203.0.113.0/24 via 192.0.2.1 dev up0 proto 109 metric 100 congctl reno")
        host.ip("route", "change", "default", "via", "192.0.2.9", "metric", "100")
        _wait_for(host, "203.0.113.0/24 via 192.0.2.9 dev up0 proto 109 metric 100 congctl reno")
        # The kernel drops the routes of a device that goes down, and brings back none of them.
        host.ip("link", "set", "up0", "down")
        host.ip("link", "set", "up0", "up")
        host.ip("route", "add", "default", "via", "192.0.2.1", "metric", "100")
        _wait_for(host, "203.0.113.0/24 via 192.0.2.1 dev up0 proto 109 metric 100 congctl reno")
        host.file.unlink()
        assert follower.wait(timeout=30) == 0
        assert not any("proto 109" in line for line in host.routes())
        assert {line for line in before if line.startswith("default via 192")} <= host.routes()
    finally:
        follower.kill()
        follower.communicate()


def _wait_for(host: Host, line: str) -> None:
    deadline = time.monotonic() + 60
    while line not in host.routes():
        assert time.monotonic() < deadline, host.routes()
        time.sleep(0.1)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prefixes"
    used.save(file, [prefix_of("203.0.113.0/24"), prefix_of("2001:db8::/32")])
    assert [str(prefix) for prefix in used.load(file)] == ["203.0.113.0/24", "2001:db8::/32"]
    file.write_text(file.read_text() + "203.0.113.0/40  # a comment\n")
    with pytest.raises(ConfigError, match=r"prefixes:4"):
        used.load(file)
    used.save(file, [])
    assert used.load(file) == []
