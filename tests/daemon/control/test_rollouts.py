# SPDX-License-Identifier: Apache-2.0
"""A rollout in the whole daemon: begun, kept over restarts, ended by a verdict, an operator or a fault."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.damage import KINDS, damage
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import close, layers_of, make_daemon, running

from ltp_switcher.arrays import UInt64s
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import ControlClient, ControlRefusedError
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.gain.rollout import StageTrial
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Kind
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.gain import GainSection, RolloutSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, KernelSection
from ltp_switcher.errors import InvalidValueError, RefusedError

ME = Caller(1000, 7)
BLOCK_S = 600.0
FILE = "rollout.npz"


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], float]:
    """The Unix time, which goes on by so many seconds."""
    now = {"s": BLOCK_S * 1_000_000}
    monkeypatch.setattr("time.time", lambda: now["s"])

    def go_on(seconds: float) -> float:
        now["s"] += seconds
        return now["s"]

    return go_on


def settings(folder: Path, *, design: str = "none", log_mb: int = 1, mode: str = "advise") -> Config:
    section = DaemonSection(
        control_socket=str(folder / "s"), state_dir=str(folder), mode=mode, step_ms=2.0, idle_step_ms=2.0,
        statistics_interval_s=0.0,
    )  # fmt: skip
    gain = GainSection(design=design, log_mb=log_mb, baseline_arm="vegas")
    return Config(daemon=section, kernel=KernelSection(), gain=gain, rollout=RolloutSection(stage_min_s=0.0))


def made(folder: Path, monkeypatch: pytest.MonkeyPatch, config: Config | None = None) -> Daemon:
    return make_daemon(Kernel(flow(7, busy=True)), config or settings(folder), monkeypatch)


def end(daemon: Daemon) -> None:
    """What a clean stop does."""
    daemon.rollouts.close()
    daemon.engine.close()
    close(daemon)


def ask(daemon: Daemon, method: str, **params: object) -> dict[str, object]:
    found = Methods(daemon).handle(method, params, ME)  # type: ignore[arg-type]
    result = getattr(found, "result", found)
    assert isinstance(result, dict)
    return result


def pass_block(daemon: Daemon, clock: Callable[[float], float], effect: float) -> None:
    """A time block's decisions of ten prefixes, then the looks in the first part of the next block."""
    spans = daemon.engine.spans
    assert spans is not None
    trial = spans.trial
    if isinstance(trial, StageTrial):
        units: UInt64s = np.arange(10, dtype=np.uint64)
        block = trial.block(clock(0))
        on = ~(trial.holds(units, block) | trial.pauses(block))
        noise = np.random.default_rng(block).normal(0, 0.05, 10)
        rows = np.zeros(10, ROW_DTYPE)
        rows["time_s"], rows["block"], rows["busy_s"] = block * BLOCK_S + 100, block, 8.0
        rows["kind"] = np.where(on, Kind.CHOSEN, Kind.BASELINE)
        rows["acked_bytes"] = 1e6 * np.exp(noise + np.log1p(effect) * on)
        spans.heard(rows, units)
    clock(BLOCK_S - clock(0) % BLOCK_S + 70)
    for _ in range(60):
        daemon.rollouts.look()


def until_the_end(daemon: Daemon, clock: Callable[[float], float], effect: float, blocks: int = 2000) -> None:
    for _ in range(blocks):
        if not daemon.rollouts.running:
            return
        pass_block(daemon, clock, effect)


Clock = Callable[[float], float]


def test_proven_harm_goes_back_to_advise_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    daemon = made(tmp_path, monkeypatch)
    assert ask(daemon, "rollout.get") == {"state": "none", "reason": "", "rollout": None}
    started = ask(daemon, "rollout.start")
    assert started["state"] == "running"
    assert daemon.mode == "active"
    told = started["rollout"]
    assert isinstance(told, dict)
    assert (told["units"], told["share"], told["baseline_arm"]) == ("blocks", 0.05, "vegas")
    until_the_end(daemon, clock, -0.3)
    assert daemon.mode == "advise"
    ended = ask(daemon, "rollout.get")
    assert ended["state"] == "harm"
    assert "lower goodput" in str(ended["reason"])
    spans = daemon.engine.spans
    assert spans is not None
    assert spans.trial.design == "none"
    changes = [change.what for change in daemon.choices.changes]
    assert changes == ["daemon.mode", "rollout", "daemon.mode"]
    events = [event for event in daemon.engine.events.since(0).events if event["kind"] == "rollout-changed"]
    assert [event["state"] for event in events] == ["running", "harm"]
    end(daemon)
    later = made(tmp_path, monkeypatch)
    assert later.mode == "advise"
    assert ask(later, "rollout.get") == ended
    end(later)


