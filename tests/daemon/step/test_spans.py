# SPDX-License-Identifier: Apache-2.0
"""Decisions, their chances and their outcome, through the engine."""

from collections.abc import Callable

import numpy as np
import pytest
from support.logged_engine import STEERED, Log, make, seen, towards
from support.records import flow

from ltp_switcher.daemon.choose.lab.baselines import KeepChooser, RandomChooser
from ltp_switcher.daemon.datapath import EventBatch, FlowEvent
from ltp_switcher.daemon.datapath.protocol import Cmd, FlowFlags
from ltp_switcher.daemon.gain.rows import Group, Kind
from ltp_switcher.daemon.gain.trial import Trial
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.step.spans import Spans


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets both clocks go on."""
    now = {"s": 1_000_000.0}
    for name, value in (
        ("time", lambda: now["s"]), ("monotonic", lambda: now["s"]),
        ("monotonic_ns", lambda: int(now["s"] * 1e9)),
    ):  # fmt: skip
        monkeypatch.setattr(f"time.{name}", value)

    def go_on(seconds: float) -> None:
        now["s"] += seconds

    return go_on


def test_a_row_holds_the_decision_and_its_outcome(clock: Callable[[float], None]) -> None:
    kernel, log = towards(1), Log()
    engine = make(kernel, log)
    for second in range(6):
        totals = {
            "total_acked_bytes": 1_000_000 * second, "total_delivered": 700 * second,
            "total_retrans": 7 * second, "srtt_us": 40_000, "min_rtt_us": 20_000,
        }  # fmt: skip
        kernel.steps = [seen(1, want_arm=5, arm=5, **totals)]
        engine.step()
        clock(1.0)
    death = flow(
        1, "10.0.0.1", total_acked_bytes=5_000_000, total_delivered=4200, total_retrans=42, min_rtt_us=20_000
    )
    kernel.pending = [EventBatch([FlowEvent(Cmd.FLOW_DEATH, death)], False)]
    engine.read_events()
    (row,) = log.rows
    assert (row["arm"], row["policy_arm"], row["ran"], row["kind"]) == (5, 5, 5, Kind.CHOSEN)
    assert row["prefix"].startswith(b"10.0.0.0/24")
    assert row["ended"]
    assert row["duration_s"] == pytest.approx(6.0)
    assert row["acked_bytes"] == 5_000_000
    assert row["retrans"] == 42
    assert np.nanmedian(row["rtt_us"]) == 40_000
    # At the flow's best rate and twice the least RTT, kappa = 2 gives half.
    assert row["reward"] == pytest.approx(0.5, rel=0.01)
    assert row["probability"].tolist() == [0.0] * 5 + [1.0] + [0.0] * 15


def test_a_long_decision_is_renewed(clock: Callable[[float], None]) -> None:
    kernel, log = towards(1), Log()
    engine = make(kernel, log)
    for _ in range(35):
        kernel.steps = [seen(1, want_arm=5, arm=5)]
        engine.step()
        clock(1.0)
    engine.close()
    assert [round(float(row["duration_s"])) for row in log.rows] == [10, 10, 10, 5]
    assert not log.rows["ended"].any()


def test_exploration_draws_as_often_as_the_log_says() -> None:
    kernel, log = towards(4000), Log()
    engine = make(kernel, log, explore=0.4)
    kernel.steps = [seen(*range(1, 4001))]
    engine.step()
    engine.close()
    rows = log.rows
    share = np.bincount(rows["arm"], minlength=9) / 4000
    assert share[5:] == pytest.approx([0.7, 0.1, 0.1, 0.1], abs=0.03)
    assert np.allclose(rows["probability"][:, 5:9], [0.7, 0.1, 0.1, 0.1])
    assert np.allclose(rows["probability"].sum(axis=1), 1)
    sent = {int(c): int(a) for c, a in zip(*(kernel.sent[0][n] for n in ("cookie", "arm")), strict=True)}
    assert sent == dict(zip(rows["cookie"].tolist(), rows["arm"].tolist(), strict=True))


def test_an_explored_arm_stays_for_its_time(clock: Callable[[float], None]) -> None:
    kernel, log = towards(1), Log()
    engine = make(kernel, log, explore=1.0, chooser=RandomChooser([5], dwells=(1,)))
    chosen = []
    for _ in range(400):
        kernel.steps = [seen(1)]
        engine.step()
        chosen.append(int(kernel.sent[-1]["arm"][0]))
        clock(1.0)
    assert set(chosen) == {5, 6, 7, 8}
    assert np.count_nonzero(np.diff(chosen)) <= 400 / 10


def test_a_holdback_commands_the_baseline_for_its_prefixes_alone() -> None:
    kernel, log = towards(500), Log()
    trial = Trial("holdback", share=0.3, arm=2)
    engine = make(kernel, log, trial)
    kernel.steps = [seen(*range(1, 501))]
    engine.step()
    engine.close()
    for row in log.rows:
        held = trial.holds_back(row["prefix"].decode())
        assert row["arm"] == (2 if held else 5)
        assert row["policy_arm"] == 5
        assert row["group"] == (Group.CONTROL if held else Group.TREATED)
    assert 100 < np.count_nonzero(log.rows["group"] == Group.CONTROL) < 200
    assert (
        "experiment"
        in engine.journal.of(int(np.flatnonzero(engine.table.cookie == _held(log)[0])[0]))[0].reason
    )


def _held(log: Log) -> np.ndarray:
    return log.rows["cookie"][log.rows["group"] == Group.CONTROL]


def test_a_switchback_moves_all_flows_at_the_turn_of_a_block(clock: Callable[[float], None]) -> None:
    kernel, log = towards(20), Log()
    trial = Trial("switchback", block_s=60, washout_s=10, arm=2)
    engine = make(kernel, log, trial)
    for _ in range(60 * 20):
        kernel.steps = [seen(*range(1, 21))]
        engine.step()
        clock(1.0)
    engine.close()
    rows = log.rows
    for block in np.unique(rows["block"]):
        assert set(rows["arm"][rows["block"] == block].tolist()) == {2 if trial.pauses(int(block)) else 5}
    assert set(np.unique(rows["group"])) == {Group.TREATED, Group.CONTROL, Group.WASHOUT}
    assert ((rows["time_s"] % 60 < 10) == (rows["group"] == Group.WASHOUT)).all()
    assert (rows["time_s"] // 60 == rows["block"]).all()


def test_what_an_operator_decides_takes_no_part() -> None:
    kernel, log = towards(3), Log()
    engine = make(kernel, log, Trial("holdback", share=0.9999, arm=2), explore=1.0)
    engine.govern(parse([{"prefix": "10.0.0.0/24", "pin": "arm4"}], arms=["arm4"]), {"arm4": 4}, 1)
    kernel.steps = [np.concatenate([seen(1), seen(2, flags=STEERED | int(FlowFlags.PINNED)), seen(3)])]
    engine.step()
    engine.close()
    rows = {int(row["cookie"]): row for row in log.rows}
    assert (rows[1]["arm"], rows[1]["kind"], rows[1]["group"]) == (4, Kind.OPERATOR, Group.NONE)
    assert (rows[2]["kind"], rows[2]["group"]) == (Kind.OPERATOR, Group.NONE)
    assert (rows[3]["arm"], rows[3]["kind"], rows[3]["group"]) == (2, Kind.BASELINE, Group.CONTROL)


def test_advice_is_logged_beside_the_arm_that_ran() -> None:
    kernel, log = towards(1), Log()
    engine = make(kernel, log, Trial("holdback", share=0.9999, arm=2), explore=1.0, mode="advise")
    kernel.steps = [seen(1)]
    engine.step()
    engine.mode = "off"
    kernel.steps = [seen(1)]
    engine.step()
    (row,) = log.rows
    assert (row["arm"], row["ran"], row["active"], row["group"]) == (5, 1, False, Group.NONE)
    assert row["probability"][5] == 1.0


def test_held_back_prefixes_get_no_starting_arm() -> None:
    trial = Trial("holdback", share=0.5)
    spans = Spans(None, trial)
    learned = {f"10.0.{i}.0/24": 3 for i in range(50)}
    assert spans.starts(learned) == {p: 0 if trial.holds_back(p) else 3 for p in learned}
    assert Spans(None, Trial()).starts(learned) == learned


def test_a_chooser_that_keeps_is_left_alone() -> None:
    kernel, log = towards(2), Log()
    engine = make(kernel, log, chooser=KeepChooser([1]))
    kernel.steps = [seen(1, 2)]
    engine.step()
    engine.close()
    assert log.rows["arm"].tolist() == [1, 1]
    assert kernel.sent == []


def test_a_host_is_in_the_group_of_its_prefix() -> None:
    engine = make(towards(1), Log(), Trial("holdback", share=0.5, arm=1))
    prefixes = [f"10.0.{number}.0/24" for number in range(40)]
    of_prefixes = engine._free(prefixes).tolist()
    assert 8 < sum(of_prefixes) < 32
    for host in range(1, 6):
        hosts = [prefix.replace(".0/24", f".{host}/32") for prefix in prefixes]
        assert engine._free(hosts).tolist() == of_prefixes
