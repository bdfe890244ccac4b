# SPDX-License-Identifier: Apache-2.0
"""Several paths, bursts of loss, walks, handovers and a busy way back, against arithmetic."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.link_logic import build_driver
from support.module_lab import EACH_KERNEL

from ltp_switcher.arrays import Floats
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import run_inputs, run_scenario
from ltp_switcher.eval.lab.roads import check_idle
from ltp_switcher.eval.run.road import Back, BurstLoss, Handover, Road, Walk
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario
from ltp_switcher.eval.run.scenario import Path as NetworkPath
from ltp_switcher.eval.run.series import FlowSeries, read_series

CERTAIN = 2**32


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(Path(__file__).parent / "burst_driver.c", tmp_path_factory.mktemp("burst"))


def packets(driver: Path, count: int, *chances: float) -> str:
    given = [str(round(chance * CERTAIN)) for chance in chances]
    return subprocess.run([driver, str(count), *given], capture_output=True, text=True, check=True).stdout


def test_bursts_are_as_long_and_as_frequent_as_they_should(driver: Path) -> None:
    """With a certain loss in the bad state, a run of losses is a stay there: 1 / to_good packets."""
    marks = packets(driver, 400_000, 0.01, 0.2, 1.0, 0.0)
    runs = [len(list(group)) for mark, group in itertools.groupby(marks) if mark == "x"]
    assert np.mean(runs) == pytest.approx(5.0, rel=0.05)
    assert marks.count("x") / len(marks) == pytest.approx(0.01 / 0.21, rel=0.05)


def test_each_state_has_its_own_loss(driver: Path) -> None:
    marks = packets(driver, 400_000, 0.02, 0.02, 0.3, 0.1)
    assert marks.count("x") / len(marks) == pytest.approx(0.2, rel=0.05)
    assert set(packets(driver, 1000, 0.0, 1.0, 1.0, 0.0)) == {"."}
    assert set(packets(driver, 1000, 1.0, 0.0, 1.0, 0.0)) == {"x"}


def run(scenario: Scenario, seed: int = 3, kernel: str = "6.1") -> list[FlowSeries]:
    return read_series(run_scenario(scenario, seed=seed, kernel=kernel).files["timeseries.csv"].decode())


def alone(road: Road, scheme: str, duration_s: float, **link: float) -> Scenario:
    of = Link(**({"rtt_ms": 40.0, "rate_mbps": 12.0} | link), road=road)  # type: ignore[arg-type]
    return Scenario("road", duration_s, of, (Flow(scheme, 0.0, duration_s),))


@pytest.mark.lab
@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_paths_have_their_own_rate_rtt_and_queue(kernel: str) -> None:
    """Fixed rates below each path's: the RTT is the path's and a packet's time. One above fills its queue."""
    links = [Link(rtt_ms=20.0, rate_mbps=12.0), Link(rtt_ms=80.0, rate_mbps=24.0)]
    links.append(Link(rtt_ms=50.0, rate_mbps=6.0, buffer_pkts=30))
    flows = [Flow("fixed:6", 0.0, 5.0, path=0), Flow("fixed:12", 0.0, 5.0, path=1)]
    flows.append(Flow("fixed:9", 0.0, 5.0, path=2))
    paths = tuple(NetworkPath(f"p{n}", link) for n, link in enumerate(links))
    first, second, third = run(Scenario("paths", 5.0, links[0], tuple(flows), paths=paths), kernel=kernel)
    assert first.capacity_mbps.tolist() == [12.0] * 50
    assert second.capacity_mbps.tolist() == [24.0] * 50
    assert np.nanmean(first.rtt_ms[10:]) == pytest.approx(21.0, abs=1.0)
    assert np.nanmean(second.rtt_ms[10:]) == pytest.approx(80.5, abs=1.0)
    # 31 packets of 2 ms before a packet has left.
    assert np.nanmean(third.rtt_ms[10:]) == pytest.approx(50.0 + 31 * 2.0, abs=4.0)
    goodputs = [series.goodput_mbps[10:].mean() for series in (first, second, third)]
    assert goodputs == pytest.approx([6 * 1448 / 1500, 12 * 1448 / 1500, 6 * 1448 / 1500], rel=0.05)
    assert first.lost_pkts.sum() == second.lost_pkts.sum() == 0
    assert third.lost_pkts.sum() > 500


