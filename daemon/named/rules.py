# SPDX-License-Identifier: Apache-2.0
"""The rules for flows that run `mutant`. They come from used prefixes and policies, and become entries of the
kernel's table.

An operator names destination prefixes with `ltp-switcher use`; these are the used prefixes. A policy decides
for the flows that it matches: excluded flows are left alone, and all others run `mutant`. A flow without a
policy runs `mutant` if a used prefix covers its destination. The order of policies is the same as in
`Policies.of`: the longest prefix first, then namespace, port and own port.

The kernel's table is a trie, which finds only the longest prefix. So this module resolves namespaces and
ports. Rules of a namespace other than the initial one are left out. Each kind of port rule has keys of its
own, for which the program searches separately. A second trie lists the kinds of rules that cover an address,
so that the program can skip other searches. `kmod-mutant/bpf/rules.h` is the kernel's half of this module.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ltp_switcher.daemon.settings.policies import Policies, Policy
from ltp_switcher.daemon.settings.prefixes import Network
from ltp_switcher.errors import InvalidValueError

RULES_MAX: Final = 65536
"""Largest number of entries in the kernel's table of rules."""
BOTH_PORTS, REMOTE_PORT, OWN_PORT, ANY_PORT, USED = range(5)
"""Kinds of rules, the same as `enum rule_kind` in rules.h."""

_HEAD_BITS: Final = 64
_KEY: Final = struct.Struct("=IHH")
_PORTS: Final = struct.Struct("!HH")
_ONLY_KEY: Final = bytes(4)
_SUMMARY: Final = struct.Struct("=I4xQQQ")
_VALUE: Final = struct.Struct("=IIQQQQ")
_COVER_HEAD_BITS: Final = 32
_COVER: Final = struct.Struct("=II")
_KINDS: Final = struct.Struct("=I")
ADDRESS_BYTES: Final = 16
KEY_BYTES: Final = _KEY.size + _PORTS.size + ADDRESS_BYTES
VALUE_BYTES: Final = _VALUE.size
COVER_BYTES: Final = _COVER.size + ADDRESS_BYTES
_Place = tuple[int, int, int]
"""A prefix: its family, its address as the first bits of a key, and its length."""


