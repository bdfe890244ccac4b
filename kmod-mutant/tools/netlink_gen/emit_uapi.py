# SPDX-License-Identifier: Apache-2.0
"""include/uapi/linux/mutant.h: the contract between the kernel and a program."""

from __future__ import annotations

from collections.abc import Iterable

from .spec import SCALAR_SIZES, Attribute, Contract, Definition, Operation, Struct
from .text import C_HEAD, plain, snake, upper, wrap

WIDTH = 100


def emit_uapi(contract: Contract) -> str:
    """Return the header's text."""
    lines = [f"/* {C_HEAD}\n#ifndef _UAPI_LINUX_MUTANT_H\n#define _UAPI_LINUX_MUTANT_H\n"]
    lines += [f'#include <linux/types.h>\n\n#define MUTANT_FAMILY_NAME\t\t"{contract.family.name}"']
    lines += ["#define MUTANT_FAMILY_VERSION\t1"]
    lines += [f"#define MUTANT_RECORD_VERSION\t{contract.records.version}", ""]
    for const in contract.constants:
        lines += [*_comment([plain(const.doc)]), f"#define {upper('mutant', const.name)}\t{const.value}", ""]
    for enum in contract.enums:
        lines += _enum(enum)
    for space in contract.family.attribute_sets:
        lines += _numbered(
            upper("mutant-a", space.name), space.attributes, f"Attributes of the set {space.name}."
        )
    lines += _numbered("MUTANT_CMD", contract.family.operations, "Operations and events.")
    lines += [f'#define {upper("mutant-mcgrp", g.name)}\t"{g.name}"\n' for g in contract.family.mcast_groups]
    for struct in contract.records.structs:
        lines += _struct(contract, struct)
    return "\n".join([*lines, "#endif /* _UAPI_LINUX_MUTANT_H */", ""])


def _comment(body: Iterable[str]) -> list[str]:
    text = [line for part in body for line in (wrap(part, " * ", " * ", WIDTH) if part else [" *"])]
    if len(text) == 1 and len(text[0]) + 3 <= WIDTH:
        return [f"/*{text[0][2:]} */"]
    return ["/*", *text, " */"]


def _kernel_doc(title: str, members: Iterable[tuple[str, str]], doc: str = "") -> list[str]:
    lines = ["/**", *wrap(title, " * ", " *\t", WIDTH)]
    for name, text in members:
        lines += wrap(f"@{name}: {plain(text)}".rstrip(), " * ", " *\t", WIDTH)
    return [*lines, *([" *", *wrap(plain(doc), " * ", " * ", WIDTH)] if doc else []), " */"]


def _enum(enum: Definition) -> list[str]:
    tag = f"enum mutant_{snake(enum.name)}"
    entries = [(upper("mutant", enum.name, e.name), e.doc or e.name, value) for e, value in enum.values]
    lines = _kernel_doc(f"{tag} - {plain(enum.doc)}", [(name, doc) for name, doc, _ in entries])
    return [*lines, f"{tag} {{", *(f"\t{name} = {value}," for name, _, value in entries), "};", ""]


def _numbered(prefix: str, items: Iterable[Attribute | Operation], title: str) -> list[str]:
    """An anonymous enumeration from 1, with its end and its highest value, as genetlink has them."""
    names = [(f"{prefix}_{upper(item.name)}", item.doc) for item in items]
    notes = [f"{name}: {plain(doc)}" for name, doc in names if doc]
    lines = [*_comment([title, "", *notes] if notes else [title]), "enum {", f"\t{names[0][0]} = 1,"]
    lines += [f"\t{name}," for name, _ in names[1:]]
    return [*lines, "", f"\t__{prefix}_MAX,", f"\t{prefix}_MAX = (__{prefix}_MAX - 1)", "};", ""]


def _struct(contract: Contract, struct: Struct) -> list[str]:
    tag = f"struct mutant_{snake(struct.name)}"
    title, _, rest = plain(struct.doc).partition(". ")
    members = [(snake(m.name), m.doc) for m in struct.members]
    lines = [*_kernel_doc(f"{tag} - {title.rstrip('.')}.", members, rest), f"{tag} {{"]
    for member in struct.members:
        kind = f"__{member.type}" if member.type in SCALAR_SIZES else f"struct mutant_{snake(member.type)}"
        count = upper("mutant", member.count) if isinstance(member.count, str) else member.count
        lines += [f"\t{kind} {snake(member.name)}{f'[{count}]' if contract.count(member) > 1 else ''};"]
    return [*lines, "};", ""]
