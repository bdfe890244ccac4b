# SPDX-License-Identifier: Apache-2.0
"""Byte layout of the packed records: natural alignment, and never a byte of implicit padding."""

from __future__ import annotations

from collections.abc import Mapping

from ltp_switcher.errors import InvalidValueError

from .model import SCALAR_SIZES, Member, Struct
from .reader import Reader, unique

RECORD_ALIGNMENT = 8
"""Bytes. Every record's size is a multiple, so that an array of them stays aligned."""


def load_structs(packed: Reader, constants: Mapping[str, int]) -> tuple[Struct, ...]:
    """Read `structs`; a struct may hold those above it. Raises `InvalidValueError`."""
    found: dict[str, Struct] = {}
    for item, path in packed.items("structs"):
        one = Reader(item, path, ("name", "doc", "members"))
        name = one.name()
        if name in found:
            raise InvalidValueError(one.at("name"), name, "each name once")
        members = _members(one, constants, found)
        size = sum(m.size for m in members)
        if not size or size % RECORD_ALIGNMENT:
            raise InvalidValueError(one.path, f"{size} bytes", f"a multiple of {RECORD_ALIGNMENT} bytes")
        found[name] = Struct(name, one.text("doc"), size, members)
    return tuple(found.values())


def _members(one: Reader, constants: Mapping[str, int], structs: Mapping[str, Struct]) -> tuple[Member, ...]:
    members: list[Member] = []
    offset = 0
    for item, path in one.items("members"):
        field = Reader(item, path, ("name", "type", "count", "doc"))
        kind = field.choice("type", [*SCALAR_SIZES, *structs])
        count = field.number("count", constants, default=1)
        if count == 0:
            raise InvalidValueError(field.at("count"), count, "at least 1")
        width = SCALAR_SIZES[kind] if kind in SCALAR_SIZES else structs[kind].size
        alignment = SCALAR_SIZES.get(kind, RECORD_ALIGNMENT)
        if offset % alignment:
            raise InvalidValueError(
                field.path,
                f"offset {offset}",
                f"a multiple of {alignment}; add a `reserved` member before it",
            )
        named = field.raw("count") if "count" in field else None
        members.append(
            Member(
                name=field.name(),
                type=kind,
                count=count,
                count_name=named if isinstance(named, str) else None,
                offset=offset,
                size=width * count,
                doc=field.text("doc"),
            )
        )
        offset += width * count
    unique((m.name for m in members), one.at("members"))
    return tuple(members)
