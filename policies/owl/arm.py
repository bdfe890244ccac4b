# SPDX-License-Identifier: Apache-2.0
"""Owl at run time: it takes the action with the best Q value. The daemon hands it the reports
of the network.
"""

from __future__ import annotations

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.policies.owl.signals import OwlSignals
from ltp_switcher.policies.runtime.arm import Actor
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge


class OwlArm:
    """Owl as an `Arm`. `network_knowledge` applies to all flows. If it is None, the policy sees masked
    values.
    """

    def __init__(self, signals: OwlSignals, network: Actor) -> None:
        self.law = signals.law
        self.interval_s = signals.interval_s
        self.network_knowledge: NetworkKnowledge | None = None
        self._signals = signals
        self._network = network

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Arm`."""
        self._signals.begin(slots, window_pkts)

    def decide(self, slots: Slots, interval: Interval) -> Floats:
        """See `Arm`."""
        self._signals.hear(slots, *self._reports())
        observations = self._signals.observe(slots, interval)
        _, values = self._network.step(self._network.initial_state(len(slots)), observations)
        return self._signals.control(slots, interval, values)

    def _reports(self) -> tuple[Floats, Floats, Floats]:
        """Return the arguments of `OwlSignals.hear`: PNC, PNA and the known share of nodes, NaN where they
        are hidden.
        """
        known = self.network_knowledge
        if known is None:
            return (np.asarray(np.nan),) * 3
        return np.asarray(known.pnc_pkts), np.asarray(known.pna), np.asarray(known.known)
