# SPDX-License-Identifier: Apache-2.0
"""Flows with invented measurements. Each flow is on a path of its own, has noise, and keeps its own step
length.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.datapath.protocol import RECORD_DTYPE, ArmId
from ltp_switcher.daemon.datapath.types import CommandArray, ControlArray, RecordArray

MSS_BYTES: Final = 1448
RTT_US: Final = (10_000.0, 120_000.0)
"""Least and greatest RTT of a path without a queue, in µs. RTTs are uniform between these."""
RATE_BPS: Final = (1.2e6, 1.2e7)
"""Least and greatest rate of a path, 1.2 and 12 MB/s (10 and 100 Mbit/s). Rates are log-uniform between
these.
"""
_STATS: Final = {
    "srtt_stat": "srtt_us",
    "mdev_stat": "mdev_us",
    "lost_out_stat": "lost_out",
    "in_flight_stat": "in_flight",
    "throughput_stat": "delivery_rate",
    "rtt_stat": "rtt_us",
}


class Crowd:
    """`n` flows that always send. Cookies count from 1.

    Args:
        n: number of flows.
        seed: seed of paths and noise.
        start_ns: time at the beginning, CLOCK_MONOTONIC in ns.
    """

    def __init__(self, n: int, seed: int, start_ns: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._rate_Bps = np.exp(self._rng.uniform(np.log(RATE_BPS[0]), np.log(RATE_BPS[1]), n))
        self._rtt_us = self._rng.uniform(RTT_US[0], RTT_US[1], n)
        self._closed_ns = np.full(n, start_ns, np.int64)
        self._due_ns = np.full(n, start_ns, np.int64)
        self.rtt_quarters = 0
        """Least length of a flow's step, in quarters of its RTT."""
        self._echoed = np.zeros(n, np.uint32)
        self.records: RecordArray = np.zeros(n, RECORD_DTYPE)
        records = self.records
        records["cookie"] = np.arange(1, n + 1)
        records["arm"] = records["prev_arm"] = records["want_arm"] = ArmId.CUBIC
        records["min_rtt_us"] = records["rtt_floor_us"] = self._rtt_us
        records["mdev_us"] = 0.05 * self._rtt_us
        records["mss"] = records["advmss"] = MSS_BYTES
        records["bdp"] = self._rate_Bps * self._rtt_us / 1e6 / MSS_BYTES + 1
        records["siblings"] = 1

    def step(self, now_ns: int) -> RecordArray:
        """End the steps of the flows whose step is due, and return their records, shape (due flows,)."""
        if not self.rtt_quarters:
            self._fill(self.records, np.arange(len(self.records)), now_ns)
            self._closed_ns[:] = now_ns
            return self.records
        rows = np.flatnonzero(now_ns >= self._due_ns)
        records = self.records[rows]
        self._fill(records, rows, now_ns)
        self.records[rows] = records
        self._closed_ns[rows] = now_ns
        self._due_ns[rows] = now_ns + records["srtt_us"].astype(np.int64) * self.rtt_quarters * 250
        return records

    def select(self, commands: CommandArray) -> None:
        """Switch flows to the arms of these commands, without a delay."""
        rows = commands["cookie"].astype(np.int64) - 1
        switched = self.records["arm"][rows] != commands["arm"]
        rows, arms = rows[switched], commands["arm"][switched]
        for name, value in (
            ("prev_arm", self.records["arm"][rows]),
            ("arm", arms),
            ("want_arm", arms),
            ("round_trips", np.zeros(len(rows))),
            ("epoch", self.records["epoch"][rows] + 1),
        ):
            self.records[name][rows] = value

    def control(self, controls: ControlArray) -> None:
        """Remember the number of each flow's last control. The flow's next record returns it in an echo."""
        self._echoed[controls["cookie"].astype(np.int64) - 1] = controls["value"][:, 1]

    def _fill(self, records: RecordArray, rows: Ints, now_ns: int) -> None:
        n = len(rows)
        noise, queue = self._rng.uniform(0.7, 1.0, n), self._rng.uniform(1.0, 1.6, n)
        rate_Bps = noise * self._rate_Bps[rows]
        passed_ns = now_ns - self._closed_ns[rows]
        rtt_us = queue * self._rtt_us[rows]
        delivered = np.maximum(rate_Bps * passed_ns / 1e9 / MSS_BYTES, 1).astype(np.uint64)
        lost = (self._rng.random(n) < 0.02).astype(np.uint64)
        records["time_ns"], records["interval_ns"] = now_ns, passed_ns
        records["delivered"], records["lost"] = delivered, lost
        records["acked_bytes"] = delivered * np.uint64(MSS_BYTES)
        for name in ("delivered", "lost", "acked_bytes"):
            records[f"total_{name}"] += records[name]
        records["samples"] = records["rtt_samples"] = delivered // np.uint64(2) + np.uint64(1)
        records["delivery_rate"] = records["pacing_rate"] = rate_Bps
        records["rtt_us"] = records["srtt_us"] = rtt_us
        records["snd_cwnd"] = records["in_flight"] = rate_Bps * rtt_us / 1e6 / MSS_BYTES + 1
        records["round_trips"] += (passed_ns / (rtt_us * 1e3) + self._rng.random(n)).astype(np.uint32)
        for stat, current in _STATS.items():
            records[stat]["min"] = records[stat]["max"] = records[current]
            records[stat]["sum"] = records[current] * records["samples"]
        credit = records["credit"][:, 0]
        for name in ("arm", "epoch", "samples", "rtt_samples", "delivered", "lost", "acked_bytes"):
            credit[name] = records[name]
        credit["time_ns"], credit["rtt_us_sum"] = passed_ns, records["rtt_stat"]["sum"]
        echo = records["echo"]
        echo[:, 0] = echo[:, 1]
        last = echo[:, 1]
        last["number"], last["delivered"], last["lost"] = self._echoed[rows], delivered, lost
        last["sending_us"] = last["acking_us"] = passed_ns // 1000
        last["rtt_us_min"] = rtt_us
