# SPDX-License-Identifier: Apache-2.0
"""Judge Jury in the simulator: python -m ltp_switcher.policies.jury.evaluate [--json].

Flows that join one by one start 30 s apart; the paper has 60 s. Their fairness and RTT cover the time in
which all of them send. Jain's index is computed in two ways: from the mean throughputs of that time, and as
the mean of the index of each second. The second way is stricter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track

from ltp_switcher.arrays import Floats
from ltp_switcher.commands import program, whole
from ltp_switcher.figures import Figure, Target, show
from ltp_switcher.measures import jain_index
from ltp_switcher.policies.jury import ARM, make_arm
from ltp_switcher.policies.jury.signals import INTERVAL_S
from ltp_switcher.policies.runtime.arm import Arm
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, Simulator

SEED: Final = 7
APART_S: Final = 30.0
"""Time between the starts of flows that join one by one, in seconds."""
PER_SECOND: Final = round(1.0 / INTERVAL_S)


@dataclass(frozen=True)
class Run:
    """A simulation's record, as arrays of shape (T, F, E): T intervals, F flows and E links. Jury's flows
    come before the Cubic flows.
    """

    share: Floats
    """Each flow's throughput over its link's capacity, by interval, flow and link, shape (T, F, E)."""
    inflation: Floats
    """RTT over the flow's base RTT, shape (T, F, E)."""

    def since(self, start_s: float) -> Run:
        """Return the part of the run after `start_s`, in seconds."""
        first = round(start_s / INTERVAL_S)
        return Run(self.share[first:], self.inflation[first:])

    @property
    def utilisation(self) -> Floats:
        """Utilisation of each link, shape (E,)."""
        utilisation: Floats = self.share.sum(axis=1).mean(axis=0)
        return utilisation

    @property
    def jain(self) -> Floats:
        """Jain's index of the flows' throughputs, averaged over the whole run, shape (E,)."""
        return jain_index(self.share.mean(axis=0))

    @property
    def jain_by_second(self) -> Floats:
        """Jain's index of the flows' throughputs in each second, averaged over the seconds, for each of the E
        links, shape (E,).
        """
        seconds = len(self.share) // PER_SECOND
        binned = self.share[: seconds * PER_SECOND].reshape(seconds, PER_SECOND, *self.share.shape[1:])
        mean: Floats = jain_index(binned.mean(axis=1).swapaxes(0, 1)).mean(axis=0)
        return mean


def play(
    arm: Arm,
    paths: Paths,
    start_s: Floats,
    duration_s: float,
    *,
    rtt_ms: float | Floats = np.nan,
    cubic: int = 0,
) -> Run:
    """Simulate flows that start at `start_s`, shape (F, E). The last `cubic` rows run Cubic instead of the
    arm.

    `rtt_ms` has the flows' base RTTs, broadcast to the same shape. A flow with NaN has the base RTT of its
    link.
    """
    shape = start_s.shape
    flows = Flows(start_s, np.full(shape, NEVER), np.broadcast_to(rtt_ms, shape).astype(np.float64))
    roster = Roster(window=shape[0] - cubic, cubic=cubic)
    simulator = Simulator(paths, flows, roster, seed=SEED, interval_s=INTERVAL_S)
    base_s = np.where(np.isnan(flows.rtt_ms), paths.rtt_ms, flows.rtt_ms) / 1e3
    shares, inflations = [], []
    for interval, _ in directed(simulator, arm, duration_s=duration_s):
        shares.append(interval.delivered_pps / interval.capacity_pps)
        inflations.append(interval.rtt_s / base_s)
    return Run(np.array(shares), np.array(inflations))


def uniform(rate_mbps: Floats, rtt_ms: Floats, loss: Floats | float = 0.0) -> Paths:
    """Make links with the given properties, each of shape (E,). Buffers hold one bandwidth-delay product."""
    paths = Paths.uniform(len(rate_mbps))
    return replace(
        paths,
        rate_mbps=rate_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=rate_mbps * PPS_PER_MBPS * rtt_ms / 1e3,
        loss=np.broadcast_to(loss, rate_mbps.shape).astype(np.float64),
    )


def one_by_one(flows: int, links: int) -> Floats:
    """Return the start times of flows that join one after another, in seconds, shape (flows, links)."""
    return np.repeat(APART_S * np.arange(flows, dtype=np.float64)[:, None], links, axis=1)


def _figure(case: str, quantity: str, value: float | np.floating, target: Target | None = None) -> Figure:
    return Figure("jury", f"{case}: {quantity}", float(value), target)


def three_flows(arm: Arm, links: int) -> list[Figure]:
    """Measure three flows as in Jury, Section 5.1.1, on links of 20 to 100 Mbit/s (the paper: 20 to 400),
    10 to 75 ms one way, and up to 0.3 % of loss.
    """
    rng = np.random.default_rng(SEED)
    paths = uniform(
        rng.uniform(20, 100, links), 2.0 * rng.uniform(10, 75, links), rng.uniform(0, 0.003, links)
    )
    run = play(arm, paths, one_by_one(3, links), 4 * APART_S)
    together = run.since(2 * APART_S)
    case = f"3 flows, {links} links"
    return [
        _figure(case, "Jain, mean", together.jain.mean(), Target(low=0.94)),
        _figure(case, "Jain, 5th percentile", np.quantile(together.jain, 0.05), Target(low=0.82)),
        _figure(case, "Jain by second, mean", together.jain_by_second.mean()),
        _figure(case, "utilisation", run.utilisation.mean()),
        _figure(case, "RTT / base", together.inflation.mean()),
    ]


