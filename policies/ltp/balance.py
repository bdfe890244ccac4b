# SPDX-License-Identifier: Apache-2.0
"""A second estimator for LTP, beyond the paper: a particle filter that uses each signal for one purpose.

States and steps are the same as in `particles`, which follows the paper's text and trains the policy. Where
`particles` knows little, its ranges are wide. They are also wrong, because `particles` assumes that the rate
of all other flows stays nearly the same. ACK clocks make that rate mirror the flow's own rate, so particles
with a wrong capacity survive. Here the assumption holds for an empty queue only.

The flow's rate is x, the rate of all other flows x_o, and the link's capacity c. Each signal has one use:

- ΔRTT tells the load of a standing queue (LTP, Section 4: Δt (x + x_o - c) / c). The others' rate follows
  from this load and the flow's own rate. If the queue is full, the loss tells the load, too (LTP, Eq. 3).
- The largest throughput is at most the capacity (LTP, Eq. 4).
- Δthr shows that a flow is alone: behind its own queue it is served at the same rate, to the packet, whatever
  its sending rate.
- The RTT above the smallest is queuing delay. If the queue never drained since the flow began, a part of the
  delay stays unseen, at most as large as the seen part.

docs/lab-notes/ltp.md compares this estimator with `particles` and CCmatic.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats, Indices, Slots
from ltp_switcher.policies.ltp.particles import LONGEST_GAP_S, PARTICLES, UNHEARD, Noise, Ranges, ranges_of
from ltp_switcher.policies.ltp.signals import LargestThroughput
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.slots import SlotArrays, column

DOUBT_PER_S: Final = 0.01
"""Share of the particles that is drawn anew each second: "to restore correct estimations, even if the
estimation direction diverges" (LTP, Section 4), for example after a change of the capacity.
"""
WHOLE: Final = 0.4
"""Share of new particles that take the largest throughput for the capacity. In half of these particles the
flow is alone.
"""
LEAVES_PER_S: Final = 1.0
"""Rate per second at which particles (possible states of the link) in which the flow is alone become
particles in which it is not.
"""
UNSEEN: Final = (0.3, 2.2)
"""Two numbers about the part of the queue that the RTT does not show.

The first is the share of particles in which this part is nothing. The second is its largest size in all other
particles, relative to the mean of the seen part. A queue that never drained since the flow began is about as
deep as its swings.
"""
HOSTS: Final = 0.2
"""Largest share of the mean delay that comes from jitter of hosts and links (D_j), not from queuing."""
UNSEEN_ANEW_PER_S: Final = 0.2
MEAN_DELAY_S: Final = 1.0
"""Time constant of the mean delay, in seconds."""
STANDS_PKTS: Final = 2.0
"""Number of the flow's own packets in the queue above which the queue stands."""
FULL: Final = 0.9
"""Share of the largest delay above which the queue may be full."""
COUNT_PKTS: Final = 1.5
"""Tolerated error of a measured throughput, in packets an interval. LTP, Table 4, tolerates 10 % instead."""
STEADY: Final = 0.003
"""Relative change of throughput that happens by itself if flows share the link. Half of the relative change
of the flow's own rate is added, less the error of its count. The smaller the sum, the less a constant
throughput proves that the flow is alone.
"""
GROWTH: Final = 0.01
"""If the largest throughput of a flow grows by more than this share in an interval, it cannot be the capacity
yet. Then no particle (a possible state of the link) is removed.
"""
NONE: Final = 0.1
"""Sum of all particles' probabilities of survival, for one flow. Below this sum no particle is of use, and
all are drawn anew.
"""
SLACK: Final = 0.02
"""Share by which a rate may exceed the bound that the largest throughput sets."""
LEAST: Final = 0.01
"""Least rate of all other flows over the capacity, in particles with other flows."""


