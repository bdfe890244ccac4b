# SPDX-License-Identifier: Apache-2.0
"""Queues that stand regardless of the flow, as Cubic's do. The paper has no rule for them.

Jury's own flows keep a queue near empty. A queue that has stood for long belongs to another protocol, and an
answer to its growth only leaves the link to that protocol. As long as it stands, ΔRTT counts as 0, and the
policy goes by losses.

But Jury's flows may hold such a queue themselves, after a competitor has left or where many came at once.
Then none of them would ever see it empty. Cubic's queue falls at every loss and takes seconds to fill again;
theirs loses and stays full. In that case a flow yields more than half of its window and goes by ΔRTT again,
until the queue has drained. All flows before the queue see it full, so they yield together.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Slots
from ltp_switcher.policies.runtime.measurements import NOTHING, Interval
from ltp_switcher.slots import SlotArrays, column

HIGH: Final = 1.3
"""RTT over its minimum beyond which there is a queue. Behind Cubic's, of 1 BDP, it is never less than 1.4."""
STANDS_S: Final = 5.0
STANDS_RTTS: Final = 10.0
"""Time for which the RTT has to be beyond `HIGH`, in smallest RTTs, and at least `STANDS_S`: longer than
Jury's flows take to clear a newcomer's queue."""
FULL: Final = 0.95
"""Share of the largest RTT from which on a queue is full."""
FULL_S: Final = 4.0
"""Time for which a queue has to be full after a loss to count as the flow's own. With 3 s and less, Cubic's
queues at 120 ms would count, too."""
OWN_S: Final = 60.0
"""Time after a full queue for which no queue is another's. Five flows whose RTTs are 30 to 110 ms need as
long to drain theirs; after 5 s it was still high, taken for another's, and full again, for ever."""
LARGEST_MEMORY_S: Final = 60.0
"""Time constant with which the largest RTT is forgotten."""
YIELD_S: Final = 0.9
"""Time for which a flow yields, 30 intervals at the largest step: 0.48 times the window. A queue that is 1
BDP long drains."""


class StandingQueues(SlotArrays):
    """The queue before each flow, as the flow in its slot knows it."""

    _largest_s = column(np.float64)
    """The largest RTT."""
    _high_s = column(np.float64)
    """Time for which the RTT has been beyond `HIGH`."""
    _full_s = column(np.float64)
    """Time for which the RTT has been within `FULL` since a loss."""
    _yield_s = column(np.float64)
    """Time for which the flow is yet to yield."""
    _own_s = column(np.float64)
    """Time for which queues are yet to count as the flow's own."""

    def update(self, slots: Slots, interval: Interval) -> tuple[Bools, Bools]:
        """Take in an interval.

        Returns:
            Whether a queue stands that is not the flow's own, and whether it yields to one, shape (n,) each.
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