def five_rtts(arm: Arm, links: int) -> list[Figure]:
    """Measure Jury, Section 5.1.2: flows with RTTs of 70 to 210 ms join one by one.

    The link has 100 Mbit/s and a buffer of 140 ms.
    """
    paths = uniform(np.full(links, 100.0), np.full(links, 140.0))
    rtt_ms = np.array([[70.0], [110.0], [150.0], [190.0], [210.0]])
    together = play(arm, paths, one_by_one(5, links), 8 * APART_S, rtt_ms=rtt_ms).since(4 * APART_S)
    case = "5 flows, 70 to 210 ms"
    return [
        _figure(case, "Jain", together.jain.mean(), Target(low=0.93)),
        _figure(case, "Jain by second", together.jain_by_second.mean()),
        _figure(case, "utilisation", together.utilisation.mean()),
        _figure(case, "RTT / base", together.inflation.mean()),
    ]


def satellite(arm: Arm, links: int) -> list[Figure]:
    """Measure Jury, Section 5.2.2, over the first 100 s: 42 Mbit/s, RTT 800 ms, 0.74 % of loss."""
    paths = uniform(np.full(links, 42.0), np.full(links, 800.0), 0.0074)
    run = play(arm, paths, np.zeros((1, links)), 100.0)
    return [
        _figure("satellite", "utilisation", run.utilisation.mean(), Target(low=0.75)),
        _figure("satellite", "RTT / base", run.since(1.0).inflation.mean(), Target(high=1.05)),
    ]


def beside_cubic(arm: Arm, links: int) -> list[Figure]:
    """Measure Jury, Section 5.1.4: 100 Mbit/s beside one Cubic flow, over the first 120 s of both."""
    rtt_ms = np.repeat([30.0, 60.0, 120.0], links)
    run = play(arm, uniform(np.full(rtt_ms.size, 100.0), rtt_ms), np.zeros((2, rtt_ms.size)), 120.0, cubic=1)
    jury, cubic = run.share.mean(axis=0).reshape(2, 3, links).mean(axis=2)
    return [
        _figure(f"beside Cubic, {rtt:.0f} ms", "throughput ratio", a / b, Target(low=0.5, high=2.0))
        for rtt, a, b in zip((30.0, 60.0, 120.0), jury, cubic, strict=True)
    ]


def alone(arm: Arm) -> list[Figure]:
    """Measure a single flow over its first 60 s, on eight links of different rate, RTT and loss. The paper
    gives no targets for these links.
    """
    cases = (
        (100.0, 30.0, 0.0), (100.0, 30.0, 0.01), (20.0, 30.0, 0.0), (10.0, 40.0, 0.0), (100.0, 120.0, 0.0),
        (200.0, 60.0, 0.0), (5.0, 40.0, 0.0), (1.0, 40.0, 0.0),
    )  # fmt: skip
    rate_mbps, rtt_ms, loss = (np.array(column) for column in zip(*cases, strict=True))
    run = play(arm, uniform(rate_mbps, rtt_ms, loss), np.zeros((1, len(cases))), 60.0)
    inflation = run.since(1.0).inflation.mean(axis=(0, 1))
    figures = []
    for index, (rate, rtt, share) in enumerate(cases):
        case = f"alone, {rate:g} Mbit/s, {rtt:g} ms, {100 * share:g} %"
        figures.append(_figure(case, "utilisation", run.utilisation[index]))
        figures.append(_figure(case, "RTT / base", inflation[index]))
    return figures


def judge(weights: Path, links: int) -> list[Figure]:
    """Measure the figures of all experiments.

    `links` is the number of links in the experiment with three flows. The experiments with five flows and
    with a satellite have a tenth as many. The experiment with Cubic has a tenth as many for each RTT, and the
    experiment with a single flow always has eight.
    """
    few = max(1, links // 10)
    cases = (
        lambda arm: three_flows(arm, links),
        lambda arm: five_rtts(arm, few),
        lambda arm: satellite(arm, few),
        lambda arm: beside_cubic(arm, few),
        alone,
    )
    figures: list[Figure] = []
    for case in track(cases, "jury", console=Console(stderr=True)):
        figures += case(make_arm(replace(ARM.variants[0], weights=weights)))
    return figures


@program("evaluate")
def main(arguments: Sequence[str] | None) -> int:
    """Print the table or JSON. The exit status is 1 if the weights cannot be loaded."""
    parser = argparse.ArgumentParser(
        prog="python -m ltp_switcher.policies.jury.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--weights", type=Path, default=ARM.variants[0].weights, metavar="FILE")
    parser.add_argument(
        "--links", type=whole(1, 10_000), default=60, metavar="N", help="drawn for three flows (60)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    figures = judge(options.weights, options.links)
    show(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
