# SPDX-License-Identifier: Apache-2.0
"""Owl's utility (Owl, Eq. 7), and the equilibrium of senders that maximise it (Owl, Eq. 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltp_switcher.arrays import Floats

LOSS_MAX = 0.99
"""Limit to which the loss p is clipped, because Owl, Eq. 7, needs p < 1."""


@dataclass(frozen=True)
class Utility:
    """The utility and its coefficients (Owl, Eq. 7): U = λ - δ λ / (1 - p) - β log(RTT / RTT_min).

    Owl, Eq. 7, leaves open the unit of the rate λ. If it were Mbit/s, the delay term would count on slow
    links alone. Here λ is the share of the link's capacity times `scale`. Take a flow behind a queue and
    beside flows of other protocols, with β = 0.5. A larger window then pays for this flow up to a share of 1
    - 1 / (2 scale (1 - δ)) of the link.

    Args:
        delta: weight of loss, δ.
        beta: weight of delay, β; 0 for Owl-Loss.
        scale: value of λ for a flow that is alone and fills the link.
        sending: whether λ is the sending rate, as in the proof of Theorem V.1 of the Owl paper. Otherwise it
            is the rate of arrivals, as in the text of Owl, Eq. 7.
    """

    delta: float = 0.5
    beta: float = 0.5
    scale: float = 6.0
    sending: bool = False

    def __call__(
        self, sent: Floats, delivered: Floats, loss: Floats, rtt_s: Floats, least_rtt_s: Floats
    ) -> Floats:
        """Return the utility of flows, with the shape of the arguments.

        Args:
            sent: rate of sending over the link's capacity.
            delivered: rate of arrival over the link's capacity.
            loss: share of packets lost, p, 0 to 1.
            rtt_s: mean RTT in seconds.
            least_rtt_s: least RTT in seconds, RTT_min.
        """
        rate = self.scale * (sent if self.sending else delivered)
        utility = rate - self.delta * rate / (1.0 - np.minimum(loss, LOSS_MAX))
        if self.beta:
            utility = utility - self.beta * np.log(rtt_s / least_rtt_s)
        return utility


OWL = Utility()
"""Weights of Owl, δ = β = 0.5 (Owl, Section VII-A)."""
OWL_LOSS = Utility(delta=0.7, beta=0.0, scale=4.5, sending=True)
"""Weights of Owl-Loss, β = 0 and δ = 0.7 as in Owl, Section VII-D. With β = 0, `scale` only sets the size of
the rewards.
"""


def equilibrium(capacity: float, deltas: Sequence[float]) -> Floats:
    """Return the rates of senders that maximise Owl, Eq. 7, with β = 0 (Owl, Eq. 9), shape (n,), in the
    capacity's unit.
    """
    inverse = 1.0 / np.asarray(deltas, np.float64)
    n = len(inverse)
    rates: Floats = capacity * (n * inverse - (inverse.sum() - inverse)) / (n + 1)
    return rates