@pytest.mark.lab
def test_an_rtt_that_walks_is_the_walks() -> None:
    """At a fixed rate no queue stands: the smoothed RTT follows the walk and a packet's 1 ms."""
    road = Road(walk=Walk(every_s=0.5, step_ms=20.0, range_ms=60.0, seed=4))
    scenario = alone(road, "fixed:4", 10.0)
    (series,) = run(scenario)
    states = list(scenario.link.in_steps(10.0).states())
    at_s = np.array([state.at_s for state in states])
    walked_ms: Floats = np.array([state.rtt_ms for state in states])
    # 0.4 s after a step: several RTTs, and before the next step.
    late = np.flatnonzero(np.isclose(series.t_s % 0.5, 0.4) & (series.t_s > 1.0))
    expected = walked_ms[np.searchsorted(at_s, series.t_s[late] + 1e-6, side="right") - 1] + 1.0
    assert np.ptp(expected) > 20.0
    assert np.abs(series.rtt_ms[late] - expected).max() < 3.0
    assert series.lost_pkts.sum() == 0


@pytest.mark.lab
def test_a_handover_is_silent_and_then_another_path() -> None:
    """In the silence nothing arrives; after it 0.5 s of 4 Mbit/s wait, and leave within 0.5 s."""
    handover = Handover(at_s=3.0, rate_mbps=8.0, rtt_ms=90.0, silence_ms=500.0)
    scenario = alone(Road(handovers=(handover,)), "fixed:4", 8.0, buffer_pkts=1000)
    (series,) = run(scenario)
    silent = (series.t_s > 3.05) & (series.t_s < 3.45)
    assert series.goodput_mbps[silent].max() == 0.0
    assert series.goodput_mbps[30:50].mean() == pytest.approx(4 * 1448 / 1500, rel=0.1)
    assert series.goodput_mbps[36:39].mean() == pytest.approx(8 * 1448 / 1500, rel=0.1)
    assert np.nanmean(series.rtt_ms[10:29]) == pytest.approx(41.0, abs=1.5)
    assert np.nanmean(series.rtt_ms[60:]) == pytest.approx(91.5, abs=2.0)
    assert series.lost_pkts.sum() == 0
    assert series.capacity_mbps[[20, 31, 50]] == pytest.approx([12.0, 0.0, 8.0], abs=1e-5)


@pytest.mark.lab
def test_a_busy_way_back_delays_by_its_queue_and_thinning_empties_it() -> None:
    """52 bytes of ACK take 8.32 ms at 0.05 Mbit/s. 20 that wait and the one in service are 175 ms."""
    slow = Back(rate_mbps=0.05, buffer_pkts=20)
    (series,) = run(alone(Road(back=slow), "fixed:9", 4.0))
    assert np.nanmean(series.rtt_ms[20:]) == pytest.approx(40.0 + 1.0 + 21 * 8.32, abs=9.0)
    assert series.goodput_mbps[20:].mean() == pytest.approx(9 * 1448 / 1500, rel=0.05)
    (thin,) = run(alone(Road(back=replace(slow, thin=True)), "fixed:9", 4.0))
    # At most one in service and one that waits.
    assert 41.0 + 8.0 < np.nanmean(thin.rtt_ms[20:]) < 41.0 + 3 * 8.32
    assert thin.goodput_mbps[20:].mean() == pytest.approx(9 * 1448 / 1500, rel=0.05)


@pytest.mark.lab
def test_lost_acks_lose_no_data_and_bursts_lose_their_share() -> None:
    (series,) = run(alone(Road(back=Back(rate_mbps=10.0, loss=0.5)), "fixed:6", 4.0))
    assert series.lost_pkts.sum() == 0
    assert series.goodput_mbps[10:].mean() == pytest.approx(6 * 1448 / 1500, rel=0.05)
    burst = BurstLoss(to_bad=0.02, to_good=0.2, loss_bad=0.5)
    scenario = alone(Road(burst_loss=burst), "fixed:10", 12.0)
    (series,) = run(scenario)
    sent = series.lost_pkts.sum() + series.delivered_pkts.sum()
    # 10,000 packets in 180 bursts: the share has a standard deviation of a tenth.
    assert series.lost_pkts.sum() / sent == pytest.approx(0.5 * 0.02 / 0.22, rel=0.3)
    assert (
        run_inputs(scenario, seed=3, kernel="6.1").fingerprint()
        != run_inputs(alone(Road(), "fixed:10", 12.0), seed=3, kernel="6.1").fingerprint()
    )


def test_a_busy_guest_makes_a_run_of_several_paths_invalid() -> None:
    link = Link(rtt_ms=20.0, rate_mbps=12.0)
    paths = (NetworkPath("a", link), NetworkPath("b", link))
    several = Scenario("busy", 5.0, link, (Flow("cubic", 0.0, 5.0),), paths=paths)
    check_idle(several, {"idle_ns": 31, "busy_ns": 69})
    with pytest.raises(LabError, match="busy: the run is invalid: the guest was idle for 29 %"):
        check_idle(several, {"idle_ns": 29, "busy_ns": 71})
    check_idle(replace(several, paths=()), {"idle_ns": 0, "busy_ns": 100})
