# SPDX-License-Identifier: Apache-2.0
"""Looks at a path: a quarter of a second and two round trips each, so that one look is not noise.

A look sums up the steps since the last look. The rate of a look is measured from ACK to ACK. ACKs may come in
batches, for example from a client on Wi-Fi, and a batch more or less would look like a swing of the rate.
Three numbers distinguish paths: the lowest RTT, the ratio of the highest smoothed RTT to the lowest RTT, and
the swing of the rate from look to look. The swing is large on cellular links under every arm, and near 0 on
wired ones. A rate that steps once, or that climbs, does not swing. A rate that only follows the arm's window
does not swing either. In that case the RTT rises with the rate; if the path is the cause, the RTT falls.
Looks count for the swing once the rate has stopped growing after the start.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints, Slots
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.performance import performance
from ltp_switcher.daemon.datapath.protocol import FlowFlags
from ltp_switcher.measures import loss_rate, reward
from ltp_switcher.slots import SlotArrays, column, put_first

LOOK_NS: Final = 250_000_000
LOOK_RTTS: Final = 2.0
GAINS: Final = 12
"""Number of looks (0.25 s or more each) over which the rate's swing from look to look is measured."""
GAINS_LEAST: Final = 6
"""Least number of looks (0.25 s or more each) after which the rate's swing from look to look is known."""
GRAIN_PKTS: Final = 2.0
"""Number of packets by which two looks at a steady path may differ, because a look counts whole ACKs."""
SILENCE: Final = 0.25
"""Share of a look's time. The correction that makes the time run from ACK to ACK has to be smaller than this
share. A larger one shows that the kernel has not timed all ACKs, and is not applied.
"""
ANEW: Final = 16
"""Number of looks in which an arm fills the path after it began anew. The rate grows in these looks, so they
do not count for its swing.
"""
KEPT: Final = 0.5
"""Least share of the highest rate that the path keeps if only its RTT has changed."""
GROWTH: Final = 0.1
"""Least gain from look to look, as a share, with which a rate counts as growing."""

OVERFLOW: Final = 0.02
"""Least share of lost packets that shows a full buffer."""
FEW_PKTS: Final = 4.0
"""BBR's smallest window, in packets."""

APP_LIMITED: Final = np.uint32(FlowFlags.APP_LIMITED)
"""The flag of records whose flow had too little to send."""
DRAINING: Final = np.uint32(FlowFlags.DRAINING)
"""The flag of records in whose step the arm held the flow back to empty the queue."""
_FIELDS: Final = Columns(
    "time_ns", "interval_ns", "interval_ns", "rtt_samples", "rtt_stat.min", "rtt_stat.sum", "srtt_stat.max",
    "total_delivered", "total_lost", "lost_without_queue", "srtt_us", "mss",
    "rtt_floor_us", "bdp", "round_trips", "turn_pkts",
    "silent_us", "there_us", "back_us",
)  # fmt: skip
(
    TIME_NS, INTERVAL_NS, SILENT_NS, RTT_SAMPLES, RTT_LEAST, RTT_SUM, SRTT_PEAK, DELIVERED, LOST,
    LOST_WITHOUT_QUEUE, SRTT, MSS, KERNEL_FLOOR, BDP, ROUND_TRIPS, TURN, ACK_GAP, THERE, BACK,
) = range(19)  # fmt: skip
"""Indices of the fields that `read` returns. `SILENT_NS` is the time since the last ACK at the end of the
step, less the same time at its beginning. `TURN` is the number of packets whose ACKs wait for a turn.
`ACK_GAP` is the mean length in µs of the gap between ACKs at a moment of the last round trip. `THERE` and
`BACK` are the queues on the way to the receiver and on the way back, in µs.
"""


def read(records: RecordArray) -> tuple[Floats, Bools, Bools]:
    """Read the fields that looks need from a step's records, shape (n,).

    Returns:
        The fields, shape (19, n); true where the application had too little to send, shape (n,); and true
        where the arm emptied the queue, shape (n,).
    """
    fields = _FIELDS.read(records).T
    # A credit's time ends with its last ACK.
    fields[SILENT_NS] -= records["credit"]["time_ns"].sum(axis=1)
    flags = records["flags"]
    return fields, (flags & APP_LIMITED) != 0, (flags & DRAINING) != 0


