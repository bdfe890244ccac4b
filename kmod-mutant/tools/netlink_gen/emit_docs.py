# SPDX-License-Identifier: Apache-2.0
"""docs/netlink.md: the reference for people."""

from __future__ import annotations

from .model import Attribute, Contract, Exchange, Group, Operation, Struct
from .text import NOTICE, snake, upper

PERMISSIONS = {
    "none": "anyone",
    "admin-perm": "CAP_NET_ADMIN in the initial user namespace",
    "uns-admin-perm": "CAP_NET_ADMIN in the user namespace of the caller's network namespace",
}


def emit_docs(contract: Contract) -> str:
    """Return the page's text."""
    lines = [
        f"<!-- {NOTICE} -->",
        "# Netlink reference",
        "",
        f"{contract.doc}",
        "",
        f"Generic netlink family `{contract.family}`, version 1, records version {contract.record_version}. "
        "Numbers are native endian. A message that is malformed, out of range, too long or has an unknown "
        "attribute is refused with an extended ACK that says why.",
        "",
        "## Operations",
        "",
        "| Id | Name | Kind | May be called by | Effect |",
        "|---:|---|---|---|---|",
    ]
    lines += [_operation_row(operation) for operation in contract.operations]
    lines.append("")
    for operation in contract.operations:
        lines += _operation(operation)
    lines += ["## Attributes", ""]
    for group in contract.sets:
        lines += [
            f"### Set `{group.name}`",
            "",
            "| Id | Name | Type | Allowed | Meaning |",
            "|---:|---|---|---|---|",
        ]
        lines += [_attribute_row(attribute) for attribute in group.attributes]
        lines.append("")
    lines += ["## Values", "", "| Constant | Value | Meaning |", "|---|---:|---|"]
    lines += [
        f"| `{upper(contract.family)}_{upper(c.name)}` | {c.value} | {c.doc} |" for c in contract.constants
    ]
    lines.append("")
    for enum in contract.enums:
        lines += [f"### `{enum.name}`", "", enum.doc, ""]
        lines += ["| Value | Name | Meaning |", "|---:|---|---|"]
        lines += [f"| {e.value} | `{e.name}` | {e.doc} |" for e in enum.entries]
        lines.append("")
    lines += [
        "## Records",
        "",
        "Packed, naturally aligned, no implicit padding. A reader takes `record-size` bytes a record and "
        "ignores members beyond those it knows: new ones go to the end, with a new version.",
        "",
    ]
    for struct in contract.structs:
        lines += _struct(contract.family, struct)
    lines += ["## Multicast groups", "", *[_group(group) for group in contract.mcgrps], ""]
    return "\n".join(lines)


def _group(group: Group) -> str:
    who = PERMISSIONS["uns-admin-perm" if group.admin else "none"]
    return f"- `{group.name}`, to be joined by: {who}"


def _kind(operation: Operation) -> str:
    kinds = [
        k
        for k, v in (("do", operation.do), ("dump", operation.dump), ("event", operation.event))
        if v is not None
    ]
    return ", ".join(kinds)


def _operation_row(operation: Operation) -> str:
    who = f"sent to the group `{operation.mcgrp}`" if operation.mcgrp else PERMISSIONS[operation.permission]
    return f"| {operation.id} | `{operation.name}` | {_kind(operation)} | {who} | {operation.doc} |"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _operation(operation: Operation) -> list[str]:
    lines = [
        f"### `{operation.name}`",
        "",
        operation.doc,
        "",
        f"Attribute set: `{operation.attribute_set}`.",
        "",
    ]
    exchanges: list[tuple[str, Exchange | None]] = [("do", operation.do), ("dump", operation.dump)]
    for kind, exchange in exchanges:
        if exchange is not None:
            reply = _listed(exchange.reply) if exchange.reply else "the acknowledgement alone"
            lines.append(f"- **{kind}**: request {_listed(exchange.request)}; reply {reply}.")
    if operation.event is not None:
        lines.append(f"- **event**: {_listed(operation.event)}.")
    return [*lines, ""]


def _attribute_row(attribute: Attribute) -> str:
    rules = []
    if attribute.minimum is not None or attribute.maximum is not None:
        top = "" if attribute.maximum is None else str(attribute.maximum)
        rules.append(f"{attribute.minimum or 0} … {top}".strip())
    if attribute.max_len is not None:
        rules.append(f"at most {attribute.max_len} {'characters' if attribute.type == 'string' else 'bytes'}")
    if attribute.enum:
        rules.append(f"`{attribute.enum}`")
    cells = (str(attribute.id), f"`{attribute.name}`", attribute.type, "; ".join(rules), attribute.doc)
    return f"| {' | '.join(cells)} |"


def _struct(family: str, struct: Struct) -> list[str]:
    lines = [
        f"### `struct {snake(family)}_{snake(struct.name)}`, {struct.size} bytes",
        "",
        struct.doc,
        "",
        "| Offset | Size | Member | Type | Meaning |",
        "|---:|---:|---|---|---|",
    ]
    for member in struct.members:
        kind = member.type if member.count == 1 else f"{member.type}[{member.count}]"
        lines.append(f"| {member.offset} | {member.size} | `{snake(member.name)}` | {kind} | {member.doc} |")
    return [*lines, ""]
