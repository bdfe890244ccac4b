# SPDX-License-Identifier: Apache-2.0
"""The cost of the daemon: instructions of one of its steps.

The benchmark of steps, `daemon.service.bench`, runs in a guest of the lab. There a nanosecond of processor
time is one instruction, so the counts do not depend on the host.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, cast

from rich.console import Console
from rich.table import Table

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.boot import boot

FLOWS_MAX: Final = 10_000
_STEPS: Final = 100
_MEMORY_MB: Final = 2048
_LIMIT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class StepCost:
    """Instructions of a step of the daemon in which each of `flows` flows reports, with the system calls."""

    flows: int
    kernel: str
    steps: int
    median: int
    most: int

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)


def measure_step(progress: Console, flows: int, *, kernel: str) -> StepCost:
    """Run the benchmark of steps with the policy `rule` in a guest.

    Raises:
        LabError: the guest or the benchmark failed.
    """
    told = "python3 -m ltp_switcher.daemon.service.bench --rtt-quarters 0 --json"
    with progress.status(f"steps with {flows} flows in the guest; 1000 flows take some three minutes"):
        booted = boot(
            kernel=kernel, script=f"{told} --flows {flows} --steps {_STEPS}", python=True, mutant=False,
            memory_mb=_MEMORY_MB, timeout_s=_LIMIT_S,
        )  # fmt: skip
    if not booted.ok:
        raise LabError(f"the benchmark of steps failed in the guest:\n{booted.console}")
    (found,) = cast("list[dict[str, float]]", json.loads(booted.console))
    return StepCost(flows, kernel, _STEPS, round(found["p50_ms"] * 1e6), round(found["max_ms"] * 1e6))


def step_table(cost: StepCost) -> Table:
    """Return a table with one row."""
    table = Table(title="guest instructions of a step", title_justify="left", box=None, pad_edge=False)
    for name in ("flows", "steps", "median", "most", "median per flow"):
        table.add_column(name, justify="right")
    numbers = (cost.flows, cost.steps, cost.median, cost.most, cost.median // cost.flows)
    table.add_row(*(f"{number:,}" for number in numbers))
    return table
