# SPDX-License-Identifier: Apache-2.0
"""Derives the inputs of the reward from records: throughput, RTT, loss and arm.

Throughput, RTT and loss come from five counts. The counts cover a step of the daemon, the part of a step's
data that one arm sent, or a longer time such as a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX, CREDITS_MAX
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.daemon.settings.schema import Credit
from ltp_switcher.measures import loss_rate

TIME_NS, DELIVERED, LOST, RTT_SUM_US, RTT_SAMPLES = range(5)
"""Columns of an array of counts: time in ns, packets delivered, packets marked lost, sum of RTT samples in
µs, number of RTT samples.
"""
COUNTS: Final = 5

# The kernel reports this minimum RTT before the first sample.
_NO_RTT: Final = 2**32 - 1
_STEP: Final = Columns("interval_ns", "delivered", "lost", "rtt_stat.sum", "rtt_samples")
_CREDITS: Final = Columns(
    *(
        f"credit.{epoch}.{name}"
        for epoch in range(CREDITS_MAX)
        for name in ("time_ns", "delivered", "lost", "rtt_us_sum", "rtt_samples")
    )
)
_REST: Final = Columns("samples", "throughput_stat.sum", "mss", "srtt_us", "min_rtt_us")


class Performance(NamedTuple):
    """Throughput, loss and RTT of n flows, each with the shape (n,). They are the inputs of the reward
    (Mutant, Eq. 1).
    """

    throughput_Bps: Floats  # noqa: N815 - B is bytes, b would be bits
    """Packets delivered times the flow's maximum segment size, over the time, in bytes per second."""
    loss_rate: Floats
    """Packets lost / (packets lost + packets delivered)."""
    rtt_us: Floats
    """Mean RTT in µs; the smoothed RTT if no ACK carried a sample."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of one step of n flows; every array has the shape (n,).

    Attributes:
        performance: throughput, loss and RTT over the step.
        rate_Bps: mean of the kernel's delivery rate samples, in bytes/s; 0 without a sample.
        sender: id of the arm that the step's samples are credited to.
        least_rtt_us: the kernel's windowed minimum RTT in µs; inf if it has none.
        heard: whether ACKs came.
        valid: whether rate, RTT and sender are known.
    """

    performance: Performance
    rate_Bps: Floats  # noqa: N815
    sender: Indices
    least_rtt_us: Floats
    heard: Bools
    valid: Bools


def step_counts(records: RecordArray) -> Floats:
    """Return the counts of a step, shape (n, 5), from the step's records, shape (n,). The columns are
    `TIME_NS` to `RTT_SAMPLES`.
    """
    return _STEP.read(records)


def credit_counts(records: RecordArray) -> Floats:
    """Return the counts of a step's records separately for each arm that sent the data, shape (n, epochs, 5).

    An epoch is the time between two switches of a flow; see the field `credit` of a record. The columns are
    `TIME_NS` to `RTT_SAMPLES`.
    """
    return _CREDITS.read(records).reshape(len(records), CREDITS_MAX, COUNTS)


def performance(counts: Floats, mss: Floats, srtt_us: Floats) -> Performance:
    """Derive the inputs of Mutant Eq. 1 from counts.

    Args:
        counts: shape (n, 5), with the columns `TIME_NS` to `RTT_SAMPLES`.
        mss: maximum segment size in bytes, shape (n,).
        srtt_us: smoothed RTT in µs, shape (n,).
    """
    time_ns, delivered, lost, rtt_sum_us, rtt_samples = counts.T
    return Performance(
        throughput_Bps=delivered * mss / (np.maximum(time_ns, 1.0) * 1e-9),
        loss_rate=loss_rate(lost, delivered),
        rtt_us=mean_or(rtt_sum_us, rtt_samples, srtt_us),
    )


def mean_or(total: Floats, count: Floats, otherwise: Floats) -> Floats:
    """Return `total` / `count`, or `otherwise` where `count` is 0. All arrays have the same shape."""
    return np.divide(total, count, out=np.array(otherwise, np.float64), where=count > 0)


def known_rtt(min_rtt_us: ArrayLike) -> Bools:
    """True where the kernel has measured the minimum RTT, in the shape of `min_rtt_us`."""
    least = np.asarray(min_rtt_us)
    known: Bools = (least > 0) & (least < _NO_RTT)
    return known


def measure(records: RecordArray, credit: Credit) -> Measurement:
    """Return the measurement of one step.

    Args:
        records: the step's records, shape (n,).
        credit: `sent` credits the arm under which most of the acknowledged data was sent, about an RTT
            earlier. `acked` credits the arm that ran when the ACKs came.
    """
    samples, rate_sum_Bps, mss, srtt_us, least_us = _REST.read(records).T
    seen = performance(step_counts(records), mss, srtt_us)
    rate_Bps = rate_sum_Bps / np.maximum(samples, 1.0)
    sender = records["arm"].astype(np.intp)
    if credit == "sent":
        sender = _main_sender(records, sender)
    return Measurement(
        performance=seen,
        rate_Bps=rate_Bps,
        sender=sender,
        least_rtt_us=np.where(known_rtt(least_us), least_us, np.inf),
        heard=samples > 0,
        valid=(rate_Bps > 0) & (seen.rtt_us > 0) & (sender >= 1) & (sender <= ARMS_MAX),
    )


def _main_sender(records: RecordArray, active: Indices) -> Indices:
    """Return the id of the arm under which the data of most of a step's samples was sent, shape (n,). For a
    step without samples, it is the arm in `active`.
    """
    credits = records["credit"]
    samples = credits["samples"]
    most = samples.argmax(axis=1)
    row = np.arange(len(records))
    return np.where(samples[row, most] > 0, credits["arm"][row, most], active).astype(np.intp)
