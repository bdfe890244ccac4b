# SPDX-License-Identifier: Apache-2.0
"""The netlink contract as data: `load` makes it, and every emitter writes from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCALAR_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
"""Bytes of each scalar type of the contract."""

ATTRIBUTE_TYPES = (*SCALAR_SIZES, "string", "binary", "flag", "pad")


@dataclass(frozen=True)
class Const:
    """A named number."""

    name: str
    value: int
    doc: str


@dataclass(frozen=True)
class Entry:
    """One value of an enumeration. Of flags, `value` is the bit itself."""

    name: str
    value: int
    doc: str


@dataclass(frozen=True)
class Enum:
    """An enumeration, or a set of flags."""

    name: str
    kind: Literal["enum", "flags"]
    doc: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Attribute:
    """A netlink attribute. `minimum` and `maximum` bound a scalar; `max_len` is in bytes."""

    name: str
    id: int
    type: str
    doc: str
    enum: str | None
    minimum: int | None
    maximum: int | None
    max_len: int | None


@dataclass(frozen=True)
class AttributeSet:
    """A space of attributes; ids count from 1."""

    name: str
    doc: str
    attributes: tuple[Attribute, ...]

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name, which the loader has made sure of."""
        return next(a for a in self.attributes if a.name == name)


@dataclass(frozen=True)
class Exchange:
    """A request and its reply, by names of attributes, and the functions around the handler."""

    request: tuple[str, ...]
    reply: tuple[str, ...]
    pre: str | None
    post: str | None


@dataclass(frozen=True)
class Operation:
    """A command (`do`, `dump`) or an event (`event`, sent to the group `mcgrp`)."""

    name: str
    id: int
    doc: str
    attribute_set: str
    permission: Literal["none", "admin-perm", "uns-admin-perm"]
    do: Exchange | None
    dump: Exchange | None
    event: tuple[str, ...] | None
    mcgrp: str | None

    @property
    def request(self) -> tuple[str, ...]:
        """Attributes that any request of this operation may carry."""
        asked = [e.request for e in (self.do, self.dump) if e is not None]
        return tuple(dict.fromkeys(name for names in asked for name in names))


@dataclass(frozen=True)
class Member:
    """A member of a packed record. `offset` and `size` (of all `count` elements) are in bytes."""

    name: str
    type: str
    count: int
    count_name: str | None
    offset: int
    size: int
    doc: str


@dataclass(frozen=True)
class Struct:
    """A packed record without implicit padding; `size` in bytes."""

    name: str
    doc: str
    size: int
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Group:
    """A multicast group; `admin`: joining needs CAP_NET_ADMIN over the network namespace."""

    name: str
    admin: bool


@dataclass(frozen=True)
class Contract:
    """All of it."""

    family: str
    doc: str
    constants: tuple[Const, ...]
    enums: tuple[Enum, ...]
    sets: tuple[AttributeSet, ...]
    operations: tuple[Operation, ...]
    mcgrps: tuple[Group, ...]
    record_version: int
    structs: tuple[Struct, ...]

    def set(self, name: str) -> AttributeSet:
        """Return the attribute set of that name, which the loader has made sure of."""
        return next(s for s in self.sets if s.name == name)
