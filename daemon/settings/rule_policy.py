# SPDX-License-Identifier: Apache-2.0
"""The settings of the policy `rule`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ltp_switcher.daemon.settings.rules import Section, did_you_mean, key
from ltp_switcher.errors import ConfigError

CASES: Final = (
    "varies",
    "swings",
    "lossy",
    "shallow",
    "few-packets",
    "trials",
    "drain",
    "starts",
    "no-queue",
    "pauses",
    "way-back",
)
"""The special cases of the rule. A setting can leave out each of them by itself."""


@dataclass(frozen=True, slots=True)
class RuleSection(Section):
    """The thresholds of the policy `rule`; see daemon/choose/rule."""

    start_s: float = key(
        2.0,
        "Time for which a flow runs bbr when it is new, and after the path's rate and RTT have fallen, s.",
        minimum=0,
        maximum=3600,
    )
    rtt_ratio: float = key(
        6.0,
        "Ratio of the highest RTT to the lowest RTT above which the flow runs vegas, because the "
        "path's rate varies. Below it the flow runs ltp.",
        minimum=1,
        maximum=1000,
    )
    rate_swing: float = key(
        0.05,
        "Change of the rate from look to look, as a share, above which the flow runs vegas, too. "
        "A look lasts a quarter of a second and two round trips. Over the last twelve looks, the "
        "rate has to rise by this share in a quarter of them, and to fall by this share in "
        "another quarter. The RTT must not rise and fall with the rate.",
        minimum=0,
        maximum=10,
    )
    rtt_step: float = key(
        1.25,
        "Factor by which the lowest RTT has to rise or fall to count as another path.",
        minimum=1.01,
        maximum=100,
    )
    rise_s: float = key(
        1.0,
        "Time for which the lowest RTT has to stay high and constant to count as risen, s.",
        minimum=0,
        maximum=3600,
    )
    queue_pkts: float = key(
        10.0,
        "Packets of queue that a rise has to exceed, because an arm's own standing queue looks like one.",
        minimum=0,
        maximum=1_000_000,
    )
    change_s: float = key(
        10.0,
        "Time for which a flow runs bbr after the path's RTT has risen, s.",
        minimum=0,
        maximum=3600,
    )
    rival_s: float = key(
        15.0,
        "Time for which a flow keeps bbr after bbr has shown that another flow fills the queue, "
        "s. This time and the time between two tests grow from test to test. Where cubic alone fills a "
        "path, it stays for four times this time.",
        minimum=0,
        maximum=3600,
    )
    prefix_s: float = key(
        600.0,
        "Time for which new flows to a prefix begin with vegas after a flow to the prefix has "
        "chosen vegas, s. For the same time new flows keep kernel.default_arm for their start "
        "after the start of bbr has overfilled the buffer. 0: never.",
        minimum=0,
        maximum=1_000_000,
    )
    self_check: bool = key(
        True,
        "Leave an arm that earns less than half of another arm's reward on the path. Compare an "
        "arm with bbr if it falls below its own level, or if no other arm has run.",
    )
    without: tuple[str, ...] = key(
        (),
        "Special cases to leave out, to measure what each is worth (`ltp-eval ablate`): any of "
        f"{', '.join(CASES)}.",
    )
    settle_rtts: float = key(
        10.0,
        "Round trips after a switch in which the RTT is not judged, because the earlier arm's queue drains.",
        minimum=0,
        maximum=1000,
    )

    def __post_init__(self) -> None:
        """Check that the rule has the special cases that the setting names."""
        Section.__post_init__(self)
        for name in self.without:
            if name not in CASES:
                raise ConfigError(
                    "rule.without", name, f"any of {', '.join(CASES)}{did_you_mean(name, CASES)}"
                )
