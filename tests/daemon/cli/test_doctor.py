# SPDX-License-Identifier: Apache-2.0
"""The doctor's findings about this machine."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.cli.doctor import (
    Finding,
    capability,
    examine,
    headers_packages,
    missing_module,
    named_finding,
    runs,
)
from ltp_switcher.daemon.settings import tokens
from ltp_switcher.daemon.settings.schema import ApiSection, Config, DaemonSection

RELEASE = "6.1.0-test"


@pytest.mark.parametrize(
    ("there", "detail", "advice"),
    [
        (["updates/dkms/tcp_mutant.ko.xz"], "is installed, not loaded", "modprobe tcp_mutant"),
        (["build"], "is not installed", "apt reinstall ltp-switcher-dkms"),
        ([], "cannot be built", "apt install linux-headers-6.1.0-test"),
    ],
)
def test_the_advice_about_a_missing_module_fits_the_machine(
    tmp_path: Path, there: list[str], detail: str, advice: str
) -> None:
    for name in there:
        place = tmp_path / RELEASE / name
        place.parent.mkdir(parents=True)
        place.touch()
    found = missing_module(tmp_path, RELEASE)
    assert found.verdict == "fail"
    assert detail in found.detail
    assert advice in found.advice


@pytest.mark.parametrize(
    ("release", "meta"),
    [
        ("6.1.0-56-amd64", "linux-headers-amd64"),
        ("6.1.0-56-cloud-amd64", "linux-headers-cloud-amd64"),
        ("6.1.0-56-rt-amd64", "linux-headers-rt-amd64"),
        ("6.12.48+deb13-cloud-amd64", "linux-headers-cloud-amd64"),
        ("6.12.9+deb12-arm64", "linux-headers-arm64"),
        ("6.8.0-41-generic", ""),
        ("6.18.5", ""),
    ],
)
def test_the_headers_that_follow_updates_are_those_of_the_flavour(release: str, meta: str) -> None:
    assert headers_packages(release) == [f"linux-headers-{release}", *([meta] if meta else [])]


@pytest.mark.parametrize(
    ("effective", "verdict"),
    [
        ("000001ffffffffff", "ok"),
        ("0000000000001000", "ok"),
        ("0000000000000fff", "warn"),
        ("0" * 16, "warn"),
    ],
)
def test_only_cap_net_admin_in_force_counts(effective: str, verdict: str) -> None:
    """CAP_NET_ADMIN is bit 12 (capability.h)."""
    status = f"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\n"
    assert capability(status).verdict == verdict


def looked_at(folder: Path, subject: str) -> list[Finding]:
    """What the doctor finds about one subject, where all files are in a folder."""
    config = Config(
        daemon=DaemonSection(state_dir=str(folder), control_socket=str(folder / "control.sock")),
        api=ApiSection(token_file=str(folder / "tokens.json"), socket=str(folder / "api.sock")),
    )
    return [finding for finding in examine(config) if finding.subject == subject]


def test_files_that_were_set_aside_are_named(tmp_path: Path) -> None:
    assert looked_at(tmp_path, "set aside") == []
    (tmp_path / "state.npz.corrupt-17").touch()
    (tmp_path / "overrides.json.corrupt-18").mkdir()
    (found,) = looked_at(tmp_path, "set aside")
    assert found.verdict == "warn"
    assert "overrides.json.corrupt-18, state.npz.corrupt-17" in found.detail


def test_tokens_that_cannot_be_read_are_a_fault(tmp_path: Path) -> None:
    assert looked_at(tmp_path, "tokens")[0].verdict == "ok"
    tokens.add(tmp_path / "tokens.json", "deploy", tokens.Scope.READ)
    (found,) = looked_at(tmp_path, "tokens")
    assert (found.verdict, found.detail) == ("ok", f"1 in {tmp_path}/tokens.json")
    (tmp_path / "tokens.json").write_text('{"version": 9}')
    (found,) = looked_at(tmp_path, "tokens")
    assert found.verdict == "fail"
    assert "version 9" in found.detail
    assert found.advice


def test_an_api_that_does_not_answer_is_told(tmp_path: Path) -> None:
    (absent,) = looked_at(tmp_path, "api")
    assert (absent.verdict, "install ltp-switcher-api" in absent.advice) == ("warn", True)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(tmp_path / "api.sock"))
    (dead,) = looked_at(tmp_path, "api")
    assert (dead.verdict, "systemctl" in dead.advice) == ("fail", True)


def test_the_daemon_s_own_faults_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon whose overrides are damaged, asked over its own socket."""
    (tmp_path / "overrides.json").write_text("{")
    config = Config(
        daemon=DaemonSection(state_dir=str(tmp_path), control_socket=str(tmp_path / "control.sock"))
    )
    with running(make_daemon(Kernel(flow(7)), config, monkeypatch)):
        findings = looked_at(tmp_path, "daemon")
    assert [finding.verdict for finding in findings] == ["ok", "fail"]
    assert "nothing is steered" in findings[1].detail


@pytest.mark.parametrize(
    ("obstacle", "named", "pinned", "verdict", "words"),
    [
        ("", False, False, "ok", "no prefix or policy"),
        ("no BTF", False, False, "warn", "refused: no BTF"),
        ("", True, True, "ok", "named flows get mutant"),
        ("", True, False, "fail", "it is not loaded"),
        ("no BTF", True, False, "fail", "no BTF"),
    ],
)
def test_named_flows_that_get_no_mutant_are_a_fault(
    obstacle: str, named: bool, pinned: bool, verdict: str, words: str
) -> None:
    found = named_finding(obstacle, named=named, pinned=pinned)
    assert found.verdict == verdict
    assert words in found.detail
    assert bool(found.advice) == (verdict == "fail")


def test_another_program_that_chooses_is_found_by_its_name(tmp_path: Path) -> None:
    program = tmp_path / "bpftune"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    assert not runs("bpftune")
    with subprocess.Popen([program, "60"]) as process:
        try:
            # The kernel sets the name a moment after the program has begun.
            until = time.monotonic() + 30
            while not runs("bpftune"):
                assert time.monotonic() < until
        finally:
            process.kill()
