# SPDX-License-Identifier: Apache-2.0
"""Queues that stand whatever the flow does, as Cubic's do (beyond the paper, which leaves Cubic its share).

Jury's own flows keep a queue near empty. One that has stood for long is another protocol's, and to answer its
growth only leaves the link to that protocol: as long as it stands, ΔRTT counts as 0, and the policy goes by
losses. But Jury's flows may hold such a queue themselves, after a competitor has left or where many came at
once, and then none of them would ever see it empty. So at a loss a flow yields nearly half of its window, as
those who share the queue do at the same loss; if it was theirs, it drains. Not at every loss: Cubic yields
only once a queue is full again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.policies.arrays import Bools, Floats, Ints
from ltp_switcher.policies.measurements import NOTHING, Interval

HIGH: Final = 1.25
"""RTT over its minimum beyond which there is a queue. Behind Cubic's, of 1 BDP, it seldom is less."""
STANDS_S: Final = 3.0
STANDS_RTTS: Final = 10.0
"""How long the RTT has to be beyond that, and for how many smallest RTTs."""
YIELD_S: Final = 0.72
"""24 intervals at the largest step: 0.55 times the window. With 0.7 three flows of Jury kept the queue that
they had taken from Cubic."""
AGAIN_S: Final = 7.5
"""Between the beginnings of two such."""


class StandingQueues:
    """What flows in numbered slots know of the queue before them."""

    def __init__(self) -> None:
        # For how long the RTT has been high, and since the flow last began to yield.
        self._high_s: Floats = np.zeros(0)
        self._yielded_s: Floats = np.zeros(0)

    def resize(self, slots: int) -> None:
        """Make room for slots 0 to `slots` - 1."""
        for name in ("_high_s", "_yielded_s"):
            old = getattr(self, name)[:slots]
            setattr(self, name, np.pad(old, (0, slots - old.size)))

    def begin(self, slots: Ints) -> None:
        """Forget what is known of these slots, shape (n,)."""
        self._high_s[slots] = 0.0
        self._yielded_s[slots] = np.inf

    def update(self, slots: Ints, interval: Interval) -> tuple[Bools, Bools]:
        """Take in an interval.

        Returns:
            Whether a queue stands, and whether the flow is to yield to it, shape (n,) each.
        """
        # False before the first ACK, when the smallest RTT is infinite.
        high = interval.rtt_s > HIGH * interval.rtt_min_s
        high_s = np.where(high, self._high_s[slots] + interval.length_s, 0.0)
        self._high_s[slots] = high_s
        stands = high_s > np.maximum(STANDS_S, STANDS_RTTS * interval.rtt_min_s)
        yielded_s = self._yielded_s[slots] + interval.length_s
        again = stands & (interval.lost_pkts > NOTHING) & (yielded_s >= AGAIN_S)
        yielded_s = np.where(again, 0.0, yielded_s)
        self._yielded_s[slots] = yielded_s
        return stands, stands & (yielded_s < YIELD_S)
