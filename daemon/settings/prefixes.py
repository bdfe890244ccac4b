# SPDX-License-Identifier: Apache-2.0
"""Reads prefixes as operators write them. Commands, policies and the API all use this one function."""

from __future__ import annotations

import ipaddress
from typing import Final

from ltp_switcher.errors import InvalidValueError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PREFIX_BITS_V4: Final = 24
"""Length in bits of an IPv4 destination prefix whose flows share their knowledge."""
PREFIX_BITS_V6: Final = 48
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")


def prefix_of(text: object, field: str = "PREFIX") -> Network:
    """Return the prefix that a text names. A single address is a prefix, too.

    An IPv4-mapped IPv6 prefix becomes the IPv4 prefix, because its flows are IPv4. A server on an IPv6 socket
    logs its IPv4 clients in this form.

    Raises:
        InvalidValueError: the text names no prefix, or has an IPv6 zone. The address of a flow has no zone.
    """
    try:
        stripped = text.strip() if isinstance(text, str) else ""
        if "%" in stripped:
            raise ValueError("without a zone such as %eth0")
        network = ipaddress.ip_network(stripped)
    except ValueError as error:
        allowed = f"a network such as 192.0.2.0/24 or 2001:db8::/32 ({error})"
        raise InvalidValueError(field, text, allowed) from None
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        address = int(network.network_address) & 0xFFFF_FFFF
        return ipaddress.IPv4Network((address, network.prefixlen - _MAPPED.prefixlen))
    return network


def whole_prefix(text: str) -> str:
    """The /24 or /48 prefix whose flows share their knowledge. The text names this prefix, or
    a host in it.
    """
    address, _, bits = text.partition("/")
    if bits not in ("32", "128"):
        return text
    whole = PREFIX_BITS_V4 if bits == "32" else PREFIX_BITS_V6
    return str(ipaddress.ip_network((address, whole), strict=False))
