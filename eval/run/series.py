# SPDX-License-Identifier: Apache-2.0
"""The time series of a run: one row per flow and 100 ms bin, as the lab writes it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.errors import ArtifactError

BIN_S: Final = 0.1

NUMBERS: Final = (
    "t_s", "goodput_mbps", "rtt_ms", "rtt_min_ms", "rtt_max_ms", "cwnd_pkts", "delivery_rate_mbps",
    "lost_pkts", "delivered_pkts", "retrans_pkts", "capacity_mbps", "queue_pkts",
)  # fmt: skip
COLUMNS: Final = (
    "t_s", "flow", "scheme", "goodput_mbps", "rtt_ms", "rtt_min_ms", "rtt_max_ms", "cwnd_pkts",
    "delivery_rate_mbps", "lost_pkts", "delivered_pkts", "retrans_pkts", "arm", "capacity_mbps",
    "queue_pkts",
)  # fmt: skip
"""Header of `timeseries.csv`."""


@dataclass(frozen=True)
class FlowSeries:
    """One flow's bins in order of time: every array has shape (bins,), float64.

    Units are in the names. `t_s` is the bin's start. Counters (`lost_pkts`, `delivered_pkts`, `retrans_pkts`)
    count within the bin. A value that was not measured in a bin is NaN. `arm` is the protocol that the flow
    ran at the bin's end, empty while the flow has no connection.
    """

    flow: int
    scheme: str
    t_s: Floats
    goodput_mbps: Floats
    rtt_ms: Floats
    rtt_min_ms: Floats
    rtt_max_ms: Floats
    cwnd_pkts: Floats
    delivery_rate_mbps: Floats
    lost_pkts: Floats
    delivered_pkts: Floats
    retrans_pkts: Floats
    capacity_mbps: Floats
    queue_pkts: Floats
    arm: tuple[str, ...]

    def life(self, start_s: float, stop_s: float) -> Bools:
        """Return a mask, shape (bins,), of the bins that begin in [start_s, stop_s), with a tolerance of a
        tenth of a bin.
        """
        slack_s = BIN_S / 10
        mask: Bools = (self.t_s >= start_s - slack_s) & (self.t_s < stop_s - slack_s)
        return mask


def read_series(text: str) -> list[FlowSeries]:
    """Parse `timeseries.csv`; flows in order of their index.

    Raises:
        ArtifactError: the header is not `COLUMNS`, or a cell is not a number.
    """
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ArtifactError(f"timeseries.csv: header {reader.fieldnames} is not {', '.join(COLUMNS)}")
    rows_of: dict[int, list[dict[str, str]]] = {}
    try:
        for row in reader:
            rows_of.setdefault(int(row["flow"]), []).append(row)
        return [_flow(flow, rows_of[flow]) for flow in sorted(rows_of)]
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"timeseries.csv: {error}") from error


def _flow(flow: int, rows: Sequence[dict[str, str]]) -> FlowSeries:
    columns = {name: np.array([float(row[name] or "nan") for row in rows]) for name in NUMBERS}
    # Results keep their series in memory, so equal names of arms share one string.
    arm = tuple(sys.intern(row["arm"]) for row in rows)
    return FlowSeries(flow=flow, scheme=rows[0]["scheme"], arm=arm, **columns)
