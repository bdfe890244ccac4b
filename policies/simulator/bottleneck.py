# SPDX-License-Identifier: Apache-2.0
"""The bottleneck: a drop-tail FIFO in front of a link of varying rate, for the links of all environments at
once.

Packets are a fluid, but a loss is always a whole packet. The offered, dropped and served amounts are kept as
cumulative curves over ticks. To find when the fluid that leaves the queue now had arrived, look where the
curve of arrivals had the present height of the curve of departures. This arrival time gives each flow's share
of the departures, the losses and the RTT. It is exact for any change of the rate in between.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Indices, Ints

_HISTORY_LIMIT_BYTES: Final = 8 << 30


class Ring:
    """Holds the last `length` rows of a curve, one row a tick. The curve can be read between
    two ticks, too.
    """

    def __init__(self, length: int, shape: tuple[int, ...]) -> None:
        self._length = length
        # Row 0 is mirrored behind the last, so that the row after any row is the next in memory.
        self._rows = np.zeros((length + 1, *shape))
        self._size = int(np.prod(shape))

    def write(self, tick: int, row: Floats) -> None:
        slot = tick % self._length
        self._rows[slot] = row
        if slot == 0:
            self._rows[self._length] = row

    def index(self, ticks: Ints, now: int, columns: Ints) -> Ints:
        """Return the flat indices of the curve's values at `ticks` and `columns`. The ticks are among the
        last `length`.
        """
        slot = ticks - (now - now % self._length)
        slot += self._length * (slot < 0)
        slot *= self._size
        slot += columns
        return slot

    def at(self, index: Ints) -> Floats:
        """Return the values at flat indices."""
        return self._rows.reshape(-1).take(index)

    def between(self, index: Ints, fraction: Floats) -> Floats:
        """Return the curve's values between two ticks, by linear interpolation. `fraction` is 0 at the tick
        of the flat index, and 1 at the next tick.
        """
        rows = self._rows.reshape(-1)
        low = rows.take(index)
        high = rows.take(index + self._size)
        high -= low
        high *= fraction
        high += low
        return high


class Bottleneck:
    """The queues of E links that F flows each share.

    `queued` has the packets in each queue, shape (E,). `departed` has the packets that have left it since the
    start, shape (E,). `offered` and `dropped` have the packets of each flow since the start, shape (F, E).

    Args:
        flows: number F of flows on a link.
        buffer_pkts: room of each queue, shape (E,).
        history: number of ticks for which the curves are kept. It has to exceed the longest RTT that flows
            can have when the queue exceeds its buffer by `most_over`.
        rng: generator that draws which packets are lost.
    """

    def __init__(self, flows: int, buffer_pkts: Floats, history: int, rng: np.random.Generator) -> None:
        environments = len(buffer_pkts)
        self._buffer = buffer_pkts
        self._rng = rng
        self._all = np.arange(flows * environments).reshape(flows, environments)
        self._columns = np.arange(environments)
        self._environment = np.broadcast_to(self._columns, (flows, environments))
        self.offered = np.zeros((flows, environments))
        self.dropped = np.zeros((flows, environments))
        self.departed = np.zeros(environments)
        self.queued = np.zeros(environments)
        self._arrived = np.zeros(environments)
        self._offered_ring = Ring(history, self.offered.shape)
        self._dropped_ring = Ring(history, self.offered.shape)
        self._arrived_ring = Ring(history, (environments,))
        self._position_ring = Ring(history, (environments,))
        self._head = np.zeros(environments, np.int64)
        # Expected losses still to come before the next packet is lost, and lost packets not yet taken
        # from the arrivals.
        self._until_loss = rng.exponential(size=self.offered.shape)
        self._to_drop = np.zeros(self.offered.shape)

    def tick(self, now: int, arrivals: Floats, capacity: Floats, loss: Floats) -> None:
        """Take in one tick of arrivals and serve the queues.

        Args:
            now: number of the tick, from 1.
            arrivals: packets of each flow, shape (F, E).
            capacity: packets that each link can send in this tick, shape (E,).
            loss: probability of a random loss, shape (E,).
        """
        total = arrivals.sum(axis=0)
        excess = self.queued + total
        excess -= capacity
        excess -= self._buffer
        np.maximum(excess, 0.0, out=excess)
        share = np.divide(excess, total, out=np.zeros_like(excess), where=total > 0.0)
        share += loss
        dropped = self._drop(arrivals, share)
        self.offered += arrivals
        self.dropped += dropped
        total -= dropped.sum(axis=0)
        self._arrived += total
        np.minimum(self.departed + capacity, self._arrived, out=self.departed)
        np.subtract(self._arrived, self.departed, out=self.queued)
        self._offered_ring.write(now, self.offered)
        self._dropped_ring.write(now, self.dropped)
        self._arrived_ring.write(now, self._arrived)
        self._position_ring.write(now, self._position(now))

    def _drop(self, arrivals: Floats, share: Floats) -> Floats:
        """Return the packets to drop from `arrivals`, shape (F, E). The share `share` of the arrivals, shape
        (E,), is lost in expectation.

        A flow loses a packet whenever its expected losses have grown by a gap drawn from Exp(1). So losses
        are a Poisson process, as random as real losses, and competing flows do not back off in step.
        """
        hazard = arrivals * share
        self._until_loss -= hazard
        hit = np.flatnonzero(self._until_loss <= 0.0)
        to_drop = self._to_drop
        if hit.size:
            gap = self._until_loss.reshape(-1)
            packets = np.floor(-gap[hit]) + 1.0
            to_drop.reshape(-1)[hit] += packets
            gap[hit] += packets - 1.0 + self._rng.exponential(size=hit.size)
        dropped = np.minimum(to_drop, arrivals)
        to_drop -= dropped
        return dropped

    def _position(self, now: int) -> Floats:
        """Return the arrival time, in ticks, of the fluid that leaves each queue at the end of this tick,
        shape (E,).
        """
        head, departed, ring = self._head, self.departed, self._arrived_ring
        candidates: Indices = self._columns
        while candidates.size:
            ahead = head[candidates] + 1
            reached = (ahead <= now) & (ring.at(ring.index(ahead, now, candidates)) <= departed[candidates])
            candidates = candidates[reached]
            head[candidates] += 1
        index = ring.index(head, now, self._columns)
        low = ring.at(index)
        rise = ring.at(index + len(head)) - low
        inside = head < now
        fraction = np.divide(departed - low, rise, out=np.zeros_like(low), where=inside & (rise > 0.0))
        fraction += head
        return fraction

    def position(self, now: int, ticks: Ints) -> Floats:
        """Return the arrival times, in ticks, of the fluid that left the queue at `ticks`. Both have the
        shape (F, E).
        """
        ring = self._position_ring
        return ring.at(ring.index(ticks, now, self._environment))

    def curves(self, now: int, position: Floats) -> tuple[Floats, Floats]:
        """Return two curves at `position`, a time in ticks: the packets that each flow had offered, and the
        packets that it had lost.

        All arrays have the shape (F, E).
        """
        whole = position.astype(np.int64)
        fraction = position - whole
        index = self._offered_ring.index(whole, now, self._all)
        return self._offered_ring.between(index, fraction), self._dropped_ring.between(index, fraction)


def most_over(flows: int) -> float:
    """Return the largest number of packets that a queue holds beyond its buffer, if `flows` flows share it.
    Only one loss in 10^12 comes so late that the queue holds more.

    A flow's packets beyond the buffer stay in the queue until the flow's next loss. Between two losses, the
    flow's expected losses grow by a gap that is drawn from Exp(1).
    """
    return 2.0 * flows + 30.0


def check_history(history: int, flows: int, environments: int) -> int | None:
    """Return None if `history` ticks of all curves fit the simulator's limit of memory, and else the bytes
    that they need.
    """
    needed = 8 * history * environments * (2 * flows + 2)
    return needed if needed > _HISTORY_LIMIT_BYTES else None