def test_without_harm_all_of_the_traffic_is_steered_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start", units="prefixes")
    until_the_end(daemon, clock, 0.05)
    assert (ask(daemon, "rollout.get")["state"], daemon.mode) == ("done", "active")
    events = [event for event in daemon.engine.events.since(0).events if event["kind"] == "rollout-changed"]
    assert [event["share"] for event in events] == [0.05, 0.2, 0.5, 1.0]
    spans = daemon.engine.spans
    assert spans is not None
    assert spans.trial.design == "none"
    end(daemon)
    later = made(tmp_path, monkeypatch)
    assert (ask(later, "rollout.get")["state"], later.mode) == ("done", "active")
    assert ask(later, "rollout.start")["state"] == "running", "another one may follow"
    end(later)


def test_a_rollout_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start")
    stages = []
    while daemon.rollouts.running:
        for _ in range(7):
            pass_block(daemon, clock, -0.15)
        before = ask(daemon, "rollout.get")
        end(daemon)
        daemon = made(tmp_path, monkeypatch)
        after = ask(daemon, "rollout.get")
        assert after == before
        if daemon.rollouts.running:
            spans = daemon.engine.spans
            assert spans is not None
            assert isinstance(spans.trial, StageTrial)
            assert daemon.mode == "active"
            stages.append(spans.trial.stage)
    assert ask(daemon, "rollout.get")["state"] == "harm"
    assert stages
    assert stages == sorted(stages)
    end(daemon)


