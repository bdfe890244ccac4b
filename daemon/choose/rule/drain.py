# SPDX-License-Identifier: Apache-2.0
"""One experiment that tells why the RTT of a path stays high. Four causes look alike:

- The path has become longer.
- The queue is the player's own. After a fall of the rate the steady arm, LTP, may keep the queue full,
  because it compares its throughput with the largest one of the past. A player is the flows that share a
  bottleneck.
- The link has become slower, and the player's earlier packets fill its queue.
- Another flow, a rival, fills the queue. Beside it an arm that keeps the queue short starves.

The experiment takes the player's packets out of the queue, and looks at the RTT and at the rate that comes
back. There are two ways to do so:

1. The steady arm begins anew, with a window that empties the queue within a few round trips. If the RTT
   falls to the path's lowest, the queue was the player's own, and the link is slower if the rate had fallen
   by much. Beside a rival this way costs the player some of its share. On a longer path it shows less than
   BBR's run. So there has to be a sign that the queue is the player's: a rate that has fallen by much, or
   several flows, with which BBR would fill the queue, too. If the RTT is high and constant, there also have
   to be losses, because a full queue loses packets and a longer path does not.
2. The probing arm, BBR, runs: for long if the RTT is high and constant, as on a longer path, and else for a
   short time. It empties its queue now and then. If it sees the path's lowest RTT, the queue was the player's
   own. If the RTT stays high, the path is longer. If the rate rises by much, a rival had taken the rest.

The RTT of the path falls at the first lower sample, which needs no experiment. A rise has to exceed a few
packets of the bottleneck, and the queue that the arm keeps on every path. RTTs are the lowest ones of looks,
which last 0.25 s or more.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import BDP, KERNEL_FLOOR, TIME_NS, Looks
from ltp_switcher.daemon.choose.rule.states import State
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.slots import SlotArrays, column, put_first

EMPTY: Final = 1.1
"""The queue of a path is empty if the RTT is below this multiple of the path's lowest RTT."""
CONSTANT: Final = 0.1
"""The RTT counts as constant while the lowest RTT of each look (0.25 s or more) differs from the first look's
by at most this share.
"""
SLOW: Final = 0.4
"""Below this share of the path's highest rate, the rate counts as fallen by much."""
GAIN: Final = 1.5
"""If the rate rises by this factor while BBR, the probing arm, runs, another flow had kept it low."""
LOOKS: Final = 12
"""Number of looks (0.25 s or more each) before BBR runs whose rates count."""
ASKED_LOOKS: Final = 4
"""Number of looks (0.25 s or more each) at the end of BBR's run whose rates count."""
SHOW_RTTS: Final = 2.0
"""Number of round trips without a queue that show the RTT of the path."""
LATE_US: Final = 100_000.0
"""Time in µs that the steady arm needs to make its window small. It takes two decisions of the arm, and each
of them can halve the window.
"""
DOUBLED_MAX: Final = 4
"""Largest number of times that the time beside a rival doubles."""


class Outcome(IntEnum):
    """The cause of a high RTT, as the experiment shows it."""

    OPEN = 0
    """The RTT stays high without being constant, though the steady arm's queue is empty: BBR has to run."""
    LONGER_PATH = 1
    """The RTT stays high without the player's packets, and no rise of the rate tells of a rival."""
    OWN_QUEUE = 2
    """The RTT fell to the path's lowest one, and the rate had been full: the player had kept a queue."""
    SLOWER_LINK = 3
    """The RTT fell to the path's lowest one, and the rate had been low behind the player's own queue: the
    link is slower.
    """
    RIVAL = 4
    """The rate rose by much under BBR: another flow had kept it low, and fills the queue."""


Outcomes = npt.NDArray[np.intp]
"""Array of `Outcome` values."""

AFTER: Final[Mapping[tuple[State, Outcome], State]] = {
    (State.STEADY, Outcome.OPEN): State.ASKS,
    (State.DRAINS, Outcome.OPEN): State.ASKS,
    (State.DRAINS, Outcome.LONGER_PATH): State.STEADY,
    (State.DRAINS, Outcome.OWN_QUEUE): State.STEADY,
    (State.DRAINS, Outcome.SLOWER_LINK): State.STEADY,
    (State.ASKS, Outcome.LONGER_PATH): State.PROBES,
    (State.ASKS, Outcome.OWN_QUEUE): State.STEADY,
    (State.ASKS, Outcome.SLOWER_LINK): State.STEADY,
    (State.ASKS, Outcome.RIVAL): State.BESIDE_RIVAL,
}
"""The state after each outcome, by the state before it. After BBR's run `STEADY` is a proposal: the
measurements of the path may call for another arm.
"""


