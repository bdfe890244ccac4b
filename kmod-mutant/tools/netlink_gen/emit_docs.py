# SPDX-License-Identifier: Apache-2.0
"""Makes docs/netlink.md, the reference of the netlink contract for people."""

from __future__ import annotations

from collections.abc import Iterable

from .spec import Attribute, Contract, Operation, Struct
from .text import NOTICE, snake, upper, wrap

COLUMNS = 120
"""Longest line of a page."""

INTRODUCTION = """Generic netlink family `{}`, version 1, records version {}. \
Numbers are native endian. A message that is malformed, out of range, too long or has an unknown \
attribute is refused with an extended ACK that says why.

## Operations
"""
PERMISSIONS = {
    "none": "anyone",
    "admin-perm": "CAP_NET_ADMIN in the initial user namespace",
    "uns-admin-perm": "CAP_NET_ADMIN in the user namespace of the caller's network namespace",
}


def emit_docs(contract: Contract) -> str:
    """Return the text of docs/netlink.md."""
    family, operations = contract.family, contract.family.operations
    lines = [f"<!-- {NOTICE} -->\n# Netlink reference\n\n{family.doc}\n"]
    lines += [INTRODUCTION.format(family.name, contract.records.version)]
    rows = [_operation_row(contract, number, operation) for number, operation in enumerate(operations, 1)]
    lines += _table("|---:|---|---|---|---|", ("Id", "Name", "Kind", "May be called by", "Effect"), rows)
    for operation in operations:
        lines += _operation(operation)
    lines += ["## Attributes", ""]
    for space in family.attribute_sets:
        rows = [_attribute_row(contract, number, a) for number, a in enumerate(space.attributes, 1)]
        lines += [f"### Set `{space.name}`", ""]
        lines += _table("|---:|---|---|---|---|", ("Id", "Name", "Type", "Allowed", "Meaning"), rows)
    constants = [(f"`{upper(family.name, c.name)}`", c.value, c.doc) for c in contract.constants]
    lines += ["## Values", "", *_table("|---|---:|---|", ("Constant", "Value", "Meaning"), constants)]
    for enum in contract.enums:
        values = [(value, f"`{e.name}`", e.doc) for e, value in enum.values]
        lines += [f"### `{enum.name}`", "", enum.doc, ""]
        lines += _table("|---:|---|---|", ("Value", "Name", "Meaning"), values)
    lines += [
        "## Records\n\nPacked, naturally aligned, no implicit padding. A reader takes `record-size` bytes a "
        "record and ignores members beyond those it knows: new ones go to the end, with a new version.\n"
    ]
    for struct in contract.records.structs:
        lines += _struct(contract, struct)
    lines += ["## Multicast groups", ""]
    for group in family.mcast_groups:
        who = PERMISSIONS["uns-admin-perm" if group.flags else "none"]
        lines += [f"- `{group.name}`, to be joined by: {who}"]
    return "\n".join([line for text in lines for one in text.split("\n") for line in _wrapped(one)]) + "\n"


def _wrapped(line: str) -> list[str]:
    """Break a line of text into lines that fit a page. Tables and headings stay whole."""
    if not line or line.startswith(("|", "#", "<")):
        return [line]
    return wrap(line, "", "  " if line.startswith("- ") else "", COLUMNS)


def _table(rule: str, head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def _operation_row(contract: Contract, number: int, one: Operation) -> tuple[object, ...]:
    kinds = [key for key in ("do", "dump", "event") if getattr(one, key) is not None]
    who = f"sent to the group `{one.mcgrp}`" if one.mcgrp else PERMISSIONS[contract.permission(one)]
    return number, f"`{one.name}`", ", ".join(kinds), who, one.doc


def _operation(operation: Operation) -> list[str]:
    def listed(names: tuple[str, ...], nothing: str = "nothing") -> str:
        return ", ".join(f"`{name}`" for name in names) or nothing

    lines = [f"### `{operation.name}`\n\n{operation.doc}\n\nAttribute set: `{operation.attribute_set}`.\n"]
    for kind, exchange in (("do", operation.do), ("dump", operation.dump)):
        if exchange is not None:
            reply = listed(exchange.reply, "the acknowledgement alone")
            lines += [f"- **{kind}**: request {listed(exchange.request)}; reply {reply}."]
    return [*lines, *([f"- **event**: {listed(operation.event)}."] if operation.event else []), ""]


def _attribute_row(contract: Contract, number: int, attribute: Attribute) -> tuple[object, ...]:
    low, high, length = (attribute.checks.min, attribute.checks.max, attribute.checks.max_len)
    rules = [] if low is high is None else [f"{low or 0} … {'' if high is None else high}".strip()]
    if length is not None:
        rules += [f"at most {length} {'characters' if attribute.type == 'string' else 'bytes'}"]
    rules += [f"`{attribute.enum}`"] if attribute.enum else []
    return number, f"`{attribute.name}`", attribute.type, "; ".join(rules), attribute.doc


def _struct(contract: Contract, struct: Struct) -> list[str]:
    rows: list[tuple[object, ...]] = []
    offset = 0
    for member in struct.members:
        count = contract.count(member)
        size = contract.sizes[member.type] * count
        kind = member.type if count == 1 else f"{member.type}[{count}]"
        rows += [(offset, size, f"`{snake(member.name)}`", kind, member.doc)]
        offset += size
    title = f"### `struct mutant_{snake(struct.name)}`, {offset} bytes"
    head = ("Offset", "Size", "Member", "Type", "Meaning")
    return [title, "", struct.doc, "", *_table("|---:|---:|---|---|---|", head, rows)]
