# SPDX-License-Identifier: Apache-2.0
"""Flow controllers: they set window and pacing rate from the feedback of each tick.

A controller owns some rows of flows. It keeps its state as arrays of shape (rows, E) and writes `window`
(packets) and `pace` (packets a second, infinite without pacing), which the simulator obeys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices

INITIAL_WINDOW: Final = 10.0
"""First window of a flow in packets (RFC 6928). The kernels that the papers use begin with it, too."""


@dataclass(frozen=True)
class Feedback:
    """The feedback that senders get in one tick, in packets and seconds. Every array has the
    shape (rows, E).
    """

    now_s: float
    tick_s: float
    acked: Floats
    lost: Floats
    rtt_s: Floats
    rtt_min_s: Floats
    """Smallest RTT of the flow so far in seconds, infinite before the first sample."""
    in_flight: Floats
    resolved: Floats
    """Number of packets since the start that were acknowledged or that the sender knows to be lost."""
    sent: Floats
    """Number of packets that were sent since the start."""


class Controller(Protocol):
    """The controller of some rows of flows, which all run one protocol."""

    window: Floats
    pace: Floats

    def on_feedback(self, feedback: Feedback) -> None:
        """Set `window` and `pace` by the feedback of a tick."""


class LossEvents:
    """Groups losses into loss events, at most one a round trip, as fast recovery does (RFC 6582)."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.recovering: Bools = np.zeros(shape, np.bool_)
        self._recover = np.zeros(shape)
        self._lost = np.zeros(shape)

    def update(self, feedback: Feedback) -> Indices:
        """Return flat indices of the flows for which a loss event begins in this tick."""
        self.recovering &= feedback.resolved < self._recover
        self._lost += feedback.lost
        # A lost packet may spread over several ticks. The loss event is in the tick by which half of the
        # packet is lost.
        begins = np.flatnonzero(self._lost >= 0.5)
        if begins.size:
            self._lost.reshape(-1)[begins] -= np.ceil(self._lost.reshape(-1)[begins] - 0.5)
            begins = begins[~self.recovering.reshape(-1)[begins]]
            self.recovering.reshape(-1)[begins] = True
            self._recover.reshape(-1)[begins] = feedback.sent.reshape(-1)[begins]
        return begins


class FixedRate:
    """Sends at a constant rate, whatever happens. `rate_pps` has the shape (rows, E)."""

    def __init__(self, rate_pps: Floats) -> None:
        self.window = np.full(rate_pps.shape, np.inf)
        self.pace = rate_pps

    def on_feedback(self, feedback: Feedback) -> None:
        """Ignore the feedback: the rate is constant."""


class Window:
    """A window that a policy sets, paced at window / RTT (LTP, Section 5; Jury, Eq. 8; Owl).

    `act` is called once in each interval. Between two calls the window does not change.
    """

    def __init__(self, shape: tuple[int, int], rtt_s: Floats) -> None:
        self.window = np.full(shape, INITIAL_WINDOW)
        self.pace = self.window / rtt_s

    def act(self, window: Floats, rtt_s: Floats, limits: tuple[float, float]) -> None:
        """Set the windows in packets, shape (rows, E), clipped to `limits`. The pace is the window divided by
        the given RTT.
        """
        np.clip(window, *limits, out=self.window)
        np.divide(self.window, rtt_s, out=self.pace)

    def on_feedback(self, feedback: Feedback) -> None:
        """Ignore the feedback: only `act` changes the window."""


class Aimd:
    """Spine's executor: AIMD at every ACK with four parameters (Spine, Eq. 3 to 5), and slow start (Spine,
    Section 3.3).

    `parameters` has the shape (4, rows, E): alpha_thr and alpha_lat in packets per ACK (0 to 0.5), alpha_tol
    (0 to 2) and alpha_loss (0 to 1). Set them in place. The first values, `START`, only serve until a policy
    sets others.
    """

    START: Final = (0.1, 0.1, 0.5, 0.7)
    SLOW_START_FACTOR: Final = 1.1
    """Factor by which the rate grows in a round trip until the first loss."""
    WINDOW_MIN: Final = 2.0

    def __init__(self, shape: tuple[int, int], rtt_s: Floats) -> None:
        self.parameters = np.empty((4, *shape))
        self.parameters[:] = np.array(self.START)[:, None, None]
        self.window = np.full(shape, INITIAL_WINDOW)
        self.pace = self.window / rtt_s
        self._srtt_s = np.array(np.broadcast_to(rtt_s, shape))
        self._slow_start = np.ones(shape, np.bool_)
        self._events = LossEvents(shape)

    def settle(self, which: Bools, window_pkts: Floats) -> None:
        """Let the flows marked by `which` continue from these windows, in packets, without slow start. Both
        arrays have the shape (rows, E).
        """
        self._slow_start &= ~which
        np.copyto(self.window, window_pkts, where=which)
        np.divide(self.window, self._srtt_s, out=self.pace)

    def on_feedback(self, feedback: Feedback) -> None:
        """Apply Spine, Eq. 3, once per acknowledged packet and Spine, Eq. 4, once per loss event."""
        alpha_thr, alpha_lat, alpha_tol, alpha_loss = self.parameters
        acked = feedback.acked
        # The kernel's smoothed RTT moves by an eighth at each ACK (RFC 6298).
        weight = np.minimum(acked * 0.125, 1.0)
        self._srtt_s += weight * (feedback.rtt_s - self._srtt_s)
        congested = self._srtt_s >= (alpha_tol + 1.0) * feedback.rtt_min_s
        gain = np.where(congested, -alpha_lat, alpha_thr)
        np.copyto(gain, self.SLOW_START_FACTOR - 1.0, where=self._slow_start)
        self.window += acked * gain
        begins = self._events.update(feedback)
        if begins.size:
            self._slow_start.reshape(-1)[begins] = False
            self.window.reshape(-1)[begins] *= alpha_loss.reshape(-1)[begins]
        np.maximum(self.window, self.WINDOW_MIN, out=self.window)
        np.divide(self.window, self._srtt_s, out=self.pace)
