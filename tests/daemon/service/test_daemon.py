# SPDX-License-Identifier: Apache-2.0
"""The whole daemon in one process, from its start to SIGTERM; its kernel alone is a stand-in."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.damage import KINDS, damage
from support.fake_kernel import BBR, CUBIC, VEGAS, Kernel
from support.records import flow
from support.running_daemon import close, layers_of, make_daemon

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Decision
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.control.server import BREATHE_AFTER_S
from ltp_switcher.daemon.datapath import RecordArray, RequestRefusedError, protocol
from ltp_switcher.daemon.datapath.netlink import NetlinkError
from ltp_switcher.daemon.service import daemon as service
from ltp_switcher.daemon.service import memory
from ltp_switcher.daemon.service.daemon import Daemon, Every
from ltp_switcher.daemon.service.state import FILE_NAME
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, KernelSection, MptsSection, PoolSection
from ltp_switcher.errors import ModuleVersionError


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The service manager's end of the notifications."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield manager


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


def config(tmp_path: Path, **keys: object) -> Config:
    """Steps of 2 ms over cubic, bbr and vegas, with a state on disk."""
    section = DaemonSection(
        policy="mutant", control_socket=str(tmp_path / "s"), state_dir=str(tmp_path), mode="advise",
        step_ms=2.0, idle_step_ms=2.0, statistics_interval_s=0.0,
    )  # fmt: skip
    kernel = KernelSection(take_default=False, watchdog_ms=800, restart_grace_ms=1234, fallback_arm="bbr")
    return Config(daemon=replace(section, **keys), kernel=kernel, mpts=MptsSection(enabled=False))  # type: ignore[arg-type]


def until(daemon: Daemon, *signals: int) -> None:
    """Run the daemon, and send it these signals, some steps after each other."""

    def send() -> None:
        for number in signals:
            seen = daemon.engine.statistics.steps
            while daemon.engine.statistics.steps < seen + 5:
                time.sleep(0.001)
            os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    daemon.run()
    sender.join()


def datagrams(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(1000).decode())
        except BlockingIOError:
            return found


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Daemon, Kernel]]:
    """Make a daemon over a new kernel with two flows."""

    def made(
        settings: Config, after: Config | None = None, limit: int | None = None
    ) -> tuple[Daemon, Kernel]:
        kernel = Kernel(flow(7, busy=True), flow(8, busy=True))
        monkeypatch.setattr(service, "Datapath", lambda: kernel)
        monkeypatch.setattr(service, "limit_bytes", lambda: limit)
        return Daemon(layers_of(settings), lambda: layers_of(after or settings)), kernel

    return made


Start = Callable[..., tuple[Daemon, Kernel]]


def test_from_start_to_sigterm(
    start: Start, tmp_path: Path, told: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    daemon, kernel = start(config(tmp_path))
    assert kernel.session == ["open"]
    assert kernel.settings == [
        {
            "default_arm": CUBIC,
            "fallback_arm": BBR,
            "watchdog_ms": 800,
            "restore": protocol.RestoreMode.REBASE,
            "handover": protocol.HandoverMode.BDP,
            "flows_max": 524_288,
            "resume": protocol.ResumeMode.OFF,
            "resume_max_jump_kb": 1024,
        }
    ]
    assert (tmp_path / "s").exists()
    until(daemon, signal.SIGTERM)
    assert datagrams(told) == ["READY=1", "STOPPING=1"]
    assert kernel.session == ["open", 1234]
    assert "mode advise, policy mutant, step 2 ms, pool bbr, vegas" in caplog.text
    assert "2 flows open; since the start" in caplog.text
    assert "arms by time: cubic 100%" in caplog.text
    assert (tmp_path / FILE_NAME).exists()
    assert not (tmp_path / "s").exists()
    assert kernel.sent == [], "it only advises"


def test_a_module_of_another_version_is_named_where_it_refuses_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older(Kernel):
        def set_config(self, **settings: object) -> None:
            raise RequestRefusedError("config-set", NetlinkError(errno.EINVAL, "Unknown attribute type"))

        def close_step(self) -> RecordArray:
            raise ModuleVersionError(3, 640, 4, 720)

    monkeypatch.setattr(service, "Datapath", Older)
    settings = config(tmp_path)
    with pytest.raises(ModuleVersionError, match=r"record version 3 of 640 bytes.*`rmmod tcp_mutant`"):
        Daemon(layers_of(settings), lambda: layers_of(settings))


def test_systemd_does_not_start_a_daemon_again_whose_module_is_of_another_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> Daemon:
        raise ModuleVersionError(3, 640, 4, 720)

    monkeypatch.setattr(service, "Daemon", refuse)
    assert main(["run"]) == 4
    assert "another version of it is loaded" in capsys.readouterr().err
    unit = Path(__file__).parents[3] / "packaging/systemd/ltp-switcher.service"
    assert "\nRestartPreventExitStatus=4\n" in unit.read_text()


def test_a_daemon_goes_on_where_the_last_one_was(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, _ = start(config(tmp_path))
    until(first, signal.SIGTERM)
    learned = {name: array.copy() for name, array in first.engine.chooser.state().items()}
    second, _ = start(config(tmp_path))
    assert "restored the learned state" in caplog.text
    restored = second.engine.chooser.state()
    assert {name: array.tolist() for name, array in restored.items()} == {
        name: array.tolist() for name, array in learned.items()
    }
    until(second, signal.SIGINT)


def test_a_damaged_state_is_kept_aside(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"nonsense")
    daemon, _ = start(config(tmp_path))
    until(daemon, signal.SIGTERM)
    assert "starting afresh" in caplog.text
    (aside,) = tmp_path.glob(f"{FILE_NAME}.corrupt-*")
    assert aside.read_bytes() == b"nonsense"


def test_nobody_but_the_daemon_writes_its_files_whatever_the_umask(start: Start, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        daemon, _ = start(config(tmp_path))
        daemon.set_policies(parse([{"prefix": "198.51.100.0/24", "exclude": True}]), Caller(0, 1))
        until(daemon, signal.SIGTERM)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.is_file()}
    assert modes.keys() >= {"state.npz", "overrides.json", "overrides.json.good"}
    assert set(modes.values()) == {0o640}


@pytest.mark.parametrize(
    "name",
    [
        "state.npz",
        "overrides.json",
        "replaced-congestion-control",
        "decisions",
        "rollout.npz",
        "named-policies.json",
        "audit.jsonl",
    ],
)
@pytest.mark.parametrize("how", KINDS)
def test_no_file_of_state_keeps_the_daemon_from_its_work(
    start: Start, tmp_path: Path, name: str, how: str
) -> None:
    first, _ = start(config(tmp_path))
    first.set_policies(parse([{"prefix": "198.51.100.0/24", "exclude": True}]), Caller(0, 1))
    until(first, signal.SIGTERM)
    (tmp_path / "replaced-congestion-control").write_text("cubic")
    if name == "decisions":
        shutil.rmtree(tmp_path / name)
    if name in ("decisions", "rollout.npz"):
        (tmp_path / name).touch()
    damage(tmp_path / name, how)
    second, _ = start(config(tmp_path))
    assert [str(policy) for policy in second.choices.policies.entries] == ["198.51.100.0/24: excluded"]
    until(second, signal.SIGTERM)
    third, _ = start(config(tmp_path))
    assert third.engine.statistics.save_failures == 0
    until(third, signal.SIGTERM)
    assert third.engine.statistics.save_failures == 0


@pytest.mark.parametrize("part", ["chooser", "teams"])
def test_a_state_that_no_part_can_take_over_is_kept_aside(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    first, _ = start(config(tmp_path))
    until(first, signal.SIGTERM)

    def fails(*_: object) -> None:
        raise IndexError("another release wrote this")

    monkeypatch.setattr(type(getattr(first.engine, part)), "restore", fails)
    second, _ = start(config(tmp_path))
    until(second, signal.SIGTERM)
    assert "starting afresh: another release wrote this" in caplog.text
    assert len(list(tmp_path.glob(f"{FILE_NAME}.corrupt-*"))) == 1


def test_without_a_directory_nothing_is_saved(start: Start, tmp_path: Path) -> None:
    daemon, _ = start(config(tmp_path, state_dir=""))
    until(daemon, signal.SIGTERM)
    assert list(tmp_path.glob("*.npz")) == []


def test_settings_are_reloaded_at_sighup(
    start: Start, tmp_path: Path, told: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = config(tmp_path, decisions_per_s=0.0)
    after = replace(
        before,
        daemon=replace(before.daemon, mode="active", step_ms=3.0, log_level="warning"),
        kernel=replace(before.kernel, fallback_arm="vegas"),
        pool=PoolSection(arms=("bbr", "vegas"), k=1),
    )
    daemon, kernel = start(before, after)
    until(daemon, signal.SIGHUP, signal.SIGTERM)
    ready, reloading, again, stopping = datagrams(told)
    assert (ready, again, stopping) == ("READY=1", "READY=1", "STOPPING=1")
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert "daemon.step_ms has changed; restart the service to apply it" in caplog.text
    assert "mode is active now, was advise" in caplog.text
    assert kernel.settings[1]["fallback_arm"] == VEGAS
    assert len(kernel.settings) == 2
    assert daemon.engine.mode == "active"
    assert kernel.sent, "it switches now"
    assert sorted(daemon.engine.chooser.pool) == [BBR, VEGAS]
    assert logging.getLogger().level == logging.WARNING


def test_settings_that_are_wrong_change_nothing(
    start: Start, tmp_path: Path, told: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    before = config(tmp_path)
    after = replace(before, kernel=replace(before.kernel, fallback_arm="yeah"))
    daemon, kernel = start(before, after)
    until(daemon, signal.SIGHUP, signal.SIGTERM)
    assert "the new settings are refused, the old ones stay: kernel.fallback_arm" in caplog.text
    assert daemon.config == before
    assert len(kernel.settings) == 1
    assert [one.partition("=")[0] for one in datagrams(told)] == ["READY", "RELOADING", "READY", "STOPPING"]


def test_every(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(service.time, "monotonic", lambda: now_s)
    every, never = Every(2.0), Every(0.0)
    due = []
    for now_s in (101.9, 102.0, 103.9, 104.5, 104.6):  # noqa: B007
        due.append(every.due())
        assert not never.due()
    assert due == [False, True, False, True, False]


def test_summaries_and_the_status_come_when_they_are_due(
    start: Start, tmp_path: Path, told: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    daemon, _ = start(config(tmp_path, statistics_interval_s=1e-3))
    daemon._status_due = Every(1e-3)
    until(daemon, signal.SIGTERM)
    assert caplog.text.count("flows open; since the start") > 2
    assert "STATUS=advise: 2 flows" in datagrams(told)


def test_a_daemon_that_has_made_no_step_yet_is_not_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service manager hears that it is ready before the first step."""
    began_s = time.monotonic()
    daemon = make_daemon(Kernel(), config(tmp_path), monkeypatch)
    status = Methods(daemon).handle("status", {}, Caller(0, 0))
    close(daemon)
    assert status["last_step_age_ms"] / 1000 < time.monotonic() - began_s


