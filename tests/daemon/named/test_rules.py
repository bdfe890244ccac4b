# SPDX-License-Identifier: Apache-2.0
"""Rules in the kernel's table: the program's own search of it decides as the policies' matcher does."""

from __future__ import annotations

import ctypes
import ipaddress
import random
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ltp_switcher.daemon.named.rules import (
    COVER_BYTES,
    KEY_BYTES,
    VALUE_BYTES,
    Count,
    Rules,
    Step,
    Verdict,
    decode,
    encode,
    flatten,
    steps,
)
from ltp_switcher.daemon.settings.policies import Policies, Policy
from ltp_switcher.daemon.settings.prefixes import Network
from ltp_switcher.errors import InvalidValueError

REPOSITORY = Path(__file__).resolve().parents[3]
RULE_SETS = 10_000
INITIAL, CONTAINER = 4026531840, 4026532999
NAMESPACES = {"host": INITIAL, "web": CONTAINER}
HEAD_BITS, LENGTH_BYTES = 64, 4

# The search of kmod-mutant/bpf/rules.h, over tables of the test's own.
SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
struct rule_key;
struct cover_key;
struct rule;
typedef void *(*finder)(const void *key);
static finder find, find_kinds;
static struct rule *find_rule(const struct rule_key *key) { return find(key); }
static const __u32 *find_cover(const struct cover_key *key) { return find_kinds(key); }
#include "rules.h"
size_t key_bytes(void) { return sizeof(struct rule_key); }
size_t cover_bytes(void) { return sizeof(struct cover_key); }
size_t value_bytes(void) { return sizeof(struct rule); }
size_t summary_bytes(void) { return sizeof(struct summary); }
void *decisive(finder rules, finder covers, const void *summary, int family, const void *address,
               int remote_port, int own_port)
{
	struct flow flow = { .family = family, .remote_port = remote_port, .own_port = own_port };

	memcpy(flow.address, address, sizeof(flow.address));
	find = rules;
	find_kinds = covers;
	return rule_of(&flow, summary);
}
"""


Tables = dict[str, dict[bytes, bytes]]
PREFIX = ipaddress.ip_network("192.0.2.0/24")
OF_EACH_KIND = Policies(
    Policy(PREFIX, port=port, local_port=own, exclude=True)
    for port, own in ((443, 22), (443, None), (None, 22), (None, None))
)


@dataclass(frozen=True)
class Flow:
    """The ends of a flow."""

    remote_address: str
    remote_port: int
    local_port: int
    netns: int = INITIAL


class Trie:
    """The kernel's trie by definition: of the keys that agree with the wanted one, the longest."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        self._values = {key: ctypes.create_string_buffer(value) for key, value in table.items()}
        self.looks = 0
        self._bits = {key: int.from_bytes(key[:LENGTH_BYTES], "little") for key in table}

    def find(self, wanted: bytes) -> int:
        """The address of the value, 0 for none."""
        self.looks += 1
        number = int.from_bytes(wanted[LENGTH_BYTES:], "big")
        size = 8 * (len(wanted) - LENGTH_BYTES)
        best, longest = 0, -1
        for key, value in self._values.items():
            bits = self._bits[key]
            same = (int.from_bytes(key[LENGTH_BYTES:], "big") ^ number) >> (size - bits) == 0
            if same and bits > longest:
                best, longest = ctypes.addressof(value), bits
        return best

    def key_at(self, address: int | None) -> bytes | None:
        """The key of the value at an address; None for none."""
        return next((key for key, value in self._values.items() if ctypes.addressof(value) == address), None)


FINDER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Search:
    """The program's search."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.library.decisive.restype = ctypes.c_void_p

    def chosen(self, rules: Rules, flow: Flow) -> bool:
        return self.chosen_in(rules, flow)[0]

    def chosen_in(self, rules: Rules, flow: Flow) -> tuple[bool, int]:
        """Whether a flow is chosen, and in how many looks at the tables."""
        tables = tables_of(rules)
        key, looks = self.decisive(tables, flow)
        return key is not None and decode(tables["rules"][key])[0].chosen, looks

    def decisive(self, tables: Tables, flow: Flow) -> tuple[bytes | None, int]:
        """The key of the rule that decides for a flow, and the number of looks at the tables."""
        rules, covers = Trie(tables["rules"]), Trie(tables["covers"])
        finders = (
            FINDER(lambda key: rules.find(ctypes.string_at(key, KEY_BYTES))),
            FINDER(lambda key: covers.find(ctypes.string_at(key, COVER_BYTES))),
        )
        address = ipaddress.ip_address(flow.remote_address)
        raw = address.packed.ljust(16, b"\0")
        ports = [
            int.from_bytes(port.to_bytes(2, "big"), "little") for port in (flow.remote_port, flow.local_port)
        ]
        (summary,) = tables["summary"].values()
        found = self.library.decisive(*finders, summary, address.version, raw, *ports)
        return rules.key_at(found), rules.looks + covers.looks


def tables_of(rules: Rules) -> Tables:
    """The program's tables with these rules."""
    made: Tables = {"rules": {}, "covers": {}, "summary": {}}
    for step in steps(rules):
        change(made, step)
    return made


