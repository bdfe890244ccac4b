# SPDX-License-Identifier: Apache-2.0
"""Flows and records for unit tests."""

import socket

import numpy as np

from ltp_switcher.daemon.datapath import FlowInfo, protocol


def record(cookie: int, **fields: int) -> np.ndarray:
    """One record, shape (1,)."""
    made = np.zeros(1, protocol.RECORD_DTYPE)
    made["cookie"] = cookie
    made["interval_ns"] = 10_000_000
    for name, value in fields.items():
        made[name] = value
    return made


def flow(cookie: int, remote: str = "192.0.2.1", **fields: int) -> FlowInfo:
    """A flow to `remote`:443."""
    family = socket.AF_INET6 if ":" in remote else socket.AF_INET
    return FlowInfo(
        cookie=cookie,
        netns=1,
        family=family,
        local_address="198.51.100.1",
        local_port=5000,
        remote_address=remote,
        remote_port=443,
        age_ns=0,
        reason=protocol.FallbackReason.NONE,
        record=record(cookie, **fields),
    )
