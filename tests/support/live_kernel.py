# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the module whose flows move: rates and RTTs follow simple paths, and depend on the arm."""

from __future__ import annotations

import math
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ltp_switcher.daemon.datapath import ArmInfo, FlowInfo, protocol
from ltp_switcher.daemon.datapath.protocol import ArmId, ArmKind, ArmState, FlowFlags
from ltp_switcher.daemon.datapath.types import RecordArray
from support.fake_kernel import Kernel
from support.records import NETNS

MSS = 1448
NO_ARM = "<b>no such</b> protocol"
"""The reason of an arm that is not there, which no page may take for markup."""
ARMS = [
    ArmInfo(ArmId.CUBIC, "cubic", ArmState.AVAILABLE, ArmKind.KERNEL, ""),
    ArmInfo(ArmId.BBR, "bbr", ArmState.AVAILABLE, ArmKind.KERNEL, ""),
    ArmInfo(ArmId.VEGAS, "vegas", ArmState.AVAILABLE, ArmKind.KERNEL, ""),
    ArmInfo(ArmId.WESTWOOD, "westwood", ArmState.AVAILABLE, ArmKind.KERNEL, ""),
    ArmInfo(ArmId.HTCP, "htcp", ArmState.AVAILABLE, ArmKind.KERNEL, ""),
    ArmInfo(ArmId.YEAH, "yeah", ArmState.UNAVAILABLE, ArmKind.KERNEL, NO_ARM),
    ArmInfo(ArmId.LTP, "ltp", ArmState.AVAILABLE, ArmKind.LEARNED, ""),
]
# Share of the rate, and queue as a share of the path's RTT.
_MANNERS = {ArmId.BBR: (0.93, 0.25), ArmId.LTP: (0.97, 0.08), ArmId.VEGAS: (0.9, 0.04)}
_OTHERS = (0.8, 0.8)


@dataclass(frozen=True)
class Path:
    """A flow's path. `varies` is the size of its rate's swings, 0 to 1; its RTT changes at `step_s`."""

    remote: str
    rate_mbps: float
    rtt_ms: float
    varies: float = 0.05
    loss: float = 0.0
    step_s: float = math.inf
    begins_s: float = 0.0


PATHS = (
    Path("198.51.100.7", 94.0, 18.0),
    Path("198.51.100.23", 61.0, 19.0, loss=0.0004),
    Path("203.0.113.9", 23.0, 46.0, varies=0.9),
    Path("203.0.113.77", 17.5, 52.0, varies=0.85, loss=0.002),
    Path("192.0.2.141", 240.0, 9.0),
    Path("192.0.2.18", 38.0, 88.0, step_s=150.0),
    Path("2001:db8:7::9", 12.0, 134.0, loss=0.01),
    Path("2001:db8:41::2", 480.0, 31.0, varies=0.12),
    Path("198.51.100.200", 4.6, 210.0, varies=0.8),
    Path("203.0.113.130", 55.0, 27.0, begins_s=205.0),
)


class LiveKernel(Kernel):
    """Flows over paths; a fast one tells the daemon's start in moments. `clock` is in s."""

    def __init__(self, paths: tuple[Path, ...] = PATHS, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = dict(enumerate(paths, 4711)), clock
        self._began_s = self._last_s = clock()
        self._rng = random.Random(7)
        self._owed: dict[int, float] = {}
        super().__init__(*(_flow(c, path) for c, path in self._paths.items() if not path.begins_s))

    def arms(self) -> list[ArmInfo]:
        return ARMS

    def close_step(self) -> RecordArray:
        now_s = self._clock()
        interval_s, self._last_s = now_s - self._last_s, now_s
        at_s = now_s - self._began_s
        for cookie, path in self._paths.items():
            if cookie not in self.table and at_s >= path.begins_s:
                self.table[cookie] = _flow(cookie, path)
        for cookie, flow in self.table.items():
            self._advance(flow.record, self._paths[cookie], at_s - self._paths[cookie].begins_s, interval_s)
        return super().close_step()

    def _advance(self, record: RecordArray, path: Path, at_s: float, interval_s: float) -> None:
        share, queue = _MANNERS.get(ArmId(int(record["arm"][0])), _OTHERS)
        swing = math.sin(at_s / 3.1 + path.rtt_ms) * math.sin(at_s / 7.7 + path.rate_mbps)
        swing += self._rng.uniform(-0.3, 0.3)
        rate_mbps = path.rate_mbps * share * max(1.0 - path.varies * (0.5 + 0.5 * swing), 0.05)
        # While the rate falls a bold arm fills the queue.
        stretch = 1.0 + queue * (1.0 + 60.0 * path.varies**4 * max(swing, 0.0)) * self._rng.uniform(0.9, 1.1)
        base_ms = path.rtt_ms * (2.2 if at_s > path.step_s else 1.0)
        rtt_us = int(base_ms * 1000 * stretch)
        pkts = rate_mbps * 125_000 * interval_s / MSS + self._owed.get(int(record["cookie"][0]), 0.0)
        delivered = int(pkts)
        self._owed[int(record["cookie"][0])] = pkts - delivered
        lost = sum(self._rng.random() < path.loss for _ in range(delivered)) if path.loss else 0
        floor_us = int(base_ms * 1000)
        samples = max(delivered // 2, 1)
        fields = {
            "time_ns": time.monotonic_ns(), "interval_ns": int(interval_s * 1e9), "samples": samples,
            "rtt_samples": samples, "delivered": delivered, "lost": lost, "acked_bytes": delivered * MSS,
            "delivery_rate": int(rate_mbps * 125_000), "pacing_rate": int(rate_mbps * 1.25 * 125_000),
            "rtt_us": rtt_us, "srtt_us": rtt_us, "min_rtt_us": floor_us, "rtt_floor_us": floor_us, "mss": MSS,
            "snd_cwnd": int(rate_mbps * 125_000 * rtt_us * 1e-6 / MSS) + 4, "ssthresh": 0x7FFFFFFF,
            "in_flight": int(rate_mbps * 125_000 * rtt_us * 1e-6 / MSS),
            "bdp": int(rate_mbps * 125_000 * floor_us * 1e-6 / MSS), "round_trips": int(at_s * 1e6 / rtt_us),
        }  # fmt: skip
        for name, value in fields.items():
            record[name] = value
        record["total_delivered"] += delivered
        record["total_lost"] += lost
        record["total_retrans"] += lost
        record["total_acked_bytes"] += delivered * MSS
        record["flags"] |= np.uint32(FlowFlags.STEERED)
        for name in ("rtt_stat", "srtt_stat"):
            record[name] = (rtt_us, rtt_us, rtt_us * samples)


def _flow(cookie: int, path: Path) -> FlowInfo:
    record = np.zeros(1, protocol.RECORD_DTYPE)
    record["cookie"], record["arm"], record["want_arm"] = cookie, ArmId.CUBIC, ArmId.CUBIC
    six = ":" in path.remote
    return FlowInfo(
        cookie=cookie, netns=NETNS, family=socket.AF_INET6 if six else socket.AF_INET,
        local_address="2001:db8::1" if six else "192.0.2.1", local_port=443, remote_address=path.remote,
        remote_port=40_000 + cookie % 1000, age_ns=0, reason=protocol.FallbackReason.NONE, record=record,
    )  # fmt: skip
