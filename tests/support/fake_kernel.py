# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the one layer that a unit test cannot have: the module behind `Datapath`.

Everything above it (engine, control methods, control server, API) is the real code.
"""

from __future__ import annotations

import dataclasses
import errno
import ipaddress
import socket
from collections.abc import Callable, Sequence

import numpy as np

from ltp_switcher.daemon.datapath import (
    ArmInfo,
    ControlResult,
    EventBatch,
    FlowCounts,
    FlowInfo,
    FlowNotFoundError,
    KernelConfig,
    OutcomeBatch,
    RequestRefusedError,
    ResumeCounts,
    SelectResult,
    protocol,
)
from ltp_switcher.daemon.datapath.netlink import NetlinkError
from ltp_switcher.daemon.datapath.types import CommandArray, ControlArray, RecordArray

REMOTES = {"4711": "198.51.100.7", "815": "203.0.113.9", "18446744073709551615": "2001:db8:7::9"}
"""Remote addresses of the API's flows, by cookie."""
CUBIC, BBR, VEGAS, YEAH, DCTCP = 1, 2, 3, 8, 16
ARMS = [
    ArmInfo(CUBIC, "cubic", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, ""),
    ArmInfo(BBR, "bbr", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, ""),
    ArmInfo(VEGAS, "vegas", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, ""),
    ArmInfo(YEAH, "yeah", protocol.ArmState.UNAVAILABLE, protocol.ArmKind.KERNEL, "no such protocol"),
    ArmInfo(DCTCP, "dctcp", protocol.ArmState.REFUSED, protocol.ArmKind.EXTRA, "needs ECN from the start"),
]


