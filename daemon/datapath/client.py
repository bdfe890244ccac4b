# SPDX-License-Identifier: Apache-2.0
"""`Datapath`, the Python side of the kernel module. It has one method per operation of
`kmod-mutant/mutant.yaml`.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.datapath.errors import (
    FlowNotFoundError,
    ModuleMissingError,
    explain,
)
from ltp_switcher.daemon.datapath.layout import check_layout, read_records
from ltp_switcher.daemon.datapath.netlink import (
    GenericNetlink,
    GenericNetlinkEvents,
    Message,
    NetlinkError,
    attribute,
    find_attribute,
    iterate_attributes,
    parse_attributes,
)
from ltp_switcher.daemon.datapath.protocol import Cmd
from ltp_switcher.daemon.datapath.types import (
    ArmInfo,
    CommandArray,
    ControlArray,
    ControlResult,
    EventBatch,
    FlowCounts,
    FlowEvent,
    FlowInfo,
    KernelConfig,
    OutcomeBatch,
    RecordArray,
    ResumeCounts,
    SelectResult,
    decode_arm,
    decode_config,
    decode_counts,
    decode_flow,
    decode_resume_counts,
)
from ltp_switcher.errors import DatapathError

DUMP_ATTEMPTS: Final = 5

# The counts in the replies to batches, in the order of the fields of their results.
_SELECTED: Final = (
    protocol.CommandAttr.APPLIED,
    protocol.CommandAttr.UNKNOWN,
    protocol.CommandAttr.REFUSED,
)
_CONTROLLED: Final = (
    protocol.ControlAttr.APPLIED,
    protocol.ControlAttr.UNKNOWN,
    protocol.ControlAttr.REFUSED,
    protocol.ControlAttr.CLAMPED,
)
_NO_RECORDS: Final = np.empty(0, protocol.RECORD_DTYPE)
_STEP_LAYOUT: Final = (
    protocol.StepAttr.RECORD_VERSION,
    protocol.StepAttr.RECORD_SIZE,
    protocol.RECORD_DTYPE.itemsize,
)
_OUTCOME_LAYOUT: Final = (
    protocol.OutcomeAttr.RECORD_VERSION,
    protocol.OutcomeAttr.RECORD_SIZE,
    protocol.OUTCOME_DTYPE.itemsize,
)
_U32 = struct.Struct("=I")
_U64 = struct.Struct("=Q")


class Datapath:
    """A connection to the module, for one thread at a time.

    Raises `ModuleMissingError` if the module is not loaded. Every method raises `PermissionDeniedError` or
    `RequestRefusedError` if the kernel refuses the request.
    """

    def __init__(self, netlink: GenericNetlink | None = None) -> None:
        self._netlink = netlink or GenericNetlink(receive_buffer_bytes=8 << 20)
        self._step_bytes = 1 << 16
        """Size in bytes of the memory into which the records of a step are read. It grows when a step needs
        more.
        """
        self.record_version = protocol.RECORD_VERSION
        """Version of the records that the module sends; before its first records, the daemon's own."""
        try:
            self._family = self._netlink.family(protocol.FAMILY_NAME)
        except NetlinkError as error:
            self._netlink.close()
            if error.errno == errno.ENOENT:
                raise ModuleMissingError from error
            raise explain("family lookup", error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket. If its session still steers flows, the module moves these to the fallback arm."""
        self._netlink.close()

    def open_session(
        self,
        *,
        start_arms: bool = False,
        start_seed: int = 0,
        rtt_quarters: int = 0,
        outcomes_max: int = 0,
    ) -> None:
        """Steer the flows of this network namespace from now on, until `close_session` or until the socket
        closes.

        With `start_arms`, new flows begin on arms of the table that `set_starts` fills. If a prefix has
        several arms there, each visit (flows that begin near each other) draws one, with `start_seed`. A flow
        is reported at most once in `rtt_quarters` quarters of its smoothed RTT (0 to 16). At most
        `outcomes_max` outcomes of flows (sums over their lives) wait for the method `outcomes`.

        A socket that steers already may call this again to change these values. Raises `RequestRefusedError`
        while another socket steers.
        """
        payload = attribute(protocol.SessionAttr.START_ARMS, struct.pack("=B", start_arms))
        # A module from before an upgrade may still be loaded. It refuses attributes that it does not know.
        if rtt_quarters:
            payload += attribute(protocol.SessionAttr.RTT_QUARTERS, struct.pack("=B", rtt_quarters))
        if start_seed:
            payload += attribute(protocol.SessionAttr.START_SEED, _U64.pack(start_seed))
        if outcomes_max:
            payload += attribute(protocol.SessionAttr.OUTCOMES_MAX, _U32.pack(outcomes_max))
        self._order("session-open", Cmd.SESSION_OPEN, payload)

    def set_starts(self, starts: npt.NDArray[np.void]) -> None:
        """Set the arms on which new flows begin. Each entry of `starts`, `START_DTYPE`, shape (n,), names a
        prefix and its arms. An entry without arms removes its prefix from the module's table.

        Raises `RequestRefusedError` if an arm is not available, if the entry lacks the window or rate with
        which a learned arm begins, or if the table is full.
        """
        for first in range(0, len(starts), protocol.STARTS_MAX):
            batch = starts[first : first + protocol.STARTS_MAX]
            self._order("start-set", Cmd.START_SET, attribute(protocol.StartAttr.STARTS, batch.tobytes()))

    def starts(self) -> npt.NDArray[np.void]:
        """The module's table of the arms on which flows begin, by prefix: `START_DTYPE`, shape (n,), in no
        order.
        """
        pages = [
            bytes(parse_attributes(m.payload)[protocol.StartAttr.STARTS])
            for m in self._dump("start-get", Cmd.START_GET)
        ]
        return np.frombuffer(b"".join(pages), dtype=protocol.START_DTYPE)

    def close_session(self, grace_ms: int) -> None:
        """Stop steering. The flows keep their arms for `grace_ms`. In this time another session may take
        over.
        """
        payload = attribute(protocol.SessionAttr.GRACE_MS, _U32.pack(grace_ms))
        self._order("session-close", Cmd.SESSION_CLOSE, payload)

    def arms(self) -> list[ArmInfo]:
        """Return all arms that the module knows, in the order of their ids. This machine may lack some."""
        found = [decode_arm(parse_attributes(m.payload)) for m in self._dump("arm-get", Cmd.ARM_GET)]
        return sorted(found, key=lambda arm: arm.id)

    def load_arm(self, name: str) -> ArmInfo:
        """Load the congestion control `name` as an arm, with its kernel module if needed. The arm's `state`
        says whether flows may run it.
        """
        payload = attribute(protocol.ArmAttr.NAME, name.encode() + b"\0")
        return decode_arm(parse_attributes(self._request("arm-load", Cmd.ARM_LOAD, payload)))

    def flows(self, known: Callable[[int], FlowInfo | None] | None = None) -> list[FlowInfo]:
        """Return every flow that the caller may see, in no particular order. If flows come or go during every
        try, some flows may be missing.

        `known` takes a flow's cookie, and returns the caller's description of the flow, or None. Only flows
        without such a description are decoded.
        """
        for _ in range(DUMP_ATTEMPTS):
            # An interrupted dump may contain a flow twice.
            found = {
                flow.cookie: flow
                for flow in (
                    _known_flow(m.payload, known) or decode_flow(parse_attributes(m.payload))
                    for m in self._dump("flow-get", Cmd.FLOW_GET)
                )
            }
            if not self._netlink.dump_interrupted:
                break
        return list(found.values())

    def flow(self, cookie: int) -> FlowInfo:
        """Return the flow with this cookie. Raises `FlowNotFoundError`."""
        payload = attribute(protocol.FlowAttr.COOKIE, _U64.pack(cookie))
        return decode_flow(parse_attributes(self._request("flow-get", Cmd.FLOW_GET, payload, cookie)))

    def close_step(self) -> RecordArray:
        """End the step of every flow that had an ACK or a switch of arms since the last call. This needs a
        session.

        Returns one record of measurements for each such flow, `RECORD_DTYPE`, shape (flows,). The array is
        read-only, and belongs to the caller.
        """
        memory = np.empty(self._step_bytes, np.uint8)
        content, end, size = memory.data, 0, 0
        try:
            for message in self._netlink.dump(self._family, Cmd.STEP_GET):
                records = find_attribute(message.payload, protocol.StepAttr.RECORDS)
                if records is None:
                    continue
                if not end:
                    parts = parse_attributes(message.payload)
                    size = _checked_size(parts, _STEP_LAYOUT)
                    self.record_version = _U32.unpack(parts[protocol.StepAttr.RECORD_VERSION])[0]
                start, end = end, end + len(records)
                if end > memory.size:
                    self._step_bytes = 2 * end
                    memory = np.concatenate((memory[:start], np.empty(2 * end - start, np.uint8)))
                    content = memory.data
                content[start:end] = records
        except NetlinkError as error:
            # An overrun loses a message of this step. The flows in it are reported again in the next step.
            if error.errno != errno.ENOBUFS:
                raise explain("step-get", error) from error
        if not end:
            return _NO_RECORDS
        # A view would keep all of the memory, even for a caller that keeps few records.
        filled = memory[:end] if 2 * end > memory.size else memory[:end].copy()
        closed: RecordArray = read_records(filled, size, protocol.RECORD_DTYPE)
        closed.flags.writeable = False
        return closed

    def outcomes(self) -> OutcomeBatch:
        """Take the outcomes that have come since the last call. This needs a session that has asked for
        outcomes.

        An outcome sums up a flow. A flow has an outcome every 10 s and another when it ends. Each one covers
        the flow's whole life so far.
        """
        parts: list[bytes] = []
        dropped, size = None, protocol.OUTCOME_DTYPE.itemsize
        for message in self._dump("outcome-get", Cmd.OUTCOME_GET):
            content = parse_attributes(message.payload)
            if not parts:
                size = _checked_size(content, _OUTCOME_LAYOUT)
            parts.append(bytes(content[protocol.OutcomeAttr.OUTCOMES]))
            dropped = _U64.unpack(content[protocol.OutcomeAttr.DROPPED])[0]
        told = np.frombuffer(b"".join(parts), np.uint8)
        return OutcomeBatch(read_records(told, size, protocol.OUTCOME_DTYPE), dropped)

    def select(self, commands: CommandArray) -> SelectResult:
        """Send commands, which switch flows to arms: `COMMAND_DTYPE`, shape (n,). Each command takes effect
        at its flow's next ACK.
        """
        counts = self._batches(
            "select", Cmd.SELECT, protocol.CommandAttr.COMMANDS, commands, protocol.COMMANDS_MAX, _SELECTED
        )
        return SelectResult(*counts)

    def control(self, controls: ControlArray) -> ControlResult:
        """Send controls, the parameters of learned arms: `CONTROL_DTYPE`, shape (n,).

        A flow keeps the last control of each arm. From its next ACK on it obeys the control of the arm that
        it runs. A refused control is counted in the result, and changes nothing.
        """
        counts = self._batches(
            "control",
            Cmd.CONTROL,
            protocol.ControlAttr.CONTROLS,
            controls,
            protocol.CONTROLS_MAX,
            _CONTROLLED,
        )
        return ControlResult(*counts)

    def pin(
        self, cookie: int, arm: int, handover: protocol.HandoverMode = protocol.HandoverMode.CONFIGURED
    ) -> None:
        """Switch a flow to an arm, and let no command of `select` move it. Raises `FlowNotFoundError`."""
        payload = attribute(protocol.PinAttr.COOKIE, _U64.pack(cookie))
        payload += attribute(protocol.PinAttr.ARM, _U32.pack(arm))
        payload += attribute(protocol.PinAttr.HANDOVER, _U32.pack(handover))
        self._order("pin", Cmd.PIN, payload, cookie)

    def unpin(self, cookie: int) -> None:
        """Let commands of `select` move the flow again. Raises `FlowNotFoundError`."""
        self._order("unpin", Cmd.UNPIN, attribute(protocol.PinAttr.COOKIE, _U64.pack(cookie)), cookie)

    def config(self) -> KernelConfig:
        """The module's settings."""
        return decode_config(parse_attributes(self._request("config-get", Cmd.CONFIG_GET)))

    def flow_counts(self) -> FlowCounts:
        """The number of flows, and the number of connections that the module refused because
        it had no room.
        """
        return decode_counts(parse_attributes(self._request("config-get", Cmd.CONFIG_GET)))

    def resume_counts(self) -> ResumeCounts:
        """Counts of the flows that began with a part of a saved congestion window (Careful
        Resume, RFC 9959).
        """
        return decode_resume_counts(parse_attributes(self._request("config-get", Cmd.CONFIG_GET)))

    def set_config(
        self,
        *,
        default_arm: int | None = None,
        fallback_arm: int | None = None,
        watchdog_ms: int | None = None,
        restore: protocol.RestoreMode | None = None,
        handover: protocol.HandoverMode | None = None,
        flows_max: int | None = None,
        resume: protocol.ResumeMode | None = None,
        resume_max_jump_kb: int | None = None,
    ) -> None:
        """Change the given settings of the module. A setting that is None stays."""
        given = {
            protocol.ConfigAttr.DEFAULT_ARM: default_arm,
            protocol.ConfigAttr.FALLBACK_ARM: fallback_arm,
            protocol.ConfigAttr.WATCHDOG_MS: watchdog_ms,
            protocol.ConfigAttr.RESTORE: restore,
            protocol.ConfigAttr.HANDOVER: handover,
            protocol.ConfigAttr.FLOWS_MAX: flows_max,
            protocol.ConfigAttr.RESUME: resume,
            protocol.ConfigAttr.RESUME_MAX_JUMP_KB: resume_max_jump_kb,
        }
        payload = b"".join(attribute(k, _U32.pack(v)) for k, v in given.items() if v is not None)
        self._order("config-set", Cmd.CONFIG_SET, payload)

    def events(self) -> EventStream:
        """Subscribe to events about flows: their births, their deaths and their moves to the fallback arm."""
        try:
            return EventStream(self._family.groups[protocol.GROUP_EVENTS])
        except NetlinkError as error:
            raise explain("events", error) from error

    def _batches(
        self,
        operation: str,
        command: int,
        kind: int,
        batch: npt.NDArray[np.void],
        most: int,
        counted: Sequence[int],
    ) -> list[int]:
        """Send a batch in requests of at most `most` records, and add up the counts of the replies."""
        totals = [0] * len(counted)
        for start in range(0, len(batch), most):
            payload = attribute(kind, batch[start : start + most].tobytes())
            reply = parse_attributes(self._request(operation, command, payload))
            for index, count in enumerate(counted):
                totals[index] += _U32.unpack(reply[count])[0]
        return totals

    def _request(
        self, operation: str, command: int, payload: bytes = b"", cookie: int | None = None
    ) -> memoryview:
        try:
            return self._netlink.request(self._family, command, payload).payload
        except NetlinkError as error:
            raise _explained(operation, error, cookie) from error

    def _order(self, operation: str, command: int, payload: bytes, cookie: int | None = None) -> None:
        try:
            self._netlink.order(self._family, command, payload)
        except NetlinkError as error:
            raise _explained(operation, error, cookie) from error

    def _dump(self, operation: str, command: int) -> Iterator[Message]:
        try:
            yield from self._netlink.dump(self._family, command)
        except NetlinkError as error:
            raise explain(operation, error) from error


def _checked_size(parts: dict[int, memoryview], expected: tuple[int, int, int]) -> int:
    """Return the size in bytes of each record in a message. `expected` has the attribute of the version, the
    attribute of the size, and the daemon's own size. Raises `ModuleVersionError` if the daemon cannot read
    the records.
    """
    version_attribute, size_attribute, own_size = expected
    size: int = _U32.unpack(parts[size_attribute])[0]
    check_layout(_U32.unpack(parts[version_attribute])[0], size, own_size)
    return size


def _known_flow(payload: memoryview, known: Callable[[int], FlowInfo | None] | None) -> FlowInfo | None:
    """Return the caller's description of the flow in a message; None if there is none. The module writes the
    cookie first, so the rest of the message need not be decoded.
    """
    if known is None:
        return None
    kind, data = next(iterate_attributes(payload), (0, memoryview(b"")))
    return known(_U64.unpack(data)[0]) if kind == protocol.FlowAttr.COOKIE else None


def _explained(operation: str, error: NetlinkError, cookie: int | None) -> DatapathError:
    if error.errno == errno.ENOENT and cookie is not None:
        return FlowNotFoundError(cookie)
    return explain(operation, error)


class EventStream:
    """The module's multicast events, read without blocking."""

    def __init__(self, group_id: int) -> None:
        self._netlink = GenericNetlinkEvents(group_id)

    def fileno(self) -> int:
        """Return the file descriptor on which to wait for events."""
        return self._netlink.fileno()

    def close(self) -> None:
        """End the subscription, and close the socket."""
        self._netlink.close()

    def read(self) -> EventBatch:
        """Return the events that have arrived. If the result says `lost`, events are missing, and the reader
        has to list all flows again.
        """
        messages, lost = self._netlink.read()
        return EventBatch(
            [FlowEvent(Cmd(m.command), decode_flow(parse_attributes(m.payload))) for m in messages], lost
        )
