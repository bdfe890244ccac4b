# SPDX-License-Identifier: Apache-2.0
"""Reads mutant.yaml (the kernel's `genetlink` schema) and records.yaml into a `Contract`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from ltp_switcher.errors import InvalidValueError

from .layout import load_structs
from .model import (
    ATTRIBUTE_TYPES,
    SCALAR_SIZES,
    Attribute,
    AttributeSet,
    Const,
    Contract,
    Entry,
    Enum,
    Exchange,
    Group,
    Operation,
)
from .reader import Reader, parse, unique


def load(spec: Path, records: Path) -> Contract:
    """Read and check both files. Raises `InvalidValueError` on anything not understood."""
    top = Reader(
        parse(spec),
        spec.name,
        (
            "name",
            "protocol",
            "uapi-header",
            "doc",
            "definitions",
            "attribute-sets",
            "operations",
            "mcast-groups",
        ),
    )
    top.choice("protocol", ["genetlink"])
    packed = Reader(parse(records), records.name, ("version", "uns-admin-perm", "constants", "structs"))

    constants = _constants(top, "definitions") + _constants(packed, "constants")
    unique((c.name for c in constants), "constants")
    numbers = {c.name: c.value for c in constants}
    enums = _enums(top)
    sets = _sets(top, numbers, [e.name for e in enums])
    mcgrps = _mcgrps(top)
    contract = Contract(
        family=top.name(),
        doc=top.text("doc"),
        constants=constants,
        enums=enums,
        sets=sets,
        operations=_operations(top, packed, sets, mcgrps),
        mcgrps=mcgrps,
        record_version=packed.number("version"),
        structs=load_structs(packed, numbers),
    )
    for batched in ("command", "control"):
        _check_batch(contract, numbers, batched)
    return contract


def _constants(top: Reader, key: str) -> tuple[Const, ...]:
    found = []
    for item, path in top.items(key):
        if isinstance(item, dict) and item.get("type", "const") != "const":
            continue
        one = Reader(item, path, ("type", "name", "value", "doc"))
        found.append(Const(one.name(), one.number("value"), one.text("doc")))
    return tuple(found)


def _enums(top: Reader) -> tuple[Enum, ...]:
    found = []
    for item, path in top.items("definitions"):
        if isinstance(item, dict) and item.get("type") == "const":
            continue
        one = Reader(item, path, ("type", "name", "doc", "entries"))
        kind = cast(Literal["enum", "flags"], one.choice("type", ("enum", "flags")))
        entries = []
        for index, (raw, where) in enumerate(one.items("entries")):
            entry = Reader({"name": raw} if isinstance(raw, str) else raw, where, ("name", "doc"))
            value = 1 << index if kind == "flags" else index
            entries.append(Entry(entry.name(), value, entry.text("doc", "")))
        unique((e.name for e in entries), one.at("entries"))
        found.append(Enum(one.name(), kind, one.text("doc"), tuple(entries)))
    unique((e.name for e in found), top.at("definitions"))
    return tuple(found)


def _sets(top: Reader, numbers: dict[str, int], enums: list[str]) -> tuple[AttributeSet, ...]:
    found = []
    for item, path in top.items("attribute-sets"):
        one = Reader(item, path, ("name", "doc", "attributes"))
        attributes = tuple(
            _attribute(raw, where, index, numbers, enums)
            for index, (raw, where) in enumerate(one.items("attributes"), start=1)
        )
        unique((a.name for a in attributes), one.at("attributes"))
        found.append(AttributeSet(one.name(), one.text("doc", ""), attributes))
    unique((s.name for s in found), top.at("attribute-sets"))
    return tuple(found)


def _attribute(item: object, path: str, number: int, numbers: dict[str, int], enums: list[str]) -> Attribute:
    one = Reader(item, path, ("name", "type", "doc", "enum", "checks"))
    kind = one.choice("type", ATTRIBUTE_TYPES)
    scalar = kind in SCALAR_SIZES
    if "enum" in one and not scalar:
        raise InvalidValueError(one.at("enum"), one.raw("enum"), f"only with {', '.join(SCALAR_SIZES)}")
    checks = Reader(
        one.raw("checks") if "checks" in one else {},
        one.at("checks"),
        ("min", "max") if scalar else ("max-len",),
    )
    return Attribute(
        name=one.name(),
        id=number,
        type=kind,
        doc=one.text("doc", ""),
        enum=one.choice("enum", enums) if "enum" in one else None,
        minimum=checks.number("min", numbers) if "min" in checks else None,
        maximum=checks.number("max", numbers) if "max" in checks else None,
        max_len=checks.number("max-len", numbers) if "max-len" in checks else None,
    )


def _mcgrps(top: Reader) -> tuple[Group, ...]:
    if "mcast-groups" not in top:
        return ()
    groups = Reader(top.raw("mcast-groups"), top.at("mcast-groups"), ("list",))
    readers = [Reader(item, path, ("name", "flags")) for item, path in groups.items("list")]
    unique((r.name() for r in readers), groups.at("list"))
    return tuple(Group(r.name(), "admin-perm" in r.names("flags", ["admin-perm"])) for r in readers)


def _operations(
    top: Reader, packed: Reader, sets: tuple[AttributeSet, ...], mcgrps: tuple[Group, ...]
) -> tuple[Operation, ...]:
    listed = Reader(top.raw("operations"), top.at("operations"), ("list",))
    keys = ("name", "doc", "attribute-set", "flags", "do", "dump", "event", "mcgrp")
    readers = [Reader(item, path, keys) for item, path in listed.items("list")]
    unique((r.name() for r in readers), listed.at("list"))
    namespaced = packed.names("uns-admin-perm", [r.name() for r in readers])

    found = []
    for number, one in enumerate(readers, start=1):
        chosen = one.choice("attribute-set", [s.name for s in sets])
        attributes = [a.name for s in sets if s.name == chosen for a in s.attributes]
        operation = Operation(
            name=one.name(),
            id=number,
            doc=one.text("doc"),
            attribute_set=chosen,
            permission=_permission(one, namespaced),
            do=_exchange(one, "do", attributes),
            dump=_exchange(one, "dump", attributes),
            event=_event(one, attributes),
            mcgrp=one.choice("mcgrp", [group.name for group in mcgrps]) if "mcgrp" in one else None,
        )
        if (operation.event is None) == (operation.do is None and operation.dump is None):
            raise InvalidValueError(one.path, sorted(k for k in keys if k in one), "either do/dump or event")
        if (operation.event is None) != (operation.mcgrp is None):
            raise InvalidValueError(one.at("mcgrp"), operation.mcgrp, "a group with an event, none without")
        found.append(operation)
    return tuple(found)


def _permission(one: Reader, namespaced: tuple[str, ...]) -> Literal["none", "admin-perm", "uns-admin-perm"]:
    admin = "admin-perm" in one.names("flags", ["admin-perm"])
    if one.name() in namespaced:
        if admin:
            raise InvalidValueError(one.at("flags"), "admin-perm", "not with uns-admin-perm of records.yaml")
        return "uns-admin-perm"
    return "admin-perm" if admin else "none"


def _exchange(one: Reader, key: str, attributes: list[str]) -> Exchange | None:
    if key not in one:
        return None
    both = Reader(one.raw(key), one.at(key), ("request", "reply", "pre", "post"))
    sides = {
        side: Reader(both.raw(side), both.at(side), ("attributes",)).names("attributes", attributes)
        for side in ("request", "reply")
        if side in both
    }
    return Exchange(
        request=sides.get("request", ()),
        reply=sides.get("reply", ()),
        pre=both.name("pre").replace("-", "_") if "pre" in both else None,
        post=both.name("post").replace("-", "_") if "post" in both else None,
    )


def _event(one: Reader, attributes: list[str]) -> tuple[str, ...] | None:
    if "event" not in one:
        return None
    return Reader(one.raw("event"), one.at("event"), ("attributes",)).names("attributes", attributes)


def _check_batch(contract: Contract, numbers: dict[str, int], batched: str) -> None:
    """A full batch of a record must fill exactly the length that the policy lets through."""
    most, length = f"{batched}s-max", f"{batched}s-len-max"
    size = next((s.size for s in contract.structs if s.name == batched), None)
    if size is None or not {most, length} <= numbers.keys():
        names = [s.name for s in contract.structs]
        raise InvalidValueError("structs", names, f"a struct `{batched}`, and the constants of its batch")
    if numbers[length] != numbers[most] * size:
        raise InvalidValueError(f"definitions.{length}", numbers[length], f"{numbers[most] * size}")
