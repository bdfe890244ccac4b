# SPDX-License-Identifier: Apache-2.0
"""Flows and records for unit tests."""

from __future__ import annotations

import socket
import time

import numpy as np

from ltp_switcher.daemon.datapath import FlowInfo, protocol
from ltp_switcher.daemon.datapath.types import RecordArray

NETNS = 4026531840


def record(cookie: int, **fields: int) -> RecordArray:
    """One record of 10 ms in which nothing happened but these fields, shape (1,)."""
    made = np.zeros(1, protocol.RECORD_DTYPE)
    for name, value in {"cookie": cookie, "interval_ns": 10_000_000, **fields}.items():
        made[name] = value
    return made


def busy_record(cookie: int, arm: int = protocol.ArmId.CUBIC) -> RecordArray:
    """One record of a flow at 40 ms and 8 Mbit/s, shape (1,). It was busy for a second, of which the receiver
    held it back for 0.2 s and the send buffer for 0.1 s. Of its ACKs, six are close to the one before, and
    one came 16 to 33 ms later.
    """
    made = record(
        cookie,
        time_ns=time.monotonic_ns(),
        samples=7,
        rtt_samples=7,
        delivered=7,
        acked_bytes=10_000,
        total_delivered=700,
        total_lost=3,
        total_acked_bytes=1_000_000,
        total_retrans=2,
        delivery_rate=1_000_000,
        pacing_rate=2**64 - 1,
        snd_cwnd=28,
        ssthresh=0x7FFFFFFF,
        rtt_us=41_000,
        min_rtt_us=40_000,
        srtt_us=40_500,
        mss=1448,
        in_flight=27,
        arm=arm,
        want_arm=arm,
        busy_us=1_000_000,
        receiver_us=200_000,
        buffer_us=100_000,
        reord_seen=2,
        reordering=5,
        there_us=1_500,
        back_us=42_000,
    )
    made["ack_gaps"][0, [0, 9]] = 6, 1
    return made


def flow(cookie: int, remote: str = "198.51.100.7", *, busy: bool = False, **fields: int) -> FlowInfo:
    """A flow to `remote`:443, an IPv4 or IPv6 address, with a busy record or one of these fields."""
    six = ":" in remote
    return FlowInfo(
        cookie=cookie,
        netns=NETNS,
        family=socket.AF_INET6 if six else socket.AF_INET,
        local_address="2001:db8::1" if six else "192.0.2.1",
        local_port=40_000,
        remote_address=remote,
        remote_port=443,
        age_ns=1_500_000_000,
        reason=protocol.FallbackReason.NONE,
        record=busy_record(cookie) if busy else record(cookie, **fields),
    )
