# SPDX-License-Identifier: Apache-2.0
"""The results of the datapath's operations, decoded from netlink attributes."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.datapath.layout import read_records
from ltp_switcher.daemon.datapath.netlink import Attributes, read_uint
from ltp_switcher.daemon.datapath.protocol import ArmAttr, Cmd, ConfigAttr, FlowAttr

RecordArray = npt.NDArray[np.void]
"""The measurements of flows over a step, one record per flow: `protocol.RECORD_DTYPE`, shape (n,)."""
CommandArray = npt.NDArray[np.void]
"""`protocol.COMMAND_DTYPE`, shape (n,): one command per flow."""
ControlArray = npt.NDArray[np.void]
"""Parameters of learned arms, one control per flow: `protocol.CONTROL_DTYPE`, shape (n,)."""
OutcomeArray = npt.NDArray[np.void]
"""Sums over flows' lives: `protocol.OUTCOME_DTYPE`, shape (n,). A flow has an outcome every 10 s and one at
its end, each from the flow's start on.
"""


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """An arm (a congestion control that a flow can run) as the module knows it. `reason` says why an arm is
    not available.
    """

    id: int
    name: str
    state: protocol.ArmState
    kind: protocol.ArmKind
    reason: str

    @property
    def available(self) -> bool:
        """Whether flows may run the arm."""
        return self.state == protocol.ArmState.AVAILABLE


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """The identity and the state of a flow. Ports are in host order; `netns` is the inode of its network
    namespace.
    """

    cookie: int
    netns: int
    family: int
    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    age_ns: int
    reason: protocol.FallbackReason
    record: RecordArray
    """Record of the step in progress, shape (1,). In the event of a flow's death, it has the totals of the
    flow's life.
    """


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """The birth of a flow, its death, or its move to the fallback arm: `Cmd.FLOW_BIRTH`, `FLOW_DEATH` or
    `FLOW_FALLBACK`.
    """

    kind: Cmd
    flow: FlowInfo


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events in order of arrival. `lost` says whether the kernel dropped some."""

    events: list[FlowEvent]
    lost: bool


@dataclass(frozen=True, slots=True)
class SelectResult:
    """Counts of commands: those that took effect, those that named no flow, and those that were refused. A
    command is refused if the flow is pinned or the arm is not available.
    """

    applied: int
    unknown: int
    refused: int


@dataclass(frozen=True, slots=True)
class ControlResult:
    """Counts of controls: those that were taken, those that named no flow, and those that were refused. A
    control is refused if its law or its value does not fit the arm.

    `clamped` counts the taken controls whose window was moved into the flow's bounds.
    """

    applied: int
    unknown: int
    refused: int
    clamped: int


@dataclass(frozen=True, slots=True)
class OutcomeBatch:
    """Reports of flows (bytes, time, RTT, losses) in the order of sending. The module reports a flow at its
    end, and a long flow every ten seconds.
    """

    outcomes: OutcomeArray
    dropped: int | None
    """Number of outcomes that the module dropped for lack of room, since the session asked for outcomes; None
    if the module sent no message.
    """


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """The module's settings. A `watchdog_ms` of 0 means that flows stay on their arms when the daemon is
    silent.
    """

    default_arm: int
    fallback_arm: int
    watchdog_ms: int
    restore: protocol.RestoreMode
    handover: protocol.HandoverMode
    flows_max: int
    resume: protocol.ResumeMode
    resume_max_jump_kb: int


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """The number of flows in the module, including flows that have just ended, and the number of connections
    that the module refused.
    """

    flows: int
    refused: int


@dataclass(frozen=True, slots=True)
class ResumeCounts:
    """Counts of flows that began with a part of a saved congestion window (a jump), since the module was
    loaded.

    Attributes:
        jumps: number of such flows.
        validated: flows whose path carried the jump.
        retreats: flows that took the jump back after a loss or an ECN mark.
        cut_by_receiver: flows whose receiver's window held less than the jump.
        cut_by_buffer: flows whose send buffer held less than the jump.
    """

    jumps: int
    validated: int
    retreats: int
    cut_by_receiver: int
    cut_by_buffer: int


def decode_arm(parts: Attributes) -> ArmInfo:
    """Decode an arm from the attributes of set `arm`."""
    return ArmInfo(
        read_uint(parts[ArmAttr.ID]),
        read_text(parts, ArmAttr.NAME),
        protocol.ArmState(read_uint(parts[ArmAttr.STATE])),
        protocol.ArmKind(read_uint(parts[ArmAttr.KIND])),
        read_text(parts, ArmAttr.REASON),
    )


def decode_flow(parts: Attributes) -> FlowInfo:
    """Decode a flow from the attributes of set `flow`."""
    family = read_uint(parts[FlowAttr.FAMILY])
    # A single record comes without its size, which is the size of the attribute.
    record = np.frombuffer(bytes(parts[FlowAttr.RECORD]), np.uint8)
    return FlowInfo(
        cookie=read_uint(parts[FlowAttr.COOKIE]),
        netns=read_uint(parts[FlowAttr.NETNS]),
        family=family,
        local_address=socket.inet_ntop(family, parts[FlowAttr.SADDR]),
        local_port=read_uint(parts[FlowAttr.SPORT]),
        remote_address=socket.inet_ntop(family, parts[FlowAttr.DADDR]),
        remote_port=read_uint(parts[FlowAttr.DPORT]),
        age_ns=read_uint(parts[FlowAttr.AGE_NS]),
        reason=protocol.FallbackReason(read_uint(parts[FlowAttr.REASON])),
        record=read_records(record, record.size, protocol.RECORD_DTYPE),
    )


def decode_config(parts: Attributes) -> KernelConfig:
    """Decode the module's settings from the attributes of set `config`."""
    return KernelConfig(
        read_uint(parts[ConfigAttr.DEFAULT_ARM]),
        read_uint(parts[ConfigAttr.FALLBACK_ARM]),
        read_uint(parts[ConfigAttr.WATCHDOG_MS]),
        protocol.RestoreMode(read_uint(parts[ConfigAttr.RESTORE])),
        protocol.HandoverMode(read_uint(parts[ConfigAttr.HANDOVER])),
        read_uint(parts[ConfigAttr.FLOWS_MAX]),
        protocol.ResumeMode(read_uint(parts[ConfigAttr.RESUME])),
        read_uint(parts[ConfigAttr.RESUME_MAX_JUMP_KB]),
    )


def decode_counts(parts: Attributes) -> FlowCounts:
    """Decode the numbers of open and of refused flows. `parts` are attributes of the netlink set `config`."""
    return FlowCounts(read_uint(parts[ConfigAttr.FLOWS]), read_uint(parts[ConfigAttr.FLOWS_REFUSED]))


def decode_resume_counts(parts: Attributes) -> ResumeCounts:
    """Decode the counts of flows that began with a part of a saved window, from the attributes of set
    `config`.
    """
    return ResumeCounts(
        read_uint(parts[ConfigAttr.RESUME_JUMPS]),
        read_uint(parts[ConfigAttr.RESUME_VALIDATED]),
        read_uint(parts[ConfigAttr.RESUME_RETREATS]),
        read_uint(parts[ConfigAttr.RESUME_CUT_BY_RECEIVER]),
        read_uint(parts[ConfigAttr.RESUME_CUT_BY_BUFFER]),
    )


def read_text(parts: Attributes, kind: int) -> str:
    """Decode a string attribute without its terminator; the result is empty if the attribute is absent."""
    return bytes(parts[kind]).rstrip(b"\0").decode(errors="replace") if kind in parts else ""
