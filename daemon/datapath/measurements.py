# SPDX-License-Identifier: Apache-2.0
"""Throughput, RTT, loss and arm of a step's record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.daemon.settings.schema import Credit

# The kernel's minimum before the first sample.
_NO_RTT: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Measurement:
    """One step of n flows; every array has the shape (n,).

    rate_Bps: mean rate sample. throughput_Bps: packets delivered over the step's time. loss_rate: lost /
    (lost + delivered). rtt_us: mean RTT, the smoothed one where no ACK carried a sample. sender: id of
    the arm that the samples tell about. least_rtt_us: the kernel's windowed minimum, inf where it has
    none. heard: ACKs came. valid: rate, RTT and sender are known.
    """

    rate_Bps: Floats  # noqa: N815 - B is bytes, b would be bits
    throughput_Bps: Floats  # noqa: N815
    loss_rate: Floats
    rtt_us: Floats
    sender: Indices
    least_rtt_us: Floats
    heard: Bools
    valid: Bools


def measure(records: RecordArray, credit: Credit) -> Measurement:
    """Read one step's records, shape (n,)."""
    samples = records["samples"].astype(np.float64)
    rtt_samples = records["rtt_samples"].astype(np.float64)
    delivered = records["delivered"].astype(np.float64)
    lost = records["lost"].astype(np.float64)
    rate_Bps = records["throughput_stat"]["sum"] / np.maximum(samples, 1.0)
    mean_rtt_us = records["rtt_stat"]["sum"] / np.maximum(rtt_samples, 1.0)
    rtt_us = np.where(rtt_samples > 0, mean_rtt_us, records["srtt_us"])
    least = records["min_rtt_us"].astype(np.float64)
    sender = records["arm"].astype(np.intp)
    if credit == "sent":
        sender = _main_sender(records, sender)
    return Measurement(
        rate_Bps=rate_Bps,
        throughput_Bps=delivered * records["mss"] / np.maximum(records["interval_ns"] * 1e-9, 1e-9),
        loss_rate=lost / np.maximum(delivered + lost, 1.0),
        rtt_us=rtt_us,
        sender=sender,
        least_rtt_us=np.where((least > 0) & (least < _NO_RTT), least, np.inf),
        heard=samples > 0,
        valid=(rate_Bps > 0) & (rtt_us > 0) & (sender >= 1) & (sender <= ARMS_MAX),
    )


def _main_sender(records: RecordArray, active: Indices) -> Indices:
    """Arm that sent most of each step's samples, an RTT ago; `active` where there is none."""
    credits = records["credit"]
    samples = credits["samples"]
    most = samples.argmax(axis=1)
    row = np.arange(len(records))
    return np.where(samples[row, most] > 0, credits["arm"][row, most], active).astype(np.intp)
