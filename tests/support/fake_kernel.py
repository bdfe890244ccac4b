# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the one layer that a unit test cannot have: the module behind `Datapath`.

Everything above it (engine, control methods, control server, API) is the real code.
"""

from __future__ import annotations

import dataclasses
import socket
import time

import numpy as np

from ltp_switcher.daemon.datapath import ArmInfo, EventBatch, FlowInfo, FlowNotFoundError, protocol
from ltp_switcher.daemon.datapath.types import CommandArray, RecordArray, SelectResult

NETNS = 4026531840
REMOTES = {"4711": "198.51.100.7", "815": "203.0.113.9", "18446744073709551615": "2001:db8:7::9"}
"""Remote addresses of the flows, by cookie."""
CUBIC, BBR, VEGAS, YEAH, DCTCP = 1, 2, 3, 8, 16
ARMS = [
    ArmInfo(CUBIC, "cubic", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, ""),
    ArmInfo(BBR, "bbr", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, ""),
    ArmInfo(VEGAS, "vegas", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, ""),
    ArmInfo(YEAH, "yeah", protocol.ArmState.UNAVAILABLE, protocol.ArmKind.KERNEL, "no such protocol"),
    ArmInfo(DCTCP, "dctcp", protocol.ArmState.REFUSED, protocol.ArmKind.EXTRA, "needs ECN from the start"),
]


def record(cookie: int, arm: int = CUBIC) -> RecordArray:
    """An aggregate, shape (1,), of a flow at 40 ms and 8 Mbit/s."""
    one = np.zeros(1, protocol.RECORD_DTYPE)
    values = {
        "cookie": cookie,
        "time_ns": time.monotonic_ns(),
        "interval_ns": 10_000_000,
        "samples": 7,
        "rtt_samples": 7,
        "delivered": 7,
        "acked_bytes": 10_000,
        "total_delivered": 700,
        "total_lost": 3,
        "total_acked_bytes": 1_000_000,
        "total_retrans": 2,
        "delivery_rate": 1_000_000,
        "pacing_rate": 2**64 - 1,
        "snd_cwnd": 28,
        "ssthresh": 0x7FFFFFFF,
        "rtt_us": 41_000,
        "min_rtt_us": 40_000,
        "srtt_us": 40_500,
        "mss": 1448,
        "in_flight": 27,
        "arm": arm,
        "want_arm": arm,
    }
    for name, value in values.items():
        one[name] = value
    return one


def flow(cookie: int, remote: str, arm: int = CUBIC) -> FlowInfo:
    """A flow to `remote`, an IPv4 or IPv6 address."""
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
        record=record(cookie, arm),
    )


class Kernel:
    """Flows by cookie, with the methods of `Datapath` that the daemon calls."""

    def __init__(self, *flows: FlowInfo) -> None:
        self.table = {flow.cookie: flow for flow in flows}
        self._events = socket.socketpair()

    def arms(self) -> list[ArmInfo]:
        return ARMS

    def set_config(self, **_: object) -> None: ...

    def flows(self) -> list[FlowInfo]:
        return list(self.table.values())

    def flow(self, cookie: int) -> FlowInfo:
        try:
            return self.table[cookie]
        except KeyError:
            raise FlowNotFoundError(cookie) from None

    def close_step(self) -> RecordArray:
        return np.concatenate([np.empty(0, protocol.RECORD_DTYPE), *(f.record for f in self.table.values())])

    def select(self, commands: CommandArray) -> SelectResult:
        for command in commands:
            self._run(int(command["cookie"]), int(command["arm"]))
        return SelectResult(len(commands), 0, 0)

    def pin(self, cookie: int, arm: int) -> None:
        self._run(cookie, arm)
        self.table[cookie].record["flags"] |= np.uint32(protocol.FlowFlags.PINNED)

    def unpin(self, cookie: int) -> None:
        self.flow(cookie).record["flags"] &= ~np.uint32(protocol.FlowFlags.PINNED)

    def _run(self, cookie: int, arm: int) -> None:
        changed = self.flow(cookie).record.copy()
        changed["prev_arm"], changed["arm"], changed["want_arm"] = changed["arm"], arm, arm
        changed["switches"] += 1
        self.table[cookie] = dataclasses.replace(self.table[cookie], record=changed)

    def events(self) -> Kernel:
        return self

    def fileno(self) -> int:
        return self._events[0].fileno()

    def read(self) -> EventBatch:
        return EventBatch([], lost=False)

    def open_session(self) -> None:
        """Nobody else steers."""

    def close_session(self, grace_ms: int) -> None:
        """Nothing falls back here."""

    def close(self) -> None:
        for end in self._events:
            end.close()
