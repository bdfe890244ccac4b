# SPDX-License-Identifier: Apache-2.0
"""Measures how long a step takes: `python -m ltp_switcher.daemon.service.bench --flows 10000`.

The daemon's engine runs whole steps with the policy `rule`: it asks for records, chooses, and sends commands
and the controls of learned arms. A process at the other end of a socket pair plays the kernel module, and its
flows are invented. The measured time is the processor time of the daemon's side. All flows send all the time.
Their RTTs without queues spread from 10 to 120 ms.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

# The benchmark measures one core. The setting comes before numpy, which reads it when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ltp_switcher.daemon.choose.rule.roles import ROLES
from ltp_switcher.daemon.datapath import ArmInfo, Datapath, EventBatch, protocol
from ltp_switcher.daemon.datapath.netlink import GenericNetlink
from ltp_switcher.daemon.service.assembly import make_chooser, make_learned, make_teams
from ltp_switcher.daemon.service.bench.crowd import Crowd
from ltp_switcher.daemon.service.bench.stand_in import stand_in
from ltp_switcher.daemon.settings.schema import Config, DaemonSection
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.errors import LtpSwitcherError

WARM_UP_S: Final = 5.0
"""Simulated time before the measurement begins, in seconds. By then the rule has left its first arm."""
SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Result:
    """Processor time of steps. With `flows_a_core` flows, the 99th percentile would fill a whole step."""

    flows: int
    rtt_quarters: int
    step_ms: float
    steps: int
    records_a_step: float
    controls_a_step: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    flows_a_core: int
    memory_mb: int


class _NoEvents:
    """A source of kernel events that never has any, because no flow begins or ends in the benchmark."""

    def read(self) -> EventBatch:
        """Return an empty batch."""
        return EventBatch([], False)


def measure(flows: int, steps: int, rtt_quarters: int = 0, policy: str = "rule") -> Result:
    """Run the engine for `steps` steps with `flows` flows, and measure each step. Raises `LtpSwitcherError`.

    `rtt_quarters` is the least time between reports of a flow, in quarters of its RTT. With 0, a flow reports
    in every step.
    """
    config = Config(daemon=DaemonSection(policy=policy))
    step_s = config.daemon.step_ms / 1000
    clock_ns = time.monotonic_ns()
    crowd = Crowd(flows, SEED, clock_ns)
    spent_s = np.empty(steps)
    with stand_in(crowd, clock_ns, int(step_s * 1e9)) as end:
        datapath = Datapath(GenericNetlink(end))
        datapath.open_session(rtt_quarters=rtt_quarters)
        arms = [_arm(arm) for arm in protocol.ArmId if arm]
        pool = tuple(int(arm) for arm in ROLES)
        chooser = make_chooser(config, arms, pool)
        table = FlowTable(home_netns=1)
        learned = make_learned(config, chooser, table)
        learned.rtt_quarters = rtt_quarters
        learned.load(pool)
        decisions = DecisionLog({arm.id: arm.name for arm in arms}, 1.0, "active")
        engine = Engine(
            datapath, _NoEvents(), table, chooser,
            make_teams(config, arms, pool, chooser), decisions, learned, clock=lambda: clock_ns,
        )  # fmt: skip
        warm_up = int(WARM_UP_S / step_s)
        before = controls = 0
        for number in range(-warm_up, steps):
            clock_ns += int(step_s * 1e9)
            if number == 0:
                gc.collect()
                before, controls = engine.statistics.records, engine.statistics.controls_applied
            started_s = time.thread_time()
            engine.step()
            if number >= 0:
                spent_s[number] = time.thread_time() - started_s
            if number % 50 == 0:
                _say(flows, number + warm_up, steps + warm_up)
        count = engine.statistics
        datapath.close()
    p50_ms, p99_ms = np.percentile(spent_s, (50, 99)) * 1e3
    return Result(
        flows=flows,
        rtt_quarters=rtt_quarters,
        step_ms=step_s * 1e3,
        steps=steps,
        records_a_step=round((count.records - before) / steps, 1),
        controls_a_step=round((count.controls_applied - controls) / steps, 1),
        p50_ms=round(float(p50_ms), 2),
        p99_ms=round(float(p99_ms), 2),
        max_ms=round(float(spent_s.max() * 1e3), 2),
        flows_a_core=int(flows * step_s * 1e3 / p99_ms),
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def _arm(arm: protocol.ArmId) -> ArmInfo:
    name = arm.name.lower()
    kind = protocol.ArmKind.LEARNED if arm in LEARNED else protocol.ArmKind.KERNEL
    return ArmInfo(int(arm), name, protocol.ArmState.AVAILABLE, kind, "")


def _say(flows: int, done: int, all_of_them: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{flows} flows: step {done} of {all_of_them}", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ltp_switcher.daemon.service.bench", description=__doc__)
    parser.add_argument("--flows", type=int, nargs="+", default=[5000, 10_000])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument(
        "--rtt-quarters",
        type=int,
        nargs="+",
        default=[0, 1],
        help="values of daemon.rtt_quarters; default: 0 1",
    )
    parser.add_argument("--policy", choices=["rule", "mutant"], default="rule")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if min(options.flows) < 1 or max(options.flows) > 60_000 or options.steps < 10:
        parser.error("--flows must be 1 to 60000 and --steps 10 or more")
    if min(options.rtt_quarters) < 0 or max(options.rtt_quarters) > 16:
        parser.error("--rtt-quarters must be 0 to 16")
    logging.disable(logging.INFO)
    runs = [(flows, quarters) for quarters in options.rtt_quarters for flows in options.flows]
    try:
        results = [measure(flows, options.steps, quarters, options.policy) for flows, quarters in runs]
    except LtpSwitcherError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
        return 0
    print("flows   quarters  records  controls  p50 ms  p99 ms  max ms  flows a core  memory MB")
    for result in results:
        print(
            f"{result.flows:<7} {result.rtt_quarters:>8} {result.records_a_step:>8} "
            f"{result.controls_a_step:>9} {result.p50_ms:>7} {result.p99_ms:>7} {result.max_ms:>7} "
            f"{result.flows_a_core:>13} {result.memory_mb:>10}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