def change(tables: Tables, step: Step) -> None:
    """Change an entry as the kernel would."""
    if step.value is None:
        del tables[step.table][step.key]
    else:
        tables[step.table][step.key] = step.value


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "search.c").write_text(SOURCE)
    include = f"-I{REPOSITORY / 'kmod-mutant/bpf'}"
    library = folder / "search.so"
    flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, include, "-o", str(library), str(folder / "search.c")], check=True)
    return Search(ctypes.CDLL(str(library)))


def random_prefix(draw: random.Random) -> Network:
    """One of few prefixes, so that they cover each other."""
    if draw.random() < 0.5:
        bits = draw.choice([0, 1, 7, 8, 16, 24, 31, 32])
        address = draw.choice([0xCB007100, 0xCB007105, 0xCB000000, 0x0A000001, 0])
        return ipaddress.ip_network((address >> (32 - bits) << (32 - bits), bits))
    bits = draw.choice([0, 1, 16, 32, 47, 48, 64, 96, 127, 128])
    number = draw.choice([0x20010DB8 << 96, (0x20010DB8 << 96) | 5, 0xFFFF << 32, 1, 0])
    number = number >> (128 - bits) << (128 - bits)
    # A v4-mapped prefix is none of IPv6: the readers have made it one of IPv4.
    if bits >= 96 and number >> 32 == 0xFFFF:
        return ipaddress.ip_network("2001:db8::/32")
    return ipaddress.ip_network((number.to_bytes(16, "big"), bits))


def random_policy(draw: random.Random) -> Policy:
    policy = Policy(
        prefix=random_prefix(draw) if draw.random() < 0.8 else None,
        netns=draw.choice(["host", "web", "gone", str(INITIAL)]) if draw.random() < 0.2 else None,
        port=draw.choice([22, 443]) if draw.random() < 0.4 else None,
        local_port=draw.choice([443, 8080]) if draw.random() < 0.4 else None,
        exclude=draw.random() < 0.4,
        pin=None,
    )
    return policy if policy.match else random_policy(draw)


def random_flow(draw: random.Random) -> Flow:
    address = draw.choice(
        ["203.0.113.0", "203.0.113.5", "203.0.113.9", "203.0.0.1", "10.0.0.1", "198.51.100.1", "0.0.0.1",
         "2001:db8::", "2001:db8::5", "2001:db8:1::1", "2002::1", "::1", "fe80::1", "8000::1"]
    )  # fmt: skip
    return Flow(address, draw.choice([22, 443, 80]), draw.choice([443, 8080, 80]))


def chosen_by_the_matcher(policies: Policies, used: list[Network], flow: Flow) -> bool:
    policy = policies.of(flow, NAMESPACES)
    # A policy for a namespace alone names no flows.
    named = [one for one in policies.entries if one.prefix is not None or one.ports]
    if policy is not None and policy not in named:
        policy = Policies(named).of(flow, NAMESPACES)
    if policy is not None:
        return not policy.exclude
    address = ipaddress.ip_address(flow.remote_address)
    return any(address.version == prefix.version and address in prefix for prefix in used)


def test_the_programs_search_decides_as_the_matcher_for_ten_thousand_rule_sets(search: Search) -> None:
    draw = random.Random(1)
    seen = {True: 0, False: 0}
    for number in range(RULE_SETS):
        found = {policy.match: policy for policy in (random_policy(draw) for _ in range(draw.randrange(8)))}
        policies = Policies(found.values())
        used = [random_prefix(draw) for _ in range(draw.randrange(4))]
        rules = flatten(used, policies, NAMESPACES, INITIAL)
        for _ in range(4):
            flow = random_flow(draw)
            wanted = chosen_by_the_matcher(policies, used, flow)
            seen[wanted] += 1
            told = [*map(str, policies.entries), *map(str, used)]
            assert search.chosen(rules, flow) == wanted, (number, flow, told)
    assert min(seen.values()) > RULE_SETS, seen


def random_rules(draw: random.Random) -> Rules:
    found = {policy.match: policy for policy in (random_policy(draw) for _ in range(draw.randrange(6)))}
    used = [random_prefix(draw) for _ in range(draw.randrange(4))]
    return flatten(used, Policies(found.values()), NAMESPACES, INITIAL)


def test_a_rule_that_stays_is_found_after_each_step_of_a_change(search: Search) -> None:
    draw = random.Random(2)
    watched = 0
    for number in range(1000):
        earlier, later = random_rules(draw), random_rules(draw)
        # Most rules stay, as when an operator adds or removes a few.
        later = Rules({**earlier.table, **later.table} if draw.random() < 0.5 else later.table, ())
        if draw.random() < 0.5:
            earlier, later = later, earlier
        tables, wanted = tables_of(earlier), tables_of(later)
        decided = []
        for flow in (random_flow(draw) for _ in range(3)):
            before, after = search.decisive(tables, flow)[0], search.decisive(wanted, flow)[0]
            if before is not None and before == after and earlier.table[before] == later.table[before]:
                decided.append((flow, before))
        present = {key: decode(value) for key, value in tables["rules"].items()}
        for step in steps(later, present, dict(tables["covers"])):
            change(tables, step)
            for flow, key in decided:
                assert search.decisive(tables, flow)[0] == key, (number, flow, step)
                watched += 1
        assert tables == wanted, number
    assert watched > 1000