class Kernel:
    """Flows by cookie, with the methods of `Datapath` that the daemon calls.

    Args:
        flows: the flows that there are at first; `table` holds them.
        steps: the records of each step, one after the other, then none; None: all flows report at each step.

    Attributes:
        pending: events that are to be read, one batch after the other.
        sent, controls: the batches of commands and of controls that came, in order.
        pinned: cookie and arm of each pin that came.
        settings: what the module was told to change, in order.
        session: "open" for each opening of the session, the grace in ms for each closing.
        record_version: version of the records, as the module tells it.
        start_arms: whether new flows begin on the arms of the table.
        rtt_quarters: of a flow's RTT, which its step lasts at least.
        outcomes_max: outcomes that may wait for the session.
        told, dropped: outcomes to be told, and how many found no room.
        is_old: whether it is a module from before `rtt_quarters`.
        refused: connections that found no room.
        start_seed: of the lots that visits draw.
        started: first arms of the table by prefix; 0 where one was taken out.
        entries: the table by prefix.
    """

    def __init__(self, *flows: FlowInfo, steps: Sequence[RecordArray] | None = None) -> None:
        self.table = {flow.cookie: flow for flow in flows}
        self.steps = None if steps is None else list(steps)
        self.pending: list[EventBatch] = []
        self.sent: list[CommandArray] = []
        self.controls: list[ControlArray] = []
        self.pinned: list[tuple[int, int]] = []
        self.settings: list[dict[str, object]] = []
        self.session: list[str | int] = []
        self.record_version = protocol.RECORD_VERSION
        self.start_arms = False
        self.start_seed = 0
        self.rtt_quarters = 0
        self.outcomes_max = 0
        self.told = np.empty(0, protocol.OUTCOME_DTYPE)
        self.dropped = 0
        self.is_old = False
        self.started: dict[str, int] = {}
        self.entries: dict[str, np.void] = {}
        self.refused = 0
        self._ends: tuple[socket.socket, ...] = ()

    def arms(self) -> list[ArmInfo]:
        return ARMS

    def load_arm(self, name: str) -> ArmInfo:
        """Only this one can be loaded; what came is in `settings`."""
        self.settings.append({"load": name})
        if name != "yeah":
            return ArmInfo(YEAH + 1, name, protocol.ArmState.UNAVAILABLE, protocol.ArmKind.EXTRA, "none such")
        return ArmInfo(YEAH, "yeah", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, "")

    def config(self) -> KernelConfig:
        fallback, as_is = protocol.ArmId.WESTWOOD, protocol.HandoverMode.AS_IS
        return KernelConfig(
            protocol.ArmId.CUBIC,
            fallback,
            1000,
            protocol.RestoreMode.AS_IS,
            as_is,
            1000,
            protocol.ResumeMode.OFF,
            1024,
        )

    def flow_counts(self) -> FlowCounts:
        return FlowCounts(len(self.table), self.refused)

    def resume_counts(self) -> ResumeCounts:
        return ResumeCounts(9, 5, 3, 2, 1)

    def set_config(self, **settings: object) -> None:
        self.settings.append(settings)

    def flows(self, known: Callable[[int], FlowInfo | None] | None = None) -> list[FlowInfo]:
        return list(self.table.values())

    def flow(self, cookie: int) -> FlowInfo:
        try:
            return self.table[cookie]
        except KeyError:
            raise FlowNotFoundError(cookie) from None

    def close_step(self) -> RecordArray:
        nothing = np.empty(0, protocol.RECORD_DTYPE)
        if self.steps is None:
            return np.concatenate([nothing, *(flow.record for flow in self.table.values())])
        return self.steps.pop(0) if self.steps else nothing

    def select(self, commands: CommandArray) -> SelectResult:
        self.sent.append(commands)
        for command in commands:
            self._run(int(command["cookie"]), int(command["arm"]))
        return SelectResult(len(commands), 0, 0)

    def control(self, controls: ControlArray) -> ControlResult:
        """One of each batch is clamped."""
        self.controls.append(controls)
        return ControlResult(len(controls), 0, 0, 1)

    def pin(self, cookie: int, arm: int) -> None:
        self._run(cookie, arm)
        self.pinned.append((cookie, arm))
        self.table[cookie].record["flags"] |= np.uint32(protocol.FlowFlags.PINNED)

    def unpin(self, cookie: int) -> None:
        self.flow(cookie).record["flags"] &= ~np.uint32(protocol.FlowFlags.PINNED)

    def _run(self, cookie: int, arm: int) -> None:
        changed = self.flow(cookie).record.copy()
        changed["prev_arm"], changed["arm"], changed["want_arm"] = changed["arm"], arm, arm
        changed["switches"] += 1
        self.table[cookie] = dataclasses.replace(self.table[cookie], record=changed)

    def events(self) -> Kernel:
        self._ends = socket.socketpair()
        return self

    def fileno(self) -> int:
        return self._ends[0].fileno()

    def read(self) -> EventBatch:
        return self.pending.pop(0) if self.pending else EventBatch([], lost=False)

    def open_session(
        self, *, start_arms: bool = False, start_seed: int = 0, rtt_quarters: int = 0, outcomes_max: int = 0
    ) -> None:
        """Nobody else steers."""
        if (rtt_quarters or outcomes_max) and self.is_old:
            raise RequestRefusedError("session-open", NetlinkError(errno.EINVAL, "Unknown attribute type"))
        self.session.append("open")
        self.start_arms = start_arms
        self.rtt_quarters = rtt_quarters
        self.start_seed = start_seed
        self.outcomes_max = outcomes_max

    def outcomes(self) -> OutcomeBatch:
        told, self.told = self.told, np.empty(0, protocol.OUTCOME_DTYPE)
        return OutcomeBatch(told, self.dropped if len(told) else None)

    def set_starts(self, starts: np.ndarray) -> None:
        for entry in starts:
            size = 4 if entry["family"] == socket.AF_INET else 16
            address = ipaddress.ip_address(entry["addr"][:size].tobytes())
            prefix = f"{address}/{entry['bits']}"
            self.started[prefix] = int(entry["choice"]["arm"][0])
            self.entries.pop(prefix, None)
            if self.started[prefix]:
                self.entries[prefix] = entry.copy()

    def starts(self) -> np.ndarray:
        return np.array([*self.entries.values()], protocol.START_DTYPE)

    def close_session(self, grace_ms: int) -> None:
        """Nothing falls back here."""
        self.session.append(grace_ms)

    def close(self) -> None:
        for end in self._ends:
            end.close()
