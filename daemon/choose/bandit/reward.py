# SPDX-License-Identifier: Apache-2.0
"""Normalisation of Mutant's reward (§5.1): Mutant Eq. 1 with throughput over thr_max and RTT over d_min.

R_max is Eq. 1 without loss, thr_max^kappa / d_min, as the paper's text says. Line 17 of Algorithm 1 drops
kappa, and would leave a unit behind. With kappa, R / R_max has no unit, lies in 0..1, and is comparable
between paths of 0.1 Mbit/s and of 10 Gbit/s.
"""

from __future__ import annotations

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Ints, Slots
from ltp_switcher.daemon.choose.change_detection import AdwinBank
from ltp_switcher.daemon.datapath.performance import Measurement, Performance
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.measures import reward
from ltp_switcher.slots import SlotArrays, column


def normalised(
    seen: Performance, throughput_max_Bps: Floats, rtt_min_us: Floats, zeta: float, kappa: float
) -> Floats:
    """The reward as a share of R_max, clipped to 0..1; 0 without a measurement. All arrays have the shape
    (n,).

    Args:
        seen: throughput, RTT and loss over the time that is judged.
        throughput_max_Bps: thr_max, the largest throughput of late; 0 before the first measurement.
        rtt_min_us: d_min, the least RTT of late; inf before the first measurement.
        zeta: weight of loss, Mutant Eq. 1.
        kappa: weight of throughput against delay.
    """
    top_Bps = np.where(throughput_max_Bps > 0, throughput_max_Bps, 1.0)
    share = reward(
        seen.throughput_Bps / top_Bps, seen.loss_rate, seen.rtt_us / rtt_min_us, zeta=zeta, kappa=kappa
    )
    return np.minimum(share, 1.0)


class _Streams(AdwinBank):
    """Pairs of streams: pair p is the rows 2 p, throughput, and 2 p + 1, RTT."""

    used_ns = column(np.int64)
    """Time of the pair's last value; row 2 p alone has it."""


class RewardNormaliser(SlotArrays):
    """Largest throughput (thr_max) and least delay (d_min) of every flow, as Mutant §5.1 needs them. Each
    pair of flow and arm has two ADWIN windows.

    Between changes thr_max and d_min are running extremes (Mutant, Algorithm 1, line 13). ADWIN may find a
    change in the throughput or the RTT of a flow under an arm. Then thr_max and d_min are computed anew from
    the windows of all arms that the flow ran within `stale_s`. An arm that filled the queue cannot pass off
    its RTT as the path's, because the other arms' windows count, too. An arm that has not run for long is
    left out, because its windows show the old path.

    ADWIN's test has a term for values of unit range. So its inputs are log2 of the throughput and -log2 of
    the RTT, and a doubling is 1 at any scale.
    """

    throughput_max_Bps = column(np.float64)  # noqa: N815 - B is bytes
    rtt_min_us = column(np.float64, initial=np.inf)
    _pair = column(np.intp, ARMS_MAX + 1, initial=-1)
    """Index of each arm's pair of ADWIN streams, assigned when the arm first runs; -1 before that."""

    def __init__(self, config: LearningSection) -> None:
        super().__init__()
        self.config = config
        self._streams = _Streams(config.adwin_delta, config.adwin_clock, shed=True)
        self._free: list[int] = []

    def reset(self, slots: Slots) -> None:
        """Start these slots anew, and free their ADWIN streams."""
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
            slots: slots of the flows, shape (n,), each at most once.
            arms: id of each flow's active arm, shape (n,).
            throughput_Bps: throughput of each flow, above 0, shape (n,).
            rtt_us: RTT of each flow, above 0, shape (n,).
            time_ns: time of each record, CLOCK_MONOTONIC, shape (n,).
            least_rtt_us: upper bound on d_min, in µs, shape (n,); None for no bound. It holds whatever the
                windows show.

        Returns:
            True where the path changed, and thr_max and d_min were taken anew, shape (n,).
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

    def observe(self, slots: Slots, seen: Measurement, time_ns: Ints) -> Bools:
        """Add one step's measurements, as far as they are valid. Returns true where the path changed, shape
        (n,).
        """
        changed = np.zeros(len(slots), np.bool_)
        at = np.flatnonzero(seen.valid)
        if at.size:
            changed[at] = self.update(
                slots[at],
                seen.sender[at],
                seen.rate_Bps[at],
                seen.performance.rtt_us[at],
                time_ns[at],
                seen.least_rtt_us[at] if self.config.min_rtt == "kernel" else None,
            )
        return changed

    def normalise(self, slots: Slots, seen: Performance) -> Floats:
        """The normalised reward of each slot's flow, shape (n,); see `normalised`."""
        tops = self.throughput_max_Bps[slots], self.rtt_min_us[slots]
        return normalised(seen, *tops, self.config.zeta, self.config.kappa)

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
        fresh = time_ns[:, None] - self._streams.used_ns[2 * pairs] <= self.config.stale_s * 1e9
        at, arm = np.nonzero((pairs >= 0) & fresh)
        chosen = pairs[at, arm]
        tops = np.full((2, len(slots)), -np.inf)
        np.maximum.at(tops[0], at, self._streams.maximum(2 * chosen))
        np.maximum.at(tops[1], at, self._streams.maximum(2 * chosen + 1))
        self.throughput_max_Bps[slots] = 2.0 ** tops[0]
        self.rtt_min_us[slots] = 2.0 ** -tops[1]
