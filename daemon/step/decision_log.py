# SPDX-License-Identifier: Apache-2.0
"""Logs decisions with their reasons, at a rate that a person can read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.datapath import FlowInfo, RecordArray
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.log_fields import fields
from ltp_switcher.measures import BYTES_TO_MBIT

log = logging.getLogger(__name__)


class RateLimit:
    """A limit of `per_s` events a second, evenly spaced. It counts the events that it held back."""

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self.held_back = 0
        self._next_s = 0.0

    def allows(self, more: int = 1) -> bool:
        """Return whether an event may pass now. If it may not, `more` events are counted as held back."""
        now_s = time.monotonic()
        if self.per_s <= 0 or now_s < self._next_s:
            self.held_back += more
            return False
        self._next_s = now_s + 1 / self.per_s
        return True


class DecisionLog:
    """Logs the daemon's decisions, at most `per_s` lines a second, and the fallbacks, in which the kernel
    module itself moves a flow to a safe arm. `names` has the arms' names by id.
    """

    def __init__(self, names: Mapping[int, str], per_s: float, mode: str) -> None:
        self.names = names
        self._decisions = RateLimit(per_s)
        self._fallbacks = RateLimit(1.0)
        self.mode = mode

    def set_rate(self, per_s: float) -> None:
        """Set the largest number of lines about decisions in a second; 0 turns these lines off."""
        self._decisions.per_s = per_s

    def decided(
        self,
        table: FlowTable,
        slots: Slots,
        records: RecordArray,
        arms: ArmIds,
        reason: Callable[[int], str],
    ) -> None:
        """Log the first of n changes of arm whose flow is known, if the rate limit lets a line pass. Arrays
        have the shape (n,), with n at least 1.

        `reason` is a function of a slot. It returns the reason in words for the decision about the slot's
        flow.
        """
        known = ((at, flow) for at, slot in enumerate(slots.tolist()) if (flow := table.info[slot]))
        at, flow = next(known, (0, None))
        if flow is None:
            self._decisions.held_back += slots.size
            return
        if not self._decisions.allows(slots.size):
            return
        record, slot = records[at], int(slots[at])
        verb = "switches" if self.mode == "active" else "would switch"
        others, self._decisions.held_back = self._decisions.held_back, 0
        before, after = self.names.get(int(record["want_arm"]), "none"), self.names.get(int(arms[at]), "none")
        why = reason(slot)
        log.info(
            "flow %d to %s %s %s -> %s: %s (last reward %.3f, %.2f Mbit/s, srtt %.1f ms, lost %d); "
            "%d other changes since the last line",
            flow.cookie, describe_peer(flow), verb,
            before, after, why,
            table.reward[slot], table.goodput_Bps[slot] * BYTES_TO_MBIT, record["srtt_us"] / 1000,
            record["lost"], others + slots.size - 1,
            extra=fields(
                cookie=flow.cookie, peer=describe_peer(flow), arm=after, arm_before=before, reason=why,
                mode=self.mode,
            ),
        )  # fmt: skip

    def fell_back(self, flow: FlowInfo, reason: str) -> None:
        """Log that the module sent a flow to the fallback arm."""
        if self._fallbacks.allows():
            arm = self.names.get(int(flow.record["arm"][0]), "none")
            log.warning(
                "flow %d to %s fell back to %s: %s; %d other fallbacks since the last line",
                flow.cookie, describe_peer(flow), arm, reason, self._fallbacks.held_back,
                extra=fields(cookie=flow.cookie, peer=describe_peer(flow), arm=arm, reason=reason),
            )  # fmt: skip
            self._fallbacks.held_back = 0


def describe_peer(flow: FlowInfo) -> str:
    """The flow's remote end as `address:port`."""
    return endpoint(flow.remote_address, flow.remote_port)


def endpoint(address: str, port: int) -> str:
    """`address:port`, with brackets around IPv6."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
