# SPDX-License-Identifier: Apache-2.0
"""A run's raw results, made from the output of `guest/traffic`, the program that sends the flows: the time
series, the flows' totals, and the guest's costs.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from typing import Any, Final

from ltp_switcher.errors import LabError
from ltp_switcher.eval.run import metrics
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import BIN_S, COLUMNS
from ltp_switcher.measures import BYTES_TO_MBIT, loss_rate

_LIVE_S: Final = 0.5


def follower(scenario: Scenario, on_progress: Callable[[Sample], None]) -> Callable[[str], None]:
    """Return a function that takes each line which the guest writes during a run. It calls `on_progress`
    with the state of the first flow.
    """

    def follow(line: str) -> None:
        if not line.startswith('{"t_ms"'):
            return
        document = json.loads(line)
        flow = document["flows"][0]
        goodput_mbps = flow["received_bytes"] * BYTES_TO_MBIT / _LIVE_S
        loss = loss_rate(flow["lost_pkts"], flow["delivered_pkts"])
        rtt_ms = flow["rtt_us"] / 1e3 or math.nan
        on_progress(
            Sample(
                t_s=document["t_ms"] / 1e3,
                arm=flow["arm"],
                cwnd_pkts=flow["cwnd_pkts"],
                srtt_ms=rtt_ms,
                delivery_rate_mbps=flow["rate_Bps"] * BYTES_TO_MBIT,
                reward=float(metrics.rewards([goodput_mbps], [rtt_ms], loss)[0]),
                switches=flow["switches"],
            )
        )

    return follow


def check_bytes(scenario: Scenario, totals: dict[str, Any]) -> None:
    """Raise `LabError` if a flow's numbers of bytes sent, received and acknowledged do not fit together. A
    flow that has drained must have received all that was sent.
    """
    for index, flow in enumerate(totals["flows"]):
        sent, received, acked = flow["sent_bytes"], flow["received_bytes"], flow["acked_bytes"]
        # A flow that could not empty its queue after the end has bytes under way.
        if not acked <= received <= sent or (flow["drained"] and received != sent):
            raise LabError(
                f"{scenario.name}: flow {index} sent {sent} bytes, {received} arrived, {acked} were acked"
            )


def timeseries(scenario: Scenario, rows: list[dict[str, str]], capacity: list[float]) -> bytes:
    """Return the content of `timeseries.csv`: a row for each flow and bin of `BIN_S` seconds.

    Args:
        scenario: the link and the flows.
        rows: rows that the traffic program wrote, by column.
        capacity: the link's capacity in each bin, in Mbit/s.
    """
    measured = {(int(row["bin"]), int(row["flow"])): row for row in rows}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for n, offered_mbps in enumerate(capacity):
        for index, flow in enumerate(scenario.flows):
            if flow.start_s - BIN_S / 2 <= n * BIN_S < flow.stop_s - BIN_S / 10:
                row = measured.get((n, index))
                writer.writerow(_row(n, index, flow.scheme, row, offered_mbps))
    return text.getvalue().encode()


def _row(n: int, index: int, scheme: str, row: dict[str, str] | None, offered_mbps: float) -> list[object]:
    t_s = f"{n * BIN_S:.1f}"
    if row is None:
        # Not connected yet: nothing got through, and there is nothing to say of RTT and window.
        return [t_s, index, scheme, 0, "", "", "", "", "", 0, 0, 0, "", f"{offered_mbps:.6g}", ""]
    rtts = int(row["rtts"])
    rtt_ms = [
        f"{int(row['rtt_sum_us']) / rtts / 1e3:.3f}" if rtts else "",
        f"{int(row['rtt_min_us']) / 1e3:.3f}" if rtts else "",
        f"{int(row['rtt_max_us']) / 1e3:.3f}" if rtts else "",
    ]
    goodput_mbps = int(row["received_bytes"]) * BYTES_TO_MBIT / BIN_S
    rate_mbps = int(row["rate_Bps"]) * BYTES_TO_MBIT
    return [
        t_s, index, scheme, f"{goodput_mbps:.6f}", *rtt_ms, row["cwnd_pkts"], f"{rate_mbps:.6f}",
        row["lost_pkts"], row["delivered_pkts"], row["retrans_pkts"], row["arm"], f"{offered_mbps:.6g}",
        row["queue_pkts"],
    ]  # fmt: skip


def flows_json(scenario: Scenario, totals: dict[str, Any]) -> bytes:
    """Return the content of `flows.json`: the sums over each flow's life, from the traffic program's
    `totals`.
    """
    upper_ms = [edge / 1e3 for edge in totals["rtt_upper_us"]]
    flows = []
    for index, (flow, total) in enumerate(zip(scenario.flows, totals["flows"], strict=True)):
        used = max((i for i, count in enumerate(total["rtt_counts"]) if count), default=0) + 1
        flows.append(
            {
                "flow": index,
                "scheme": flow.scheme,
                "bytes_acked": total["acked_bytes"],
                "bytes_received": total["stop_received_bytes"],
                "bytes_received_in_all": total["received_bytes"],
                "bytes_sent": total["sent_bytes"],
                "retransmits": total["retrans_pkts"],
                "lost_pkts": total["lost_pkts"],
                "delivered_pkts": total["delivered_pkts"],
                "switches": total["switches"],
                "rtt_histogram": {"upper_ms": upper_ms[:used], "count": total["rtt_counts"][:used]},
            }
        )
    return (json.dumps({"flows": flows}, indent=1) + "\n").encode()


def guest_json(totals: dict[str, Any], status: dict[str, Any]) -> bytes:
    """Return the content of `guest.json`: the instructions that the guest ran, its idle time, and the counts
    in the daemon's status.

    Args:
        totals: totals of the traffic program.
        status: the daemon's last status; empty if the run had no daemon.
    """
    guest = {
        "busy_instructions": totals["busy_ns"],
        "idle_ns": totals["idle_ns"],
        "daemon_instructions": totals["process_ns"],
        "fallbacks": status.get("fallbacks", 0),
        "learned": status.get("learned", {}),
    }
    return (json.dumps(guest, indent=1) + "\n").encode()
