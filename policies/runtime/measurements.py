# SPDX-License-Identifier: Apache-2.0
"""The measurements that a policy sees, in the simulator and on the kernel: an interval and its echo.

An interval and an echo are two views of the same feedback. `Interval` holds the packets that arrived during
the interval, as a kernel counts them. `Echo` holds the fate of the packets *sent* in an interval. The echo is
known one RTT later, when the last of these packets is acknowledged or lost. Jury, Section 3.1, and LTP,
Section 4, take their signals from echoes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ltp_switcher.arrays import Bools, Floats, Indices

NOTHING: Final = 1e-6
"""Number of packets below which an amount in the simulator's fluid model is a rounding error."""

UNFILLED: Final = 2.0
"""Ratio of the window to the packets in flight above which a flow leaves its window unfilled. `SLACK_PKTS`
come on top.
"""
SLACK_PKTS: Final = 4.0
"""Number of packets by which a window may exceed `UNFILLED` times the packets in flight. A kernel counts the
packets in flight before it answers the ACK, so its count is too low.
"""


@dataclass(frozen=True)
class Echo:
    """Fate of the packets that each flow sent in one interval. Shapes are as in `Interval`. NaN marks a value
    that is not known yet.
    """

    index: Floats
    """Number of the interval in which the packets were sent, from 0; -1 before the first echo."""
    sending_pps: Floats
    delivered_pps: Floats
    """Rate of acknowledged packets, in packets a second, over the time in which their ACKs arrived."""
    rtt_s: Floats
    """RTT of the packets in seconds. The kernel reports the lowest RTT, because ACKs may have waited for the
    receiver's turn on the medium. The simulator has no such waits, and reports the mean."""
    loss: Floats
    """Share of the packets that were lost, 0 to 1."""

    def rows(self, rows: Indices) -> Echo:
        """Return the echo of some of the flows. `rows` has their numbers, shape (n,)."""
        return Echo(
            self.index[rows],
            self.sending_pps[rows],
            self.delivered_pps[rows],
            self.rtt_s[rows],
            self.loss[rows],
        )


@dataclass(frozen=True)
class Interval:
    """One control interval from the senders' view.

    All arrays have one shape: (F, E) for F flows on each of E links, or (n,) for n flows.
    """

    index: int
    """Number of the interval, counted from 0 as in `Echo.index`."""
    end_s: float
    length_s: float
    active: Bools
    """True where the flow was sending at the end of the interval."""
    sent_pkts: Floats
    acked_pkts: Floats
    lost_pkts: Floats
    rtt_s: Floats
    """Mean RTT in seconds over the ACKs of the interval, or the last known RTT if no ACK came."""
    rtt_min_s: Floats
    """Smallest RTT of the flow's life in seconds, infinite before the first ACK."""
    window_pkts: Floats
    pacing_pps: Floats
    in_flight_pkts: Floats
    turn_pkts: Floats
    """Number of packets that a turn of ACKs brings, where ACKs come in turns and the silence between two
    turns exceeds the RTT floor; else 0. The simulator has no such turns."""
    echo: Echo
    previous_echo: Echo
    """The echo that came before `echo`."""

    @property
    def delivered_pps(self) -> Floats:
        """Rate of acknowledged packets in packets a second."""
        return self.acked_pkts / self.length_s

    def leaves_unused(self, window_pkts: Floats) -> Bools:
        """Return whether each flow fills less than half of its window, with the shape of the interval's
        arrays.

        Such a window must not grow. The flow would learn nothing from the growth, and the window of an idle
        sender would grow for ever (RFC 7661).
        """
        unused: Bools = window_pkts > UNFILLED * self.in_flight_pkts + SLACK_PKTS
        return unused

    def rows(self, rows: Indices) -> Interval:
        """Return the interval of some of the flows. `rows` has their numbers, shape (n,)."""
        return Interval(
            index=self.index,
            end_s=self.end_s,
            length_s=self.length_s,
            **{name: getattr(self, name)[rows] for name in _MEASURED},
            echo=self.echo.rows(rows),
            previous_echo=self.previous_echo.rows(rows),
        )

    def flat(self, rows: int) -> Interval:
        """Return the first `rows` rows of arrays of shape (F, E) as separate flows, shape (rows * E,),
        row-major.
        """

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
