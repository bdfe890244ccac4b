# SPDX-License-Identifier: Apache-2.0
"""Reader of mm-link's log for the data direction: the queue over time, and the dropped packets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.run.series import BIN_S

_BASE: Final = "# base timestamp: "


@dataclass(frozen=True, slots=True)
class LinkLog:
    """Numbers of packets of a run at the link, and the queue at the end of each bin, shape (bins,).

    The queue may be wrong by one packet.
    """

    arrived_pkts: int
    left_pkts: int
    dropped_pkts: int
    queue_pkts: Ints


def read_link_log(lines: Iterable[str], *, queue_pkts: int, lead_ms: int, bins: int) -> LinkLog:
    """Compute the queue over time from mm-link's log.

    The log shows packets that arrive (`+`) and leave (`-`), but no drops. So a packet that meets a queue of
    `queue_pkts` packets counts as dropped. mm-link may keep such a packet if a part of the packet in service
    has left. The total of dropped packets is exact: a packet that has not left at the end was dropped.

    Args:
        lines: the log.
        queue_pkts: length of the queue in packets.
        lead_ms: time from the link's start to the scenario's begin.
        bins: number of bins of `BIN_S` from the scenario's begin on.

    Raises:
        ArtifactError: the lines are no log of mm-link.
    """
    base_ms: int | None = None
    arrived = left = held = 0
    at_end = np.zeros(bins, np.int64)
    bin_ms = round(BIN_S * 1e3)
    now_bin = 0
    for line in lines:
        if line.startswith("#"):
            if line.startswith(_BASE):
                base_ms = int(line.removeprefix(_BASE))
            continue
        at_ms, kind, *_ = line.split()
        if kind == "#":
            continue
        if base_ms is None:
            break
        reached = (int(at_ms) - base_ms - lead_ms) // bin_ms
        if reached > now_bin:
            at_end[now_bin:reached] = held
            now_bin = reached
        if kind == "+":
            arrived += 1
            held = min(queue_pkts, held + 1)
        elif kind == "-":
            left += 1
            held = max(0, held - 1)
    if base_ms is None:
        raise ArtifactError("mm-link's log has no base timestamp")
    at_end[now_bin:] = held
    return LinkLog(arrived, left, arrived - left, at_end)
