# SPDX-License-Identifier: Apache-2.0
"""The cost of `mutant`: guest instructions per acknowledged packet, with it and without it.

In the lab virtual time is counted in instructions, so the counts are exact and repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.scenario import load_scenario
from ltp_switcher.eval.run.schemes import MEASURED_PREFIX, PINNED_PREFIX

ARMS: Final = ("cubic", "bbr")
UNDER_MUTANT: Final = ("unmeasured", "measured")
"""Ways to run a flow under `mutant`: without and with a program that reads the flow's records. With such a
program, the module adds every ACK to a record.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Guest instructions per acknowledged packet of a protocol: alone, as an arm of `mutant`, and as an arm
    whose records a program reads.
    """

    arm: str
    kernel: str
    bare: float
    unmeasured: float
    measured: float

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, with the shares by which `mutant` costs more."""
        shares = {f"{name}_overhead": getattr(self, name) / self.bare - 1.0 for name in UNDER_MUTANT}
        return {**asdict(self), **shares}


@dataclass(frozen=True, slots=True)
class Speed:
    """The lab's speed on one scenario, including the guest's boot. Other labs run beside it if there are CPUs
    for them.
    """

    scenario: str
    scheme: str
    kernel: str
    virtual_s: float
    wall_s: float
    instructions_per_packet: float

    @property
    def ratio(self) -> float:
        """Virtual seconds per wall second."""
        return self.virtual_s / self.wall_s

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {**asdict(self), "ratio": self.ratio}


def measure_costs(progress: Console, *, kernel: str, use_cache: bool) -> list[Cost]:
    """Measure the instructions per packet of each protocol in `ARMS`, on the scenario `cost`.

    Raises:
        LabError: the lab failed.
    """
    scenario = load_scenario(SCENARIOS / "cost.toml")
    schemes = [s for arm in ARMS for s in (arm, f"{PINNED_PREFIX}{arm}", f"{MEASURED_PREFIX}{arm}")]
    jobs = [Job(scenario.with_scheme(scheme), 1, kernel) for scheme in schemes]
    outcomes = run_batch(jobs, progress, use_cache=use_cache)
    per_packet = [instructions_per_packet(outcome) for outcome in outcomes]
    return [Cost(arm, kernel, *per_packet[3 * i : 3 * i + 3]) for i, arm in enumerate(ARMS)]


def measure_speed(progress: Console, *, kernel: str) -> list[Speed]:
    """Run the scenario `cost` under `ARMS` and under the switcher, never from the cache.

    Raises:
        LabError: the lab failed.
    """
    scenario = load_scenario(SCENARIOS / "cost.toml")
    jobs = [Job(scenario.with_scheme(scheme), 1, kernel) for scheme in (*ARMS, "switcher")]
    return [
        Speed(
            scenario.name, outcome.job.scheme, kernel, outcome.virtual_s, outcome.summary.wall_s,
            instructions_per_packet(outcome),
        )
        for outcome in run_batch(jobs, progress, use_cache=False)
    ]  # fmt: skip


def instructions_per_packet(outcome: RunResult) -> float:
    """Return the guest's instructions per acknowledged packet, without idle time. The guest holds both ends
    and the link.

    Raises:
        ArtifactError: the run delivered nothing.
    """
    delivered = sum(total.delivered_pkts for total in outcome.totals())
    if delivered == 0:
        raise ArtifactError(f"{outcome.job.scheme}: no packet was acknowledged")
    return float(outcome.guest()["busy_instructions"]) / delivered


def costs_table(costs: Sequence[Cost]) -> Table:
    """Return a table with a row for each protocol."""
    table = Table(
        title="guest instructions per acknowledged packet", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("protocol")
    for name in ("bare", *UNDER_MUTANT):
        table.add_column(name, justify="right")
    for cost in costs:
        under = [f"{n:,.0f} ({n / cost.bare - 1:+.2%})" for n in (cost.unmeasured, cost.measured)]
        table.add_row(cost.arm, f"{cost.bare:,.0f}", *under)
    return table


def speed_table(speeds: Sequence[Speed]) -> Table:
    """Return a table with a row for each run."""
    table = Table(title="the lab's speed", title_justify="left", box=None, pad_edge=False)
    table.add_column("scheme")
    for name in ("virtual s", "wall s", "virtual s\nper wall s", "instructions\nper packet"):
        table.add_column(name, justify="right")
    for speed in speeds:
        table.add_row(
            speed.scheme, f"{speed.virtual_s:.1f}", f"{speed.wall_s:.1f}", f"{speed.ratio:.2f}",
            f"{speed.instructions_per_packet:,.0f}",
        )  # fmt: skip
    return table
