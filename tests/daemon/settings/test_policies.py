# SPDX-License-Identifier: Apache-2.0
"""Policies: which one a flow gets, and which documents are refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from ltp_switcher.daemon.settings import policies
from ltp_switcher.daemon.settings.policies import POLICIES_MAX, Policies, difference, parse, read
from ltp_switcher.errors import ConfigError

ARMS = ["bbr", "cubic", "vegas"]
WEB = 77


def flow(address: str, port: int = 443, local_port: int = 40_000, netns: int = 1) -> SimpleNamespace:
    return SimpleNamespace(remote_address=address, remote_port=port, local_port=local_port, netns=netns)


POLICIES = parse(
    [
        {"port": 22, "exclude": True},
        {"prefix": "10.0.0.0/8", "pin": "cubic"},
        {"prefix": "10.1.0.0/16", "pool": ["bbr", "vegas"]},
        {"prefix": "10.1.0.0/16", "port": 443, "pool": ["bbr"]},
        {"prefix": "10.1.0.0/16", "local_port": 80, "k": 2},
        {"prefix": "10.1.0.0/16", "port": 443, "local_port": 80, "pin": "vegas"},
        {"prefix": "10.1.2.3/32", "exclude": True},
        {"prefix": "2001:db8::/32", "start": "bbr"},
        {"prefix": "2001:db8:7::/48", "pin": "bbr"},
        {"local_port": 8080, "pin": "vegas"},
        {"netns": "web", "pin": "bbr"},
        {"netns": "4026532000", "local_port": 80, "pin": "cubic"},
        {"netns": "web", "prefix": "10.1.0.0/16", "pin": "bbr"},
    ],
    arms=ARMS,
)


@pytest.mark.parametrize(
    ("found", "match"),
    [
        (flow("192.0.2.1"), None),
        (flow("192.0.2.1", 22), "port 22"),
        (flow("10.9.9.9"), "10.0.0.0/8"),
        (flow("10.9.9.9", 22), "10.0.0.0/8"),
        (flow("10.1.9.9", 80), "10.1.0.0/16"),
        (flow("10.1.9.9"), "10.1.0.0/16, port 443"),
        (flow("10.1.9.9", 80, 80), "10.1.0.0/16, local port 80"),
        (flow("10.1.9.9", 443, 80), "10.1.0.0/16, port 443, local port 80"),
        (flow("10.1.2.3", 443, 80), "10.1.2.3/32"),
        (flow("2001:db8:1::1"), "2001:db8::/32"),
        (flow("2001:db8:7::1"), "2001:db8:7::/48"),
        (flow("2001:db9::1", 22), "port 22"),
        (flow("::ffff:10.1.2.3", 1, 8080), "local port 8080"),
        (flow("192.0.2.1", 22, netns=WEB), "namespace web"),
        (flow("10.9.9.9", netns=WEB), "10.0.0.0/8"),
        (flow("10.1.9.9", 443, 80, netns=WEB), "10.1.0.0/16, namespace web"),
        (flow("192.0.2.1", 22, 80, netns=4026532000), "namespace 4026532000, local port 80"),
        (flow("192.0.2.1", 22, netns=4026532000), "port 22"),
    ],
)
def test_the_longest_match_decides(found: SimpleNamespace, match: str | None) -> None:
    policy = POLICIES.of(found, {"web": WEB, "4026532000": 4026532000})
    assert (None if policy is None else policy.match) == match


def test_a_document_comes_back_in_the_order_of_its_tries() -> None:
    entries = [policy.entry() for policy in POLICIES.entries]
    assert parse(list(reversed(entries))).entries == POLICIES.entries
    assert entries[0] == {"prefix": "2001:db8:7::/48", "pin": "bbr"}


def test_starts_are_of_prefixes_without_ports() -> None:
    assert POLICIES.starts() == {"10.0.0.0/8": "cubic", "2001:db8::/32": "bbr", "2001:db8:7::/48": "bbr"}


@pytest.mark.parametrize(
    ("prefix", "match"),
    [("10.1.2.0/24", "10.1.0.0/16"), ("10.2.2.0/24", "10.0.0.0/8"), ("192.0.2.0/24", None),
     ("2001:db8:7::/48", "2001:db8:7::/48"), ("2001:db8::/40", "2001:db8::/32")],
)  # fmt: skip
def test_the_start_of_a_prefix_is_that_of_the_longest_one_around_it(prefix: str, match: str | None) -> None:
    policy = POLICIES.start_of(prefix)
    assert (None if policy is None else policy.match) == match


@pytest.mark.parametrize(
    ("entries", "field", "allowed"),
    [
        ({"port": 1}, "policies", "a list of policies"),
        ([7], "policies[0]", "a table"),
        ([{"port": 22, "exclude": True}, {"prefx": "x"}], "policies[1].prefx", "did you mean prefix?"),
        ([{"exclude": True}], "policies[0]", "prefix, netns, port or local_port"),
        ([{"port": 22}], "policies[0]", "exclude, pin, pool, k or start"),
        ([{"port": 22, "exclude": False}], "policies[0]", "exclude, pin, pool, k or start"),
        ([{"port": 0, "exclude": True}], "policies[0].port", "from 1 to 65535"),
        ([{"port": True, "exclude": True}], "policies[0].port", "from 1 to 65535"),
        ([{"prefix": "10.0.0.1/8", "exclude": True}], "policies[0].prefix", "a network such as"),
        ([{"prefix": 7, "exclude": True}], "policies[0].prefix", "a network such as"),
        ([{"port": 22, "exclude": "yes"}], "policies[0].exclude", "true or false"),
        ([{"port": 22, "pin": "bbrr"}], "policies[0].pin", "did you mean bbr?"),
        ([{"port": 22, "pool": []}], "policies[0].pool", "a list of 1 to 20"),
        ([{"port": 22, "pool": ["bbr", "x"]}], "policies[0].pool[1]", "one of bbr, cubic, vegas"),
        ([{"port": 22, "pool": ["bbr", "bbr"]}], "policies[0].pool[1]", "each arm once"),
        ([{"port": 22, "pool": ["bbr"], "k": 2}], "policies[0].k", "at most 1"),
        ([{"port": 22, "pin": "bbr", "pool": ["bbr"]}], "policies[0].pin", "pin alone, without pool"),
        ([{"port": 22, "exclude": True, "k": 1}], "policies[0].exclude", "exclude alone, without k"),
        ([{"port": 22, "start": "bbr"}], "policies[0].start", "a prefix alone"),
        ([{"prefix": "10.0.0.0/8", "netns": "web", "start": "bbr"}], "policies[0].start", "a prefix alone"),
        ([{"netns": "a/b", "k": 2}], "policies[0].netns", "the number of its inode"),
        ([{"netns": "..", "k": 2}], "policies[0].netns", "the number of its inode"),
        ([{"netns": True, "k": 2}], "policies[0].netns", "the number of its inode"),
        ([{"netns": -3, "k": 2}], "policies[0].netns", "the number of its inode"),
        ([{"port": 22, "k": 2}, {"port": 22, "k": 3}], "policies[1]", "see policies[0]"),
        ([{"port": 22, "k": 2}] * (POLICIES_MAX + 1), "policies", "at most 256"),
    ],
)
def test_what_cannot_be_meant_is_refused(entries: object, field: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(entries, arms=ARMS)
    assert caught.value.field == field
    assert allowed in caught.value.allowed


def test_a_namespace_has_a_name_or_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "NETNS_FOLDER", tmp_path)
    (tmp_path / "web").touch()
    found = parse([{"netns": name, "k": 2} for name in ("web", "gone", 4026532000)], arms=ARMS)
    inode = (tmp_path / "web").stat().st_ino
    assert found.namespaces() == {"web": inode, "4026532000": 4026532000}
    assert found.of(flow("192.0.2.1", netns=inode)) is None, "no namespace was told"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a network namespace")
def test_a_name_leads_to_the_inode_that_the_kernel_tells_of_a_flow() -> None:
    name = f"ltp{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a network namespace")
    try:
        inside = ["ip", "netns", "exec", name, "stat", "-L", "-c", "%i", "/proc/self/ns/net"]
        seen = subprocess.run(inside, check=True, capture_output=True, text=True).stdout
        assert policies.namespace_inode(name) == int(seen)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
    assert policies.namespace_inode(name) is None


def test_a_difference_names_what_goes_and_what_comes() -> None:
    one, two, three = ({"port": port, "exclude": True} for port in (1, 2, 3))
    before, after = parse([one, two]), parse([two, three])
    gone, come = difference(before, after)
    assert ([str(policy) for policy in gone], [str(policy) for policy in come]) == (
        ["port 1: excluded"],
        ["port 3: excluded"],
    )
    assert difference(after, parse([three, two])) == ([], [])
    assert not Policies()


def test_a_file_has_tables(tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(
        '[[policy]]\nport = 22\nexclude = true\n\n[[policy]]\nprefix = "10.0.0.0/8"\npin = "bbr"\n'
    )
    assert [str(one) for one in parse(read(file)).entries] == ["10.0.0.0/8: pin bbr", "port 22: excluded"]
    file.write_text("")
    assert read(file) == []
    for text, named in (("[policy]\nport = 1\n", "policy"), ("[[polcy]]\n", "polcy"), ("x", "policies.toml")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=named):
            read(file)
