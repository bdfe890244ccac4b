# SPDX-License-Identifier: Apache-2.0
"""Two real daemons with a stand-in for the kernel, the service of each as a process, and a real store."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.api_client import asker
from support.fake_kernel import Kernel
from support.ports import free_port
from support.records import NETNS, flow
from support.running_daemon import make_daemon, running
from support.sharing import SERVICE, learning, sharing, sharing_of, until
from support.site_store import SiteStore, site_store
from support.told import outcome

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.fleet import process
from ltp_switcher.daemon.fleet.exchange import pause_s
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.daemon.step.learning import tally
from ltp_switcher.errors import ConfigError

PREFIX = "192.0.2.0/24"
BBR = 2


class Hosts:
    """Two daemons that run, and their kernels."""

    def __init__(self, folder: Path, store: SiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.store = folder, store
        self.configs = {
            name: learning(folder, name, sharing_of(name, store.socket, period_s=0.2)) for name in ("a", "b")
        }
        self.kernels = {name: Kernel(flow(1)) for name in self.configs}
        self.daemons: dict[str, Daemon] = {
            name: make_daemon(self.kernels[name], config, monkeypatch)
            for name, config in self.configs.items()
        }

    def sharing(self, name: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return sharing(self.folder, self.configs[name])

    def ask(self, name: str) -> dict[str, object]:
        found: dict[str, object] = asker(Path(self.configs[name].daemon.control_socket))(
            "GET", "/v1/fleet"
        ).json()
        return found

    def teach(self, name: str, visits: int = 12) -> None:
        """Visits on two arms, of which BBR earns more, as outcomes that the module tells."""
        for number in range(visits):
            self.kernels[name].told = outcome(
                visit=number + 1, cookie=1000 + number, gain=1.5 * (number % 2), netns=NETNS,
                generation=2 << 5 | 1 << 10, weight=10 if number % 2 else 90, weights=100, arm=2,
                time_ns=time.monotonic_ns(),
            )  # fmt: skip
            before = self.visits(name)
            until(lambda: self.visits(name) > before)  # noqa: B023

    def incumbent(self, name: str) -> int:
        """The arm on which the flows to the prefix begin; 0 where the module has no word on it."""
        entry = self.kernels[name].entries.get(PREFIX)
        return 0 if entry is None else int(entry["choice"]["arm"][0])

    def visits(self, name: str) -> int:
        learner = self.daemons[name].engine.visits
        assert learner is not None
        return learner.visits


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    monkeypatch.setattr("ltp_switcher.daemon.datapath.netlink.own_namespace", lambda: NETNS)
    # Looks every 50 ms, and visits that end with their flows: a lesson in moments.
    monkeypatch.setattr("ltp_switcher.daemon.step.engine.LOOK_NS", 50_000_000)
    monkeypatch.setattr(tally, "QUIET_S", 0.0)
    with site_store(tmp_path) as store, contextlib.ExitStack() as opened:
        made = Hosts(tmp_path, store, monkeypatch)
        for daemon in made.daemons.values():
            opened.enter_context(running(daemon))
            opened.callback(daemon.engine.close)
        yield made


def test_a_lesson_on_one_host_is_of_use_on_the_other(
    hosts: Hosts, capsys: pytest.CaptureFixture[str]
) -> None:
    with hosts.sharing("a") as first, hosts.sharing("b"):
        hosts.teach("a", 1)
        until(lambda: hosts.ask("b")["reachable"] is True)
        assert hosts.incumbent("b") != BBR
        hosts.teach("a")
        took_s = until(lambda: hosts.incumbent("b") == BBR)
        print(f"a lesson was of use on the other host after {took_s:.2f} s")
        # Nobody pays for a trial before the first flow.
        assert hosts.kernels["b"].entries[PREFIX]["choice"]["weight"][1] == 0
        told = hosts.ask("b")
        prefixes = told["prefixes"]
        assert isinstance(prefixes, list)
        (prefix,) = prefixes
        assert (prefix["prefix"], prefix["hosts"], prefix["from"], prefix["visits"]) == (PREFIX, 1, ["a"], 0)
        assert (told["host"], told["running"], told["reachable"], told["error"]) == ("b", True, True, "")
        socket = hosts.configs["b"].daemon.control_socket
        assert main(["--socket", socket, "fleet", "status"]) == 0
        out = capsys.readouterr().out
        assert "b of the site default shares over" in out
        assert PREFIX in out
        assert main(["--socket", socket, "fleet", "status", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["prefixes"][0]["from"] == ["a"]
        lines = asker(Path(socket))("GET", "/metrics").text.splitlines()
        assert "ltp_switcher_fleet_prefixes 1.0" in lines
        assert 'ltp_switcher_fleet_refused_total{host="a"} 0.0' in lines
        # The store is gone: all that is known stays, and the daemons go on.
        hosts.store.kill()
        until(lambda: not hosts.ask("b")["reachable"])
        assert "cannot be reached" in str(hosts.ask("b")["error"])
        assert hosts.ask("b")["told"] == 1
        hosts.store.start()
        until(lambda: hosts.ask("b")["reachable"] is True and bool(hosts.store.lessons(PREFIX)))
        first.kill()
        hosts.teach("a", 1)
        assert hosts.ask("b")["told"] == 1
    saved = hosts.daemons["b"]._state()
    (kept,) = (array for name, array in saved.items() if name.endswith("site_hosts"))
    assert kept.max() == 1


def test_over_tls_with_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", certificate, *subject],
        check=True, capture_output=True,
    )  # fmt: skip
    port = free_port()
    options = [
        "--tls-port", str(port), "--bind", "127.0.0.1", "--tls-cert-file", str(certificate), "--tls-key-file",
        str(key), "--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no",
    ]  # fmt: skip
    from ltp_switcher.daemon.fleet.store import Store
    from ltp_switcher.errors import StoreError

    with site_store(tmp_path, options) as server:
        server.client.config_set("requirepass", "secret")
        place = (f"127.0.0.1:{port}",)
        good = Store(FleetSection(store=place, tls_ca=str(certificate)), "secret")
        assert good.greet("a", b"here")
        assert good.look([PREFIX], "a").presence == b"here"
        good.close()
        for settings, secret in (
            (FleetSection(store=place, tls_ca=str(certificate)), "wrong"),
            (FleetSection(store=place, tls_ca=str(certificate)), ""),
            (FleetSection(store=place), "secret"),
            (FleetSection(store=place, tls="off"), "secret"),
        ):
            with pytest.raises(StoreError, match=r"store at 127\.0\.0\.1"):
                Store(settings, secret).look([PREFIX], "a")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert process.password() == ""
    (tmp_path / "fleet-password").write_text("secret\n")
    assert process.password() == "secret"


def test_off_is_the_default_and_nothing_is_imported(tmp_path: Path) -> None:
    assert Config().fleet.share == "off"
    done = subprocess.run(
        [*SERVICE], env={**os.environ, "LTP_SWITCHER_CONFIG": ""}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert 'fleet.share is "off"' in done.stderr
    code = "import sys, ltp_switcher.daemon.service.daemon; print('valkey' in sys.modules, "
    code += "any('daemon.fleet' in name for name in sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False False\n"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"store": ()}, "fleet.store"),
        ({"store": ("store",)}, "fleet.store[0]"),
        ({"store": ("store:0",)}, "fleet.store[0]"),
        ({"store": ("a:1", "b:1")}, "fleet.store"),
        ({"store": ("/run/a.sock",), "kind": "cluster"}, "fleet.store[0]"),
        ({"host": "a b"}, "fleet.host"),
        ({"site": ""}, "fleet.site"),
        ({"shut_out": ("ok", "not ok")}, "fleet.shut_out[1]"),
        ({"age_s": 10.0}, "fleet.age_s"),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FleetSection(**values)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_sharing_takes_learning() -> None:
    with pytest.raises(ConfigError) as caught:
        Config(fleet=FleetSection(share="on"))
    assert caught.value.field == "fleet.share"


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_pauses_grow_while_exchanges_fail_and_stay_bounded(chance: float) -> None:
    pauses = [pause_s(2.0, failures, chance) for failures in (0, 1, 2, 3, 4, 100)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(2.0, rel=0.21)
    assert 16.0 <= pauses[-1] <= 24.0
