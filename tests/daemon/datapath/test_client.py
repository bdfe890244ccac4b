# SPDX-License-Identifier: Apache-2.0
"""`Datapath`'s requests, byte by byte, over a netlink connection that is a stand-in."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.datapath import Datapath, FlowNotFoundError, client, protocol
from ltp_switcher.daemon.datapath.errors import (
    ModuleMissingError,
    PermissionDeniedError,
    RequestRefusedError,
)
from ltp_switcher.daemon.datapath.netlink import (
    Family,
    GenericNetlink,
    Message,
    NetlinkError,
    attribute,
    parse_attributes,
)
from ltp_switcher.daemon.datapath.protocol import Cmd, FlowAttr, StepAttr
from ltp_switcher.errors import DatapathError

FAMILY = Family("mutant", 31, 1)


def u32(value: int) -> bytes:
    return struct.pack("=I", value)


class Netlink:
    """Writes requests down; `replies` are handed out one after the other, each a message or an error."""

    def __init__(self, *, receive_buffer_bytes: int) -> None:
        self.receive_buffer_bytes = receive_buffer_bytes
        self.sent: list[tuple[str, int, dict[int, bytes]]] = []
        self.replies: list[bytes | list[bytes] | NetlinkError] = []
        self.interrupted: list[bool] = []
        self.closed = False

    def family(self, name: str) -> Family:
        assert name == "mutant"
        return FAMILY

    @property
    def dump_interrupted(self) -> bool:
        return self.interrupted.pop(0)

    def _reply(self, how: str, command: int, payload: bytes) -> bytes | list[bytes]:
        self.sent.append(
            (how, command, {k: bytes(v) for k, v in parse_attributes(memoryview(payload)).items()})
        )
        reply = self.replies.pop(0)
        if isinstance(reply, NetlinkError):
            raise reply
        return reply

    def request(self, family: Family, command: int, payload: bytes = b"") -> Message:
        assert family is FAMILY
        reply = self._reply("request", command, payload)
        assert isinstance(reply, bytes)
        return Message(command, memoryview(reply))

    def order(self, family: Family, command: int, payload: bytes = b"") -> None:
        assert family is FAMILY
        self._reply("order", command, payload)

    def dump(self, family: Family, command: int) -> Iterator[Message]:
        for reply in self._reply("dump", command, b""):
            yield Message(command, memoryview(bytes(reply)))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def datapath(monkeypatch: pytest.MonkeyPatch) -> Datapath:
    monkeypatch.setattr(client, "GenericNetlink", Netlink)
    return Datapath()


@pytest.fixture
def netlink(datapath: Datapath) -> Netlink:
    found = datapath._netlink
    assert isinstance(found, Netlink)
    return found


def test_a_step_of_many_flows_fits_the_receive_buffer(netlink: Netlink) -> None:
    assert netlink.receive_buffer_bytes == 8 * 1024 * 1024


def test_leaving_the_context_closes_the_socket(datapath: Datapath, netlink: Netlink) -> None:
    with datapath:
        assert not netlink.closed
    assert netlink.closed


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOENT, ModuleMissingError), (errno.EPERM, DatapathError)]
)
def test_a_module_that_is_missing_is_said(
    number: int, error: type[DatapathError], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Netlink] = []

    class Missing(Netlink):
        def family(self, name: str) -> Family:
            opened.append(self)
            raise NetlinkError(number)

    monkeypatch.setattr(client, "GenericNetlink", Missing)
    with pytest.raises(error) as raised:
        Datapath()
    assert isinstance(raised.value, ModuleMissingError) is (number == errno.ENOENT)
    assert opened[0].closed


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (lambda d: d.open_session(), (Cmd.SESSION_OPEN, {protocol.SessionAttr.START_ARMS: b"\0"})),
        (
            lambda d: d.open_session(start_arms=True),
            (Cmd.SESSION_OPEN, {protocol.SessionAttr.START_ARMS: b"\1"}),
        ),
        (
            lambda d: d.open_session(rtt_quarters=2),
            (
                Cmd.SESSION_OPEN,
                {protocol.SessionAttr.START_ARMS: b"\0", protocol.SessionAttr.RTT_QUARTERS: b"\2"},
            ),
        ),
        (
            lambda d: d.open_session(outcomes_max=7),
            (
                Cmd.SESSION_OPEN,
                {protocol.SessionAttr.START_ARMS: b"\0", protocol.SessionAttr.OUTCOMES_MAX: u32(7)},
            ),
        ),
        (lambda d: d.close_session(1500), (Cmd.SESSION_CLOSE, {protocol.SessionAttr.GRACE_MS: u32(1500)})),
        (
            lambda d: d.pin(2**63 + 5, 3, protocol.HandoverMode.AS_IS),
            (
                Cmd.PIN,
                {
                    protocol.PinAttr.COOKIE: struct.pack("=Q", 2**63 + 5),
                    protocol.PinAttr.ARM: u32(3),
                    protocol.PinAttr.HANDOVER: u32(protocol.HandoverMode.AS_IS),
                },
            ),
        ),
        (lambda d: d.unpin(7), (Cmd.UNPIN, {protocol.PinAttr.COOKIE: struct.pack("=Q", 7)})),
        (
            lambda d: d.set_config(watchdog_ms=0, fallback_arm=2),
            (
                Cmd.CONFIG_SET,
                {protocol.ConfigAttr.WATCHDOG_MS: u32(0), protocol.ConfigAttr.FALLBACK_ARM: u32(2)},
            ),
        ),
    ],
)
def test_orders(
    call: Callable[[Datapath], None],
    sent: tuple[int, dict[int, bytes]],
    datapath: Datapath,
    netlink: Netlink,
) -> None:
    netlink.replies = [b""]
    call(datapath)
    assert netlink.sent == [("order", *sent)]


def test_starts_go_in_batches(datapath: Datapath, netlink: Netlink) -> None:
    count = protocol.STARTS_MAX + 3
    starts = np.zeros(count, protocol.START_DTYPE)
    starts["generation"] = np.arange(count)
    netlink.replies = [b"", b""]
    datapath.set_starts(starts)
    batches = [parts[protocol.StartAttr.STARTS] for _, _, parts in netlink.sent]
    assert [len(batch) // starts.itemsize for batch in batches] == [protocol.STARTS_MAX, 3]
    assert b"".join(batches) == starts.tobytes()
    netlink.replies = [[attribute(protocol.StartAttr.STARTS, batch) for batch in batches]]
    assert datapath.starts().tobytes() == starts.tobytes()


def outcome_page(outcomes: np.ndarray, dropped: int, version: int = protocol.RECORD_VERSION) -> bytes:
    attrs = protocol.OutcomeAttr
    parts = {
        attrs.RECORD_SIZE: u32(184),
        attrs.RECORD_VERSION: u32(version),
        attrs.DROPPED: struct.pack("=Q", dropped),
        attrs.OUTCOMES: outcomes.tobytes(),
    }
    return b"".join(attribute(kind, value) for kind, value in parts.items())


@given(
    content=st.binary(max_size=40 * 184).map(lambda data: data[: len(data) // 184 * 184]),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    dropped=st.integers(0, 2**64 - 1),
)
def test_outcomes_are_the_modules_bytes_in_order(content: bytes, cuts: list[int], dropped: int) -> None:
    outcomes = np.frombuffer(content, protocol.OUTCOME_DTYPE)
    ends = sorted({min(cut, len(outcomes)) for cut in cuts} | {0, len(outcomes)})
    netlink = Netlink(receive_buffer_bytes=1)
    pages = [outcome_page(outcomes[begin:end], dropped) for begin, end in pairwise(ends)]
    netlink.replies = [pages]
    found = Datapath(cast(GenericNetlink, netlink)).outcomes()
    assert found.outcomes.tobytes() == content
    assert found.dropped == (dropped if pages else None)
    assert netlink.sent == [("dump", Cmd.OUTCOME_GET, {})]


def test_outcomes_of_another_layout_are_refused(datapath: Datapath, netlink: Netlink) -> None:
    one = np.zeros(1, protocol.OUTCOME_DTYPE)
    netlink.replies = [[outcome_page(one, 0, version=3)]]
    with pytest.raises(DatapathError, match=r"version 3 of 184 bytes.*rmmod"):
        datapath.outcomes()


def test_a_module_without_outcomes_refuses_with_its_reason(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies = [NetlinkError(errno.EOPNOTSUPP)]
    with pytest.raises(RequestRefusedError, match="outcome-get"):
        datapath.outcomes()


def test_commands_go_in_batches_whose_counts_are_added_up(datapath: Datapath, netlink: Netlink) -> None:
    count = 2 * protocol.COMMANDS_MAX + 1
    commands = np.zeros(count, protocol.COMMAND_DTYPE)
    commands["cookie"] = np.arange(count)
    names = (protocol.CommandAttr.APPLIED, protocol.CommandAttr.UNKNOWN, protocol.CommandAttr.REFUSED)
    netlink.replies = [
        b"".join(attribute(name, u32(value)) for name, value in zip(names, values, strict=True))
        for values in ((100, 20, 3), (200, 40, 6), (1, 0, 0))
    ]
    result = datapath.select(commands)
    assert (result.applied, result.unknown, result.refused) == (301, 60, 9)
    batches = [parts[protocol.CommandAttr.COMMANDS] for _, _, parts in netlink.sent]
    assert b"".join(batches) == commands.tobytes()
    assert {command for _, command, _ in netlink.sent} == {Cmd.SELECT}


def test_controls_are_counted_too(datapath: Datapath, netlink: Netlink) -> None:
    attrs = protocol.ControlAttr
    told = {attrs.APPLIED: 4, attrs.UNKNOWN: 3, attrs.REFUSED: 2, attrs.CLAMPED: 1}
    netlink.replies = [b"".join(attribute(name, u32(value)) for name, value in told.items())]
    result = datapath.control(np.zeros(2, protocol.CONTROL_DTYPE))
    assert (result.applied, result.unknown, result.refused, result.clamped) == (4, 3, 2, 1)
    assert datapath.control(np.zeros(0, protocol.CONTROL_DTYPE)).applied == 0
    assert len(netlink.sent) == 1


def flow(cookie: int, age_ns: int, told: bytes = b"") -> bytes:
    parts = {
        FlowAttr.COOKIE: struct.pack("=Q", cookie),
        FlowAttr.NETNS: u32(9),
        FlowAttr.FAMILY: struct.pack("=H", socket.AF_INET6),
        FlowAttr.SADDR: socket.inet_pton(socket.AF_INET6, "2001:db8::1"),
        FlowAttr.SPORT: struct.pack("=H", 40_000),
        FlowAttr.DADDR: socket.inet_pton(socket.AF_INET6, "2001:db8::2"),
        FlowAttr.DPORT: struct.pack("=H", 443),
        FlowAttr.AGE_NS: struct.pack("=Q", age_ns),
        FlowAttr.REASON: u32(protocol.FallbackReason.SILENCE),
        FlowAttr.RECORD: told or record(cookie, snd_cwnd=28).tobytes(),
    }
    return b"".join(attribute(kind, value) for kind, value in parts.items())


def test_an_interrupted_dump_is_tried_again(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies = [[flow(1, 10)], [flow(1, 20), flow(2, 20), flow(1, 30)]]
    netlink.interrupted = [True, False]
    one, two = sorted(datapath.flows(), key=lambda flow: flow.cookie)
    assert (one.cookie, one.age_ns, two.cookie) == (1, 30, 2)
    assert (two.netns, two.local_address, two.local_port) == (9, "2001:db8::1", 40_000)
    assert (two.remote_address, two.remote_port) == ("2001:db8::2", 443)
    assert (two.reason, two.record["snd_cwnd"].item()) == (protocol.FallbackReason.SILENCE, 28)


def test_a_dump_that_is_always_interrupted_ends_after_five(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies = [[flow(1, age_ns)] for age_ns in range(9)]
    netlink.interrupted = [True] * 9
    (found,) = datapath.flows()
    assert found.age_ns == 4


def test_a_flow_that_is_not_there_is_named(datapath: Datapath, netlink: Netlink) -> None:
    for call in (datapath.flow, datapath.unpin, lambda cookie: datapath.pin(cookie, 1)):
        netlink.replies = [NetlinkError(errno.ENOENT)]
        with pytest.raises(FlowNotFoundError, match="4711"):
            call(4711)
    netlink.replies = [NetlinkError(errno.ENOENT)]
    with pytest.raises(RequestRefusedError):
        datapath.config()
    netlink.replies = [NetlinkError(errno.EPERM)]
    with pytest.raises(PermissionDeniedError, match="unpin"):
        datapath.unpin(1)


def records(*cookies: int, version: int = protocol.RECORD_VERSION, size: int | None = None) -> bytes:
    """A message with the records of these flows. A module of another version has records of `size` bytes,
    with members after ours that are all ones.
    """
    own = [record(cookie, siblings=cookie + 7, reordering=3).tobytes() for cookie in cookies]
    size = len(own[0]) if size is None else size
    data = b"".join(one[:size].ljust(size, b"\xff") for one in own)
    return (
        attribute(StepAttr.RECORD_VERSION, u32(version))
        + attribute(StepAttr.RECORD_SIZE, u32(size))
        + attribute(StepAttr.RECORDS, data)
    )


def test_a_step_s_messages_are_joined(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies = [[records(1, 2), records(3)], [records(4)], []]
    assert datapath.close_step()["cookie"].tolist() == [1, 2, 3]
    assert datapath.close_step()["cookie"].tolist() == [4]
    nothing = datapath.close_step()
    assert (len(nothing), nothing.dtype) == (0, protocol.RECORD_DTYPE)


def test_a_step_of_many_flows_takes_memory_for_them_once(datapath: Datapath, netlink: Netlink) -> None:
    pages = [records(*range(at, at + 40)) for at in range(1, 401, 40)]
    netlink.replies = [pages, [records(7)], pages]
    assert datapath.close_step()["cookie"].tolist() == list(range(1, 401))
    one = datapath.close_step()
    assert one["cookie"].tolist() == [7]
    # Those who keep it keep the memory behind it.
    behind = one
    while isinstance(behind.base, np.ndarray):
        behind = behind.base
    assert behind.nbytes == one.nbytes
    again = datapath.close_step()
    assert again["cookie"].tolist() == list(range(1, 401))
    assert not again.flags.writeable
    assert one["cookie"].tolist() == [7]


@pytest.mark.parametrize(
    ("version", "size"),
    [(3, 704), (3, 840), (7, 848), (8, 832), (8, 848), (9, 832), (4, 0)],
    ids=["old", "old as ours", "longer than ours", "cut", "long", "shorter than ours", "empty"],
)
def test_another_layout_is_refused(datapath: Datapath, netlink: Netlink, version: int, size: int) -> None:
    message = attribute(StepAttr.RECORD_VERSION, u32(version)) + attribute(StepAttr.RECORD_SIZE, u32(size))
    netlink.replies = [[message + attribute(StepAttr.RECORDS, bytes(size or 8))]]
    with pytest.raises(DatapathError, match=f"record version {version} of {size} bytes"):
        datapath.close_step()


def test_an_older_module_leaves_its_records_last_members_at_0(datapath: Datapath, netlink: Netlink) -> None:
    assert datapath.record_version == protocol.RECORD_VERSION, "before the first records"
    # Version 4 ends with `siblings`.
    netlink.replies = [[records(1, 2, version=4, size=704), records(3, version=4, size=704)]]
    closed = datapath.close_step()
    assert closed.dtype == protocol.RECORD_DTYPE
    assert closed["cookie"].tolist() == [1, 2, 3]
    assert closed["siblings"].tolist() == [8, 9, 10]
    assert closed["reordering"].tolist() == [0, 0, 0]
    assert datapath.record_version == 4
    assert not closed["ack_gaps"].any()
    assert not closed.flags.writeable


def test_a_newer_module_s_further_members_are_left_out(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies = [[records(1, 2, version=9, size=856)], [records(4, version=9, size=840)]]
    closed = datapath.close_step()
    assert closed.dtype == protocol.RECORD_DTYPE
    assert closed["cookie"].tolist() == [1, 2]
    assert (closed["siblings"].tolist(), closed["reordering"].tolist()) == ([8, 9], [3, 3])
    assert datapath.record_version == 9
    assert datapath.close_step()["cookie"].tolist() == [4], "another record may have grown"


@pytest.mark.parametrize("size", [704, 840, 856])
def test_the_flow_of_another_module_has_its_record(datapath: Datapath, netlink: Netlink, size: int) -> None:
    told = record(7, siblings=2, reordering=3).tobytes()[:size].ljust(size, b"\xff")
    netlink.replies = [flow(7, 10, told)]
    found = datapath.flow(7).record
    assert (found.dtype, found.shape) == (protocol.RECORD_DTYPE, (1,))
    assert (found["siblings"][0], found["reordering"][0]) == (2, 3 if size > 704 else 0)


def test_a_step_that_overran_is_no_fault(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies = [NetlinkError(errno.ENOBUFS), NetlinkError(errno.EPERM)]
    assert len(datapath.close_step()) == 0
    with pytest.raises(PermissionDeniedError, match="step-get"):
        datapath.close_step()


def test_arms_are_in_the_order_of_their_ids(datapath: Datapath, netlink: Netlink) -> None:
    def arm(number: int, name: str, reason: str = "") -> bytes:
        attrs = protocol.ArmAttr
        made = attribute(attrs.ID, u32(number)) + attribute(attrs.NAME, name.encode() + b"\0")
        made += attribute(attrs.STATE, u32(protocol.ArmState.AVAILABLE))
        made += attribute(attrs.KIND, u32(protocol.ArmKind.KERNEL))
        return made + (attribute(attrs.REASON, reason.encode() + b"\0") if reason else b"")

    netlink.replies = [[arm(2, "bbr"), arm(1, "cubic", "why")], arm(5, "vegas")]
    cubic, bbr = datapath.arms()
    assert (cubic.name, cubic.reason, bbr.name, bbr.reason) == ("cubic", "why", "bbr", "")
    assert datapath.load_arm("vegas").id == 5
    assert netlink.sent[1] == ("request", Cmd.ARM_LOAD, {protocol.ArmAttr.NAME: b"vegas\0"})


def test_flows_that_are_known_are_not_decoded(datapath: Datapath, netlink: Netlink) -> None:
    netlink.replies, netlink.interrupted = [[flow(1, 10)]], [False]
    (known,) = datapath.flows()
    bare = attribute(FlowAttr.COOKIE, struct.pack("=Q", 1))
    netlink.replies, netlink.interrupted = [[flow(2, 20), bare]], [False]
    new, same = datapath.flows({1: known}.get)
    assert (new.cookie, new.age_ns) == (2, 20)
    assert same is known
