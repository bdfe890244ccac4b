# SPDX-License-Identifier: Apache-2.0
"""The report of experiments and advice whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.gain.effect import difference, mean, within
from ltp_switcher.daemon.gain.log import DecisionWriter
from ltp_switcher.daemon.gain.report import report
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Group, Kind

NAMES = {1: "cubic", 2: "bbr"}
DAY = 144
"""Blocks of ten minutes."""


def blocks(
    rng: np.random.Generator, gain: float, days: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A switchback over 30 prefixes: log goodput by prefix and block, group, block, prefix.

    Prefixes differ by a factor of e, blocks by 10 %, and both together by 20 %; standard deviations.
    """
    treated = rng.random(days * DAY) < 0.5
    block, prefix = (part.reshape(-1) for part in np.indices((days * DAY, 30)))
    luck = (
        rng.normal(0, 0.1, days * DAY)[block] + rng.normal(0, 1, 30)[prefix] + rng.normal(0, 0.2, block.size)
    )
    seen = rng.random(block.size) < 0.7
    return (
        (luck + gain * treated[block])[seen],
        treated[block][seen],
        block[seen],
        prefix[seen],
    )


def test_intervals_of_experiments_without_an_effect_hold_0_in_95_of_100() -> None:
    """2,000 experiments of each design. A holdback keeps one prefix in ten of 300."""
    rng = np.random.default_rng(1)
    held = {"holdback": 0, "switchback": 0}
    for _ in range(2000):
        found = difference(rng.normal(0, 1, 300), rng.permutation(300) >= 30)
        assert found is not None
        held["holdback"] += found.lower <= 0 <= found.upper
        found = within(*blocks(rng, 0.0))
        assert found is not None
        held["switchback"] += found.lower <= 0 <= found.upper
    print(held)
    for count in held.values():
        assert 0.93 * 2000 <= count <= 0.97 * 2000


def test_a_gain_of_5_percent_is_found_in_two_days() -> None:
    rng = np.random.default_rng(2)
    effects = [within(*blocks(rng, math.log(1.05), days=2)) for _ in range(400)]
    found = sum(effect is not None and effect.lower > 0 for effect in effects)
    print(found / 400)
    assert found >= 0.8 * 400
    assert np.mean([effect.value for effect in effects if effect]) == pytest.approx(math.log(1.05), abs=0.005)


def test_flows_of_one_block_share_its_luck() -> None:
    """The same numbers in blocks of their own would be ten times as sure."""
    rng = np.random.default_rng(3)
    values, treated, block, prefix = blocks(rng, 0.0)
    together = within(values, treated, block, prefix)
    apart = within(values, treated, np.arange(block.size), prefix)
    assert together is not None
    assert apart is not None
    assert together.upper - together.lower > 1.5 * (apart.upper - apart.lower)


def test_too_few_units_give_no_interval() -> None:
    few = np.arange(6) < 3
    assert difference(np.arange(6.0), few) is None
    assert within(np.arange(6.0), few, np.arange(6), np.zeros(6, np.int64)) is None
    assert mean(np.arange(3.0)) is None
    value, lower, upper = mean(np.array([1.0, 2.0, 3.0, 4.0])) or (0, 0, 0)
    # Student's 97.5 % quantile for 3 degrees of freedom is 3.182.
    assert (value, upper - value) == (2.5, pytest.approx(3.182 * math.sqrt(5 / 3) / 2, rel=0.01))
    assert value - lower == pytest.approx(upper - value)


def decisions(prefixes: int, each: int) -> np.ndarray:
    """Rows of ten seconds, 1 MB, 10 lost of 1,000 packets and an RTT of 40 ms, none of an experiment."""
    rows = np.zeros(prefixes * each, ROW_DTYPE)
    rows["prefix"] = [f"10.0.{i}.0/24".encode() for i in np.repeat(np.arange(prefixes), each)]
    rows["cookie"] = np.arange(rows.size)
    rows["duration_s"] = rows["busy_s"] = 10
    rows["acked_bytes"], rows["delivered"], rows["retrans"] = 1e6, 1000, 10
    rows["rtt_us"] = 40_000
    rows["arm"] = rows["ran"] = 2
    rows["block"], rows["reward"] = -1, 0.5
    return rows


