# SPDX-License-Identifier: Apache-2.0
"""The prefix to which a host belongs."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.settings.prefixes import whole_prefix


@given(st.ip_addresses())
def test_a_host_belongs_to_the_network_that_has_it(address: ipaddress.IPv4Address) -> None:
    whole = ipaddress.ip_network(whole_prefix(f"{address}/{address.max_prefixlen}"))
    assert address in whole
    assert whole.prefixlen == (24 if address.version == 4 else 48)
    assert whole_prefix(str(whole)) == str(whole)


@pytest.mark.parametrize("text", ["192.0.2.0/24@5", "2001:db8:7::/48"])
def test_a_prefix_is_its_own(text: str) -> None:
    assert whole_prefix(text) == text
