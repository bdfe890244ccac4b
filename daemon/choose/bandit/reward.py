# SPDX-License-Identifier: Apache-2.0
"""Reward of Mutant Eq. 1 and its dynamic normalisation (§5.1).

Eq. 1 reads (thr - zeta * l)^kappa / d. There l is a loss *rate*, a bare fraction beside a throughput, so on
any fast path the term would vanish. Here the loss costs its share of the throughput. A negative base counts
as 0, never as its absolute value.

    R = max(thr - zeta * l * thr, 0)^kappa / d

R_max is the same form without loss, thr_max^kappa / d_min. That is the paper's text; line 17 of Algorithm 1
drops kappa, which would leave a unit behind. So R / R_max has no unit, lies in 0..1, and orders paths of
0.1 Mbit/s and of 10 Gbit/s alike.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Ints, Slots
from ltp_switcher.daemon.choose.bandit.change_detection import AdwinBank
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.slots import SlotArrays, column

_BPS_TO_MBPS: Final = 8e-6


def reward(throughput_Bps: Floats, loss_rate: Floats, rtt_us: Floats, zeta: float, kappa: float) -> Floats:
    """Eq. 1 un-normalised, with throughput in Mbit/s and delay in ms.

    Args:
        throughput_Bps: bytes/s.
        loss_rate: lost / (lost + delivered), 0..1.
        rtt_us: mean RTT, µs; 0 where unknown, which gives reward 0.
        zeta: weight of the loss.
        kappa: weight of throughput over delay.
    """
    effective = np.maximum(1.0 - zeta * loss_rate, 0.0) * throughput_Bps * _BPS_TO_MBPS
    known = rtt_us > 0
    return np.where(known, effective**kappa / np.where(known, rtt_us * 1e-3, 1.0), 0.0)


class _Streams(AdwinBank):
    """Pairs of streams: pair p is the rows 2 p, throughput, and 2 p + 1, RTT."""

    used_ns = column(np.int64)
    """When the pair got its last value; row 2 p alone."""


class RewardNormaliser(SlotArrays):
    """thr_max and d_min of every flow, kept up to date by ADWIN per flow and arm.

    Between changes thr_max and d_min are running extremes (Algorithm 1 line 13). When ADWIN finds a change
    in the throughput or the RTT of a flow under an arm, they are taken anew from the windows of the flow's
    arms that ran within `stale_s`: an arm that filled the queue must not pass off its own RTT as the
    path's while another arm's window still knows better, and an arm that has not run for long knows only
    the path of old.

    ADWIN's test has a term made for values of unit range. The streams are therefore log2 of the
    throughput and -log2 of the RTT: a doubling is 1, at any scale.
    """

    throughput_max_Bps = column(np.float64)  # noqa: N815 - B is bytes
    rtt_min_us = column(np.float64, initial=np.inf)
    _pair = column(np.intp, ARMS_MAX + 1, initial=-1)
    """The pair of streams of each arm, given out at first use; -1 is none."""

    def __init__(self, *, delta: float = 0.002, clock: int = 32, stale_s: float = 10.0) -> None:
        super().__init__()
        self.stale_s = stale_s
        self._streams = _Streams(delta, clock, shed=True)
        self._free: list[int] = []

    def reset(self, slots: Slots) -> None:
        """Start the slots anew, and give their streams back."""
        pairs = self._pair[slots[slots < self.capacity]]
        self._free.extend(pairs[pairs >= 0].tolist())
        super().reset(slots)

    def update(
        self,
        slots: Slots,
        arms: Indices,
        throughput_Bps: Floats,
        rtt_us: Floats,
        time_ns: Ints,
        least_rtt_us: Floats | None = None,
    ) -> Bools:
        """Add one step's measurements.

        Args:
            slots: shape (n,), each at most once.
            arms: active arm's id, shape (n,).
            throughput_Bps: shape (n,), above 0.
            rtt_us: shape (n,), above 0.
            time_ns: shape (n,).
            least_rtt_us: d_min is no more than this, whatever the windows hold, shape (n,); None for no
                such bound.

        Returns:
            Shape (n,): where the path changed, and thr_max and d_min were taken anew.
        """
        pairs = self._pairs(slots, arms)
        self._streams.used_ns[2 * pairs] = time_ns
        rows = np.concatenate([2 * pairs, 2 * pairs + 1])
        values = np.concatenate([np.log2(throughput_Bps), -np.log2(rtt_us)])
        n = len(slots)
        found = self._streams.update(rows, values)
        changed = np.asarray(found[:n] | found[n:])
        self.throughput_max_Bps[slots] = np.maximum(self.throughput_max_Bps[slots], throughput_Bps)
        self.rtt_min_us[slots] = np.minimum(self.rtt_min_us[slots], rtt_us)
        if changed.any():
            self._refresh(slots[changed], time_ns[changed])
        if least_rtt_us is not None:
            self.rtt_min_us[slots] = np.minimum(self.rtt_min_us[slots], least_rtt_us)
        return changed

    def normalise(
        self,
        slots: Slots,
        throughput_Bps: Floats,
        loss_rate: Floats,
        rtt_us: Floats,
        zeta: float,
        kappa: float,
    ) -> Floats:
        """R / R_max, shape (n,), cut to 0..1; 0 for a flow without a measurement."""
        top = self.throughput_max_Bps[slots]
        known = (rtt_us > 0) & (top > 0)
        effective = np.maximum(1.0 - zeta * loss_rate, 0.0) * throughput_Bps / np.where(known, top, 1.0)
        share = effective**kappa * self.rtt_min_us[slots] / np.where(known, rtt_us, 1.0)
        return np.where(known, np.clip(share, 0.0, 1.0), 0.0)

    def _pairs(self, slots: Slots, arms: Indices) -> Indices:
        pairs = self._pair[slots, arms]
        new = np.flatnonzero(pairs < 0)
        if not new.size:
            return pairs
        if len(self._free) < new.size:
            before = self._streams.capacity // 2
            self._streams.grow(2 * (before + new.size))
            self._free = [*range(self._streams.capacity // 2 - 1, before - 1, -1), *self._free]
        given = np.array([self._free.pop() for _ in range(new.size)], np.intp)
        self._streams.reset(np.concatenate([2 * given, 2 * given + 1]))
        self._pair[slots[new], arms[new]] = given
        pairs[new] = given
        return pairs

    def _refresh(self, slots: Slots, time_ns: Ints) -> None:
        pairs = self._pair[slots]
        fresh = time_ns[:, None] - self._streams.used_ns[2 * pairs] <= self.stale_s * 1e9
        at, arm = np.nonzero((pairs >= 0) & fresh)
        chosen = pairs[at, arm]
        tops = np.full((2, len(slots)), -np.inf)
        np.maximum.at(tops[0], at, self._streams.maximum(2 * chosen))
        np.maximum.at(tops[1], at, self._streams.maximum(2 * chosen + 1))
        self.throughput_max_Bps[slots] = 2.0 ** tops[0]
        self.rtt_min_us[slots] = 2.0 ** -tops[1]