def test_a_holdback_compares_prefixes_by_every_measure() -> None:
    rows = decisions(40, 5)
    rows["active"] = True
    control = np.repeat(np.arange(40) % 4 == 0, 5)
    rows["group"] = np.where(control, Group.CONTROL, Group.TREATED)
    rows["kind"] = np.where(control, Kind.BASELINE, Kind.CHOSEN)
    rows["arm"] = rows["ran"] = np.where(control, 1, 2)
    rows["acked_bytes"] *= np.where(control, 1.0, 1.25)
    rows["rtt_us"] *= np.where(control, 1.0, 0.5)[:, None]
    rows["retrans"] += np.where(control, 20, 0)
    rows["ended"], rows["life_s"] = True, np.where(control, 20.0, 15.0)
    # The wash-out and what an operator decided do not count.
    strange = decisions(40, 1)
    strange["active"], strange["acked_bytes"] = True, 1e12
    strange["group"] = np.where(np.arange(40) % 2, Group.WASHOUT, Group.NONE)
    found = report(np.concatenate([rows, strange]), NAMES)
    assert (found.design, found.decisions, dict(found.prefixes)) == ("holdback", 240, {})
    values = {name: effect and effect.value for name, effect in found.overall.items()}
    assert values == {
        "goodput": pytest.approx(0.25),
        "rtt_p95": pytest.approx(-0.5),
        "completion_time": pytest.approx(-0.25),
        "retransmits": pytest.approx(-0.02),
    }
    goodput = found.overall["goodput"]
    assert goodput is not None
    assert (goodput.treated, goodput.control) == (30, 10)


def test_a_switchback_has_effects_by_prefix() -> None:
    rng = np.random.default_rng(4)
    rows = decisions(3, 40)
    rows["active"], rows["block"] = True, np.tile(np.arange(40), 3)
    treated = rng.permutation(40) < 20
    rows["group"] = np.where(treated[rows["block"]], Group.TREATED, Group.CONTROL)
    gains = np.array([1.0, 1.5, 2.0])[np.repeat(np.arange(3), 40)]
    rows["acked_bytes"] *= np.where(treated[rows["block"]], gains, 1.0) * rng.uniform(0.99, 1.01, rows.size)
    found = report(rows, NAMES)
    assert found.design == "switchback"
    by_prefix = {prefix: effects["goodput"] for prefix, effects in found.prefixes.items()}
    assert list(by_prefix) == ["10.0.2.0/24", "10.0.1.0/24", "10.0.0.0/24"]
    for effect, gain in zip(by_prefix.values(), (1.0, 0.5, 0.0), strict=True):
        assert effect is not None
        assert effect.value == pytest.approx(gain, abs=0.02)
        assert effect.lower <= gain <= effect.upper
    overall = found.overall["goodput"]
    assert overall is not None
    assert overall.value == pytest.approx(3 ** (1 / 3) - 1, abs=0.02)


def test_advice_is_judged_by_flows_that_happened_to_follow_it() -> None:
    """The first prefix runs the advised arm. Flows with it earn more on the second, and less on the third."""
    rows = decisions(4, 40)
    flow = np.tile(np.arange(40), 4)
    place = np.repeat(np.arange(4), 40)
    rows["ran"] = np.where((place == 0) | (flow < np.array([0, 10, 10, 2])[place]), 2, 1)
    follows = rows["ran"] == 2
    rng = np.random.default_rng(5)
    rows["reward"] = 0.5 + np.array([0, 0.2, -0.2, 0.2])[place] * follows + rng.normal(0, 0.02, rows.size)
    found = report(rows, NAMES)
    assert found.design == "none"
    verdicts = {prefix: one.verdict.partition(":")[0] for prefix, one in found.advice.items()}
    assert verdicts == {
        "10.0.0.0/24": "ready", "10.0.1.0/24": "ready",
        "10.0.2.0/24": "not ready", "10.0.3.0/24": "not known",
    }  # fmt: skip
    assert [one.agreed for one in found.advice.values()] == pytest.approx([1.0, 0.25, 0.25, 0.05])
    better = found.advice["10.0.1.0/24"].expected
    assert better is not None
    assert better.value == pytest.approx(0.2, abs=0.02)
    assert found.arms["bbr"].share == pytest.approx(62 / 160)
    goodput_Bps = found.arms["cubic"].goodput_Bps
    assert goodput_Bps is None, "three prefixes are too few"


@pytest.mark.parametrize("design", ["none", "holdback"])
def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], design: str) -> None:
    rows = decisions(40, 3)
    if design == "holdback":
        rows["active"] = True
        rows["group"] = np.where(np.repeat(np.arange(40) % 4 == 0, 3), Group.CONTROL, Group.TREATED)
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(rows)
    writer.close()
    assert main(["report", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert ("set gain.design" if design == "none" else "A holdback, 120 decisions.") in printed
    assert "bbr" in printed
    assert main(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["design"] == design


def test_no_decisions_are_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(decisions(1, 1))
    writer.close()
    assert main(["report", str(tmp_path), "--since", "1h"]) == 0
    assert "0 decisions, none of an experiment" in capsys.readouterr().out
