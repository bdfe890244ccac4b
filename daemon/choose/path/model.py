# SPDX-License-Identifier: Apache-2.0
"""Describes the path of a player by eight numbers. Each number has an age and an uncertainty. A player is the
flows that share a bottleneck.

A look, the time over which measurements are summed up, observes only some of the numbers. For example, a look
in which the application paused says nothing about the rate. Only a look in which the player's own queue is
empty shows a queue of others. So each number is a mean over the last looks that observed it. Its uncertainty
is the standard error of this mean, and its age is the time since the last of these looks. A number that no
look has observed is NaN. This module does not know the arms.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.daemon.choose.chooser import Number, Told
from ltp_switcher.daemon.choose.path.looks import Look
from ltp_switcher.slots import SlotArrays, column

MEMORY: Final = 8
"""Each number that describes a path is a mean over this many looks. A look lasts 0.25 s or more."""
CONFIRMS: Final = 1.05
"""A look (0.25 s or more) shows the propagation RTT if its lowest RTT is at most this multiple of the path's
lowest RTT.
"""
BEHIND_QUEUE: Final = 1.1
"""The losses of a look (0.25 s or more) show the size of the buffer if its highest RTT is at least this
multiple of the path's lowest RTT.
"""
PACKETS_LEAST: Final = 20.0
"""Least number of packets in a look (0.25 s or more) for which the share of lost packets counts."""


def tell(look: Look) -> Floats:
    """The numbers that each of n looks observes, shape (n, numbers), in the order of `Number`; NaN for
    numbers not observed. A look lasts 0.25 s or more.
    """
    told = np.full((look.rate_Bps.size, len(Number)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        told[:, Number.RATE] = look.rate_Bps
        told[:, Number.VARIATION] = np.abs(np.log(look.rate_Bps / look.rate_before_Bps))
        seen = np.isfinite(look.least_us)
        confirms = seen & (look.least_us <= CONFIRMS * look.floor_us)
        told[confirms, Number.PROPAGATION] = look.least_us[confirms]
        several = look.acks > 1
        told[several, Number.ACK_GAP] = (look.time_us / look.acks)[several]
        packets = look.delivered_pkts + look.lost_pkts
        enough = (packets >= PACKETS_LEAST) & ~look.idle
        queue_us = look.most_us - look.floor_us
        overflows = enough & seen & (look.lost_pkts > look.quiet_lost_pkts)
        overflows &= look.most_us > BEHIND_QUEUE * look.floor_us
        told[overflows, Number.BUFFER] = (queue_us * look.delivered_pkts / look.time_us)[overflows]
        told[enough, Number.QUIET_LOSS] = (look.quiet_lost_pkts / packets)[enough]
        alone = look.drained & seen
        told[alone, Number.OTHERS_QUEUE] = (look.least_us - look.floor_us)[alone]
    told[:, Number.APPLICATION] = look.idle
    # A rate of zero has no logarithm, and a path before its first sample no RTT.
    told[~np.isfinite(told)] = np.nan
    return told


def fold(count: Floats, mean: Floats, spread2: Floats, told: Floats) -> tuple[Floats, Floats, Floats]:
    """Add looks (0.25 s or more each) to the means over the last `MEMORY` looks. All arrays have the shape
    (n, numbers).

    Args:
        count: number of looks that have observed the number.
        mean: mean of the number over these looks.
        spread2: variance of the number over these looks.
        told: result of `tell` for the new looks.

    Returns:
        `count`, `mean` and `spread2` with the new looks. They stay the same where a look does not observe the
        number.
    """
    known = ~np.isnan(told)
    count = count + known
    weight = known / np.clip(count, 1.0, MEMORY)
    off = np.where(known, told - mean, 0.0)
    mean = mean + weight * off
    # West (1979), "Updating mean and variance estimates", with weights that forget.
    spread2 = np.where(known, (1.0 - weight) * (spread2 + weight * off**2), spread2)
    return count, mean, spread2


class PathModel(SlotArrays):
    """The eight numbers (`Number`) that describe the path of each player; 256 bytes for a player.

    A player is the flows that share a bottleneck. A look is the time over which measurements are summed up.
    """

    _count = column(np.float64, len(Number))
    """Number of looks that have observed each number."""
    _mean = column(np.float64, len(Number))
    _spread2 = column(np.float64, len(Number))
    _seen_ns = column(np.float64, len(Number))
    """End of the last look that observed the number, CLOCK_MONOTONIC."""

    def look(self, slots: Slots, look: Look, now_ns: Floats) -> None:
        """Take in the looks of n players that end at `now_ns`, CLOCK_MONOTONIC, shape (n,)."""
        told = tell(look)
        folded = fold(self._count[slots], self._mean[slots], self._spread2[slots], told)
        self._count[slots], self._mean[slots], self._spread2[slots] = folded
        self._seen_ns[slots] = np.where(np.isnan(told), self._seen_ns[slots], now_ns[:, np.newaxis])

    def numbers(self, slots: Slots, now_ns: int) -> Told:
        """The numbers of these players' paths, with their ages at `now_ns`, CLOCK_MONOTONIC."""
        count = self._count[slots]
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(self._spread2[slots] / np.clip(count, 1.0, MEMORY))
        age_s = (now_ns - self._seen_ns[slots]) * 1e-9
        known = count > 0
        return Told(
            np.where(known, self._mean[slots], np.nan),
            np.where(count > 1, error, np.nan),
            np.where(known, age_s, np.nan),
        )

    def forget(self, slots: Slots) -> None:
        """Forget the numbers of these players' paths, because the paths have changed. `Number.APPLICATION`
        stays, because it does not describe the path.
        """
        self._count[slots, : Number.APPLICATION] = 0.0
        self._mean[slots, : Number.APPLICATION] = 0.0
        self._spread2[slots, : Number.APPLICATION] = 0.0
