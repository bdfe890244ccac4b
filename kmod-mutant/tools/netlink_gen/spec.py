# SPDX-License-Identifier: Apache-2.0
"""The netlink contract: mutant.yaml (the kernel's `genetlink` schema) and records.yaml, read and checked.

An error names the field, its value and the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from ltp_switcher.errors import InvalidValueError, reason

SCALAR_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
"""Size of each scalar type of the contract, in bytes."""
RECORD_ALIGNMENT = 8
"""Alignment of a record in bytes. It divides the size of every record, so that an array of records stays
aligned.
"""
BATCHES = ("command", "control", "start")
"""Records that a request carries in batches."""
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def check(field: str, value: object, allowed: Iterable[object]) -> None:
    """Raise `InvalidValueError` unless the value is one of those allowed."""
    if value not in (options := list(allowed)):
        raise InvalidValueError(field, value, ", ".join(map(str, options)) or "nothing")


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", text):
        raise ValueError("lower-case words joined by '-'")
    return text


def _number(value: object, info: ValidationInfo) -> object:
    constants: dict[str, int] = info.context or {}
    if isinstance(value, str) and value not in constants:
        raise ValueError(f"a non-negative integer or one of {', '.join(constants)}")
    return constants[value] if isinstance(value, str) else value


def _unwrapped(value: object) -> object:
    """Return the value of a mapping with one key; return any other value as it is.

    The kernel's schema puts some lists into such a mapping.
    """
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _once(items: tuple[T, ...]) -> tuple[T, ...]:
    names = [getattr(item, "name", item) for item in items]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"each name once, and not {name!r} twice")
    return items


Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
Name = Annotated[str, AfterValidator(_name)]
Number = Annotated[int, Field(strict=True, ge=0), BeforeValidator(_number)]
"""A number, or the name of a constant."""
Many = Annotated[tuple[T, ...], BeforeValidator(_unwrapped), AfterValidator(_once)]


class Node(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda key: key.replace("_", "-"))


class Named(Node):
    name: Name
    doc: Text = ""


class Documented(Named):
    doc: Text


class Definition(Documented):
    """A named number, an enumeration from 0, or a set of flags, whose values are the bits themselves."""

    type: Literal["const", "enum", "flags"] = "const"
    value: Number | None = None
    entries: Many[Annotated[Named, BeforeValidator(lambda e: {"name": e} if isinstance(e, str) else e)]] = ()

    @property
    def values(self) -> list[tuple[Named, int]]:
        return [(e, 1 << i if self.type == "flags" else i) for i, e in enumerate(self.entries)]


class Checks(Node):
    """Bounds of a scalar attribute, or the largest length in bytes of an attribute of another type."""

    min: Number | None = None
    max: Number | None = None
    max_len: Number | None = None


class Attribute(Named):
    type: Literal["u8", "u16", "u32", "u64", "string", "binary", "pad"]
    enum: str = ""
    checks: Checks = Checks()


class AttributeSet(Named):
    attributes: Many[Attribute]


class Exchange(Node):
    request: Many[str] = ()
    reply: Many[str] = ()


class Operation(Documented):
    """A command (`do`, `dump`) or an event (`event`, sent to the group `mcgrp`)."""

    attribute_set: str
    flags: Many[Literal["admin-perm"]] = ()
    do: Exchange | None = None
    dump: Exchange | None = None
    event: Many[str] | None = None
    mcgrp: str = ""

    @property
    def request(self) -> tuple[str, ...]:
        """Attributes that any request of this operation may carry."""
        return tuple(name for exchange in (self.do, self.dump) if exchange for name in exchange.request)


class Group(Named):
    """A multicast group. To join a group with the flag `admin-perm`, a process needs CAP_NET_ADMIN over the
    network namespace.
    """

    flags: Many[Literal["admin-perm"]] = ()


class Family(Documented):
    """The content of mutant.yaml. Ids of attributes and operations count from 1."""

    protocol: Literal["genetlink"]
    uapi_header: str
    definitions: Many[Definition]
    attribute_sets: Many[AttributeSet]
    operations: Many[Operation]
    mcast_groups: Many[Group]


class Member(Documented):
    type: str
    count: int | str = 1


class Struct(Documented):
    """A packed record without implicit padding."""

    members: Many[Member]


class Records(Node):
    """The content of records.yaml."""

    version: Number
    uns_admin_perm: Many[str]
    constants: Many[Definition]
    structs: Many[Struct]


class Contract:
    """The family and its records, after all checks. Raises `InvalidValueError` if one of the checks fails."""

    def __init__(self, family: Path, records: Path) -> None:
        self.numbers: dict[str, int] = {}
        self.family = self._read(Family, family, "definitions")
        self.records = self._read(Records, records, "constants")
        constants = (d for d in self.family.definitions if d.type == "const")
        self.constants = (*constants, *self.records.constants)
        self.enums = tuple(d for d in self.family.definitions if d.type != "const")
        for const in self.constants:
            check(f"definitions[{const.name}].value", const.value, [self.numbers.get(const.name, "a number")])
        self.sizes = dict(SCALAR_SIZES)
        """Size in bytes of every type that a member may have. A struct may have earlier structs in it."""
        for struct in self.records.structs:
            self.sizes[struct.name] = self._size(struct)
        for space in self.family.attribute_sets:
            for attribute in space.attributes:
                self._check_attribute(f"attribute-sets[{space.name}].attributes[{attribute.name}]", attribute)
        for operation in self.family.operations:
            self._check_operation(f"operations[{operation.name}]", operation)
        for index, name in enumerate(self.records.uns_admin_perm):
            check(f"uns-admin-perm[{index}]", name, [o.name for o in self.family.operations])
        for batched in BATCHES:
            check("structs", batched, self.sizes)
            for name in (f"{batched}s-max", f"{batched}s-len-max"):
                check("definitions", name, self.numbers)
            # A full batch fills exactly the length that the policy lets through.
            full = self.numbers[f"{batched}s-max"] * self.sizes[batched]
            check(f"definitions[{batched}s-len-max]", self.numbers[f"{batched}s-len-max"], [full])

    def attributes(self, operation: Operation) -> Mapping[str, Attribute]:
        """Return the attributes of an operation's set, by name and in the order of their ids."""
        sets = {s.name: s.attributes for s in self.family.attribute_sets}
        check(f"operations[{operation.name}].attribute-set", operation.attribute_set, sets)
        return {a.name: a for a in sets[operation.attribute_set]}

    def count(self, member: Member) -> int:
        """Return how many elements a member has."""
        if isinstance(member.count, str):
            check(f"members[{member.name}].count", member.count, self.numbers)
            return self.numbers[member.count]
        if member.count < 1:
            raise InvalidValueError(f"members[{member.name}].count", member.count, "at least 1")
        return member.count

    def permission(self, operation: Operation) -> Literal["none", "admin-perm", "uns-admin-perm"]:
        """Return who may call an operation, in the schema's words."""
        if operation.name in self.records.uns_admin_perm:
            return "uns-admin-perm"
        return "admin-perm" if operation.flags else "none"

    def _read(self, model: type[M], path: Path, constants: str) -> M:
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InvalidValueError(
                path.name, " ".join(reason(error).split()), "a readable YAML file"
            ) from error
        found = document.get(constants, []) if isinstance(document, dict) else []
        self.numbers |= {c["name"]: c["value"] for c in found if type(c.get("value")) is int}
        try:
            return model.model_validate(document, context=self.numbers)
        except ValidationError as error:
            # An unknown key is reported first: often it is a missing key, misspelt, and explains both errors.
            first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        place = path.name
        at: object = document
        for part in first["loc"]:
            at = _unwrapped(at) if isinstance(part, int) else at
            if isinstance(at, list) and isinstance(part, int):
                at = at[part]
            else:
                at = at.get(part) if isinstance(at, dict) else None
            label = at.get("name", part) if isinstance(at, dict) else part
            place += f"[{label}]" if isinstance(part, int) else f".{part}"
        value = first["input"] if isinstance(first["input"], str | int) else type(at).__name__
        raise InvalidValueError(place, value, first["msg"].removeprefix("Value error, "))

    def _size(self, struct: Struct) -> int:
        offset = 0
        for member in struct.members:
            where = f"structs[{struct.name}].members[{member.name}]"
            check(f"{where}.type", member.type, self.sizes)
            if offset % (alignment := SCALAR_SIZES.get(member.type, RECORD_ALIGNMENT)):
                wanted = f"a multiple of {alignment}; add a `reserved` member before it"
                raise InvalidValueError(where, f"offset {offset}", wanted)
            offset += self.sizes[member.type] * self.count(member)
        if not offset or offset % RECORD_ALIGNMENT:
            raise InvalidValueError(
                f"structs[{struct.name}]", offset, f"a multiple of {RECORD_ALIGNMENT} bytes"
            )
        return offset

    def _check_attribute(self, where: str, attribute: Attribute) -> None:
        scalar = attribute.type in SCALAR_SIZES
        for key in attribute.checks.model_fields_set:
            key = key.replace("_", "-")
            check(f"{where}.checks.{key}", key, ("min", "max") if scalar else ("max-len",))
        if attribute.enum:
            check(f"{where}.enum", attribute.enum, [e.name for e in self.enums] if scalar else [])

    def _check_operation(self, where: str, one: Operation) -> None:
        asked = {"event": one.event or ()}
        for kind, exchange in (("do", one.do), ("dump", one.dump)):
            asked |= (
                {f"{kind}.request": exchange.request, f"{kind}.reply": exchange.reply} if exchange else {}
            )
        for key, names in asked.items():
            for name in names:
                check(f"{where}.{key}", name, self.attributes(one))
        if (one.event is None) == (one.do is None and one.dump is None):
            raise InvalidValueError(where, one.name, "either do/dump or event")
        if (one.event is None) == bool(one.mcgrp):
            raise InvalidValueError(f"{where}.mcgrp", one.mcgrp, "a group with an event, none without")
        if one.mcgrp:
            check(f"{where}.mcgrp", one.mcgrp, [group.name for group in self.family.mcast_groups])
