# SPDX-License-Identifier: Apache-2.0
"""Jury's observations, and the effect of its actions (μ, δ) on the window (Jury, Sections 3.1, 3.2 and 3.4).

The network's inputs do not depend on a flow's bandwidth. They are changes of RTT and of the survival ratio
(packets not lost) from one sending interval to the next. All flows of a bottleneck see the same changes, so
they agree on the range of actions μ - δ to μ + δ. Only Jury, Eq. 6, treats large and small flows differently:
a flow's share of the bandwidth gives its place in the range.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats, Slots
from ltp_switcher.policies.jury.guards import Guards
from ltp_switcher.policies.jury.occupancy import Occupancy
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import NOTHING, Echo, Interval
from ltp_switcher.slots import SlotArrays, column

INTERVAL_S: Final = 0.030
"""Control time interval in seconds (Jury, Table 2)."""
ALPHA: Final = 0.025
"""Action control coefficient α (Jury, Table 2)."""
HISTORY: Final = 10
"""Number of the latest echoes that the network sees. An echo tells the fate of the packets of
one interval.
"""
SCALES: Final = np.array((20.0, 10.0))
"""Factors that scale ΔRTT / Δt and the change of the survival ratio to order 1. By Jury, Eq. 1, ΔRTT / Δt is
the senders' excess over the link's rate, as a share of that rate; 0.05 is a large value.
"""
BOUND: Final = 3.0
"""Bound to which scaled signals are clipped, on both sides (Jury, Section 3.4)."""
RADIUS_MIN: Final = 0.5
"""Least δ. At 0.5 or more, the range μ - δ to μ + δ always contains 0. So a flow with all of the bandwidth
never takes more, and a flow with nearly none never gives up more. With δ = 0, flows would keep the shares
that they have. N equal flows keep their rates at μ = -δ (1 - 2 / N), and μ is within ±(1 - δ). With δ = 0.5
the network can choose this μ for any N. With 0.7 it could not, and more than three flows always grew.
"""
FEW_PKTS: Final = 8.0
"""Number of packets in an interval below which the signals say nothing. The rate then grows as fast as it can
(Jury, Section 3.4).
"""
INFLATED: Final = 2.0
"""Ratio of the RTT to its minimum above which `FEW_PKTS` does not apply. Behind such a queue, few packets
mean a slow link, not a young flow.
"""
LOSS_LIMIT: Final = 0.1
"""Share of lost packets above which the rate shrinks as fast as it can. If a queue overflows steadily,
neither RTT nor survival ratio changes, so the network cannot see the losses.
"""
LOSS_MEMORY: Final = 16.0
"""Number of echoes (reports on one interval each) over which the share of lost packets is averaged."""
WINDOW_LIMITS: Final = (2.0, 1e6)
LONGEST_ECHO: Final = 512
"""Number of intervals for which a flow's random changes of rate are kept: 15 s. If an echo, the report on one
interval, comes later, it is matched with the change of a later interval.
"""


class JurySignals(SlotArrays):
    """Jury's implementation of `Signals`. The actions are μ and a value for δ, from -1 (least δ) to 1
    (largest δ).

    Args:
        seed: seed of the random changes by which a flow explores.
        guarded: whether to follow the rules of `guards`. The network is trained without them.
    """

    _window_pkts = column(np.float64)
    _loss = column(np.float64)
    _heard_index = column(np.float64, initial=-1.0)
    _owed = column(np.float64)
    """Sum of the actions that the flow wanted, minus the sum of the random actions that it took instead."""
    _silent_s = column(np.float64)
    """Time without an ACK or a loss, in seconds."""
    _history = column(np.float32, HISTORY, 2)
    _probes = column(np.float32, LONGEST_ECHO)
    """Random part of the action of each interval, by the interval's number modulo `LONGEST_ECHO`."""

    def __init__(self, seed: int = 0, *, guarded: bool = True) -> None:
        super().__init__()
        self.observation_size = 2 * HISTORY
        self.action_size = 2
        self.law = Law.WINDOW
        self.interval_s = INTERVAL_S
        self._rng = np.random.default_rng(seed)
        self.occupancy = self.part(Occupancy())
        self._guards = self.part(Guards(on=guarded))

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Signals`."""
        self.reset(slots)
        self._window_pkts[slots] = window_pkts

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`. The observations are the scaled changes of RTT and survival ratio of each echo, the
        latest echo last.
        """
        self._guards.observe(slots, interval)
        echo, previous = interval.echo, interval.previous_echo
        fresh = echo.index > self._heard_index[slots]
        (rows,) = fresh.nonzero()
        heard = slots[rows]
        self._heard_index[heard] = echo.index[rows]
        loss = self._loss[heard]
        self._loss[heard] = loss + (echo.loss[rows] - loss) / LOSS_MEMORY
        # Signals are changes between neighbouring echoes. After a gap there is no neighbour.
        fresh &= previous.index == echo.index - 1.0
        fresh &= (echo.sending_pps > 0.0) & (previous.sending_pps > 0.0)
        (rows,) = fresh.nonzero()
        self._remember(slots[rows], echo.rows(rows), previous.rows(rows), interval.length_s)
        return self._history.take(slots, axis=0).reshape(len(slots), self.observation_size)

    def _remember(self, slots: Slots, echo: Echo, previous: Echo, length_s: float) -> None:
        excess = np.where(self._guards.stands(slots), 0.0, (echo.rtt_s - previous.rtt_s) / length_s)
        survival = (1.0 - echo.loss) / (1.0 - previous.loss) - 1.0
        history = self._history.take(slots, axis=0)
        history[:, :-1] = history[:, 1:]
        history[:, -1] = (np.array((excess, survival)).T * SCALES).clip(-BOUND, BOUND)
        self._history[slots] = history
        probes = self._probes[slots, echo.index.astype(np.int64) % LONGEST_ECHO]
        self.occupancy.update(slots, echo, previous, probes.astype(np.float64), length_s)

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """See `Signals`. Jury, Eq. 6, gives the wanted action, exploration changes it, and Jury, Eq. 7, gives
        the window.

        The kernel's executor paces by Jury, Eq. 8.
        """
        mean, radius = actions.T.astype(np.float64)
        radius = RADIUS_MIN + (1.0 - RADIUS_MIN) * (radius + 1.0) / 2.0
        # μ is within ±(1 - δ), so that no action needs to be cut off.
        mean *= 1.0 - radius
        wanted = mean + (1.0 - 2.0 * self.occupancy.ratio(slots)) * radius
        wanted = np.where(_is_young(interval), 1.0, wanted)
        wanted = np.where((self._loss[slots] > LOSS_LIMIT) | self._guards.yields(slots), -1.0, wanted)
        window_pkts = self._guards.end_start(slots, interval, self._window_pkts[slots])
        silent = interval.acked_pkts + interval.lost_pkts <= NOTHING
        silent_s = np.where(silent, self._silent_s[slots] + interval.length_s, 0.0)
        self._silent_s[slots] = silent_s
        # With a small window and a long RTT, most intervals bring no ACK. Only a silence of an RTT counts.
        held = silent_s > interval.rtt_s
        held |= interval.leaves_unused(window_pkts)
        settling = self._guards.settles(slots, interval)
        free = ~(held | settling)
        action = np.where(settling, 0.0, np.minimum(wanted, 0.0))
        action[free] = self._explore(slots[free], wanted[free])
        sent_so = self._probes[:, (interval.index + 1) % LONGEST_ECHO]
        sent_so[slots] = np.where(free, action - wanted, 0.0)
        change = ALPHA * action
        window_pkts *= np.where(action >= 0.0, 1.0 + change, 1.0 / (1.0 - change))
        window_pkts = window_pkts.clip(*WINDOW_LIMITS)
        self._window_pkts[slots] = window_pkts
        return window_pkts[:, None]

    def _explore(self, slots: Slots, wanted: Floats) -> Floats:
        """Replace actions by 1 or -1 at random, their mean unchanged (Jury, Section 3.4).

        The paper does so near 0 alone, where both are equally likely. Here it is done everywhere, because a
        flow that wants ±0.5 for long would otherwise learn nothing of its occupancy. Later draws make up for
        the difference from the wanted action. Otherwise windows would wander by 13 % within a satellite's
        RTT.
        """
        owed = self._owed[slots] + wanted
        action = np.where(self._rng.random(wanted.size) < (1.0 + owed) / 2.0, 1.0, -1.0)
        self._owed[slots] = owed - action
        return action


def _is_young(interval: Interval) -> Bools:
    """Return whether each flow sends too few packets for statistics, and its link is not the reason, shape
    (n,).
    """
    echo = interval.echo
    # Comparisons with NaN are false: a flow without an echo is young.
    enough = echo.sending_pps * interval.length_s >= FEW_PKTS
    inflated = echo.rtt_s > INFLATED * interval.rtt_min_s
    young: Bools = ~(enough | inflated)
    return young
