# SPDX-License-Identifier: Apache-2.0
"""Partial network knowledge: the counters of a path's nodes, and the values that a sender gets (Owl, Section
IV-A).

Three parts use this module: the agent that reads a node's counters, the daemon that asks agents, and Owl.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from ltp_switcher.errors import InvalidValueError

WINDOW_S: Final = 1.0
"""Length in seconds of the window over which packets and rates are counted (Owl, Section IV-A; the best in
Owl, Fig. 14c).
"""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one node's link since the link came up. They never fall, except after a restart of the
    node.

    Attributes:
        at_s: time of the reading in seconds, by a monotonic clock.
        received_pkts: packets that came to the queue, including packets that found no room.
        sent_pkts: packets that left the queue.
        sent_bytes: bytes that left the queue.
        capacity_bps: capacity of the link in bits a second; None if the node does not know it.
    """

    at_s: float
    received_pkts: int
    sent_pkts: int
    sent_bytes: int
    capacity_bps: float | None


class CounterSource(Protocol):
    """A source of the counters of one node's link."""

    @property
    def name(self) -> str:
        """Name of the node, for people."""

    def read(self) -> Counters:
        """Read the current counters. Raises `DatapathError` if they cannot be read."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Measurements of one node over one window.

    `difference_pkts` is |P_in - P_out| of Owl, Eq. 4. `spare` is (C - c_r) / C of Owl, Eq. 5.
    """

    difference_pkts: float
    spare: float


@dataclass(frozen=True, slots=True)
class NetworkKnowledge:
    """A sender's partial knowledge of the nodes on its path.

    Attributes:
        pnc_pkts: Partial Network Congestion (Owl, Eq. 4): packets of a window that came to the most congested
            known node and did not leave it.
        pna: Partial Network Availability (Owl, Eq. 5): spare share of the tightest known link, 0 to 1.
        known: share of the path's nodes that are known, above 0 and up to 1.

    Raises:
        InvalidValueError: a value is out of range.
    """

    pnc_pkts: float
    pna: float
    known: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.pnc_pkts) and self.pnc_pkts >= 0.0):
            raise InvalidValueError("pnc_pkts", self.pnc_pkts, "packets, 0 or more")
        if not 0.0 <= self.pna <= 1.0:
            raise InvalidValueError("pna", self.pna, "0 to 1")
        if not 0.0 < self.known <= 1.0:
            raise InvalidValueError("known", self.known, "above 0 and up to 1")

    @classmethod
    def of(cls, reports: Iterable[NodeReport], path_nodes: int) -> NetworkKnowledge | None:
        """Combine the reports of a path's known nodes; None if no node is known.

        `path_nodes` is the number of all nodes on the path.
        """
        found = list(reports)
        if not found:
            return None
        return cls(
            pnc_pkts=max(report.difference_pkts for report in found),
            pna=min(report.spare for report in found),
            known=min(1.0, len(found) / path_nodes),
        )

    @classmethod
    def joined(cls, parts: Iterable[NetworkKnowledge]) -> NetworkKnowledge | None:
        """Combine the knowledge of several agents about different nodes of one path; None if there are no
        agents.
        """
        found = list(parts)
        if not found:
            return None
        return cls(
            pnc_pkts=max(part.pnc_pkts for part in found),
            pna=min(part.pna for part in found),
            known=min(1.0, sum(part.known for part in found)),
        )


@runtime_checkable
class UsesNetworkKnowledge(Protocol):
    """An arm that uses a sender's knowledge of the network. The knowledge is None while nothing is known."""

    network_knowledge: NetworkKnowledge | None


class NodeMeter:
    """Turns a node's counters into reports, one for each window."""

    CAPACITY_MEMORY: Final = 0.98
    """Factor by which the largest rate seen decays in each window. If a node does not know its link's
    capacity, this rate replaces the capacity. A link whose capacity falls is soon full again, or idle anyway.
    """

    def __init__(self) -> None:
        self._last: Counters | None = None
        self._seen_bps = 0.0

    def update(self, counters: Counters) -> NodeReport | None:
        """Process a reading and return a report. The result is None for the first reading, for a reading that
        is no newer than the last one, and after a restart of the counters.
        """
        last, self._last = self._last, counters
        if last is None or counters.at_s <= last.at_s:
            return None
        received = counters.received_pkts - last.received_pkts
        sent = counters.sent_pkts - last.sent_pkts
        sent_bytes = counters.sent_bytes - last.sent_bytes
        if min(received, sent, sent_bytes) < 0:
            return None
        length_s = counters.at_s - last.at_s
        rate_bps = sent_bytes * 8 / length_s
        self._seen_bps = max(rate_bps, self._seen_bps * self.CAPACITY_MEMORY)
        capacity_bps = counters.capacity_bps or self._seen_bps
        spare = 1.0 - rate_bps / capacity_bps if capacity_bps > 0.0 else 1.0
        return NodeReport(
            difference_pkts=abs(received - sent) * WINDOW_S / length_s,
            spare=min(1.0, max(0.0, spare)),
        )