def test_a_killed_daemon_loses_at_most_a_time_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start")
    for _ in range(22):
        pass_block(daemon, clock, 0.0)
    daemon.rollouts._finish_writing()
    before = ask(daemon, "rollout.get")["rollout"]
    close(daemon)
    later = made(tmp_path, monkeypatch)
    after = ask(later, "rollout.get")["rollout"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["rounds"] == before["rounds"] == 1
    assert after["estimate"] == before["estimate"]
    end(later)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_ends_it_in_advise_and_says_so(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start")
    for _ in range(3):
        pass_block(daemon, clock, 0.0)
    end(daemon)
    damage(tmp_path / FILE, kind)
    caplog.clear()
    later = made(tmp_path, monkeypatch)
    assert later.mode == "advise"
    told = ask(later, "rollout.get")
    assert told["state"] == "damaged"
    assert "the mode is advise" in str(told["reason"])
    assert "the mode is advise" in caplog.text
    assert ask(later, "status")["faults"] == [told["reason"]]
    assert list(tmp_path.glob(f"{FILE}.*")), "the file is kept"
    end(later)
    # The mode outlives the next restart, too.
    last = made(tmp_path, monkeypatch)
    assert last.mode == "advise"
    assert ask(last, "rollout.start")["state"] == "running"
    assert not last.faults
    end(last)


@pytest.mark.parametrize("mode", ["advise", "off"])
def test_another_mode_ends_it(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start")
    ask(daemon, "mode.set", mode=mode)
    told = ask(daemon, "rollout.get")
    assert (told["state"], told["reason"]) == ("aborted", f"the mode was set to {mode}")
    assert daemon.mode == mode
    end(daemon)


def test_it_is_aborted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    daemon = made(tmp_path, monkeypatch)
    with pytest.raises(RefusedError, match="no rollout is under way"):
        ask(daemon, "rollout.abort")
    ask(daemon, "rollout.start")
    told = ask(daemon, "rollout.abort")
    assert told["state"] == "aborted"
    assert "uid 1000" in str(told["reason"])
    assert daemon.mode == "advise"
    with pytest.raises(RefusedError, match="no rollout is under way"):
        ask(daemon, "rollout.abort")
    end(daemon)


def test_one_experiment_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    busy = made(tmp_path / "a", monkeypatch, settings(tmp_path / "a", design="switchback"))
    with pytest.raises(RefusedError, match=r"gain\.design.*experiment of its own"):
        ask(busy, "rollout.start")
    assert busy.mode == "advise"
    end(busy)
    unlogged = made(tmp_path / "b", monkeypatch, settings(tmp_path / "b", log_mb=0))
    with pytest.raises(RefusedError, match=r"gain\.log_mb"):
        ask(unlogged, "rollout.start")
    end(unlogged)
    daemon = made(tmp_path / "c", monkeypatch)
    with pytest.raises(InvalidValueError, match="prefixes, blocks"):
        ask(daemon, "rollout.start", units="flows")
    ask(daemon, "rollout.start")
    with pytest.raises(RefusedError, match="rollout abort"):
        ask(daemon, "rollout.start")
    other = settings(tmp_path / "c", design="holdback")
    daemon._reload = lambda: layers_of(other)
    with pytest.raises(RefusedError, match=r"gain\.design: 'holdback'.*rollout abort"):
        daemon.reload()
    assert daemon.rollouts.running
    ask(daemon, "rollout.abort")
    daemon.reload()
    end(daemon)


def test_an_experiment_of_the_file_does_not_count_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start")
    end(daemon)
    later = made(tmp_path, monkeypatch, settings(tmp_path, design="holdback"))
    assert later.rollouts.running
    assert "gain.design = holdback does not count" in caplog.text
    ask(later, "rollout.abort")
    assert later.mode == "advise"
    end(later)


def test_without_a_log_it_cannot_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    daemon = made(tmp_path, monkeypatch)
    ask(daemon, "rollout.start")
    end(daemon)
    later = made(tmp_path, monkeypatch, settings(tmp_path, log_mb=0))
    assert (ask(later, "rollout.get")["state"], later.mode) == ("aborted", "advise")
    end(later)


def test_what_cannot_be_kept_is_in_force_until_the_daemon_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = str(tmp_path / "s")
    with running(made(tmp_path, monkeypatch)) as daemon:
        (tmp_path / FILE).mkdir()
        assert main(["rollout", "start", "--socket", socket]) == 1
        told = capsys.readouterr()
        assert "running" in told.out
        assert "in force, but not saved" in told.err
        assert FILE in told.err
        assert daemon.rollouts.running
        assert daemon.mode == "active"
    # The loop's own thread starts the log's thread, so the log is closed after the loop.
    daemon.rollouts.close()
    daemon.engine.close()
    (tmp_path / FILE).rmdir()
    # A daemon that knew the mode alone would steer all flows at once.
    later = made(tmp_path, monkeypatch)
    assert (ask(later, "rollout.get")["state"], later.mode) == ("none", "advise")
    end(later)


def test_control_blocks_run_the_baseline_and_treated_ones_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Through the engine, over a round and the block before it, in which nothing is treated."""
    kernel = Kernel(flow(7, busy=True))
    daemon = make_daemon(kernel, settings(tmp_path), monkeypatch)
    ask(daemon, "rollout.start")
    vegas = next(arm.id for arm in daemon.arms if arm.name == "vegas")
    treated = []
    for _ in range(21):
        spans = daemon.engine.spans
        assert spans is not None
        trial = spans.trial
        assert isinstance(trial, StageTrial)
        block = trial.block(clock(0))
        daemon.engine.step()
        row = spans._row[daemon.engine.table.slot(7)]
        if trial.pauses(block):
            assert (row["kind"], row["arm"]) == (Kind.BASELINE, vegas)
            assert kernel.table[7].record["want_arm"][0] == vegas
        else:
            assert row["kind"] == Kind.CHOSEN
            treated.append(block)
        clock(BLOCK_S)
    assert len(treated) == 1
    assert treated[0] > BLOCK_S * 1_000_000 // BLOCK_S
    end(daemon)


def test_the_commands_start_show_and_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = str(tmp_path / "s")
    with running(made(tmp_path, monkeypatch)) as daemon:
        assert main(["rollout", "status", "--socket", socket]) == 0
        assert capsys.readouterr().out.split() == ["state", "none"]
        assert main(["rollout", "start", "--units", "blocks", "--socket", socket]) == 0
        printed = capsys.readouterr().out
        for words in ("running", "5 % (stages of 5 %, 20 %, 50 %, 100 %)", "-25 % or worse", "vegas"):
            assert words in printed
        assert main(["rollout", "start", "--socket", socket]) == 1
        assert "rollout abort" in capsys.readouterr().err
        assert main(["rollout", "abort", "--json", "--socket", socket]) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "aborted"
        assert main(["rollout", "abort", "--socket", socket]) == 1
        assert "no rollout is under way" in capsys.readouterr().err
        assert main(["changes", "--confirm", "--socket", socket]) == 1
        assert main(["rollout", "status", "--units", "blocks", "--socket", socket]) == 2
        assert "only with `rollout start`" in capsys.readouterr().err
        with ControlClient(Path(socket)) as client:
            found = {
                (family["name"], *sample["labels"].values()): sample["value"]
                for family in client.call("metrics")  # type: ignore[union-attr]
                for sample in family["samples"]  # type: ignore[index, call-overload]
            }
            assert found["ltp_switcher_rollout", "aborted"] == 1
            assert found["ltp_switcher_rollout", "running"] == 0
            assert found["ltp_switcher_rollout_share",] == 0
            with pytest.raises(ControlRefusedError, match="no rollout is under way"):
                client.call("rollout.abort")
    daemon.rollouts.close()
    daemon.engine.close()


def test_many_prefixes_have_lots_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    for count, units in ((1000, "prefixes"), (999, "blocks")):
        folder = tmp_path / units
        kernel = Kernel(*(flow(n + 1, f"10.{n // 250}.{n % 250}.1") for n in range(count)))
        daemon = make_daemon(kernel, settings(folder), monkeypatch)
        daemon.engine.resync()
        told = ask(daemon, "rollout.start")["rollout"]
        assert isinstance(told, dict)
        assert told["units"] == units
        end(daemon)
