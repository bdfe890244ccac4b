# SPDX-License-Identifier: Apache-2.0
"""Measures how long a decision takes: `python -m ltp_switcher.daemon.service.bench.decision --flows 1000`.

Invented records pass through the whole decision of the learned policy: features, encoder, normalisation of
the reward by R_max, credit to arms, learning and choice.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Final, get_args

# The benchmark measures one core. The setting comes before numpy, which reads it when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ltp_switcher.daemon.choose.bandit.agent import MutantAgent
from ltp_switcher.daemon.choose.bandit.arm_table import ArmTable
from ltp_switcher.daemon.choose.bandit.guarded import GuardedChooser
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath.protocol import COMMAND_DTYPE, ArmId
from ltp_switcher.daemon.datapath.types import CommandArray
from ltp_switcher.daemon.service.bench.crowd import Crowd
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.daemon.settings.schema import DaemonSection, LearningSection, Preset
from ltp_switcher.encoder import GRUEncoder
from ltp_switcher.errors import LtpSwitcherError

_KERNEL_ARMS: Final = tuple(arm for arm in ArmId if 1 <= arm <= 11)
_JOIN_STEPS: Final = 200


def measure(flows: int, steps: int, preset: Preset, seed: int = 1) -> dict[str, float | int | str]:
    """Run `steps` steps of `flows` flows. Return a JSON object: the terms of the run, the CPU time of a step
    in ms (median, 99th percentile, maximum), and the number of flows that a core can serve.
    """
    settings, step_ms = LearningSection(preset=preset).in_force(), DaemonSection().step_ms
    arms = ArmTable(tuple(int(arm) for arm in _KERNEL_ARMS), tuple(arm.name.lower() for arm in _KERNEL_ARMS))
    agent = MutantAgent(settings, step_ms, arms, GRUEncoder.from_file(), seed)
    rule = RuleChooser(arms.ids, RuleSection())
    chooser = GuardedChooser(rule, agent) if settings.baseline == "rule" else agent
    now_ns, step_ns = 10**9, int(step_ms * 1e6)
    crowd = Crowd(flows, seed, now_ns)
    commands: CommandArray = np.zeros(flows, COMMAND_DTYPE)
    commands["cookie"], commands["arm"] = crowd.records["cookie"], ArmId.CUBIC
    spent_s = np.empty(steps)
    # Flows begin one after the other. Otherwise all of them would close their windows in the same step.
    opened = 0
    for i in range(-_JOIN_STEPS, steps):
        wanted = min(flows, -(-flows * (i + _JOIN_STEPS + 1) // _JOIN_STEPS))
        new = np.arange(opened, wanted, dtype=np.intp)
        chooser.open(new, [f"198.51.{slot % 100}.0/24" for slot in new])
        opened = wanted
        slots = np.arange(opened, dtype=np.intp)
        now_ns += step_ns
        crowd.select(commands)
        records = crowd.step(now_ns)[:opened]
        start = time.thread_time()
        commands["arm"][:opened] = chooser.step(slots, records).arms
        if i >= 0:
            spent_s[i] = time.thread_time() - start
    p50, p99 = np.percentile(spent_s, (50, 99)) * 1e3
    return {
        "preset": preset,
        "flows": flows,
        "steps": steps,
        "step_ms": step_ms,
        "p50_ms": round(float(p50), 3),
        "p99_ms": round(float(p99), 3),
        "max_ms": round(float(spent_s.max() * 1e3), 3),
        # Number of flows on a core with which the 99th percentile stays within a step.
        "flows_a_core": int(flows * step_ms / p99),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ltp_switcher.daemon.service.bench.decision", description=__doc__
    )
    parser.add_argument("--flows", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--preset", choices=get_args(Preset), default="default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.flows < 1 or options.steps < 10:
        parser.error("--flows must be 1 or more and --steps 10 or more")
    try:
        result = measure(options.flows, options.steps, options.preset)
    except LtpSwitcherError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"{result['flows']} flows, {result['steps']} steps of {result['step_ms']} ms "
            f"({result['preset']}): p50 {result['p50_ms']} ms, p99 {result['p99_ms']} ms, "
            f"max {result['max_ms']} ms of CPU time; {result['flows_a_core']} flows a core"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