def test_who_asks_within_a_step_is_answered_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step's second part waits until the client has what it asked for in the first."""
    daemon = make_daemon(Kernel(flow(1, busy=True)), config(tmp_path, policy="random"), monkeypatch)
    part_1, part_2 = daemon.engine.chooser.step, daemon.engine.teams.step
    asked, sent, answered = threading.Event(), threading.Event(), threading.Event()
    in_time = []

    def ask() -> None:
        asked.wait()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            client.sendall(b'{"id": 1, "method": "flows.get", "params": {"cookie": "1"}}\n')
            sent.set()
            if b'"result"' in client.recv(10_000):
                answered.set()

    def first(slots: Slots, records: RecordArray, given: ArmIds | None) -> Decision:
        asked.set()
        sent.wait()
        # It is a while since somebody was answered.
        time.sleep(2 * BREATHE_AFTER_S)
        return part_1(slots, records, given)

    def second(slots: Slots, records: RecordArray, arms: ArmIds) -> ArmIds:
        in_time.append(answered.wait(5))
        return part_2(slots, records, arms)

    monkeypatch.setattr(daemon.engine.chooser, "step", first)
    monkeypatch.setattr(daemon.engine.teams, "step", second)
    client = threading.Thread(target=ask)
    client.start()
    daemon.engine.step()
    daemon.engine.step()
    client.join()
    close(daemon)
    assert in_time[0]


