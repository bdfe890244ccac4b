# SPDX-License-Identifier: Apache-2.0
"""LTP's estimation module (LTP, Section 4): a particle filter that estimates the network's state from one
sender's view.

A particle is a possible state of the bottleneck. It holds the flow's own sending rate and the others' rate,
both relative to the link's capacity, the queuing delay, and whether the queue is full. Every echo (the fate
of the packets sent in one interval) does four things. Transition moves all particles on. Observation computes
the signals that each particle would have caused. Filtering removes the particles whose signals differ from
the flow's. Resampling fills the pool up with altered copies of the survivors.

Some of the paper's text cannot be meant as printed, so five things differ here:

- The loss jitter is added to the loss of LTP, Eq. 3. As printed, the jitter is a factor.
- Of LTP, Eq. 4, only the throughput is a bound. The RTT above the smallest is compared like the other
  signals.
- A single wrong signal is enough to remove a particle. As printed, LTP, Eq. 5, keeps every particle of which
  one signal fits exactly.
- Other flows' rates change by ±O_j, not only upwards.
- A share of each pool is drawn anew, or the pool would keep its first belief.

docs/lab-notes/ltp.md has the measurements.

The filter runs in training and in evaluations, not in the daemon (LTP, Section 7.4). `balance` is more
accurate, but a policy trained with `balance` fills links less. So `particles` trains LTP.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats, Indices, Ints, Slots
from ltp_switcher.policies.ltp.signals import LargestThroughput, PathSignals, path_signals
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.slots import SlotArrays, column

PARTICLES: Final = 1000
"""Number of particles of a flow (LTP, Table 4)."""
QUANTILES: Final = (0.1, 0.9)
"""Quantiles of the particles that are the two ends of a range (LTP, Section 5). A stray particle does not
widen such a range.
"""
_LEAST: Final = np.float32(1e-6)
FRESH: Final = 0.25
"""Share of the particles that is drawn anew at each update: "to restore correct estimations, even if the
estimation direction diverges" (LTP, Section 4). Copies altered by a few percent cannot do this.
"""
LONGEST_GAP_S: Final = 0.5
"""Length of a pause in seconds after which the old particles are worthless and the estimation begins
again."""


@dataclass(frozen=True)
class Noise:
    """Tolerances for deviations of the network from the model (LTP, Table 4).

    Attributes:
        delay_gap, throughput_gap, loss_gap: weights ω of errors in LTP, Eq. 5: of one second of delay, of 100
            % of the throughput, and of 100 % of loss.
        others_gradient: O_j, relative change of the other flows' rate in a second.
        delay_jitter_s: D_j, jitter of the delay.
        rate_jitter: C_j, relative jitter of the rate.
        loss_jitter: L_j, jitter of the loss.
    """

    delay_gap: float = 50.0
    throughput_gap: float = 10.0
    loss_gap: float = 10.0
    others_gradient: float = 1.5
    delay_jitter_s: float = 0.02
    rate_jitter: float = 0.05
    loss_jitter: float = 0.001


@dataclass(frozen=True)
class Ranges:
    """Ranges of the estimates of n flows, shape (n, 2) each: the 10 % and 90 % quantiles of the particles;
    NaN before the first echo.
    """

    rate: Float32s
    """The flow's sending rate over the link's capacity (x / c)."""
    others: Float32s
    """The other flows' sending rate over the link's capacity (x_o / c)."""
    delay_s: Float32s
    """Queuing delay in seconds (d)."""


@dataclass(frozen=True)
class _Pool:
    """Particles as flat arrays; particle k belongs to the flow in row `row[k]`."""

    row: Ints
    rate: Float32s
    others: Float32s
    delay_s: Float32s
    full: Bools

    def take(self, particles: Ints) -> _Pool:
        """Return the particles at these places, repeated or not."""
        return _Pool(*(getattr(self, field.name)[particles] for field in fields(_Pool)))


UNHEARD: Final = (-1.0, *(np.nan,) * 4)
"""The `Echo` of flows that have heard nothing yet. Its values are unknown."""


class ParticleFilter(SlotArrays):
    """The filters of flows in numbered slots.

    Args:
        interval_s: length of the sending intervals of the echoes, in seconds.
        seed: seed of all random numbers. Equal calls after equal seeds give equal ranges.
        particles: number of particles of each slot.
        noise: tolerances of the model.
        fresh: share of the particles that is drawn anew at each update.
    """

    _rate = column(np.float32, "_particles", initial=np.nan)
    _others = column(np.float32, "_particles", initial=np.nan)
    _delay_s = column(np.float32, "_particles", initial=np.nan)
    _full = column(np.bool_, "_particles")
    _echo = column(np.float64, len(UNHEARD), initial=UNHEARD)
    """The last `Echo`."""
    _delay_max_s = column(np.float64)
    """Largest recorded delay of each slot above its smallest RTT, in seconds."""

    def __init__(
        self,
        interval_s: float,
        *,
        seed: int,
        particles: int = PARTICLES,
        noise: Noise | None = None,
        fresh: float = FRESH,
    ) -> None:
        self._interval_s = interval_s
        self._particles = particles
        self._old = round((1.0 - fresh) * particles)
        self._noise = noise or Noise()
        self._rng = np.random.default_rng(seed)
        super().__init__()
        self._largest = self.part(LargestThroughput())

    def update(self, slots: Slots, interval: Interval) -> None:
        """Update the particles with an interval, whose arrays have shape (n,). Slots without a new echo keep
        their particles.
        """
        echo = interval.echo
        rows = np.flatnonzero(echo.index > self._echo[slots, 0])
        if not rows.size:
            return
        at = slots[rows]
        before = Echo(*self._echo[at].T)
        last = echo.rows(rows)
        rtt_min_s = np.minimum(interval.rtt_min_s[rows], last.rtt_s)
        seen = path_signals(last, before, rtt_min_s, self._largest.update(at, last))
        delay_max_s = np.maximum(self._delay_max_s[at], seen.rtt_s)
        self._delay_max_s[at] = delay_max_s
        elapsed_s = (last.index - before.index) * self._interval_s
        follows = (before.index >= 0) & (elapsed_s < LONGEST_GAP_S) & (before.sending_pps > 0.0)
        self._echo[at] = np.stack(
            (last.index, last.sending_pps, last.delivered_pps, last.rtt_s, last.loss), axis=1
        )
        fresh = np.flatnonzero(~follows)
        self._initialise(at[fresh], seen.rtt_s[fresh])
        goes_on = np.flatnonzero(follows)
        if goes_on.size:
            factor = last.sending_pps[goes_on] / before.sending_pps[goes_on]
            self._advance(at[goes_on], factor, elapsed_s[goes_on], seen.rows(goes_on), delay_max_s[goes_on])

    def ranges(self, slots: Slots) -> Ranges:
        """Return the ranges of the estimates for the flows in these slots."""
        return ranges_of(np.stack((self._rate[slots], self._others[slots], self._delay_s[slots])))

    def _initialise(self, slots: Slots, rtt_s: Floats, first: int = 0) -> None:
        """Draw the particles from number `first` on anew. Only the RTT above the smallest is known, `rtt_s`,
        shape (n,).

        The load is near the capacity, where congestion controls keep it. In half of the particles the flow
        has the link to itself. In half of them the smallest RTT is the base RTT. Particles with and without
        other flows both have to be drawn: rates change by factors, so a rate of 0 stays 0.
        """
        shape = (len(slots), self._particles - first)
        share = np.minimum(1.0, self._uniform(0.0, 2.0, shape))
        load = self._uniform(0.7, 1.3, shape)
        hidden_s = np.maximum(
            0.0, self._uniform(-self._noise.delay_jitter_s, self._noise.delay_jitter_s, shape)
        )
        self._rate[slots, first:] = share * load
        self._others[slots, first:] = (1.0 - share) * load
        self._delay_s[slots, first:] = rtt_s[:, None].astype(np.float32) + hidden_s
        self._full[slots, first:] = False

    def _advance(
        self, slots: Slots, factor: Floats, elapsed_s: Floats, seen: PathSignals, delay_max_s: Floats
    ) -> None:
        """Take the particles through one round of the four steps.

        Args:
            slots: the flows, (n,).
            factor: a, the change of their sending rate.
            elapsed_s: Δt since the particles were last moved.
            seen: observations of these flows.
            delay_max_s: the largest delay above the smallest RTT that they recorded.
        """
        row = np.repeat(np.arange(len(slots)), self._particles)
        before = _Pool(
            row,
            rate=self._rate[slots].reshape(-1),
            others=self._others[slots].reshape(-1),
            delay_s=self._delay_s[slots].reshape(-1),
            full=self._full[slots].reshape(-1),
        )
        after = self._transition(before, factor, elapsed_s, delay_max_s)
        whole = np.arange(len(row))
        # Particle division (LTP, Section 4): if the queue may be full, both possibilities continue.
        divided = np.flatnonzero(after.full)
        parent = np.concatenate((whole, divided))
        full = np.zeros(len(parent), np.bool_)
        full[len(row) :] = True
        after = replace(after.take(parent), full=full)
        before = before.take(parent)
        survives = self._rng.random(len(parent), np.float32) < self._survival(before, after, seen)
        self._resample(slots, after, survives, seen)

    def _transition(self, before: _Pool, factor: Floats, elapsed_s: Floats, delay_max_s: Floats) -> _Pool:
        """Move the particles on (LTP, Section 4, transition). In the result, `full` says that the queue may
        be full.
        """
        step_s = elapsed_s.astype(np.float32)[before.row]
        rate = before.rate * factor.astype(np.float32)[before.row]
        bound = self._noise.others_gradient
        gradient = self._uniform(-bound, bound, rate.shape)
        others = before.others * np.maximum(0.0, 1.0 + gradient * step_s)
        delay_s = np.maximum(0.0, before.delay_s + (rate + others - 1.0) * step_s)
        np.minimum(delay_s, before.delay_s, out=delay_s, where=before.full)
        may_be_full = (delay_s > 0.0) & (delay_s >= delay_max_s.astype(np.float32)[before.row])
        return _Pool(before.row, rate, others, delay_s, may_be_full)

    def _survival(self, before: _Pool, after: _Pool, seen: PathSignals) -> Float32s:
        """Return the probability with which each particle stays (LTP, Section 4, observing and filtering)."""
        noise, row = self._noise, after.row
        observed = {name: getattr(seen, name).astype(np.float32)[row] for name in PathSignals.names()}
        share_before, share = _throughput(before), _throughput(after)
        kept_before, kept = self._kept(before), self._kept(after)
        gaps = (
            noise.delay_gap * np.abs(observed["rtt_change_s"] - (after.delay_s - before.delay_s)),
            noise.throughput_gap
            * np.abs(observed["throughput_ratio"] - share / np.maximum(share_before, _LEAST)),
            noise.loss_gap * np.abs(observed["kept_ratio"] - kept / kept_before),
            noise.throughput_gap * np.maximum(0.0, share - observed["throughput"]),
            noise.delay_gap * np.abs(observed["rtt_s"] - after.delay_s),
        )
        odds = np.ones(len(row), np.float32)
        for gap in gaps:
            odds *= 1.0 + gap
        return 1.0 / odds

    def _kept(self, pool: _Pool) -> Float32s:
        """Return 1 - l, the share of the flow's packets that arrives (LTP, Eq. 3), for each particle."""
        load = np.maximum(1.0, pool.rate + pool.others)
        arrives = np.where(pool.full, 1.0 / load, np.float32(1.0))
        return arrives - self._uniform(0.0, self._noise.loss_jitter, load.shape)

    def _resample(self, slots: Slots, pool: _Pool, survives: Bools, seen: PathSignals) -> None:
        """Fill each slot's pool up with altered copies of its survivors, and with particles drawn anew.

        If no particle of a slot survives, all of its particles are drawn anew.
        """
        n, kept = len(slots), self._old
        left = np.flatnonzero(survives)
        left = left[np.argsort(pool.row[left], kind="stable")]
        count = np.bincount(pool.row[left], minlength=n)[:, None]
        first = np.cumsum(count)[:, None] - count
        place = np.arange(kept)[None]
        drawn = (self._rng.random((n, kept)) * count).astype(np.int64)
        # Particles of a full queue come last. If there are more than fit, evenly spaced ones stay.
        pick = np.where(count > kept, place * count // kept, np.where(place < count, place, drawn))
        lives = count[:, 0] > 0
        chosen: Indices = left[(first + pick)[lives]]
        copy = (place >= count)[lives]
        stays = slots[lives]
        jitter = self._noise.rate_jitter
        for kept_values, values in ((self._rate, pool.rate), (self._others, pool.others)):
            value = values[chosen]
            value *= 1.0 + copy * self._uniform(-jitter, jitter, copy.shape)
            kept_values[stays, :kept] = value
        jitter = self._noise.delay_jitter_s
        moved = pool.delay_s[chosen] + copy * self._uniform(-jitter, jitter, copy.shape)
        self._delay_s[stays, :kept] = np.maximum(0.0, moved)
        self._full[stays, :kept] = pool.full[chosen]
        self._initialise(stays, seen.rtt_s[lives], kept)
        self._initialise(slots[~lives], seen.rtt_s[~lives])

    def _uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Float32s:
        drawn: Float32s = self._rng.random(shape, np.float32)
        drawn *= np.float32(high - low)
        drawn += np.float32(low)
        return drawn


def _throughput(pool: _Pool) -> Float32s:
    """Return the flow's throughput over the capacity, thr / c, for each particle (LTP, Eq. 2)."""
    load = pool.rate + pool.others
    crowded = (load > 1.0) | (pool.delay_s > 0.0)
    return np.where(crowded, pool.rate / np.maximum(load, _LEAST), pool.rate)


def ranges_of(states: Float32s) -> Ranges:
    """Return the ranges of particles whose x / c, x_o / c and d have the shape (3, n, particles)."""
    # The two quantiles lie at `places` among the sorted particles. To sort all three kinds of state at once
    # takes a fraction of np.quantile's time.
    ordered = np.sort(states, axis=2)
    particles = states.shape[2]
    places = np.array(QUANTILES) * (particles - 1)
    low = places.astype(np.int64)
    share = (places - low).astype(np.float32)
    high = np.minimum(low + 1, particles - 1)
    return Ranges(*(ordered[..., low] * (1 - share) + ordered[..., high] * share))