@dataclass(frozen=True, slots=True)
class Count:
    """Counts of the new flows to which a rule applied. Times are in ns since boot, or 0 if no flow has got
    `mutant` yet.

    Attributes:
        hits: flows that got `mutant`.
        missed: flows to which the kernel refused `mutant`.
        first_ns: time of the first flow that got `mutant`.
        last_ns: time of the last flow that got `mutant`.
    """

    hits: int = 0
    missed: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def __add__(self, other: Count) -> Count:
        firsts = [ns for ns in (self.first_ns, other.first_ns) if ns]
        return Count(
            self.hits + other.hits,
            self.missed + other.missed,
            min(firsts, default=0),
            max(self.last_ns, other.last_ns),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of the kernel's table for a key.

    Attributes:
        rank: rank of the rule. If two rules match a flow, the one with the higher rank decides.
        chosen: whether the rule's flows run `mutant`.
    """

    rank: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class Named:
    """A prefix that an operator named with `ltp-switcher use`, or a policy.

    Attributes:
        match: the flows that it matches, in words.
        policy: whether it is a policy.
        chosen: whether its flows run `mutant`.
        keys: the keys of its entries in the kernel's table.
    """

    match: str
    policy: bool
    chosen: bool
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules. `table` is the content that the kernel's table should have. `named` has the used prefixes
    and policies from which this content comes.
    """

    table: Mapping[bytes, Verdict]
    named: tuple[Named, ...]

    @property
    def summary(self) -> bytes:
        """The packed `struct summary` of rules.h: the kinds of rules in use, and for each kind a 64-bit set
        of hashed ports.
        """
        kinds = 0
        ports = [0] * ANY_PORT
        for key in self.table:
            kind = kind_of(key)
            kinds |= 1 << kind
            if kind < ANY_PORT:
                ports[kind] |= _ports_bit(*_PORTS.unpack_from(key, _KEY.size))
        return _SUMMARY.pack(kinds, *ports)

    @property
    def covers(self) -> dict[bytes, bytes]:
        """The content of the second trie: for each prefix of a rule, the kinds of rules that cover the
        prefix, as bits.

        It is empty if all rules have the same kind.
        """
        if len({kind_of(key) for key in self.table}) <= 1:
            return {}
        kinds: dict[_Place, int] = {}
        for key in self.table:
            bits, family, kind = _KEY.unpack_from(key)
            place = (family, int.from_bytes(key[-ADDRESS_BYTES:], "big"), bits - _HEAD_BITS)
            kinds[place] = kinds.get(place, 0) | 1 << kind
        found: dict[bytes, bytes] = {}
        # The sorting puts a prefix after all prefixes that cover it. These are in `around`, the widest first.
        around: list[_Place] = []
        for place in sorted(kinds):
            family, address, length = place
            while around and not _within(place, around[-1]):
                around.pop()
            if around:
                kinds[place] |= kinds[around[-1]]
            around.append(place)
            head = _COVER.pack(_COVER_HEAD_BITS + length, family)
            found[head + address.to_bytes(ADDRESS_BYTES, "big")] = _KINDS.pack(kinds[place])
        return found


def flatten(
    used: Iterable[Network], policies: Policies, namespaces: Mapping[str, int], initial: int
) -> Rules:
    """Return the rules that follow from used prefixes and policies.

    Args:
        used: destination prefixes whose flows run `mutant`.
        policies: the policies in force.
        namespaces: the result of `Policies.namespaces`.
        initial: inode of the initial network namespace. The program looks at flows of this namespace only.

    Raises:
        InvalidValueError: the kernel's table has no room for the rules.
    """
    table: dict[bytes, Verdict] = {}
    named: list[Named] = []
    for policy in policies.entries:
        # A policy that names only a namespace names no flows, because containers choose for themselves.
        if policy.prefix is None and not policy.ports:
            continue
        if policy.netns is not None and namespaces.get(policy.netns) != initial:
            continue
        keys = tuple(_keys(policy.prefix, _kind(policy), policy.port or 0, policy.local_port or 0))
        verdict = Verdict(_rank(policy), not policy.exclude)
        for key in keys:
            if key not in table or verdict.rank > table[key].rank:
                table[key] = verdict
        named.append(Named(policy.match, policy=True, chosen=verdict.chosen, keys=keys))
    for prefix in dict.fromkeys(used):
        keys = tuple(_keys(prefix, USED, 0, 0))
        table.update(dict.fromkeys(keys, Verdict(2 * prefix.prefixlen + 2, chosen=True)))
        named.append(Named(str(prefix), policy=False, chosen=True, keys=keys))
    if len(table) > RULES_MAX:
        raise InvalidValueError("prefixes", len(table), f"at most {RULES_MAX} prefixes and policies together")
    return Rules(table, tuple(named))


@dataclass(frozen=True, slots=True)
class Step:
    """A change of one entry in one of the program's tables.

    Attributes:
        table: name of the table in the program: `rules`, `covers` or `summary`.
        key: the entry's key.
        value: the entry's new value; None deletes the entry.
    """

    table: str
    key: bytes
    value: bytes | None


def steps(
    rules: Rules,
    table: Mapping[bytes, tuple[Verdict, Count]] = MappingProxyType({}),
    covers: Mapping[bytes, bytes] = MappingProxyType({}),
    counts: Mapping[bytes, Count] = MappingProxyType({}),
) -> list[Step]:
    """Return the changes, in order, that make the tables of the BPF program equal to these rules. The program
    looks up in them which new flows run `mutant`.

    After each change, flows still find every rule that stays. So new entries come first and deletions last.
    Between them comes the summary, which tells the program the kinds of rules that it has to search.

    Args:
        rules: the wanted rules.
        table: present entries of the table `rules`. A rule that stays keeps its count.
        covers: present entries of the table `covers`: the kinds of rules that cover each prefix.
        counts: counts with which new rules begin, by key. They come from the table of an earlier program.
    """
    wanted = rules.covers
    found = [
        Step("rules", key, encode(verdict, counts.get(key, Count())))
        for key, verdict in rules.table.items()
        if key not in table or table[key][0] != verdict
    ]
    found += [Step("covers", key, kinds) for key, kinds in wanted.items() if covers.get(key) != kinds]
    found.append(Step("summary", _ONLY_KEY, rules.summary))
    found += [Step("rules", key, None) for key in table if key not in rules.table]
    found += [Step("covers", key, None) for key in covers if key not in wanted]
    return found


def encode(verdict: Verdict, count: Count) -> bytes:
    """Return the value of an entry of the table of rules, `struct rule` of rules.h."""
    return _VALUE.pack(verdict.rank, verdict.chosen, count.hits, count.missed, count.first_ns, count.last_ns)


def decode(value: bytes) -> tuple[Verdict, Count]:
    """Return the verdict and the count in an entry's value. This is the reverse of `encode`."""
    rank, chosen, *counts = _VALUE.unpack(value)
    return Verdict(rank, bool(chosen)), Count(*counts)


def kind_of(key: bytes) -> int:
    """The kind of rule to which a key belongs, such as `USED`."""
    return int(_KEY.unpack_from(key)[2])


def _ports_bit(remote_port: int, own_port: int) -> int:
    """`ports_bit()` of rules.h. A port that is not named is 0."""
    return 1 << (((remote_port ^ remote_port >> 8) + 5 * (own_port ^ own_port >> 8)) & 63)


def _within(narrow: _Place, wide: _Place) -> bool:
    """Whether the prefix `wide` covers all addresses of the prefix `narrow`."""
    family, address, length = wide
    same = (narrow[1] ^ address) >> (8 * ADDRESS_BYTES - length) == 0
    return narrow[0] == family and narrow[2] >= length and same


def _kind(policy: Policy) -> int:
    if policy.port is not None:
        return BOTH_PORTS if policy.local_port is not None else REMOTE_PORT
    return OWN_PORT if policy.local_port is not None else ANY_PORT


def _rank(policy: Policy) -> int:
    """The rank of a policy by the order of `Policies`: first the prefix's length, then the namespace. Ports
    have no part in the rank, because among rules of equal rank the program takes the first kind.
    """
    length = 0 if policy.prefix is None else policy.prefix.prefixlen + 1
    return 2 * length + (policy.netns is not None)


def _keys(prefix: Network | None, kind: int, port: int, own_port: int) -> Iterable[bytes]:
    # A rule without a prefix is for both families.
    if prefix is None:
        yield from _keys(ipaddress.IPv4Network("0.0.0.0/0"), kind, port, own_port)
        yield from _keys(ipaddress.IPv6Network("::/0"), kind, port, own_port)
        return
    head = _KEY.pack(_HEAD_BITS + prefix.prefixlen, prefix.version, kind) + _PORTS.pack(port, own_port)
    yield head + prefix.network_address.packed.ljust(ADDRESS_BYTES, b"\0")
