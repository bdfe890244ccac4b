# SPDX-License-Identifier: Apache-2.0
"""The gain of a handover, which sets the congestion window at a switch of arms.

A fixed schedule of switches runs once with the handover `bdp`, which gives the new arm a window that fits the
path, and once with `as-is`, which keeps the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario

SCHEDULE: Final = "schedule:bbr@0,vegas@4,bbr@12,vegas@13,ltp@21,bbr@29,vegas@30"
DURATION_S: Final = 38.0
PATHS: Final = (
    (6.0, 100.0, 2.0),
    (12.0, 40.0, 4.0),
    (20.0, 40.0, 8.0),
    (24.0, 60.0, 1.0),
    (30.0, 20.0, 4.0),
    (30.0, 120.0, 2.0),
)
"""Paths, each with rate (Mbit/s), RTT (ms) and buffer (bandwidth-delay products)."""
SEEDS: Final = (1, 2, 3)
MODES: Final = ("as-is", "bdp")


@dataclass(frozen=True, slots=True)
class Gain:
    """Rewards (Mutant, Eq. 1) on one path, one for each seed, with each of the two handovers, `as-is` and
    `bdp`.
    """

    rate_mbps: float
    rtt_ms: float
    buffer_bdp: float
    as_is: tuple[float, ...]
    bdp: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Ratio of the reward with `bdp` to the reward with `as-is`, as a geometric mean over the seeds."""
        return float(np.exp(np.mean(np.log(np.divide(self.bdp, self.as_is)))))

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {**asdict(self), "ratio": self.ratio}


def _scenario(rate_mbps: float, rtt_ms: float, buffer_bdp: float, mode: str) -> Scenario:
    return parse_scenario(
        {
            "name": f"handover-{rate_mbps:g}-{rtt_ms:g}-{buffer_bdp:g}-{mode}",
            "duration_s": DURATION_S,
            "link": {"rate_mbps": rate_mbps, "rtt_ms": rtt_ms, "buffer_bdp": buffer_bdp},
            "flow": [{"scheme": SCHEDULE}],
            "settings": {"kernel": {"handover": mode}},
        }
    )


def measure_handover(progress: Console, *, kernel: str, use_cache: bool) -> list[Gain]:
    """Run the schedule on `PATHS` with `SEEDS` under `MODES`.

    Raises:
        LabError: the lab failed.
    """
    jobs = [Job(_scenario(*path, mode), seed, kernel) for path in PATHS for mode in MODES for seed in SEEDS]
    rewards = [
        float(outcome.summary.flows[0].reward)
        for outcome in run_batch(
            jobs, progress, use_cache=use_cache, label=lambda job: f"{job.scenario.name} {job.seed}"
        )
    ]
    each = np.reshape(rewards, (len(PATHS), len(MODES), len(SEEDS)))
    return [
        Gain(*path, *(tuple(row) for row in rows.tolist())) for path, rows in zip(PATHS, each, strict=True)
    ]


def overall(gains: Sequence[Gain]) -> tuple[float, float]:
    """Return the geometric mean and the least of the paths' ratios."""
    ratios = [gain.ratio for gain in gains]
    return float(np.exp(np.mean(np.log(ratios)))), min(ratios)


def gains_table(gains: Sequence[Gain]) -> Table:
    """Return a table with a row for each path."""
    mean, least = overall(gains)
    table = Table(
        title=f"reward with handover bdp over as-is: geometric mean {mean:.2f}, least {least:.2f}",
        title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    table.add_column("path")
    for name in ("as-is", "bdp", "ratio", "by seed"):
        table.add_column(name, justify="right")
    for gain in gains:
        by_seed = " ".join(f"{b / a:.2f}" for a, b in zip(gain.as_is, gain.bdp, strict=True))
        table.add_row(
            f"{gain.rate_mbps:g} Mbit/s, {gain.rtt_ms:g} ms, {gain.buffer_bdp:g} BDP",
            f"{np.mean(gain.as_is):.2f}", f"{np.mean(gain.bdp):.2f}", f"{gain.ratio:.2f}", by_seed,
        )  # fmt: skip
    return table
