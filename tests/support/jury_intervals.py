# SPDX-License-Identifier: Apache-2.0
"""Intervals made by hand for Jury's tests: flows in a row, one echo an interval."""

from __future__ import annotations

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.runtime.measurements import Echo, Interval

Values = Floats | float


def echo(
    index: int,
    sending_pps: Floats,
    *,
    delivered_pps: Floats | None = None,
    rtt_s: Values = 0.04,
    loss: Values = 0.0,
) -> Echo:
    """An echo of n flows; what is not given is as on an idle link."""
    shape = sending_pps.shape
    return Echo(
        index=np.full(shape, float(index)),
        sending_pps=sending_pps,
        delivered_pps=sending_pps if delivered_pps is None else delivered_pps,
        rtt_s=np.broadcast_to(rtt_s, shape).astype(np.float64),
        loss=np.broadcast_to(loss, shape).astype(np.float64),
    )


def interval(
    index: int, last: Echo, before: Echo, *, in_flight_pkts: Values = 1e6, silent: bool = False
) -> Interval:
    """The interval in which an echo came."""
    shape = last.index.shape
    acked = np.zeros(shape) if silent else last.delivered_pps * 0.03
    return Interval(
        index=index,
        end_s=0.03 * (index + 1),
        length_s=0.03,
        active=np.ones(shape, np.bool_),
        sent_pkts=last.sending_pps * 0.03,
        acked_pkts=acked,
        lost_pkts=np.zeros(shape),
        rtt_s=last.rtt_s,
        rtt_min_s=np.full(shape, 0.04),
        window_pkts=last.sending_pps * 0.04,
        pacing_pps=last.sending_pps,
        in_flight_pkts=np.broadcast_to(in_flight_pkts, shape).astype(np.float64),
        turn_pkts=np.zeros(shape),
        echo=last,
        previous_echo=before,
    )
