# SPDX-License-Identifier: Apache-2.0
"""The netlink layer: its encoding by itself, its conversation with this machine's own kernel."""

import errno
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.datapath import netlink
from ltp_switcher.daemon.datapath.netlink import Family, GenericNetlink, GenericNetlinkEvents, NetlinkError
from ltp_switcher.errors import DatapathError


@pytest.fixture
def kernel() -> Iterator[GenericNetlink]:
    connection = GenericNetlink()
    yield connection
    connection.close()


CONTROLLER = Family("nlctrl", netlink.GENL_ID_CTRL, 2)


@given(st.lists(st.tuples(st.integers(1, 100), st.binary(max_size=300))))
def test_attributes_come_back_as_they_went(attributes: list[tuple[int, bytes]]) -> None:
    data = b"".join(netlink.attribute(kind, payload) for kind, payload in attributes)
    assert len(data) % 4 == 0
    found = [(kind, bytes(payload)) for kind, payload in netlink.iterate_attributes(memoryview(data))]
    assert found == attributes


@given(st.binary(max_size=200))
def test_malformed_attributes_are_refused_not_followed(data: bytes) -> None:
    try:
        found = list(netlink.iterate_attributes(memoryview(data)))
    except DatapathError:
        return
    assert sum(len(payload) + 4 for _, payload in found) <= len(data)


def test_an_attribute_too_long_for_its_length_field_is_refused() -> None:
    netlink.attribute(1, bytes(netlink.ATTRIBUTE_MAX_BYTES))
    with pytest.raises(DatapathError, match="65532 bytes"):
        netlink.attribute(1, bytes(netlink.ATTRIBUTE_MAX_BYTES + 1))


def test_the_controller_describes_itself(kernel: GenericNetlink) -> None:
    family = kernel.family("nlctrl")
    assert (family.id, family.name) == (netlink.GENL_ID_CTRL, "nlctrl")
    assert "notify" in family.groups


def test_an_attribute_is_found_as_in_the_whole_list() -> None:
    data = memoryview(
        netlink.attribute(3, b"abc") + netlink.attribute(5, b"") + netlink.attribute(9, b"wanted")
    )
    for kind, payload in netlink.parse_attributes(data).items():
        found = netlink.find_attribute(data, kind)
        assert found is not None
        assert bytes(found) == bytes(payload)
    assert netlink.find_attribute(data, 4) is None
    with pytest.raises(DatapathError, match="malformed"):
        netlink.find_attribute(memoryview(b"\x03\x00\x01\x00"), 4)


def test_a_dump_gives_every_object(kernel: GenericNetlink) -> None:
    names = [
        bytes(netlink.parse_attributes(message.payload)[netlink.CTRL_ATTR_FAMILY_NAME]).rstrip(b"\0")
        for message in kernel.dump(CONTROLLER, netlink.CTRL_CMD_GETFAMILY)
    ]
    assert b"nlctrl" in names
    assert len(set(names)) == len(names)
    assert not kernel.dump_interrupted


def test_an_unknown_family_is_an_error_with_its_number(kernel: GenericNetlink) -> None:
    with pytest.raises(NetlinkError) as caught:
        kernel.family("no-such-family")
    assert caught.value.errno == errno.ENOENT


def test_a_dump_given_up_half_way_does_not_confuse_the_next(kernel: GenericNetlink) -> None:
    next(iter(kernel.dump(CONTROLLER, netlink.CTRL_CMD_GETFAMILY)))
    assert kernel.family("nlctrl").id == netlink.GENL_ID_CTRL


def test_an_extended_error_is_read(kernel: GenericNetlink) -> None:
    """The bytes of an NLMSG_ERROR with a message and an offset, as linux/netlink.h lays them out."""
    details = netlink.attribute(netlink.NLMSGERR_ATTR_MSG, b"no such arm\0") + netlink.attribute(
        netlink.NLMSGERR_ATTR_OFFS, (20).to_bytes(4, "little")
    )
    body = (-errno.EINVAL).to_bytes(4, "little", signed=True) + bytes(16) + details
    kernel._buffer[: len(body)] = body
    with pytest.raises(NetlinkError) as caught:
        kernel._raise_if_error(netlink.NLM_F_CAPPED | netlink.NLM_F_ACK_TLVS, 0, len(body))
    assert (caught.value.errno, caught.value.reason, caught.value.offset) == (errno.EINVAL, "no such arm", 20)


def test_events_do_not_block(kernel: GenericNetlink) -> None:
    events = GenericNetlinkEvents(kernel.family("nlctrl").groups["notify"])
    assert events.read() == ([], False)
    events.close()