class Look(NamedTuple):
    """The findings of one look at the paths of n players; each array has the shape (n,).

    A look sums up some round trips of measurements. A player is one or more flows that share a bottleneck.
    """

    rate_Bps: Floats  # noqa: N815 - B is bytes
    """Packets delivered over the look's time, in bytes/s; NaN where the application had too little to
    send.
    """
    rate_before_Bps: Floats  # noqa: N815
    """The rate of the earlier look, in bytes/s; NaN where there is none, or where the two do not compare."""
    floor_us: Floats
    """Lowest RTT of the path so far; inf before there is a sample."""
    least_us: Floats
    """Lowest RTT of the look; inf if the look has no sample."""
    most_us: Floats
    """Highest smoothed RTT of the look; 0 if the look has no sample."""
    time_us: Floats
    """Length of the look, in µs."""
    acks: Floats
    """Number of ACKs with an RTT sample."""
    delivered_pkts: Floats
    """Number of packets that were delivered in the look."""
    lost_pkts: Floats
    """Number of packets that were lost in the look."""
    quiet_lost_pkts: Floats
    """Packets lost while there was no queue."""
    drained: Bools
    """True where the arm held the flow back to empty its own queue, and the look saw the RTT after that."""
    idle: Bools
    """True where the application had too little to send."""


