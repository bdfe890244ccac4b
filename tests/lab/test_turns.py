# SPDX-License-Identifier: Apache-2.0
"""Jitter: the turns of a shared medium, in user space against a model, and a link whose way back has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.link_logic import build_driver
from support.module_lab import EACH_KERNEL

from ltp_switcher.eval.lab import run_inputs, run_scenario
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario
from ltp_switcher.eval.run.series import read_series


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(Path(__file__).parent / "turns_driver.c", tmp_path_factory.mktemp("turns"))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    longest_ns=st.integers(0, 2**32 - 1),
    moments=st.lists(st.integers(0, 2**34), max_size=20),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_turn_follows_each_moment(
    driver: Path, longest_ns: int, moments: list[int], seed: int, tmp_path: Path
) -> None:
    """A turn is the last one plus a share of the longest time, rounded down, and one."""
    longest_ns = max(longest_ns, 2**24) if longest_ns else 0  # so that the file has enough numbers
    randoms = np.random.default_rng(seed).integers(0, 2**32, 5000).tolist()
    (tmp_path / "numbers").write_text("\n".join(map(str, randoms)))
    done = subprocess.run(
        [str(driver), str(longest_ns), str(tmp_path / "numbers")],
        input="\n".join(map(str, sorted(moments))),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    turn_ns, drawn, expected = 0, 0, []
    for moment in sorted(moments):
        while longest_ns and turn_ns < moment:
            turn_ns += 1 + randoms[drawn] * longest_ns // 2**32
            drawn += 1
        expected.append((turn_ns if longest_ns else moment, drawn))
    assert told == expected


@pytest.mark.lab
@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_acknowledgements_wait_for_a_turn_and_nothing_is_lost(kernel: str) -> None:
    """At a fixed rate no queue stands, so that an RTT is the path's, a packet's 1 ms, and the wait.

    Turns that are uniform from 0 to 30 ms apart are waited for E[I²] / 2 E[I] = 10 ms in the mean.
    """
    link = Link(rtt_ms=40.0, rate_mbps=12.0, jitter_ms=30.0)
    jittery = Scenario("jitter", 8.0, link, (Flow("fixed:4", 0.0, 8.0),))
    run = run_scenario(jittery, seed=3, kernel=kernel)
    (series,) = read_series(run.files["timeseries.csv"].decode())
    assert series.lost_pkts.sum() == 0
    assert series.goodput_mbps[10:].mean() == pytest.approx(4.0, rel=0.1)
    rtt_ms = series.rtt_ms[10:]
    assert 44.0 < np.nanmean(rtt_ms) < 61.0
    assert np.nanstd(rtt_ms) > 1.0
    assert np.nanmin(rtt_ms) > 40.0
    assert np.nanmax(rtt_ms) < 40.0 + 1.0 + 30.0 + 1.0


@pytest.mark.lab
def test_the_turns_are_drawn_from_the_runs_seed() -> None:
    jittery = Scenario(
        "jitter", 2.0, Link(rtt_ms=20.0, rate_mbps=12.0, jitter_ms=10.0), (Flow("bbr", 0.0, 2.0),)
    )
    files = [run_scenario(jittery, seed=seed).files["timeseries.csv"] for seed in (3, 3, 4)]
    assert files[0] == files[1] != files[2]
    other = Scenario("jitter", 2.0, Link(rtt_ms=20.0, rate_mbps=12.0), jittery.flows)
    assert (
        run_inputs(jittery, seed=3, kernel="6.1").fingerprint()
        != run_inputs(other, seed=3, kernel="6.1").fingerprint()
    )


@pytest.mark.lab
def test_a_learned_arm_takes_a_window_over_that_fills_a_path_of_turns() -> None:
    """The path holds 14 packets at its RTT floor, and 77 more for the longest turn. A window of the floor's
    packets alone carries a third of the rate.
    """
    link = Link(rtt_ms=2.1, rate_mbps=80.0, jitter_ms=11.4, buffer_pkts=223)
    turns = Scenario("turns", 6.0, link, (Flow("rule", 0.0, 6.0),))
    (series,) = read_series(run_scenario(turns, seed=201, place="beside").files["timeseries.csv"].decode())
    arms = np.array(series.arm)
    (learned,) = np.nonzero(arms == "ltp")
    after = learned[0] + np.arange(3, 10)
    assert (arms[after] == "ltp").all()
    assert series.goodput_mbps[after].mean() > 0.7 * 80.0
