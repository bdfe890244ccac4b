# SPDX-License-Identifier: Apache-2.0
"""An encoder with random weights, and a world in which the arms differ."""

import numpy as np

from ltp_switcher.daemon.datapath.protocol import ARMS_MAX, RECORD_DTYPE
from ltp_switcher.encoder import Artifact, GRUEncoder

MSS = 1448
STEP_NS = 10_000_000


def random_artifact(seed: int = 0, inputs: int = 75, hidden: int = 24, outputs: int = 16) -> Artifact:
    rng = np.random.default_rng(seed)

    def weight(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)

    weights = {
        "gru_weight_ih": weight(3 * hidden, inputs),
        "gru_weight_hh": weight(3 * hidden, hidden),
        "gru_bias_ih": weight(3 * hidden),
        "gru_bias_hh": weight(3 * hidden),
        "fc1_weight": weight(32, hidden),
        "fc1_bias": weight(32),
        "fc2_weight": weight(outputs, 32),
        "fc2_bias": weight(outputs),
    }
    arms, dim = ARMS_MAX + 1, outputs + 1
    return Artifact(
        weights, np.zeros((arms, dim, dim)), np.zeros((arms, dim)), np.zeros(arms), {"seed": seed}
    )


def random_encoder(seed: int = 0) -> GRUEncoder:
    return GRUEncoder(random_artifact(seed))


class World:
    """n flows on one path. An arm's share of the rate and its queue are given; a switch shows an RTT later.

    `arms`: id -> (share of the rate, RTT / minimum RTT). The credits name the arm that sent the data.
    """

    def __init__(self, n: int, arms: dict[int, tuple[float, float]], rate_Bps: float, rtt_us: float) -> None:
        self.arms = arms
        self.rate_Bps = rate_Bps
        self.rtt_us = rtt_us
        self.lag = max(round(rtt_us * 1e3 / STEP_NS), 1)
        self.time_ns = 0
        self.active = np.full(n, min(arms), np.int64)
        self.epoch = np.zeros(n, np.int64)
        self.sent = [(self.active.copy(), self.epoch.copy())] * (self.lag + 1)
        self.rng = np.random.default_rng(1)
        self.owed = np.zeros(n)
        self.heard_ns = np.zeros(n, np.int64)

    def step(self, wanted: np.ndarray | None) -> np.ndarray:
        n = len(self.active)
        self.time_ns += STEP_NS
        if wanted is not None:
            self.epoch += wanted != self.active
            self.active = wanted.astype(np.int64)
        self.sent = [*self.sent[1:], (self.active.copy(), self.epoch.copy())]
        sender, epoch = self.sent[0]
        share = np.array([self.arms[arm][0] for arm in sender]) * self.rng.uniform(0.95, 1.0, n)
        rtt_us = np.array([self.arms[arm][1] for arm in sender]) * self.rtt_us * self.rng.uniform(1, 1.02, n)
        records = np.zeros(n, RECORD_DTYPE)
        records["time_ns"] = self.time_ns
        records["interval_ns"] = STEP_NS
        self.owed += share * self.rate_Bps * STEP_NS / 1e9 / MSS
        records["delivered"] = np.floor(self.owed)
        self.owed -= records["delivered"]
        records["samples"] = records["rtt_samples"] = np.minimum(records["delivered"], 8)
        records["delivery_rate"] = share * self.rate_Bps
        records["rtt_us"] = records["srtt_us"] = rtt_us
        records["min_rtt_us"] = self.rtt_us
        records["mss"] = records["advmss"] = MSS
        records["snd_cwnd"] = records["in_flight"] = share * self.rate_Bps * rtt_us / 1e6 / MSS + 1
        records["arm"] = records["want_arm"] = records["prev_arm"] = self.active
        records["epoch"] = records["switches"] = self.epoch
        for stat, field in [
            ("throughput_stat", "delivery_rate"),
            ("srtt_stat", "srtt_us"),
            ("rtt_stat", "rtt_us"),
            ("in_flight_stat", "in_flight"),
        ]:
            records[stat]["min"] = records[stat]["max"] = records[field]
            records[stat]["sum"] = records[field] * records["samples"]
        credit = records["credit"][:, 0]
        credit["epoch"], credit["arm"] = epoch, sender
        heard = records["samples"] > 0
        credit["arm"][~heard] = 0
        credit["time_ns"] = np.where(heard, self.time_ns - self.heard_ns, 0)
        self.heard_ns[heard] = self.time_ns
        for field in ("samples", "rtt_samples", "delivered"):
            credit[field] = records[field]
        credit["rtt_us_sum"] = records["rtt_stat"]["sum"]
        return records
