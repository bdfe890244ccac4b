# SPDX-License-Identifier: Apache-2.0
"""The measurements that a policy sees, in the simulator and on the kernel: an interval and its echo.

They are two views of the same feedback. `Interval` holds the packets that arrived during the interval, as a
kernel counts them. `Echo` holds the fate of the packets *sent* in an interval. It is known one RTT later,
when the last of them is acknowledged or lost. Jury §3.1 and LTP §4 take their signals from it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ltp_switcher.arrays import Bools, Floats, Indices

NOTHING: Final = 1e-6
"""Packets below which a fluid's share is rounding, not data."""

UNFILLED: Final = 2.0
"""A window is not filled if it is this many times the packets in flight, and `SLACK_PKTS` more."""
SLACK_PKTS: Final = 4.0
"""Packets beyond `UNFILLED`, because a kernel counts the packets in flight before it answers the ACK."""


@dataclass(frozen=True)
class Echo:
    """Fate of the packets that each flow sent in one interval, shape as `Interval`; NaN if not known yet."""

    index: Floats
    """Number of the interval in which the packets were sent, from 0; -1 before the first."""
    sending_pps: Floats
    delivered_pps: Floats
    """Acknowledged packets over the time that their ACKs took to arrive."""
    rtt_s: Floats
    """RTT of the packets. The kernel tells the lowest of their ACKs, because the others may have waited for a
    turn of the receiver's. The simulator has no such turns, and tells the mean."""
    loss: Floats
    """Share of the packets that was lost, 0 to 1."""

    def rows(self, rows: Indices) -> Echo:
        """Select some of the flows, shape (n,)."""
        return Echo(
            self.index[rows],
            self.sending_pps[rows],
            self.delivered_pps[rows],
            self.rtt_s[rows],
            self.loss[rows],
        )


@dataclass(frozen=True)
class Interval:
    """One control interval as its senders see it; arrays of one shape, (F, E) or (n,)."""

    index: int
    """Number of the interval; `Echo.index` counts alike."""
    end_s: float
    length_s: float
    active: Bools
    """The flow was sending at the end of the interval."""
    sent_pkts: Floats
    acked_pkts: Floats
    lost_pkts: Floats
    rtt_s: Floats
    """Mean RTT over the ACKs of the interval; the last one known where there was none."""
    rtt_min_s: Floats
    """Smallest RTT of the flow's life, infinite before the first ACK."""
    window_pkts: Floats
    pacing_pps: Floats
    in_flight_pkts: Floats
    echo: Echo
    previous_echo: Echo
    """The echo before `echo`."""

    @property
    def delivered_pps(self) -> Floats:
        """Rate of acknowledged packets, a second."""
        return self.acked_pkts / self.length_s

    def leaves_unused(self, window_pkts: Floats) -> Bools:
        """Whether flows fill less than half of these windows, shape as the fields'.

        Such a window is not to grow: nothing would be learned from it, and an idle sender's would grow for
        ever (RFC 7661).
        """
        unused: Bools = window_pkts > UNFILLED * self.in_flight_pkts + SLACK_PKTS
        return unused

    def rows(self, rows: Indices) -> Interval:
        """Select some of the flows, shape (n,)."""
        return Interval(
            index=self.index,
            end_s=self.end_s,
            length_s=self.length_s,
            **{name: getattr(self, name)[rows] for name in _MEASURED},
            echo=self.echo.rows(rows),
            previous_echo=self.previous_echo.rows(rows),
        )

    def flat(self, rows: int) -> Interval:
        """The first `rows` rows of (F, E) as flows of their own, shape (rows * E,), row-major."""

        def cut(echo: Echo) -> Echo:
            return Echo(*(getattr(echo, field.name)[:rows].reshape(-1) for field in fields(Echo)))

        return Interval(
            index=self.index,
            end_s=self.end_s,
            length_s=self.length_s,
            **{name: getattr(self, name)[:rows].reshape(-1) for name in _MEASURED},
            echo=cut(self.echo),
            previous_echo=cut(self.previous_echo),
        )


_MEASURED: Final = tuple(
    field.name
    for field in fields(Interval)
    if field.name not in ("index", "end_s", "length_s", "echo", "previous_echo")
)
