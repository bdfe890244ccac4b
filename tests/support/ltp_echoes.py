# SPDX-License-Identifier: Apache-2.0
"""Intervals of LTP's estimators' tests, by the echo that ends in them, and filters that have seen them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ltp_switcher.policies.ltp.balance import BalanceFilter
from ltp_switcher.policies.ltp.particles import Noise, ParticleFilter
from ltp_switcher.policies.runtime.measurements import Echo, Interval

DT_S = 0.030
Filter = TypeVar("Filter", ParticleFilter, BalanceFilter)


def interval(echo: Echo, before: Echo, rtt_min_s: float = 0.020) -> Interval:
    n = len(echo.index)
    some = np.ones(n)
    return Interval(
        index=0, end_s=1.0, length_s=DT_S, active=np.ones(n, np.bool_), sent_pkts=some, acked_pkts=some,
        lost_pkts=0.0 * some, rtt_s=0.020 * some, rtt_min_s=rtt_min_s * some, window_pkts=some,
        pacing_pps=some, in_flight_pkts=some, turn_pkts=some, echo=echo, previous_echo=before,
    )  # fmt: skip


def echo(
    index: float,
    sending: float = 1000.0,
    delivered: float = 1000.0,
    rtt_s: float = 0.02,
    loss: float = 0.0,
    n: int = 1,
) -> Echo:
    return Echo(*(np.full(n, value) for value in (index, sending, delivered, rtt_s, loss)))


NOTHING_YET = echo(-1.0, np.nan, np.nan, np.nan, np.nan)


def followed(make: type[Filter], states: list[Echo], particles: int = 400, **noise: float) -> Filter:
    """A filter of one slot that has seen these echoes."""
    made = make(DT_S, seed=1, particles=particles, noise=Noise(**noise))
    made.reset(np.array([0]))
    for before, now in zip([NOTHING_YET, *states], states, strict=False):
        made.update(np.array([0]), interval(now, before))
    return made
