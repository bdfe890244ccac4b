# SPDX-License-Identifier: Apache-2.0
"""The netlink contract: mutant.yaml (the kernel's `genetlink` schema) and records.yaml, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ltp_switcher.errors import InvalidValueError

from .reader import Node, read

SCALAR_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
"""Bytes of each scalar type of the contract."""
RECORD_ALIGNMENT = 8
"""Bytes. Every record's size is a multiple, so that an array of them stays aligned."""
BATCHES = ("command", "control", "start")
"""Records that a request carries in batches."""


class Entry(Node):
    name: str
    doc: str = ""


class Definition(Node):
    """A named number, an enumeration from 0, or a set of flags, whose values are the bits themselves."""

    name: str
    doc: str
    type: Literal["const", "enum", "flags"] = "const"
    value: int = 0
    entries: tuple[Entry, ...] = ()

    @property
    def values(self) -> list[tuple[Entry, int]]:
        return [(e, 1 << i if self.type == "flags" else i) for i, e in enumerate(self.entries)]


class Checks(Node):
    """Bounds of a scalar, or the most bytes of another attribute; numbers or names of constants."""

    min: int | str | None = None
    max: int | str | None = None
    max_len: int | str | None = None


class Attribute(Node):
    name: str
    type: Literal["u8", "u16", "u32", "u64", "string", "binary", "pad"]
    doc: str = ""
    enum: str = ""
    checks: Checks = Checks()


class AttributeSet(Node):
    name: str
    attributes: tuple[Attribute, ...]


class Exchange(Node):
    request: tuple[str, ...] = ()
    reply: tuple[str, ...] = ()


class Operation(Node):
    """A command (`do`, `dump`) or an event (`event`, sent to the group `mcgrp`)."""

    name: str
    doc: str
    attribute_set: str
    flags: tuple[Literal["admin-perm"], ...] = ()
    do: Exchange | None = None
    dump: Exchange | None = None
    event: tuple[str, ...] | None = None
    mcgrp: str = ""

    @property
    def request(self) -> tuple[str, ...]:
        """Attributes that any request of this operation may carry."""
        asked = [exchange.request for exchange in (self.do, self.dump) if exchange is not None]
        return tuple(dict.fromkeys(name for names in asked for name in names))


class Group(Node):
    """A multicast group; `admin-perm`: joining needs CAP_NET_ADMIN over the network namespace."""

    name: str
    flags: tuple[Literal["admin-perm"], ...] = ()


class Family(Node):
    """mutant.yaml. Ids of attributes and operations count from 1."""

    name: str
    protocol: Literal["genetlink"]
    uapi_header: str
    doc: str
    definitions: tuple[Definition, ...]
    attribute_sets: tuple[AttributeSet, ...]
    operations: tuple[Operation, ...]
    mcast_groups: tuple[Group, ...]


class Member(Node):
    name: str
    type: str
    doc: str
    count: int | str = 1


class Struct(Node):
    """A packed record without implicit padding."""

    name: str
    doc: str
    members: tuple[Member, ...]


class Records(Node):
    """records.yaml."""

    version: int
    uns_admin_perm: tuple[str, ...]
    constants: tuple[Definition, ...]
    structs: tuple[Struct, ...]


