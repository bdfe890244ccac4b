# SPDX-License-Identifier: Apache-2.0
"""Judge Owl and Owl-Loss in the simulator by the paper's claims, also beside Cubic.

python -m ltp_switcher.policies.owl.evaluate [--weights FILE] [--loss-weights FILE] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from ltp_switcher.commands import program
from ltp_switcher.figures import Figure, Target, show
from ltp_switcher.policies.owl.cellular import held_out_traces
from ltp_switcher.policies.owl.play import REPEATS, beside_cubic, from_equilibrium, play, power
from ltp_switcher.policies.owl.reward import OWL_LOSS, equilibrium
from ltp_switcher.policies.owl.task import SimulatedAgent
from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.simulator.delivery_traces import mean_rate_mbps
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster

CONSTANT_MBPS: Final = 50.0
TRACE_RTT_MS: Final = 40.0
TRACE_BUFFER_PKTS: Final = 1000.0
"""Buffer, in packets, of the links that play cellular traces (Owl, Section VII-A)."""
POWER_TARGET: Final = 1.5
HIDDEN_TARGET: Final = 0.95
EQUILIBRIUM_TARGET: Final = 0.10
FRIENDLY_TARGET: Final = Target(low=0.5, high=2.0)


def one_flow(network: Network) -> list[Figure]:
    """Measure the power, throughput over delay, of Owl, of Owl without network knowledge, and of Cubic. Each
    flow is alone on its link: a held-out cellular trace or a link of constant rate.
    """
    traces = held_out_traces()
    names, shape = list(traces), (len(traces) + 1, REPEATS)
    which = np.repeat([*range(len(traces)), -1], REPEATS)
    period_ms = np.array([*(trace[-1] for trace in traces.values()), 0], np.int64)
    rate_mbps = np.array([*(mean_rate_mbps(trace) for trace in traces.values()), CONSTANT_MBPS])
    place = np.tile(np.arange(REPEATS), len(rate_mbps))
    rate_mbps = rate_mbps[which]
    paths = replace(
        Paths.uniform(len(which), rtt_ms=TRACE_RTT_MS),
        rate_mbps=rate_mbps,
        buffer_pkts=np.where(which < 0, rate_mbps * PPS_PER_MBPS * TRACE_RTT_MS / 1e3, TRACE_BUFFER_PKTS),
        trace=which,
        trace_start_ms=period_ms[which] * place // REPEATS,
        traces=tuple(trace.astype(np.int64) for trace in traces.values()),
    )
    flows = Flows.forever(1, len(which))
    owl = play(paths, flows, Roster(window=1), network)
    blind = play(paths, flows, Roster(window=1), network, SimulatedAgent.hidden)
    cubic = play(paths, flows, Roster(cubic=1), None)
    ours, hidden, theirs = (power(run).reshape(shape).mean(axis=1) for run in (owl, blind, cubic))
    gains = ours / theirs
    kept = float((hidden / ours)[:-1].mean())
    received, rtt_s = (values.reshape(shape)[-1].mean() for values in (owl.received_mbps, owl.rtt_s))
    constant = f"alone, {CONSTANT_MBPS:g} Mbit/s, {TRACE_RTT_MS:g} ms:"
    return [
        *(
            Figure("owl", f"power over Cubic's, {name}", float(gain), Target(low=POWER_TARGET))
            for name, gain in zip(names, gains, strict=False)
        ),
        Figure("owl", "power, network hidden over known", kept, Target(low=HIDDEN_TARGET)),
        Figure("owl", f"{constant} utilisation", float(received) / CONSTANT_MBPS),
        Figure("owl", f"{constant} RTT over base", float(rtt_s) * 1e3 / TRACE_RTT_MS),
    ]


def friendliness(network: Network) -> list[Figure]:
    """Measure Owl's throughput over the throughput of a Cubic flow beside it, at 50 Mbit/s (Owl, Section
    VII-D) and 100 Mbit/s.
    """
    rate_mbps, rtt_ms = (axis.reshape(-1) for axis in np.meshgrid((50.0, 100.0), (30.0, 60.0, 120.0)))
    return [
        Figure(
            "owl",
            f"throughput over Cubic's, network {what}, {rate:g} Mbit/s, {rtt:g} ms",
            float(ratio),
            FRIENDLY_TARGET,
        )
        for what, agents in (("known", SimulatedAgent.at_bottleneck), ("hidden", SimulatedAgent.hidden))
        for rate, rtt, ratio in zip(
            rate_mbps, rtt_ms, beside_cubic(network, rate_mbps, rtt_ms, agents), strict=True
        )
    ]


def fairness(network: Network) -> list[Figure]:
    """Measure the largest deviation of the sending rates of 2 and 3 Owl-Loss flows from the equilibrium of
    Owl, Eq. 9.
    """
    figures = []
    for count in (2, 3):
        expected_mbps = float(equilibrium(100.0, [OWL_LOSS.delta] * count)[0])
        off = from_equilibrium(network, count, rate_mbps=100.0, rtt_ms=30.0)
        what = f"{count} flows: deviation from {expected_mbps:.1f} Mbit/s"
        figures.append(Figure("owl-loss", what, off, Target(high=EQUILIBRIUM_TARGET)))
    return figures


@program("evaluate")
def main(arguments: Sequence[str] | None) -> int:
    """Print the figures and return the exit status, which is 0 even if targets are missed."""
    here = Path(__file__).parent
    made = argparse.ArgumentParser(prog="python -m ltp_switcher.policies.owl.evaluate", description=__doc__)
    made.add_argument("--weights", type=Path, default=here / "owl.npz")
    made.add_argument("--loss-weights", type=Path, default=here / "owl-loss.npz")
    made.add_argument("--json", action="store_true", help="print JSON")
    options = made.parse_args(arguments)
    parts: Mapping[Callable[[Network], list[Figure]], Path] = {
        one_flow: options.weights,
        friendliness: options.weights,
        fairness: options.loss_weights,
    }
    console = Console(stderr=True)
    figures: list[Figure] = []
    for part, weights in parts.items():
        with console.status(f"{part.__name__} of {weights.name}"):
            figures += part(load(weights)[0]["q"])
    show(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
