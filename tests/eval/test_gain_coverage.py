# SPDX-License-Identifier: Apache-2.0
"""Few simulated experiments through the real report. `make gain-coverage` has thousands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.gain.report import report
from ltp_switcher.daemon.gain.rows import Group, Rows
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.gain import simulated_log
from ltp_switcher.eval.gain.coverage import Design, Outcome, Share, holdback, judge, switchback
from ltp_switcher.eval.gain.simulated_log import Effects

N = 80
"""At a coverage of 95 %, fewer than 69 of 80 intervals hold the truth once in 1,000 times."""
AT_LEAST = 69
HOLDBACK = holdback(60, 0.2, before=False)
SWITCHBACK = switchback(36, prefixes=10)


def outcomes(design: Design, n: int = N, effect: float = 0.0) -> dict[str, Outcome]:
    *_, found = judge(design, n, 1, None, effect)
    assert isinstance(found, list)
    return {one.measure: one for one in found}


@pytest.mark.parametrize("design", [HOLDBACK, SWITCHBACK], ids=["holdback", "switchback"])
def test_intervals_hold_the_truth(design: Design) -> None:
    for measure, one in outcomes(design).items():
        print(measure, one.covered)
        assert one.covered.count >= AT_LEAST, measure
        assert one.unknown == 0


def single_flows(seed: int, effects: Effects) -> Rows:
    """The fault: each flow is a unit of its own."""
    rows = simulated_log.holdback(seed, 60, 0.2, effects)
    rows["prefix"] = rows["cookie"].astype("S20")
    return rows


def single_cells(seed: int, effects: Effects) -> Rows:
    """The fault: each flow of a block has a block of its own."""
    rows = simulated_log.switchback(seed, 36, 10, effects)
    rows["prefix"] = b"all"
    rows["block"] = rows["cookie"].astype(np.int64)
    return rows


@pytest.mark.parametrize("fault", [single_flows, single_cells])
def test_flows_as_units_would_be_noticed(fault: object) -> None:
    assert callable(fault)
    few = outcomes(Design("fault", "", fault), 30)["goodput"].covered
    assert few.interval[1] < 0.93


def test_without_a_washout_the_arm_before_would_count() -> None:
    """Flows that begin after a switch run on with what the arm before left."""
    effects = Effects(goodput=1.0)
    rows = [simulated_log.switchback(1, 288, effects=effects, washout_s=s) for s in (60.0, 0.0)]
    with_it, without = (report(one, simulated_log.NAMES).overall["goodput"] for one in rows)
    assert with_it is not None
    assert without is not None
    assert (rows[0]["group"] == Group.WASHOUT).any()
    assert without.value < with_it.value
    assert with_it.value == pytest.approx(1.0, abs=0.06)


def test_an_effect_of_5_percent_is_found() -> None:
    found = outcomes(switchback(288), 12, 0.05)["goodput"]
    assert found.found.count >= 8
    assert found.bias == pytest.approx(0.0, abs=0.02)


def test_the_log_of_the_time_before_narrows_a_holdback() -> None:
    widths = []
    for before in (False, True):
        effect = report(simulated_log.holdback(3, 200, 0.5, before=before), simulated_log.NAMES).overall[
            "goodput"
        ]
        assert effect is not None
        widths.append(effect.upper - effect.lower)
    assert widths[1] < 0.8 * widths[0]


def test_the_same_seed_is_the_same_traffic() -> None:
    one, same, other = (simulated_log.switchback(seed, 12) for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes() != other.tobytes()


def test_a_share_has_the_interval_of_wilson() -> None:
    lower, upper = Share(95, 100).interval
    assert (lower, upper) == (pytest.approx(0.8882, abs=1e-3), pytest.approx(0.9785, abs=1e-3))


def test_the_command_prints_shares(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["gain-coverage", "--experiments", "1", "--power-experiments", "0", "--jobs", "1"]
    assert main([*args, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["command"].startswith("ltp-eval gain-coverage --experiments 1 ")
    assert {one["measure"] for one in made["outcomes"]} == {
        "goodput", "rtt_p95", "completion_time", "reward", "retransmits",
    }  # fmt: skip
    assert main(args) == 0
    assert "goodput" in capsys.readouterr().out


def test_an_interrupted_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second run prints what the first one wrote, though nothing would give that again."""
    out = tmp_path / "coverage.json"
    args = ["gain-coverage", "--experiments", "1", "--power-experiments", "0", "--jobs", "1"]
    assert main([*args, "--out", str(out)]) == 0
    document = json.loads(out.read_text())
    kept = [{**one, "bias": 123.0} for one in document["outcomes"][:5]]
    out.write_text(json.dumps({**document, "outcomes": kept}))
    capsys.readouterr()
    assert main([*args, "--json", "--out", str(out)]) == 0
    made = json.loads(capsys.readouterr().out)["outcomes"]
    assert made == json.loads(out.read_text())["outcomes"] == [*kept, *document["outcomes"][5:]]
    out.write_text(json.dumps({**document, "outcomes": kept, "revision": "another"}))
    assert main([*args, "--json", "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == document