class Contract:
    """Both files, checked against each other. Raises `InvalidValueError` on anything not understood."""

    def __init__(self, family: Path, records: Path) -> None:
        self.family = read(Family, family)
        self.records = read(Records, records)
        definitions = self.family.definitions
        self.constants = (*(d for d in definitions if d.type == "const"), *self.records.constants)
        self.enums = tuple(d for d in definitions if d.type != "const")
        self.numbers = {c.name: c.value for c in self.constants}
        self.sizes: dict[str, int] = dict(SCALAR_SIZES)
        """Bytes of every type that a member may have; a struct may hold those above it."""
        for struct in self.records.structs:
            self.sizes[struct.name] = self._size(struct)
        for space in self.family.attribute_sets:
            for attribute in space.attributes:
                self._check_attribute(attribute)
        for operation in self.family.operations:
            self._check_operation(operation)
        for index, name in enumerate(self.records.uns_admin_perm):
            self.records.check(f"uns-admin-perm[{index}]", name, [o.name for o in self.family.operations])
        for batched in BATCHES:
            self._check_batch(batched)

    def number(self, node: Node, key: str) -> int | None:
        """Return a key's number, or the value of the constant that it names; None where there is none."""
        value: object = getattr(node, key.replace("-", "_"))
        if isinstance(value, str):
            node.check(key, value, self.numbers)
            return self.numbers[value]
        return value if isinstance(value, int) else None

    def count(self, member: Member) -> int:
        """Return how many elements a member has."""
        count = self.number(member, "count")
        if not count:
            raise InvalidValueError(f"{member.path}.count", count, "at least 1")
        return count

    def attributes(self, operation: Operation) -> Mapping[str, Attribute]:
        """Return the attributes of an operation's set, by name and in the order of their ids."""
        sets = {s.name: s.attributes for s in self.family.attribute_sets}
        operation.check("attribute-set", operation.attribute_set, sets)
        return {a.name: a for a in sets[operation.attribute_set]}

    def permission(self, operation: Operation) -> Literal["none", "admin-perm", "uns-admin-perm"]:
        """Return who may call an operation, in the schema's words."""
        if operation.name in self.records.uns_admin_perm:
            return "uns-admin-perm"
        return "admin-perm" if operation.flags else "none"

    def _size(self, struct: Struct) -> int:
        offset = 0
        for member in struct.members:
            member.check("type", member.type, self.sizes)
            alignment = SCALAR_SIZES.get(member.type, RECORD_ALIGNMENT)
            if offset % alignment:
                wanted = f"a multiple of {alignment}; add a `reserved` member before it"
                raise InvalidValueError(member.path, f"offset {offset}", wanted)
            offset += self.sizes[member.type] * self.count(member)
        if not offset or offset % RECORD_ALIGNMENT:
            raise InvalidValueError(struct.path, f"{offset} bytes", f"a multiple of {RECORD_ALIGNMENT} bytes")
        return offset

    def _check_attribute(self, attribute: Attribute) -> None:
        scalar = attribute.type in SCALAR_SIZES
        bounds = ("min", "max") if scalar else ("max-len",)
        for key in ("min", "max", "max-len"):
            if self.number(attribute.checks, key) is not None and key not in bounds:
                raise InvalidValueError(
                    f"{attribute.checks.path}.{key}", attribute.type, " and ".join(bounds)
                )
        if attribute.enum:
            attribute.check("enum", attribute.enum, [e.name for e in self.enums] if scalar else [])

    def _check_operation(self, one: Operation) -> None:
        known = self.attributes(one)
        for key in ("do.request", "do.reply", "dump.request", "dump.reply", "event"):
            names: object = one
            for part in key.split("."):
                names = getattr(names, part, None)
            for name in names if isinstance(names, tuple) else ():
                one.check(key, name, known)
        if (one.event is None) == (one.do is None and one.dump is None):
            raise InvalidValueError(one.path, one.name, "either do/dump or event")
        if (one.event is None) != (not one.mcgrp):
            raise InvalidValueError(f"{one.path}.mcgrp", one.mcgrp, "a group with an event, none without")
        if one.mcgrp:
            one.check("mcgrp", one.mcgrp, [group.name for group in self.family.mcast_groups])

    def _check_batch(self, batched: str) -> None:
        """A full batch of a record must fill exactly the length that the policy lets through."""
        most, length = f"{batched}s-max", f"{batched}s-len-max"
        if batched not in self.sizes or not {most, length} <= self.numbers.keys():
            raise InvalidValueError(
                "structs", batched, "a struct of this name, and the constants of its batch"
            )
        if self.numbers[length] != (full := self.numbers[most] * self.sizes[batched]):
            raise InvalidValueError(f"definitions.{length}", self.numbers[length], str(full))
