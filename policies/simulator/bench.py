# SPDX-License-Identifier: Apache-2.0
"""Measure the simulator's speed: `python -m ltp_switcher.policies.simulator.bench [--json]`.

The speed is the number of flow-steps in a second: steps of 30 ms, times the flows that take them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from ltp_switcher.commands import program, seconds, whole
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, Simulator

ROSTER = Roster(window=2, cubic=2)


def flow_steps_per_s(environments: int, seconds: float, seed: int) -> tuple[float, float]:
    """Simulate links of 20 to 200 Mbit/s and 10 to 100 ms with four active flows each, for about `seconds`.

    Returns the flow-steps per second of wall time, and per second of this process's CPU time.
    """
    rng = np.random.default_rng(seed)
    base = Paths.uniform(environments)
    rate_mbps, rtt_ms = rng.uniform(20, 200, environments), rng.uniform(10, 100, environments)
    paths = Paths(
        rate_mbps=rate_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=rate_mbps * rtt_ms / 12.0,
        loss=np.full(environments, 0.0005),
        jitter_ms=base.jitter_ms,
        trace=base.trace,
        trace_start_ms=base.trace_start_ms,
    )
    simulator = Simulator(paths, Flows.forever(ROSTER.count, environments), ROSTER, seed=seed)
    windows = np.full((ROSTER.window, environments), 10.0)
    # The measurement begins after 30 steps. In slow start most flows are idle, and a step is cheaper.
    steps, began, cpu_began = -30, 0.0, 0.0
    while steps <= 0 or time.perf_counter() - began < seconds:
        if steps == 0:
            began, cpu_began = time.perf_counter(), time.process_time()
        windows = np.clip(windows * rng.uniform(0.95, 1.08, windows.shape), 4.0, rate_mbps * rtt_ms / 24.0)
        simulator.set_window(windows)
        simulator.step()
        steps += 1
    done = steps * environments * ROSTER.count
    return done / (time.perf_counter() - began), done / (time.process_time() - cpu_began)


@program("bench")
def main(given: Sequence[str] | None) -> int:
    """Measure in several processes at once, and print the speed of each and their sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--environments", type=whole(1, 1_000_000), default=1024, help="links per process (default 1024)"
    )
    parser.add_argument(
        "--processes", type=whole(1, 1024), default=min(2, os.cpu_count() or 1), help="default 2"
    )
    parser.add_argument("--seconds", type=seconds(0.1, 3600), default=5.0, help="measured time (default 5)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(given)
    n = arguments.processes
    with ProcessPoolExecutor(n) as pool:
        rates = list(
            pool.map(flow_steps_per_s, [arguments.environments] * n, [arguments.seconds] * n, range(n))
        )
    together, together_cpu = (sum(column) for column in zip(*rates, strict=True))
    if arguments.json:
        figures = {"processes": n, "flow_steps_per_s": together, "flow_steps_per_cpu_s": together_cpu / n}
        print(json.dumps(figures))
        return 0
    for index, (rate, cpu_rate) in enumerate(rates):
        print(f"process {index}: {rate:10,.0f} flow-steps of 30 ms a second, {cpu_rate:10,.0f} a CPU second")
    print(f"together:  {together:10,.0f}  (target 200,000 on 2 cores)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
