# SPDX-License-Identifier: Apache-2.0
"""Owl's utility (Eq. 7), and the equilibrium of senders that maximise it (Eq. 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltp_switcher.arrays import Floats

LOSS_MAX = 0.99
"""Limit to which the loss p is clipped, because Eq. 7 needs p < 1."""


@dataclass(frozen=True)
class Utility:
    """Coefficients of the utility (Owl Eq. 7): U = λ - δ λ / (1 - p) - β log(RTT / RTT_min).

    Eq. 7 leaves open λ's unit. In Mbit/s the delay term would count on slow links alone; here λ is in units
    of the link's capacity over `scale`. Beside flows of other protocols and a queue, Eq. 7's derivative in
    the window is then positive below a share of 1 - 1 / (2 scale (1 - δ)) of the link, for β = 0.5.

    Args:
        delta: weight of loss, δ.
        beta: weight of delay, β; 0 for Owl-Loss.
        scale: value of λ for a flow that is alone and fills the link.
        sending: whether λ is the sending rate, as in the proof of Theorem V.1. Otherwise it is the rate of
            arrivals, as in the text of Eq. 7.
    """

    delta: float = 0.5
    beta: float = 0.5
    scale: float = 6.0
    sending: bool = False

    def __call__(
        self, sent: Floats, delivered: Floats, loss: Floats, rtt_s: Floats, least_rtt_s: Floats
    ) -> Floats:
        """The utility of flows, arrays of one shape.

        Args:
            sent: rate of sending over the link's capacity.
            delivered: rate of arrival over the link's capacity.
            loss: share of packets lost, p, 0 to 1.
            rtt_s: mean RTT.
            least_rtt_s: RTT_min.
        """
        rate = self.scale * (sent if self.sending else delivered)
        utility = rate - self.delta * rate / (1.0 - np.minimum(loss, LOSS_MAX))
        if self.beta:
            utility = utility - self.beta * np.log(rtt_s / least_rtt_s)
        return utility


OWL = Utility()
"""Weights of Owl, δ = β = 0.5 (§VII-A)."""
OWL_LOSS = Utility(delta=0.7, beta=0.0, scale=4.5, sending=True)
"""Weights of Owl-Loss, β = 0 and δ = 0.7 as in §VII-D. Without delay the scale is no more than the size of
the rewards."""


def equilibrium(capacity: float, deltas: Sequence[float]) -> Floats:
    """Return the rates of senders that maximise Eq. 7 with β = 0 (Eq. 9), shape (n,), in the capacity's
    unit.
    """
    inverse = 1.0 / np.asarray(deltas, np.float64)
    n = len(inverse)
    rates: Floats = capacity * (n * inverse - (inverse.sum() - inverse)) / (n + 1)
    return rates