def test_counts_of_rules_that_stay_go_on_and_those_of_another_table_are_taken_over() -> None:
    old, new = ipaddress.ip_network("203.0.113.0/24"), ipaddress.ip_network("198.51.100.0/24")
    before, rules = flatten([old], Policies(), {}, INITIAL), flatten([old, new], OF_EACH_KIND, {}, INITIAL)
    (key,) = before.table
    count = Count(3, 1, 10, 12)
    present = {key: (before.table[key], count)}
    assert key not in [step.key for step in steps(rules, present)]
    taken = {step.key: step.value for step in steps(rules, counts={key: count})}
    assert taken[key] == encode(before.table[key], count)
    other = {key: (Verdict(1, chosen=False), count)}
    assert {step.key: step.value for step in steps(rules, other)}[key] == encode(before.table[key], Count())


def test_both_halves_have_one_layout(search: Search) -> None:
    assert search.library.key_bytes() == KEY_BYTES == 28
    assert search.library.cover_bytes() == COVER_BYTES == 24
    assert search.library.value_bytes() == VALUE_BYTES == 40
    assert search.library.summary_bytes() == len(flatten([], Policies(), {}, INITIAL).summary) == 32


@pytest.mark.parametrize(
    ("remote_port", "own_port", "looks"), [(80, 81, 2), (443, 81, 3), (80, 22, 3), (443, 22, 5)]
)
def test_ports_that_no_rule_names_are_not_looked_for(
    search: Search, remote_port: int, own_port: int, looks: int
) -> None:
    rules = flatten([PREFIX], OF_EACH_KIND, {}, INITIAL)
    assert search.chosen_in(rules, Flow("192.0.2.5", remote_port, own_port)) == (False, looks)
    # Which kinds cover an address is one look; none does here.
    assert search.chosen_in(rules, Flow("203.0.113.5", remote_port, own_port)) == (False, 1)


def test_ports_that_rules_name_in_other_pairs_are_not_looked_for(search: Search) -> None:
    others = Policies(
        Policy(PREFIX, port=port, local_port=own, pin="bbr")
        for port, own in ((22, 23), (23, 22), (24, None), (None, 24))
    )
    rules = flatten([PREFIX], others, {}, INITIAL)
    # The look is for the used prefix.
    assert search.chosen_in(rules, Flow("192.0.2.5", 22, 22)) == (True, 1)
    assert search.chosen_in(rules, Flow("192.0.2.5", 22, 23)) == (True, 2)


def test_kinds_that_do_not_cover_an_address_are_not_looked_for(search: Search) -> None:
    wide, host = ipaddress.ip_network("192.0.0.0/16"), ipaddress.ip_network("192.0.2.5/32")
    apart = ipaddress.ip_network("10.0.0.0/8")
    policies = [Policy(apart, port=443), Policy(PREFIX, port=443, exclude=True), Policy(host, local_port=22)]
    rules = flatten([wide], Policies(policies), {}, INITIAL)
    for address, looks in (("192.0.2.5", 3), ("192.0.2.6", 2), ("192.0.3.5", 2), ("192.1.0.1", 1)):
        chosen = address in ("192.0.2.5", "192.0.3.5")
        assert search.chosen_in(rules, Flow(address, 443, 22)) == (chosen, looks), address


def test_rules_of_one_kind_are_found_in_one_look(search: Search) -> None:
    rules = flatten([PREFIX], Policies(), {}, INITIAL)
    assert rules.covers == {}
    for address in ("192.0.2.5", "203.0.113.5"):
        assert search.chosen_in(rules, Flow(address, 443, 22)) == (address == "192.0.2.5", 1)


def test_a_value_comes_back() -> None:
    value = encode(Verdict(66, chosen=True), Count(3, 1, 10, 2**63))
    assert decode(value) == (Verdict(66, chosen=True), Count(3, 1, 10, 2**63))


def test_counts_add_up() -> None:
    assert Count(1, 2, 5, 9) + Count(3, 0, 4, 8) == Count(4, 2, 4, 9)
    assert Count() + Count(1, 0, 7, 7) == Count(1, 0, 7, 7)


def test_more_rules_than_the_table_holds_are_refused() -> None:
    many = [ipaddress.IPv4Network((number << 8, 24)) for number in range(65537)]
    assert len(flatten(many[:65536], Policies(), {}, INITIAL).table) == 65536
    with pytest.raises(InvalidValueError, match="at most 65536"):
        flatten(many, Policies(), {}, INITIAL)