def test_the_module_takes_on_no_more_flows_than_memory_holds(
    start: Start,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    told: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The looks are a millisecond apart here, so a busy machine could see the end of the fault.
    monkeypatch.setattr(memory, "QUIET_LOOKS", 1_000_000)
    daemon, kernel = start(config(tmp_path, policy="rule"), limit=512 << 20)
    fits = kernel.settings[0]["flows_max"]
    assert isinstance(fits, int)
    assert 10_000 < fits < 524_288
    asked = Methods(daemon)
    assert asked.handle("status", {}, Caller(0, 0))["flows_max"] == fits
    kernel.refused += 7
    daemon._status_due = Every(1e-3)
    until(daemon, signal.SIGTERM)
    assert caplog.text.count("connections beyond them run their first arm unsteered") == 1
    status = asked.handle("status", {}, Caller(0, 0))
    assert status["flows_refused"] == 7
    (fault,) = status["faults"]
    assert "512 MB hold no more: raise MemoryMax=" in fault
    assert any("STATUS=advise: 2 flows; there is room for" in line for line in datagrams(told))


def test_what_an_operator_allows_counts_where_it_is_less(start: Start, tmp_path: Path) -> None:
    few = config(tmp_path, policy="rule")
    daemon, kernel = start(replace(few, kernel=replace(few.kernel, flows_max=5)), limit=512 << 20)
    assert kernel.settings[0]["flows_max"] == 5
    close(daemon)
