# SPDX-License-Identifier: Apache-2.0
"""The flow table: every flow has a slot, and all arrays about flows are indexed by slot.

A slot is used again after its flow has ended. So arrays stay as small as the largest number of flows that
were ever open together.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints, Slots, UInt64s
from ltp_switcher.daemon.datapath import FlowInfo, RecordArray, protocol
from ltp_switcher.daemon.settings.prefixes import PREFIX_BITS_V4, PREFIX_BITS_V6
from ltp_switcher.slots import SlotArrays, column

UNKNOWN: Final = -1
PENDING_MAX: Final = 4096
"""Number of records that may wait before the times that they report are added up by flow and arm."""
GAPS_KEPT: Final = 0.8
"""Share of a flow's older gaps between ACKs that still counts after a second. So about five seconds count."""
_OPAQUE: Final = np.dtype(f"V{protocol.RECORD_DTYPE.itemsize}")


@dataclass(slots=True)
class Changes:
    """Slots whose flows came or ended. A slot is in both lists if its flow ended and another flow got it."""

    opened: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed)


class FlowTable(SlotArrays):
    """The table of open flows. Each flow has a slot, which is its row in every column. A mark is a call of
    `mark`, about once a second.
    """

    cookie = column(np.uint64)
    record = column(protocol.RECORD_DTYPE)
    """The flow's latest measurements, as the kernel reported them."""
    remote = column(np.uint64, 2)
    """The remote address, as its high 64 bits and its low 64 bits."""
    is_ipv6 = column(np.bool_)
    born_ns = column(np.int64)
    """Start of the flow, CLOCK_MONOTONIC in ns."""
    reward = column(np.float64, initial=np.nan)
    """The latest normalised reward of the flow; NaN before the first one."""
    goodput_Bps = column(np.float64)  # noqa: N815 - B is bytes
    """Bytes newly acknowledged per second, between the last two marks."""
    ack_gaps = column(np.float32, protocol.ACK_GAPS)
    """Number of gaps between two ACKs in each range, as in the field `ack_gaps` of a record. Older gaps count
    less.
    """
    _arm_time_ns = column(np.uint64, protocol.ARMS_MAX + 1)
    _mark_bytes = column(np.uint64)

    def __init__(self, *, home_netns: int = 0) -> None:
        super().__init__()
        self._home_netns = home_netns
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self.info: list[FlowInfo | None] = []
        self.prefix: list[str] = []
        self._closed_arm_time_ns: UInt64s = np.zeros(protocol.ARMS_MAX + 1, np.uint64)
        self._mark_ns = 0
        self._pending: list[tuple[Ints, RecordArray]] = []
        self._pending_rows = 0
        self._memo: tuple[bytes, Ints] = (b"", np.empty(0, np.int64))
        self._sorted_cookies: UInt64s = np.empty(0, np.uint64)
        self._sorted_slots: Slots = np.empty(0, np.int64)
        self._sorted = True

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, cookie: int) -> bool:
        return cookie in self._slot_of

    def slots(self) -> list[int]:
        """Return the slots in use, in the order in which the table took in their flows."""
        return list(self._slot_of.values())

    def slot(self, cookie: int) -> int:
        """The slot of the flow with this socket cookie; `UNKNOWN` if the table does not have the flow."""
        return self._slot_of.get(cookie, UNKNOWN)

    def flow(self, cookie: int) -> FlowInfo | None:
        """The flow with this socket cookie, as it was when the table took it in; None if the table does not
        have it.
        """
        slot = self._slot_of.get(cookie)
        return None if slot is None else self.info[slot]

    def prefixes(self, slots: Slots) -> list[str]:
        """The destination prefix of each flow, shape (n,)."""
        return [self.prefix[slot] for slot in slots.tolist()]

    def slots_of(self, cookies: UInt64s) -> Slots:
        """The slots of the flows with these socket cookies, in the same shape; `UNKNOWN` where the table does
        not have the flow. The result must not be changed.
        """
        key = cookies.tobytes()
        if self._sorted and key == self._memo[0]:
            return self._memo[1]
        slots = self._search(cookies)
        self._memo = key, slots
        return slots

    def _search(self, cookies: UInt64s) -> Slots:
        if not self._sorted:
            self._sort()
        if self._sorted_cookies.size == 0:
            return np.full(cookies.shape, UNKNOWN, np.int64)
        # A search that ends behind the last cookie wraps to the first one, where the comparison fails.
        at = np.searchsorted(self._sorted_cookies, cookies) % self._sorted_cookies.size
        return np.where(self._sorted_cookies[at] == cookies, self._sorted_slots[at], UNKNOWN)

    def add(self, flow: FlowInfo, now_ns: int) -> int | None:
        """Give a flow a slot, and return the slot; None if the flow has a slot already."""
        if flow.cookie in self._slot_of:
            return None
        if not self._free:
            self._add_slots()
        slot = self._free.pop()
        self._slot_of[flow.cookie] = slot
        self._sorted = False
        self.reset(np.array([slot]))
        self.info[slot] = flow
        self.prefix[slot] = destination_prefix(flow, self._home_netns)
        self.cookie[slot] = flow.cookie
        self.remote[slot] = divmod(int(ipaddress.ip_address(flow.remote_address)), 2**64)
        self.is_ipv6[slot] = flow.family == socket.AF_INET6
        self.record[slot] = flow.record[0]
        self.born_ns[slot] = now_ns - flow.age_ns
        self._mark_bytes[slot] = self.record["total_acked_bytes"][slot]
        return slot

    def remove(self, cookie: int) -> int | None:
        """Free the slot of the flow with this cookie, and return the slot; None if the table does not have
        the flow.
        """
        slot = self._slot_of.pop(cookie, None)
        if slot is None:
            return None
        self._sum_up()
        self._closed_arm_time_ns += self._arm_time_ns[slot]
        self._arm_time_ns[slot] = 0
        self._sorted = False
        self.info[slot] = None
        self.prefix[slot] = ""
        self._free.append(slot)
        return slot

    def resync(self, flows: Iterable[FlowInfo], now_ns: int) -> Changes:
        """Make the table hold exactly these flows. Returns the slots whose flows came or ended."""
        present = {flow.cookie: flow for flow in flows}
        changes = Changes()
        for cookie in [c for c in self._slot_of if c not in present]:
            slot = self.remove(cookie)
            if slot is not None:
                changes.closed.append(slot)
        for flow in present.values():
            slot = self.add(flow, now_ns)
            if slot is not None:
                changes.opened.append(slot)
        return changes

    def observe(self, slots: Slots, records: RecordArray) -> None:
        """Keep the records of a step. `records[i]` is about the flow in slot `slots[i]`. No slot appears
        twice.
        """
        # The records are copied as opaque bytes, because numpy copies records with fields at 50 times the
        # cost.
        self.record.view(_OPAQUE)[slots] = records.view(_OPAQUE)
        self.ack_gaps[slots] += records["ack_gaps"]
        self._pending.append((slots, records))
        self._pending_rows += len(records)
        if self._pending_rows >= PENDING_MAX:
            self._sum_up()

    def arm_time_ns(self) -> UInt64s:
        """Return the time that each flow has spent on each arm, in ns, shape (slots, ARMS_MAX + 1). A row is
        a slot, and a column the id of an arm.
        """
        self._sum_up()
        return self._arm_time_ns

    def total_arm_time_s(self) -> Floats:
        """Return the time in seconds that all flows, open and ended, have spent on each arm, shape (ARMS_MAX
        + 1,). The index is the id of the arm.
        """
        total_ns: UInt64s = self.arm_time_ns().sum(axis=0) + self._closed_arm_time_ns
        return total_ns.astype(np.float64) * 1e-9

    def mark(self, now_ns: int) -> None:
        """Compute each flow's goodput since the last mark, and let its older gaps between ACKs count less.
        Call this about once a second.
        """
        self.ack_gaps *= GAPS_KEPT
        elapsed_s = (now_ns - self._mark_ns) * 1e-9
        total = self.record["total_acked_bytes"]
        self.goodput_Bps = (total - self._mark_bytes) / elapsed_s
        self._mark_bytes = total.copy()
        self._mark_ns = now_ns

    def _sum_up(self) -> None:
        """Add the times of the pending records to the flows' times by arm. One call for many records takes
        little longer than one for the records of a single step.
        """
        if self._pending:
            slots = np.concatenate([slots for slots, _ in self._pending])
            arms = np.concatenate([records["arm"] for _, records in self._pending])
            times_ns = np.concatenate([records["interval_ns"] for _, records in self._pending])
            np.add.at(self._arm_time_ns, (slots, arms), times_ns)
            self._pending.clear()
            self._pending_rows = 0

    def _sort(self) -> None:
        cookies = np.fromiter(self._slot_of.keys(), np.uint64, len(self._slot_of))
        slots = np.fromiter(self._slot_of.values(), np.int64, len(self._slot_of))
        order = np.argsort(cookies)
        self._sorted_cookies, self._sorted_slots = cookies[order], slots[order]
        self._sorted = True

    def _add_slots(self) -> None:
        old = self.capacity
        self.grow(old + 1)
        self._free.extend(range(self.capacity - 1, old - 1, -1))
        self.info.extend([None] * (self.capacity - old))
        self.prefix.extend([""] * (self.capacity - old))


def destination_prefix(flow: FlowInfo, home_netns: int) -> str:
    """The network to which a flow goes, such as 192.0.2.0/24. Flows to one network share their knowledge.

    The prefix is a /24 for IPv4 and a /48 for IPv6, because routes are announced no finer. A flow of another
    network namespace than the daemon's may take another path to the same address. So its prefix also names
    its namespace.
    """
    bits = PREFIX_BITS_V4 if flow.family == socket.AF_INET else PREFIX_BITS_V6
    network = ipaddress.ip_network((flow.remote_address, bits), strict=False)
    return str(network) if flow.netns == home_netns else f"{network}@{flow.netns}"
