# SPDX-License-Identifier: Apache-2.0
"""Raw results in the lab's form, made up from the scenario alone, to test their readers."""

from __future__ import annotations

import csv
import io
import json

import numpy as np

from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import BIN_S, COLUMNS


def raw_files(scenario: Scenario, *, seed: int = 1, goodput_share: float = 0.9) -> dict[str, bytes]:
    """`timeseries.csv` and `flows.json` of flows that share `goodput_share` of the link equally."""
    rng = np.random.default_rng(seed)
    states = list(scenario.link.states())
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    totals: list[dict[str, object]] = []
    for i, flow in enumerate(scenario.flows):
        total_bytes = delivered = 0.0
        counts = [0] * 300
        for n in range(round(flow.start_s / BIN_S), round(flow.stop_s / BIN_S)):
            t_s = n * BIN_S
            state = [state for state in states if state.at_s <= t_s + 1e-9][-1]
            rate_mbps = state.rate_mbps or 10.0
            goodput_mbps = goodput_share * rate_mbps / len(scenario.flows)
            rtt_ms = (flow.rtt_ms or state.rtt_ms) * (1 + 0.2 * rng.random())
            total_bytes += goodput_mbps * 1e6 / 8 * BIN_S
            packets = goodput_mbps * 1e6 / 8 * BIN_S / 1448
            delivered += packets
            counts[min(299, int(rtt_ms))] += 10
            arm = str(rng.choice(("cubic", "bbr", "vegas"))) if flow.scheme == "switcher" else flow.scheme
            writer.writerow(
                {
                    "t_s": f"{t_s:.1f}", "flow": i, "scheme": flow.scheme,
                    "goodput_mbps": f"{goodput_mbps:.4f}", "rtt_ms": f"{rtt_ms:.3f}",
                    "rtt_min_ms": f"{rtt_ms:.3f}", "rtt_max_ms": f"{rtt_ms:.3f}", "cwnd_pkts": 40,
                    "delivery_rate_mbps": f"{goodput_mbps:.4f}", "lost_pkts": 0,
                    "delivered_pkts": round(packets), "retrans_pkts": 0, "arm": arm,
                    "capacity_mbps": rate_mbps, "queue_pkts": 5,
                }
            )  # fmt: skip
        totals.append(
            {
                "flow": i, "scheme": flow.scheme, "bytes_received": round(total_bytes),
                "retransmits": 3, "lost_pkts": 1, "delivered_pkts": round(delivered), "switches": 7,
                "rtt_histogram": {"upper_ms": [float(n + 1) for n in range(300)], "count": counts},
            }
        )  # fmt: skip
    return {"timeseries.csv": text.getvalue().encode(), "flows.json": json.dumps({"flows": totals}).encode()}
