# SPDX-License-Identifier: Apache-2.0
"""Jury's reward (Jury, Eq. 9), with the sign that the paper's text asks for.

Jury, Eq. 9, prints r^ζ - r (β1 (RTT - RTT_min) - β2 (1 - L) / (1 - L_min)), where r is the flow's share of
the bandwidth and L its loss. This formula rewards survival of packets, with a bonus of up to β2 r = 5 r.
Beside this bonus r^ζ hardly counts.

The formula contradicts Jury, Section 3.3, where the term belongs to the "penalty terms" of which smaller
flows "incur lesser". Here the loss term is the penalty β2 (1 - (1 - L) / (1 - L_min)). This term has the same
slope in L, and is 0 if nothing is lost beyond the path's own loss.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats

ZETA: Final = 0.9
"""Exponent ζ of Jury, Eq. 9. The paper says only that it lies between 0 and 1; this value is Vivace's."""
BETA_DELAY: Final = 1e-5 * 1e6
"""Weight β1 of the delay (Jury, Table 2), per second. The paper's value fits RTTs in µs. With this weight, 10
ms of queueing cost as much as a tenth of the link.
"""
BETA_LOSS: Final = 5.0
"""Weight β2 of the loss (Jury, Table 2)."""


def reward(ratio: Floats, queueing_s: Floats, loss: Floats, loss_min: Floats) -> Floats:
    """Return the reward of an interval (Jury, Eq. 9), with the shape of the arguments.

    Args:
        ratio: share of the bottleneck's bandwidth, 0 to 1.
        queueing_s: RTT minus its minimum, in seconds.
        loss: share of packets lost, 0 to 1.
        loss_min: smallest share of packets lost so far, 0 to below 1.
    """
    lost = 1.0 - (1.0 - loss) / (1.0 - loss_min)
    penalty = BETA_DELAY * queueing_s + BETA_LOSS * lost
    value: Floats = np.power(ratio, ZETA) - ratio * penalty
    return value
