# SPDX-License-Identifier: Apache-2.0
"""Rules for standing queues of other protocols, such as Cubic. The paper has none.

Jury's own flows keep a queue near empty. So a queue that has stood for long belongs to another protocol. If
Jury answered to the growth of this queue, Jury would only leave the link to that protocol. As long as the
queue stands, ΔRTT counts as 0, and the policy goes by losses.

But Jury's flows may hold such a queue themselves, after a competitor has left or after many flows came at
once. Then no flow would ever see the queue empty. The two cases differ: Cubic's queue falls at every loss and
takes seconds to fill again, while a queue of Jury's flows loses packets and stays full. In the second case a
flow yields: it gives up about half of its window and reacts to ΔRTT again, until the queue has drained. All
flows see the same full queue, so they yield together.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Slots
from ltp_switcher.policies.runtime.measurements import NOTHING, Interval
from ltp_switcher.slots import SlotArrays, column

HIGH: Final = 1.3
"""Ratio of the RTT to its minimum beyond which there is a queue. Behind Cubic's queue in a buffer of 1 BDP,
the ratio stays at 1.4 or more.
"""
STANDS_S: Final = 5.0
STANDS_RTTS: Final = 10.0
"""Time beyond `HIGH` after which a queue stands, as a multiple of the smallest RTT; never less than
`STANDS_S` seconds. Jury's flows take less time to clear the queue of a newcomer.
"""
FULL: Final = 0.95
"""Share of the largest RTT above which a queue counts as full."""
FULL_S: Final = 4.0
"""Time in seconds for which a queue has to be full after a loss to count as a queue of Jury's flows; never
less than `STANDS_RTTS` times the smallest RTT. With 3 s or less, Cubic's queues at an RTT of 120 ms would
count, too.
"""
OWN_S: Final = 60.0
"""Time in seconds after a full queue in which every queue counts as a queue of Jury's flows. Five flows with
RTTs of 30 to 110 ms need this time to drain their queue. With 5 s they took it for another protocol's queue
and filled it again, for ever.
"""
LARGEST_MEMORY_S: Final = 60.0
"""Time constant in seconds with which the largest RTT decays."""
YIELD_S: Final = 0.9
"""Time in seconds for which a flow yields. In these 30 intervals the window shrinks at the largest step to
0.48 times its size, so a queue of 1 BDP drains.
"""


class StandingQueues(SlotArrays):
    """The state of the queue before each flow, as the flow knows it, by slot."""

    _largest_s = column(np.float64)
    """The largest RTT in seconds, which decays."""
    _high_s = column(np.float64)
    """Time in seconds for which the RTT has been beyond `HIGH`."""
    _full_s = column(np.float64)
    """Time in seconds for which the queue has been full since a loss."""
    _yield_s = column(np.float64)
    """Remaining time in seconds for which the flow yields."""
    _own_s = column(np.float64)
    """Remaining time in seconds in which queues count as queues of Jury's flows."""

    def update(self, slots: Slots, interval: Interval) -> tuple[Bools, Bools]:
        """Update the state with an interval.

        Returns:
            Two arrays of shape (n,): whether another protocol's queue stands, and whether the flow yields to
            a queue.
        """
        length_s = interval.length_s
        largest_s = np.maximum(interval.rtt_s, self._largest_s[slots] * (1.0 - length_s / LARGEST_MEMORY_S))
        # False before the first ACK, when the smallest RTT is infinite.
        high = interval.rtt_s > HIGH * interval.rtt_min_s
        high_s = np.where(high, self._high_s[slots] + length_s, 0.0)
        full = high & (interval.rtt_s > FULL * largest_s)
        full &= (self._full_s[slots] > 0.0) | (interval.lost_pkts > NOTHING)
        full_s = np.where(full, self._full_s[slots] + length_s, 0.0)
        least_s = STANDS_RTTS * interval.rtt_min_s
        stands = high_s > np.maximum(STANDS_S, least_s)
        own = stands & (full_s > np.maximum(FULL_S, least_s))
        yield_s = np.where(own, YIELD_S, self._yield_s[slots] - length_s)
        own_s = np.where(own, OWN_S, self._own_s[slots] - length_s)
        self._largest_s[slots] = largest_s
        self._high_s[slots] = high_s
        self._full_s[slots] = np.where(own, 0.0, full_s)
        self._yield_s[slots] = yield_s
        self._own_s[slots] = own_s
        return stands & (own_s <= 0.0), high & (yield_s > 0.0)