class Drain(SlotArrays):
    """The experiments under way, and the looks that call for them. A slot is the number of a player, the
    flows that share a bottleneck. A look lasts 0.25 s or more.

    Args:
        settings: the rule's thresholds.
    """

    _raised_ns = column(np.int64)
    """Time from which on the RTT is high and constant, CLOCK_MONOTONIC; 0 while it is not."""
    _raised_us = column(np.float64)
    """Lowest RTT of the look at which the RTT began to be high and constant, µs."""
    _high_ns = column(np.int64)
    """Time from which on the RTT is high, CLOCK_MONOTONIC; 0 while it is not."""
    _rates = column(np.float64, LOOKS, initial=np.nan)
    """Rate of each look under the arm that runs, bytes/s, newest first; NaN where the application paused."""
    _until_ns = column(np.int64)
    """Time until which the steady arm's window is small, CLOCK_MONOTONIC; 0 if it is not."""
    _shown_us = column(np.float64)
    """An RTT below this value shows that the steady arm has emptied the queue, µs."""
    _lowest_us = column(np.float64, initial=np.inf)
    """Lowest RTT of the experiment so far, µs."""
    _constant = column(np.bool_)
    """Whether the RTT was constant before the experiment."""
    _slow = column(np.bool_)
    """Whether the rate had fallen by much before the experiment."""
    _before = column(np.float64, initial=np.nan)
    """The rate before BBR's run, bytes/s."""
    _again_ns = column(np.int64)
    """Time before which the steady arm empties no other queue, CLOCK_MONOTONIC."""
    _begun = column(np.bool_)
    """Whether the steady arm has begun anew since the last call of `begun`."""
    _count = column(np.int64)
    """Number of BBR's runs so far."""

    def __init__(self, settings: RuleSection) -> None:
        super().__init__()
        self._settings = settings

    def look(self, slots: Slots, looks: Looks, own_us: Floats, seen: Floats) -> tuple[Bools, Bools, Floats]:
        """Take in looks, and return three arrays of shape (n,).

        The first is true where the RTT of the path has fallen. The second is true where the RTT has been high
        and constant for long. The third is the time for which the RTT has been high, in seconds. It is NaN
        where the RTT is not high, or has only now become high.

        Args:
            slots: the players, shape (n,).
            looks: the looks of these players.
            own_us: queue that the arm keeps on every path, as a delay in µs, shape (n,).
            seen: fields from `looks.read`, shape (fields, n).
        """
        settings, now_ns = self._settings, seen[TIME_NS]
        least_us, floor_us = looks.least_us[slots], looks.floor_us[slots]
        put_first(self._rates, slots, looks.rate_Bps[slots])
        self._lowest_us[slots] = np.minimum(self._lowest_us[slots], least_us)
        known = np.isfinite(least_us) & np.isfinite(floor_us)
        fell = known & (least_us * settings.rtt_step < floor_us)
        # Both are infinite in the look before a flow's first RTT.
        excess_us = np.subtract(least_us, floor_us, out=np.zeros(slots.shape), where=known)
        queued_pkts = seen[BDP] * excess_us / np.maximum(seen[KERNEL_FLOOR], 1.0)
        more_us = np.maximum((settings.rtt_step - 1.0) * floor_us, own_us)
        high = known & (excess_us > more_us) & (queued_pkts > settings.queue_pkts)
        first_us = self._raised_us[slots]
        goes_on = high & (self._raised_ns[slots] > 0) & (np.abs(least_us - first_us) <= CONSTANT * first_us)
        begins = high & ~goes_on
        self._raised_us[slots] = np.where(begins, least_us, first_us)
        self._raised_ns[slots] = np.where(goes_on, self._raised_ns[slots], np.where(begins, now_ns, 0.0))
        rose: Bools = goes_on & (now_ns - self._raised_ns[slots] >= settings.rise_s * 1e9)
        stands = high & (self._high_ns[slots] > 0)
        self._high_ns[slots] = np.where(stands, self._high_ns[slots], np.where(high, now_ns, 0.0))
        return fell, rose, np.where(stands, (now_ns - self._high_ns[slots]) * 1e-9, np.nan)

    def due(self, slots: Slots, looks: Looks, constant: Bools, several: Bools, now_ns: Floats) -> Bools:
        """True where a high RTT shows signs of the player's own queue, which the steady arm empties then.

        All arrays have the shape (n,).

        Args:
            slots: players whose RTT is high.
            looks: looks of these players.
            constant: whether the RTT is also constant.
            several: true for players with several flows.
            now_ns: CLOCK_MONOTONIC.
        """
        may_fill = several | (looks.rate_Bps[slots] < SLOW * looks.top_Bps[slots])
        unclear = ~constant | (looks.lost_pkts[slots] > 0)
        found: Bools = may_fill & unclear & (now_ns >= self._again_ns[slots])
        return found

    def empty(
        self, slots: Slots, looks: Looks, constant: Bools, floor_us: Floats, least_us: Floats, now_ns: Floats
    ) -> None:
        """Let the steady arm begin anew with a small window. All arrays have the shape (n,).

        Args:
            slots: players.
            looks: looks of these players.
            constant: whether the RTT is constant.
            floor_us: lowest RTT of the path.
            least_us: lowest RTT of the last look. After the window has become small, the queue needs this
                time to empty.
            now_ns: CLOCK_MONOTONIC.
        """
        queued = least_us > self._settings.rtt_step * floor_us
        late_us = np.where(queued, least_us + LATE_US, 0.0)
        self._until_ns[slots] = (now_ns + (least_us + late_us + SHOW_RTTS * floor_us) * 1e3).astype(np.int64)
        self._shown_us[slots] = np.where(queued, EMPTY * floor_us, 0.0)
        self._again_ns[slots] = now_ns.astype(np.int64) + int(self._settings.change_s * 1e9)
        self._begun[slots] = True
        self._begin(slots, looks, constant)

    def ask(self, slots: Slots, looks: Looks) -> None:
        """Begin BBR's run. The rate before it is kept, so that later rates can be compared with it."""
        self._before[slots] = _mean(self._rates[slots])
        self._begin(slots, looks, np.zeros(slots.shape, np.bool_))

    def over(self, slots: Slots, now_ns: Floats) -> Bools:
        """True where the time of the small window is over, shape (n,)."""
        until_ns = self._until_ns[slots]
        ended: Bools = (until_ns > 0) & (now_ns > until_ns)
        return ended

    def emptied(self, slots: Slots, floor_us: Floats) -> Outcomes:
        """End the time of the small window, and return the outcomes, shape (n,).

        `floor_us` is the lowest RTT of the path, shape (n,).
        """
        self._until_ns[slots] = 0
        fell = self._lowest_us[slots] <= self._settings.rtt_step * floor_us
        outcomes: Outcomes = np.select(
            (fell & self._slow[slots], fell, self._constant[slots]),
            (Outcome.SLOWER_LINK, Outcome.OWN_QUEUE, Outcome.LONGER_PATH),
            Outcome.OPEN,
        )
        return outcomes

    def asked(self, slots: Slots, floor_us: Floats, alone: Bools) -> Outcomes:
        """Return the outcomes of BBR's run, shape (n,).

        Args:
            slots: players, shape (n,).
            floor_us: lowest RTT of the path, shape (n,).
            alone: true for players with one flow, shape (n,). Several flows of BBR never empty the queue, so
                the RTT says nothing.
        """
        stays = alone & (self._lowest_us[slots] > self._settings.rtt_step * floor_us)
        outcomes: Outcomes = np.select(
            (self.gain(slots) > GAIN, stays, self._slow[slots]),
            (Outcome.RIVAL, Outcome.LONGER_PATH, Outcome.SLOWER_LINK),
            Outcome.OWN_QUEUE,
        )
        return outcomes

    def gain(self, slots: Slots) -> Floats:
        """The factor by which the rate has risen under BBR, shape (n,); NaN if not known."""
        gain: Floats = _mean(self._rates[slots, :ASKED_LOOKS]) / self._before[slots]
        return gain

    def lowest_us(self, slots: Slots) -> Floats:
        """The lowest RTT of the experiment so far, µs, shape (n,)."""
        lowest_us: Floats = self._lowest_us[slots]
        return lowest_us

    def rest_s(self, slots: Slots) -> Floats:
        """The time beside a rival in seconds, shape (n,). Each call doubles the next time."""
        rest_s: Floats = self._settings.rival_s * 2.0 ** np.minimum(self._count[slots], DOUBLED_MAX)
        self._count[slots] += 1
        return rest_s

    def empties(self, slots: Slots, least_us: Floats, now_ns: int) -> Bools:
        """True where the window of a player has to be small now, shape (n,).

        Args:
            slots: players, shape (n,).
            least_us: lowest RTT of the step, shape (n,); 0 if not known.
            now_ns: CLOCK_MONOTONIC.
        """
        found: Bools = now_ns < self._until_ns[slots]
        shown = found & (least_us > 0) & (least_us < self._shown_us[slots])
        self._until_ns[slots[shown]] = now_ns
        return found & ~shown

    def begun(self, slots: Slots) -> Bools:
        """True where the steady arm has begun anew since the last call, shape (n,)."""
        found: Bools = self._begun[slots]
        self._begun[slots] = False
        return found

    def other_arm(self, slots: Slots) -> None:
        """Forget the rates of these players, because their arms change now."""
        self._rates[slots] = np.nan

    def forget(self, slots: Slots) -> None:
        """Forget for how long the RTT of these players has been high: it says nothing about later looks."""
        self._raised_ns[slots] = 0
        self._high_ns[slots] = 0

    def _begin(self, slots: Slots, looks: Looks, constant: Bools) -> None:
        self._constant[slots] = constant
        self._slow[slots] = looks.rate_Bps[slots] < SLOW * looks.top_Bps[slots]
        self._lowest_us[slots] = np.inf


def _mean(rates: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a row that is NaN throughout
        mean: Floats = np.nanmean(rates, axis=1)
    return mean