@dataclass
class _Pool:
    """Particles, arrays of shape (n, particles) each."""

    rate: Float32s
    others: Float32s
    unseen: Float32s
    """Delay that the RTT does not show, relative to the mean of the delay that it shows."""
    whole: Bools
    """True where the largest throughput is the capacity."""
    alone: Bools
    """True where there are no other flows. Such a particle is `whole`, too."""

    def take(self, picks: Indices) -> None:
        """Keep these particles of each row, repeated or not; `picks` has the shape (n, particles)."""
        for field in fields(self):
            setattr(self, field.name, np.take_along_axis(getattr(self, field.name), picks, axis=1))

    def put(self, where: Bools, other: _Pool) -> None:
        """Replace particles by particles of another pool."""
        for field in fields(self):
            getattr(self, field.name)[where] = getattr(other, field.name)[where]


@dataclass(frozen=True)
class _Seen:
    """The interval as n flows saw it, columns of shape (n, 1)."""

    elapsed_s: Floats
    factor: Floats
    """Sending rate over the sending rate of the echo before, the model's a."""
    sent_pkts: Floats
    delivered_pkts: Floats
    delivered_before_pkts: Floats
    largest_pkts: Floats
    """Largest throughput (thr_max), in packets an interval."""
    grows: Bools
    """True while the largest throughput grows."""
    delay_s: Floats
    """RTT above the smallest."""
    delay_change_s: Floats
    mean_delay_s: Floats
    largest_delay_s: Floats
    loss: Floats
    standing_s: Floats
    """Delay from which on a queue stands."""

    def rows(self, rows: Indices) -> _Seen:
        """Select some of the flows."""
        return _Seen(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def wall(self) -> Floats:
        """The largest x / c that LTP, Eq. 4, allows."""
        return self.sent_pkts / self.largest_pkts

    @property
    def load(self) -> Floats:
        """(x + x_o) / c, by the change of a queue that stands."""
        return 1.0 + self.delay_change_s / self.elapsed_s

    @property
    def load_if_full(self) -> Floats:
        """(x + x_o) / c of a full queue, by its loss (LTP, Eq. 3)."""
        return 1.0 / (1.0 - np.minimum(self.loss, 0.9))


class BalanceFilter(SlotArrays):
    """The filters of flows in numbered slots, with the methods and arguments of `ParticleFilter`.

    Args:
        interval_s: length of the sending intervals of the echoes, in seconds.
        seed: seed of all random numbers. Equal calls after equal seeds give equal ranges.
        particles: number of particles of each slot.
        noise: tolerances for deviations of the network from the model.
    """

    _rate = column(np.float32, "_particles")
    _others = column(np.float32, "_particles")
    _unseen = column(np.float32, "_particles")
    _whole = column(np.bool_, "_particles")
    _alone = column(np.bool_, "_particles")
    _shown = column(np.float32, 3, "_particles", initial=np.nan)
    """The particles' values from which the ranges are read: x / c, x_o / c and d, altered as
    in LTP, Eq. 6.
    """
    _echo = column(np.float64, len(UNHEARD), initial=UNHEARD)
    """The last `Echo`."""
    # Delay above the smallest RTT.
    _mean_delay_s = column(np.float64)
    _largest_delay_s = column(np.float64)
    _largest_pps = column(np.float64)
    """Largest throughput (thr_max) in packets a second."""

    def __init__(
        self, interval_s: float, *, seed: int, particles: int = PARTICLES, noise: Noise | None = None
    ) -> None:
        self._interval_s = interval_s
        self._particles = particles
        self._noise = noise or Noise()
        self._rng = np.random.default_rng(seed)
        super().__init__()
        self._largest = self.part(LargestThroughput())

    def update(self, slots: Slots, interval: Interval) -> None:
        """Update the particles with an interval, whose arrays have shape (n,). Slots without a new echo keep
        their particles.
        """
        rows = np.flatnonzero(interval.echo.index > self._echo[slots, 0])
        if not rows.size:
            return
        at = slots[rows]
        before = Echo(*self._echo[at].T)
        last = interval.echo.rows(rows)
        rtt_min_s = np.minimum(interval.rtt_min_s[rows], last.rtt_s)
        elapsed_s = (last.index - before.index) * self._interval_s
        follows = (before.index >= 0) & (elapsed_s < LONGEST_GAP_S) & (before.sending_pps > 0.0)
        seen = self._see(at, last, before, np.where(follows, elapsed_s, self._interval_s), rtt_min_s)
        self._echo[at] = np.stack(
            (last.index, last.sending_pps, last.delivered_pps, last.rtt_s, last.loss), axis=1
        )
        for which, step in ((~follows, self._initialise), (follows, self._advance)):
            chosen = np.flatnonzero(which)
            if chosen.size:
                step(at[chosen], seen.rows(chosen))

    def ranges(self, slots: Slots) -> Ranges:
        """Return the ranges of the estimates for the flows in these slots."""
        return ranges_of(self._shown[slots].swapaxes(0, 1))

    def _see(self, slots: Slots, last: Echo, before: Echo, elapsed_s: Floats, rtt_min_s: Floats) -> _Seen:
        largest_pps = self._largest.update(slots, last)
        delay_s = last.rtt_s - rtt_min_s
        known = before.index >= 0
        weight = np.where(known, np.minimum(1.0, elapsed_s / MEAN_DELAY_S), 1.0)
        mean_s = self._mean_delay_s[slots] + weight * (delay_s - self._mean_delay_s[slots])
        largest_s = np.maximum(self._largest_delay_s[slots], delay_s)
        grows = largest_pps > (1.0 + GROWTH) * self._largest_pps[slots]
        self._mean_delay_s[slots], self._largest_delay_s[slots] = mean_s, largest_s
        self._largest_pps[slots] = largest_pps
        sending_before_pps = np.where(before.sending_pps > 0.0, before.sending_pps, last.sending_pps)

        def column(values: Floats) -> Floats:
            return values[:, None]

        length_s = self._interval_s
        return _Seen(
            elapsed_s=column(elapsed_s),
            factor=column(last.sending_pps / np.maximum(sending_before_pps, 1e-9)),
            sent_pkts=column(last.sending_pps * length_s),
            delivered_pkts=column(last.delivered_pps * length_s),
            delivered_before_pkts=column(np.where(known, before.delivered_pps, 0.0) * length_s),
            largest_pkts=column(largest_pps * length_s),
            grows=grows[:, None],
            delay_s=column(delay_s),
            delay_change_s=column(np.where(known, last.rtt_s - before.rtt_s, 0.0)),
            mean_delay_s=column(mean_s),
            largest_delay_s=column(largest_s),
            loss=column(last.loss),
            standing_s=column(STANDS_PKTS / np.maximum(last.delivered_pps, 1.0)),
        )

    def _initialise(self, slots: Slots, seen: _Seen) -> None:
        """Draw all particles anew, with any load from 0 to 1.3 times the capacity."""
        shape = (len(slots), self._particles)
        self._keep(slots, self._draw(shape, seen, self._uniform(0.0, 1.3, shape)), seen)

    def _draw(self, shape: tuple[int, int], seen: _Seen, load: Float32s | Floats) -> _Pool:
        """Draw new particles. In many, x / c is the largest that LTP, Eq. 4, allows; in all others it is
        smaller.
        """
        whole = self._rng.random(shape, np.float32) < WHOLE
        alone = whole & (self._rng.random(shape, np.float32) < 0.5)
        rate = seen.wall * np.where(whole, 1.0, self._uniform(0.0, 1.0, shape))
        others = np.where(alone, 0.0, np.maximum(LEAST, load - rate))
        unseen = np.where(whole, 0.0, self._draw_unseen(shape))
        return _Pool(_single(rate), _single(others), _single(unseen), whole, alone)

    def _draw_unseen(self, shape: tuple[int, int]) -> Float32s:
        shown, most = UNSEEN
        return np.maximum(0.0, self._uniform(-most * shown / (1.0 - shown), most, shape))

    def _advance(self, slots: Slots, seen: _Seen) -> None:
        """Take the particles through one round of the four steps."""
        pool = _Pool(
            rate=self._rate[slots],
            others=self._others[slots],
            unseen=self._unseen[slots],
            whole=self._whole[slots],
            alone=self._alone[slots],
        )
        self._transition(pool, seen)
        none = self._resample(pool, self._survival(pool, seen))
        self._balance(pool, seen)
        self._doubt(pool, seen)
        self._keep(slots, pool, seen)
        if none.size:
            self._initialise(slots[none], seen.rows(none))

    def _transition(self, pool: _Pool, seen: _Seen) -> None:
        """Change x by the flow's own action, and x_o by a random gradient. Others may join a flow that is
        alone.
        """
        shape = pool.rate.shape
        pool.rate = _single(np.where(pool.whole, seen.wall, pool.rate * seen.factor))
        beyond = pool.rate > seen.wall * (1.0 + SLACK)
        pool.rate[beyond] = (seen.wall * self._uniform(0.0, 1.0, shape))[beyond]
        pool.alone &= self._rng.random(shape, np.float32) >= LEAVES_PER_S * seen.elapsed_s
        bound = self._noise.others_gradient
        grown = pool.others * (1.0 + self._uniform(-bound, bound, shape) * seen.elapsed_s)
        pool.others = _single(np.where(pool.alone, 0.0, np.maximum(LEAST, grown)))

    def _survival(self, pool: _Pool, seen: _Seen) -> Float32s:
        """Return each particle's chance to stay (observation and filtering), shape (n, particles).

        A flow alone behind a queue should get all of the link, as before. A flow alone without a queue should
        get its sending rate. Beside others, a flow's throughput changes as theirs do. The wider these changes
        spread, the smaller is the chance to count just this number of packets, equally for all particles with
        others.
        """
        stands = self._stands(pool, seen)
        all_pkts = np.where(stands, seen.largest_pkts, np.minimum(seen.sent_pkts, seen.largest_pkts))
        again_pkts = seen.delivered_before_pkts * np.where(stands, 1.0, seen.factor)
        delivered_pkts = seen.delivered_pkts
        gaps = (
            0.5 * ((delivered_pkts - all_pkts) / (COUNT_PKTS + 0.01 * delivered_pkts)) ** 2,
            0.25 * ((delivered_pkts - again_pkts) / COUNT_PKTS) ** 2,
        )
        fits = 1.0 / ((1.0 + gaps[0]) * (1.0 + gaps[1]))
        own_change = np.abs(seen.factor - 1.0) - 2.0 * COUNT_PKTS / np.maximum(1.0, seen.sent_pkts)
        spread_pkts = (STEADY + 0.5 * np.maximum(0.0, own_change)) * delivered_pkts
        chance = np.where(pool.alone, fits, COUNT_PKTS / np.hypot(COUNT_PKTS, spread_pkts))
        return _single(np.where(seen.grows, 1.0, chance))

    def _resample(self, pool: _Pool, survival: Float32s) -> Indices:
        """Choose as many particles as there were, each by its chance to stay. Return the rows in which hardly
        any would have survived.

        LTP, Eq. 5, decides on each particle independently, and the copies are drawn after that. Here one
        random number decides for all particles of a flow. Two rounds of independent draws would lose most of
        a pool's knowledge to chance.
        """
        total = survival.sum(axis=1, dtype=np.float64)
        upto = np.cumsum(survival, axis=1, dtype=np.float64) / total[:, None]
        rows = np.arange(len(total))[:, None]
        marks = (np.arange(self._particles) + self._rng.random(rows.shape)) / self._particles
        picks = np.searchsorted((upto + rows).reshape(-1), (marks + rows).reshape(-1)).reshape(marks.shape)
        picks = np.minimum(picks - rows * self._particles, self._particles - 1)
        pool.take(np.maximum(picks, 0))
        return np.flatnonzero(total < NONE)

    def _balance(self, pool: _Pool, seen: _Seen) -> None:
        """Divide the particles by whether the queue is full, and set the others' rate by the queue's change
        or loss.

        Where the queue may be full, each particle goes on either as full or as not full, by the chances of
        LTP, Eq. 5. A full queue would not have grown, and a queue with room would have lost nothing.
        """
        noise, shape = self._noise, pool.rate.shape
        full = 1.0 / (1.0 + noise.delay_gap * np.maximum(0.0, seen.delay_change_s))
        free = 1.0 / (1.0 + noise.loss_gap * np.maximum(0.0, seen.loss - noise.loss_jitter))
        may_be = (seen.delay_s > 0.0) & (seen.delay_s >= FULL * seen.largest_delay_s)
        is_full = self._rng.random(shape, np.float32) < np.where(may_be, full / (full + free), 0.0)
        load = np.where(is_full, seen.load_if_full, seen.load)
        left = np.where(self._stands(pool, seen), load - pool.rate, pool.others)
        pool.others = _single(np.where(pool.alone, 0.0, np.maximum(LEAST, left)))

    def _doubt(self, pool: _Pool, seen: _Seen) -> None:
        """Draw the unseen part of the queue anew for some particles, in place of the noise of LTP, Eq. 7.
        Draw some particles anew altogether.
        """
        shape = pool.rate.shape
        anew = ~pool.whole & (self._rng.random(shape, np.float32) < UNSEEN_ANEW_PER_S * seen.elapsed_s)
        pool.unseen = np.where(anew, self._draw_unseen(shape), pool.unseen)
        anew = self._rng.random(shape, np.float32) < DOUBT_PER_S * seen.elapsed_s
        pool.put(anew, self._draw(shape, seen, seen.load))

    def _stands(self, pool: _Pool, seen: _Seen) -> Bools:
        return seen.delay_s + self._unseen_s(pool, seen) > seen.standing_s

    def _unseen_s(self, pool: _Pool, seen: _Seen) -> Floats:
        return np.minimum(pool.unseen * seen.mean_delay_s, self._noise.delay_jitter_s)

    def _keep(self, slots: Slots, pool: _Pool, seen: _Seen) -> None:
        """Store the pool, and an altered copy from which the ranges are read.

        The copy is altered as in LTP, Eq. 6. The pool itself is not, because a capacity does not walk at
        random. If the pool were altered at every step, even the range of a well known capacity would walk.
        """
        jitter, shape = self._noise.rate_jitter, pool.rate.shape
        self._rate[slots], self._others[slots], self._unseen[slots] = pool.rate, pool.others, pool.unseen
        self._whole[slots], self._alone[slots] = pool.whole, pool.alone
        rate = pool.rate * (1.0 + self._uniform(-jitter, jitter, shape))
        others = pool.others + (pool.rate + pool.others) * self._uniform(-jitter, jitter, shape)
        hosts_s = np.minimum(HOSTS * seen.mean_delay_s, self._noise.delay_jitter_s)
        delay_s = seen.delay_s + self._unseen_s(pool, seen) - hosts_s * self._uniform(0.0, 1.0, shape)
        self._shown[slots] = np.stack((rate, np.maximum(0.0, others), np.maximum(0.0, delay_s)), axis=1)

    def _uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Float32s:
        drawn: Float32s = self._rng.random(shape, np.float32)
        drawn *= np.float32(high - low)
        drawn += np.float32(low)
        return drawn


def _single(values: Floats | Float32s) -> Float32s:
    return values.astype(np.float32)
