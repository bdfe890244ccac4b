# SPDX-License-Identifier: Apache-2.0
"""The reasons for which the rule chooses an arm: their numbers and their texts."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.daemon.choose.rule.states import State
from ltp_switcher.daemon.settings.rule_policy import RuleSection

NEW, KNOWN, FELL, ROSE, OWN, QUEUED, SLOWER, RIVAL = range(8)
IS_STEADY, VARIES, SWINGS, LOSSY, SHORTER, EARNED, SLOW, SHALLOW = range(8, 16)
STARVED, SURPRISED, ALONE, STUCK, SAME, GENTLE, EMPTY, PAUSES = range(16, 24)
LOSING, UNSEEN, DRAINS, LONGER, ACKS_WAIT, FILLED = range(24, 30)
PREFERRED: Final = 30

STATE: Final = np.array(
    (
        State.STEADY, State.FOLLOWS, State.FOLLOWS, State.STEADY, State.TRIES, State.STEADY, State.STEADY,
        State.SHALLOW,
    ),
    np.intp,
)  # fmt: skip
"""The state to which each reason from `IS_STEADY` on leads."""
OF_OUTCOME: Final = np.array((QUEUED, LONGER, OWN, SLOWER, RIVAL), np.intp)
"""The reason that tells an outcome of the experiment with the queue (`drain.Outcome`), by the outcome's
number.
"""
TRIALS: Final = (SHORTER, EARNED, SLOW)
"""The reasons that can end or begin a trial of the careful arm."""


def texts(settings: RuleSection) -> tuple[str, ...]:
    """Return the text of each reason, by number. `{value}` stands for the measured value."""
    ratio = f"{settings.rtt_ratio:g}"
    return (
        "the flow was new, and this arm probes its path",
        "flows to the same network were probed before, and this arm suited them",
        "the lowest RTT fell to {value:.1f} ms: the path had changed, and this arm follows it",
        f"the lowest RTT stayed at {{value:.1f}} ms for {settings.rise_s:g} s: the path had changed, "
        "and this arm probes it anew",
        "the lowest RTT stayed around {value:.1f} ms: this arm kept a queue, and began anew without it",
        "the lowest RTT stayed around {value:.1f} ms: a queue stood, and this arm shows whose it is",
        "the lowest RTT stayed around {value:.1f} ms: this arm kept a queue, because the link was slower",
        "the rate rose by a factor of {value:.1f} under this arm: another flow fills the queue",
        f"the highest RTT was {{value:.1f}} times the lowest, no more than {ratio}: the rate was steady",
        f"the highest RTT was {{value:.1f}} times the lowest, more than {ratio}: the rate varied",
        f"the rate moved by {{value:.0f}} % from look to look, more than {100 * settings.rate_swing:g} %",
        "{value:.2f} % of the packets were lost while no queue stood: a careful arm would starve",
        "this arm keeps a shorter queue, and was expected to earn {value:.0f} % more",
        "the other arm kept a shorter queue, but earned {value:.1f} % less",
        "the path had become slow: the other arm's packets, a queue, took {value:.1f} ms",
        "the rate varied, and {value:.1f} % of the packets were lost: the buffer was short",
        "another arm starved: this one had shown {value:.1f} times its reward",
        "the reward had fallen to {value:.0f} % of before: this arm shows whether the path has more",
        "no other arm had run on this path for long: this arm shows whether the path has more",
        "the lowest RTT stayed around {value:.1f} ms: the other arm kept a queue, and this one empties it",
        "the lowest RTT was {value:.1f} ms again: a queue had stood on this path, and this arm empties it",
        "the probing arm's start lost {value:.0f} % of an earlier flow's packets to the same network: this "
        "flow keeps the kernel's arm for its own start",
        "no queue stood on the path under this arm, so no other one could gain anything",
        "the application had nothing to send for {value:.0f} % of the time: this arm keeps its rate",
        "losses took {value:.0f} % of the reward: this arm shows whether it loses less",
        "another arm starved, and this one had not run on the path yet",
        "the lowest RTT stayed around {value:.1f} ms: this arm empties its queue, which shows whose it is",
        "the lowest RTT stayed around {value:.1f} ms when this arm's queue was empty: the path became longer",
        "ACKs waited for {value:.0f} ms on the way back: this arm shows whether the path has more",
        "ACKs waited on the way back, and this arm earned {value:.1f} times as much as another one had",
        "this arm won a tournament on the path, a comparison in pairs with the arm that ran before",
    )
