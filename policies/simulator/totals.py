# SPDX-License-Identifier: Apache-2.0
"""Sums and means over the intervals of a simulation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS
from ltp_switcher.policies.simulator.simulator import SimulatedInterval


@dataclass
class Totals:
    """Sums over intervals, by flow and link. Arrays have the shape (F, E) unless an attribute says otherwise.

    Attributes:
        sent_pkts, acked_pkts, lost_pkts: sums of the fields of `Interval` with these names.
        rtt_sum_s: sum of the RTTs of all acknowledged packets, in seconds.
        served_pkts: the packets that the link could send, shape (E,).
        length_s: total length of the intervals, in seconds.
    """

    sent_pkts: Floats
    acked_pkts: Floats
    lost_pkts: Floats
    rtt_sum_s: Floats
    served_pkts: Floats
    length_s: float = 0.0

    @classmethod
    def none(cls, flows: int, links: int) -> Totals:
        """Return the totals before the first interval: all are 0."""
        sent, acked, lost, rtts = np.zeros((4, flows, links))
        return cls(sent, acked, lost, rtts, served_pkts=np.zeros(links))

    @classmethod
    def of(cls, intervals: Iterable[SimulatedInterval], flows: int, links: int, *, after_s: float) -> Totals:
        """Sum over the intervals that end later than `after_s`."""
        totals = cls.none(flows, links)
        for interval in intervals:
            if interval.end_s > after_s:
                totals.add(interval)
        return totals

    def add(self, interval: SimulatedInterval) -> None:
        """Add one more interval."""
        self.sent_pkts += interval.sent_pkts
        self.acked_pkts += interval.acked_pkts
        self.lost_pkts += interval.lost_pkts
        self.rtt_sum_s += interval.acked_pkts * interval.rtt_s
        self.served_pkts += interval.capacity_pps * interval.length_s
        self.length_s += interval.length_s

    @property
    def sent_mbps(self) -> Floats:
        """Rate at which each flow sends into the link, in Mbit/s of IP packets."""
        return self.sent_pkts / (PPS_PER_MBPS * self.length_s)

    @property
    def received_mbps(self) -> Floats:
        """Throughput of each flow, in Mbit/s of IP packets."""
        return self.acked_pkts / (PPS_PER_MBPS * self.length_s)

    @property
    def rtt_s(self) -> Floats:
        """Mean RTT of each flow's acknowledged packets in seconds; NaN for a flow without such packets."""
        nothing = np.full_like(self.acked_pkts, np.nan)
        return np.divide(self.rtt_sum_s, self.acked_pkts, out=nothing, where=self.acked_pkts > 0.0)

    @property
    def utilisation(self) -> Floats:
        """Share of the link's capacity that each flow used."""
        return self.acked_pkts / self.served_pkts
