# SPDX-License-Identifier: Apache-2.0
"""The settings of experiments, exploration and the log of decisions."""

from __future__ import annotations

from dataclasses import dataclass

from ltp_switcher.daemon.settings.rules import Section, key
from ltp_switcher.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GainSection(Section):
    """The measurement of the daemon's gain on this server: experiments, and the log of decisions."""

    design: str = key(
        "none",
        "Experiment, carried out in mode active. holdback: a share of the destination prefixes stays on the "
        "baseline arm. switchback: all flows do, in half of the time blocks, drawn by chance.",
        choices=("none", "holdback", "switchback"),
    )
    share: float = key(
        0.1, "Share of the prefixes that a holdback keeps on the baseline arm.", minimum=0, maximum=0.9
    )
    block_s: float = key(600.0, "Length of a switchback's time block, s.", minimum=60, maximum=86_400)
    washout_s: float = key(
        60.0,
        "First part of each block, which does not count, because the arms of the earlier block "
        "still act, s. At most half of gain.block_s.",
        minimum=0,
        maximum=43_200,
    )
    baseline_arm: str = key(
        "", "Arm that the flows ran before there was a daemon. Empty: kernel.default_arm."
    )
    explore: float = key(
        0.0,
        "Chance that a decision in mode active takes a random arm of the pool for ten seconds. Without it "
        "`ltp-switcher evaluate` cannot judge any other policy.",
        minimum=0,
        maximum=1,
    )
    log_mb: int = key(
        256,
        "Largest size of the log of decisions in daemon.state_dir, MB. The oldest decisions make "
        "room. 0: no log.",
        minimum=0,
        maximum=1_000_000,
    )
    outcomes_mb: int = key(
        64,
        "Largest size of the log of flows' outcomes in daemon.state_dir, MB. The oldest outcomes "
        "make room. 0: the module reports no outcomes. `ltp-switcher outcomes` shows them.",
        minimum=0,
        maximum=1_000_000,
    )

    def __post_init__(self) -> None:
        """Check that the wash-out leaves most of a block."""
        Section.__post_init__(self)
        if self.washout_s > self.block_s / 2:
            raise ConfigError("gain.washout_s", self.washout_s, "at most half of gain.block_s")


@dataclass(frozen=True, slots=True)
class RolloutSection(Section):
    """The rollout in stages. It uses the time blocks and the baseline arm of [gain]."""

    tolerance: float = key(
        0.05,
        "Largest harm to the server's goodput, as a share, that may remain possible when a next "
        "stage begins. At 0.05 a harm of 25, 10 and 5 % has to be excluded before 20, 50 and 100 "
        "% of the traffic.",
        minimum=0.005,
        maximum=0.15,
        live=True,
    )
    stage_min_s: float = key(14_400.0, "Least time of a stage, s.", minimum=0, maximum=31_536_000, live=True)
    stage_max_s: float = key(
        1_209_600.0,
        "Longest time of a stage, s. If neither harm nor its absence is proven by then, the mode "
        "becomes advise again.",
        minimum=3600,
        maximum=31_536_000,
        live=True,
    )
