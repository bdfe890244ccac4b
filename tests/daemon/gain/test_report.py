# SPDX-License-Identifier: Apache-2.0
"""The report of experiments and advice whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.effect import Switchback, difference, drawn, mean
from ltp_switcher.daemon.gain.log import DecisionWriter
from ltp_switcher.daemon.gain.report import report
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Group, Kind

NAMES = {1: "cubic", 2: "bbr"}
DAY = 144
"""Blocks of ten minutes."""


def test_flows_of_one_block_share_its_luck() -> None:
    """With a level for each block, cells of a block are no further evidence: its interval stays as wide."""
    rng = np.random.default_rng(3)
    prefix, block = (part.reshape(-1) for part in np.indices((30, DAY)))
    treated = rng.random(DAY) < 0.5
    luck = rng.normal(0, 0.1, DAY)
    few = Switchback(treated, np.arange(DAY), np.zeros(DAY, np.int64)).effect(luck)
    many = Switchback(treated[block], block, prefix).effect(luck[block])
    assert few is not None
    assert many is not None
    assert many.upper - many.lower == pytest.approx(few.upper - few.lower, rel=1e-6)


def test_drifting_load_is_no_effect() -> None:
    """A load that doubles over a day hides no effect of 5 %, and makes none."""
    rng = np.random.default_rng(4)
    treated = rng.random(DAY) < 0.5
    load = np.linspace(0, math.log(2), DAY) + rng.normal(0, 0.02, DAY)
    found = Switchback(treated, np.arange(DAY) + 1000, np.zeros(DAY, np.int64)).effect(load + 0.05 * treated)
    assert found is not None
    assert 0 < found.lower < 0.05 < found.upper
    assert found.upper - found.lower < 0.02


def test_what_prefixes_had_before_explains_what_they_have() -> None:
    rng = np.random.default_rng(6)
    before = rng.normal(0, 1, 400)
    treated = rng.permutation(400) < 200
    values = before + rng.normal(0, 0.1, 400) + 0.05 * treated
    before[:20] = np.nan
    blind, seeing = drawn(values, treated), drawn(values, treated, before)
    assert blind is not None
    assert seeing is not None
    assert seeing.upper - seeing.lower < 0.5 * (blind.upper - blind.lower)
    assert seeing.lower < 0.05 < seeing.upper


def test_too_few_units_give_no_interval() -> None:
    few = np.arange(6) < 3
    assert difference(np.arange(6.0), few) is None
    assert Switchback(few, np.arange(6), np.zeros(6, np.int64)).effect(np.arange(6.0)) is None
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
        # 1.25 squared over one half.
        "reward": pytest.approx(2.125),
        "retransmits": pytest.approx(-0.02),
    }
    goodput = found.overall["goodput"]
    assert goodput is not None
    assert (goodput.treated, goodput.control) == (30, 10)


def experiment(design: str) -> tuple[np.ndarray, np.ndarray]:
    """Decisions of which every second unit of the design is treated, and True for treated rows."""
    rows = decisions(40, 12)
    rows["active"] = True
    units = np.repeat(np.arange(40), 12) if design == "holdback" else np.tile(np.arange(12), 40)
    treated = units % 2 == 0
    rows["group"] = np.where(treated, Group.TREATED, Group.CONTROL)
    rows["block"] = units if design == "switchback" else -1
    return rows, treated


@pytest.mark.parametrize("design", ["holdback", "switchback"])
def test_the_reward_is_the_value_from_which_the_learner_learns(design: str) -> None:
    """Treated flows lose a tenth of their packets. Loss counts five times, and goodput twice."""
    rows, treated = experiment(design)
    rows["delivered"] = np.where(treated, 900.0, 1000.0)
    rows["lost"] = np.where(treated, 100.0, 0.0)
    rows["rtt_us"][:, 3:] = np.nan
    rows["rtt_us"][:, :3] *= np.array([0.5, 1.0, 1.5]) * np.where(treated, 2.0, 1.0)[:, None]
    effect = report(rows, NAMES).overall["reward"]
    assert effect is not None
    assert effect.value == pytest.approx(0.5**2 / 2 - 1)
    flows = np.zeros(2, OUTCOME_DTYPE)
    flows["acked_bytes"], flows["busy_us"] = 12e6, 120e6
    flows["lost"], flows["delivered"], flows["rtt_samples"] = [100, 0], [900, 1000], 1
    flows["rtt_us_sum"] = [80_000, 40_000]
    raw = value.raw_values(flows)
    assert np.log1p(effect.value) == pytest.approx(raw[0] - raw[1])


@pytest.mark.parametrize("design", ["holdback", "switchback"])
def test_where_losses_leave_nothing_the_reward_is_low_and_not_unknown(design: str) -> None:
    rows, treated = experiment(design)
    rows["lost"][treated] = 1000.0
    effect = report(rows, NAMES).overall["reward"]
    assert effect is not None
    assert effect.value == pytest.approx(np.expm1(-3.0))
    assert effect.treated == (20 if design == "holdback" else 6)
    # Where no unit has a reward, nothing is known.
    rows["lost"] = 1000.0
    assert report(rows, NAMES).overall["reward"] is None


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


@pytest.mark.parametrize("design", ["none", "holdback", "switchback"])
def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], design: str) -> None:
    rows = decisions(40, 3)
    if design == "holdback":
        rows["active"] = True
        rows["group"] = np.where(np.repeat(np.arange(40) % 4 == 0, 3), Group.CONTROL, Group.TREATED)
    if design == "switchback":
        rows["active"], rows["block"] = True, np.tile(np.arange(3), 40) + 10 * np.repeat(np.arange(40), 3)
        rows["prefix"] = b"10.0.0.0/24"
        rows["group"] = np.where(rows["block"] // 10 % 2, Group.CONTROL, Group.TREATED)
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(rows)
    writer.close()
    assert main(["report", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert ("set gain.design" if design == "none" else f"A {design}, 120 decisions.") in printed
    assert "bbr" in printed
    assert main(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["design"] == design


def test_no_decisions_are_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(decisions(1, 1))
    writer.close()
    assert main(["report", str(tmp_path), "--since", "1h"]) == 0
    assert "0 decisions, none of an experiment" in capsys.readouterr().out