class Looks(SlotArrays):
    """The looks at the paths of all players.

    A look sums up the steps of a quarter of a second and two round trips. A player is one or more flows that
    share a bottleneck, and its number is its slot.

    Args:
        zeta: weight of loss in a look's reward, Mutant Eq. 1.
        kappa: weight of throughput in a look's reward.
    """

    began_ns = column(np.int64)
    """Time at which the flow started; 0 before the first record."""
    floor_us = column(np.float64, initial=np.inf)
    """Lowest RTT since the player began, or since `forget`."""
    peak_us = column(np.float64)
    """Highest smoothed RTT since the player began, or since `forget`."""
    least_us = column(np.float64, initial=np.inf)
    """Lowest RTT of the look under way."""
    share = column(np.float64, initial=np.nan)
    """Reward of the last look, as a share of the reward at the path's highest throughput and lowest RTT."""
    earned = column(np.float64, initial=np.nan)
    """Log of the last look's reward, in bytes/s and µs. It is NaN if the look says nothing about the arm, and
    -inf if nothing arrived, or if losses took all of the reward.
    """
    whole = column(np.float64, initial=np.nan)
    """Log of the reward that the last look would have had without its losses, in bytes/s and µs."""
    grown = column(np.bool_)
    """Whether the rate has stopped growing, since the player began or since `forget`."""
    bdp_pkts = column(np.float64)
    """Largest bandwidth-delay product in packets, since the player began or since `_forget_losses`."""
    _quiet_lost = column(np.float64)
    """Packets that were lost while no queue stood, since the start or since `_forget_losses`."""
    _first_delivered = column(np.float64)
    """Packets delivered before the start, or before `_forget_losses`."""
    _end_ns = column(np.int64)
    """End of the look under way."""
    _sums = column(np.float64, 4)
    """Sums over the look under way: RTT samples in µs, their number, `SILENT_NS`, and packets lost without a
    queue.
    """
    _most_us = column(np.float64)
    """Highest smoothed RTT of the look under way."""
    _marks = column(np.float64, 3)
    """Time and packets delivered and lost, as they were at the look's start."""
    rate_Bps = column(np.float64, initial=np.nan)  # noqa: N815 - B is bytes
    """Rate of the last look; NaN if the application had too little to send."""
    top_Bps = column(np.float64)  # noqa: N815
    """Highest rate since the player began, or since `forget`."""
    lost_pkts = column(np.float64)
    """Number of packets lost in the last look."""
    left = column(np.float64)
    """Share of the last look's reward that losses left. Losses without a queue do not count."""
    mean_us = column(np.float64, initial=np.nan)
    """Mean RTT of the last look."""
    packet_us = column(np.float64, initial=np.nan)
    """Time in µs that one packet took at the rate of the last look."""
    _log_rate = column(np.float64, initial=np.nan)
    """Logarithm of the last look's rate."""
    _idle = column(np.bool_)
    """Whether the application had too little to send in the look."""
    drained = column(np.bool_)
    """Whether an arm has emptied the queue in the look under way."""
    _drained_ns = column(np.int64)
    """End of the last step in which an arm emptied the queue, CLOCK_MONOTONIC."""
    _mixed = column(np.bool_)
    """Whether other flows make up the player than at the look's start."""
    _unsteady = column(np.bool_)
    """Whether the rate has grown in every look since flows last joined or left the player (`mix`)."""
    _growing = column(np.int64)
    """Number of looks that are still to come in an arm's new beginning; 0 if there is none."""
    _count = column(np.int64)
    """Looks so far."""
    _gains = column(np.float64, GAINS, initial=np.nan)
    """Changes of the logarithm of the rate from look to look beyond the grain, the newest first; NaN for
    looks that do not count.
    """
    _delays = column(np.float64, GAINS)
    """Changes of the mean RTT's logarithm in the looks of `_gains`; 0 if not known."""

    def __init__(self, *, zeta: float, kappa: float) -> None:
        super().__init__()
        self._zeta, self._kappa = zeta, kappa

    def mix(self, slots: Slots) -> None:
        """Note that other flows make up these players now, so earlier and later rates do not compare.

        The earlier look may contain the last packets of a flow that ended, and later looks may contain the
        growth of a new flow.
        """
        self._mixed[slots] = True
        self._unsteady[slots] = True
        self._gains[slots, 0] = np.nan

    def take(self, slots: Slots, seen: Floats, idle: Bools, draining: Bools) -> Bools:
        """Take in a step, and return true where a look is over, shape (n,).

        `seen` has the fields from `read`. `draining` is true where the flow's arm empties the queue, shape
        (n,).
        """
        now_ns, interval_ns, _, samples, least_us, _, most_us, delivered, lost = seen[:9]
        known = samples > 0
        self.least_us[slots] = np.minimum(self.least_us[slots], np.where(known, least_us, np.inf))
        self._most_us[slots] = np.maximum(self._most_us[slots], most_us)
        self._sums[slots] += seen[[RTT_SUM, RTT_SAMPLES, SILENT_NS, LOST_WITHOUT_QUEUE]].T
        self._idle[slots] |= idle
        self.drained[slots] |= draining
        self._drained_ns[slots[draining]] = now_ns[draining]
        new = self.began_ns[slots] == 0
        if new.any():
            born, began_ns = slots[new], (now_ns - interval_ns)[new]
            self.began_ns[born] = began_ns
            self._end_ns[born] = began_ns + LOOK_NS
            self._first_delivered[born] = delivered[new]
            self._marks[born] = np.array((began_ns, delivered[new], lost[new])).T
        over: Bools = now_ns >= self._end_ns[slots]
        return over

    def measure(self, slots: Slots, seen: Floats) -> Look:
        """End the looks of n players, and return their findings.

        `seen` has the fields from `read`, shape (fields, n).
        """
        now = seen[[TIME_NS, DELIVERED, LOST]].T
        look_ns, delivered_pkts, lost_pkts = (now - self._marks[slots]).T
        sum_us, samples, silent_ns, quiet_lost_pkts = self._sums[slots].T
        self._quiet_lost[slots] += quiet_lost_pkts
        most_us = self._most_us[slots]
        self.peak_us[slots] = np.maximum(self.peak_us[slots], most_us)
        time_ns = look_ns - np.where(np.abs(silent_ns) < SILENCE * look_ns, silent_ns, 0.0)
        counts = np.stack((time_ns, delivered_pkts, lost_pkts, sum_us, samples), axis=1)
        throughput_Bps, loss, mean_us = performance(counts, seen[MSS], seen[SRTT])
        top_Bps = np.maximum(self.top_Bps[slots], throughput_Bps)
        lowest_us = np.minimum(self.floor_us[slots], self.least_us[slots])
        of_top, stretch = throughput_Bps / np.maximum(top_Bps, 1.0), mean_us / lowest_us
        share = reward(of_top, loss, stretch, zeta=self._zeta, kappa=self._kappa)
        bare = reward(of_top, 0.0, stretch, zeta=self._zeta, kappa=self._kappa)
        self.share[slots] = np.minimum(share, 1.0)
        says_nothing = self._idle[slots] | self._mixed[slots] | self.drained[slots]
        with np.errstate(divide="ignore"):
            # A share is in units of the highest rate and the lowest RTT, and these may change.
            unit = self._kappa * np.log(np.maximum(top_Bps, 1.0)) - np.log(lowest_us)
            earned, whole = np.log(share) + unit, np.log(bare) + unit
        self.earned[slots] = np.where(says_nothing, np.nan, earned)
        self.whole[slots] = whole
        self.top_Bps[slots] = top_Bps
        self.lost_pkts[slots] = lost_pkts
        overflow = loss_rate(np.maximum(lost_pkts - quiet_lost_pkts, 0.0), delivered_pkts)
        self.left[slots] = reward(1.0, overflow, 1.0, zeta=self._zeta, kappa=self._kappa)
        delayed = np.log(np.maximum(mean_us, 1.0) / np.maximum(self.mean_us[slots], 1.0))
        self.mean_us[slots] = mean_us
        self.packet_us[slots] = time_ns * 1e-3 / np.maximum(delivered_pkts, 1.0)
        self.bdp_pkts[slots] = np.maximum(self.bdp_pkts[slots], seen[BDP])
        # A look without any packet counts as half a packet, so that the fall is not infinite.
        log_rate = np.log(np.maximum(delivered_pkts, 0.5) / np.maximum(time_ns, 1.0))
        # The rate of a look in which the application paused is not the path's.
        idle = self._idle[slots]
        log_rate[idle | self._mixed[slots]] = np.nan
        rate_before_Bps = np.where(self._mixed[slots], np.nan, self.rate_Bps[slots])
        rate_Bps = np.where(idle, np.nan, throughput_Bps)
        self.rate_Bps[slots] = rate_Bps
        gained = log_rate - self._log_rate[slots]
        grain = GRAIN_PKTS / np.maximum(delivered_pkts, 1.0)
        # The first samples of a flow count as limited by the application.
        self.grown[slots] |= (gained < GROWTH) | (idle & (self._count[slots] > 1))
        beyond = np.sign(gained) * np.maximum(np.abs(gained) - grain, 0.0)
        self._unsteady[slots] &= ~(gained < GROWTH)
        counts = self.grown[slots] & ~self._unsteady[slots] & (self._growing[slots] == 0)
        self._growing[slots] = np.maximum(self._growing[slots] - 1, 0)
        put_first(self._gains, slots, np.where(counts, beyond, np.nan))
        put_first(self._delays, slots, np.nan_to_num(delayed))
        self._count[slots] += 1
        # The queue is empty when the draining ends. The ACKs show it a round trip later.
        emptied = self.drained[slots] & (now[:, 0] - self._drained_ns[slots] >= lowest_us * 1e3)
        self._log_rate[slots] = log_rate
        self._idle[slots] = False
        self._mixed[slots] = False
        self._marks[slots] = now
        self._sums[slots] = 0.0
        self._most_us[slots] = 0.0
        return Look(
            rate_Bps, rate_before_Bps, lowest_us, self.least_us[slots], most_us, look_ns * 1e-3, samples,
            delivered_pkts, lost_pkts, quiet_lost_pkts, emptied, idle,
        )  # fmt: skip

    def begin(self, slots: Slots, seen: Floats) -> None:
        """Begin the next looks of n players. `seen` has the fields from `read`, shape (fields, n)."""
        self._end_ns[slots] = (seen[TIME_NS] + np.maximum(LOOK_NS, LOOK_RTTS * seen[SRTT] * 1e3)).astype(
            np.int64
        )
        self.least_us[slots] = np.inf
        self.drained[slots] = False

    def rtt_ratio(self, slots: Slots) -> Floats:
        """The ratio of the highest smoothed RTT to the lowest RTT, shape (n,)."""
        ratio: Floats = self.peak_us[slots] / self.floor_us[slots]
        return ratio

    def swing(self, slots: Slots) -> Floats:
        """The swing of the rate's logarithm from look to look, up and down, shape (n,); 0 if not known.

        The rate moves up by at least the swing in a quarter of the looks, and down by as much in another
        quarter. The swing is 0 where the RTT rises and falls with the rate.
        """
        known = self._gains[slots]
        with_window = (np.nan_to_num(known) * self._delays[slots]).sum(axis=1) > 0
        # Sorted with NaN last. np.nanquantile goes row by row, at 40 times the cost for many flows.
        gains = np.sort(known, axis=1)
        count = np.isfinite(gains).sum(axis=1)
        least = np.maximum(count, 1)
        low, high = (_quantile(gains, least, q) for q in (0.25, 0.75))
        found = (count >= GAINS_LEAST) & ~with_window
        return np.where(found, np.maximum(np.minimum(-low, high), 0.0), 0.0)

    def quiet_loss(self, slots: Slots) -> Floats:
        """Share of the packets that were lost while there was no queue, shape (n,)."""
        return loss_rate(
            self._quiet_lost[slots], np.maximum(self._marks[slots, 1] - self._first_delivered[slots], 1.0)
        )

    def overfilled(self, slots: Slots) -> Floats:
        """Return the share of the packets that were lost since the flow began, shape (n,).

        A share of `OVERFLOW` or less does not show a full buffer, and counts as 0.
        """
        lost = loss_rate(self._marks[slots, 2], self._marks[slots, 1])
        return np.where(lost > OVERFLOW, lost, 0.0)

    def backlog_pkts(self, slots: Slots) -> Floats:
        """Number of the flow's packets that stayed in a queue throughout the look, shape (n,).

        The number is infinite or NaN if the look has no RTT sample, or if the path's lowest RTT is not known.
        """
        with np.errstate(invalid="ignore"):
            standing_us = self.least_us[slots] - self.floor_us[slots]
        backlog: Floats = standing_us / self.packet_us[slots]
        return backlog

    def correct(self, slots: Slots, seen: Floats, step: float) -> None:
        """Measure flows against the path's lowest RTT instead of their own. This changes `seen`, shape
        (fields, n).

        A flow that began behind a queue has seen no RTT without the queue. If the flow's lowest RTT exceeds
        the path's by the factor `step`, the flow's losses in the queue look like losses without a queue.
        These losses are not counted as losses without a queue. The bandwidth-delay product is lowered to the
        product of the rate and the path's lowest RTT.
        """
        floor_us, own_us = self.floor_us[slots], seen[KERNEL_FLOOR]
        seen[LOST_WITHOUT_QUEUE, own_us > step * floor_us] = 0.0
        seen[BDP] *= np.minimum(floor_us / np.maximum(own_us, 1.0), 1.0)

    def lower(self, slots: Slots, least_us: Floats, step: float) -> None:
        """Lower the path's lowest RTT to `least_us`.

        If the old value was higher by the factor `step`, a queue has stood until now. So the losses that
        seemed to happen without a queue are forgotten.
        """
        found_us = self.floor_us[slots]
        self._forget_losses(slots[(least_us * step < found_us) & np.isfinite(found_us)])
        self.floor_us[slots] = np.minimum(found_us, least_us)

    def forget(self, slots: Slots, floor_us: Floats) -> None:
        """Forget the old path, because the path is another one now. `floor_us` is its lowest RTT."""
        self.floor_us[slots] = floor_us
        self._forget_losses(slots)
        self.peak_us[slots] = 0.0
        self.top_Bps[slots] = 0.0
        self.forget_swing(slots)
        self.grown[slots] = False

    def holds_few(self, slots: Slots) -> Bools:
        """True where the path holds fewer packets than BBR's least window, shape (n,)."""
        bdp_pkts = self.bdp_pkts[slots]
        found: Bools = self.grown[slots] & (bdp_pkts > 0) & (bdp_pkts < FEW_PKTS)
        return found

    def keeps_rate(self, slots: Slots) -> Bools:
        """True where the rate is still near the path's highest rate, shape (n,).

        Where the rate is lower, a low RTT may only show that the queue of a slow link has drained.
        """
        found: Bools = self.rate_Bps[slots] >= KEPT * self.top_Bps[slots]
        return found

    def forget_swing(self, slots: Slots) -> None:
        """Forget the swing of the rate, because the arm or the path that had it is another one now."""
        self._gains[slots] = np.nan

    def grow_anew(self, slots: Slots) -> None:
        """Note that the arms of these flows begin anew."""
        self._growing[slots] = ANEW

    def _forget_losses(self, slots: Slots) -> None:
        """Count losses without a queue, and the largest bandwidth-delay product, from here on."""
        self.bdp_pkts[slots] = 0.0
        self._quiet_lost[slots] = 0.0
        self._first_delivered[slots] = self._marks[slots, 1]


def _quantile(ordered: Floats, count: Ints, q: float) -> Floats:
    """The quantile of the first `count` (shape (n,), from 1) of each row of `ordered`, shape (n,)."""
    at = q * (count - 1)
    below = at.astype(np.int64)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, count - 1)]
    quantile: Floats = low + (high - low) * (at - below)
    return quantile
