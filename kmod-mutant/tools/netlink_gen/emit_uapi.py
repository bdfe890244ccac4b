# SPDX-License-Identifier: Apache-2.0
"""include/uapi/linux/mutant.h: the contract between the kernel and a program."""

from __future__ import annotations

from collections.abc import Iterable

from .model import SCALAR_SIZES, Contract, Enum, Struct
from .text import DUAL_LICENCE, NOTICE, plain, snake, upper, wrap

WIDTH = 100


def emit_uapi(contract: Contract) -> str:
    """Return the header's text."""
    prefix = upper(contract.family)
    lines = [
        f"/* SPDX-License-Identifier: {DUAL_LICENCE} */",
        f"/* {NOTICE} */",
        "",
        f"#ifndef _UAPI_LINUX_{prefix}_H",
        f"#define _UAPI_LINUX_{prefix}_H",
        "",
        "#include <linux/types.h>",
        "",
        f'#define {prefix}_FAMILY_NAME\t\t"{contract.family}"',
        f"#define {prefix}_FAMILY_VERSION\t1",
        f"#define {prefix}_RECORD_VERSION\t{contract.record_version}",
        "",
    ]
    for const in contract.constants:
        lines += _comment([plain(const.doc)])
        lines += [f"#define {prefix}_{upper(const.name)}\t{const.value}", ""]
    for enum in contract.enums:
        lines += _enum(prefix, snake(contract.family), enum)
    for group in contract.sets:
        names = [(a.name, a.doc) for a in group.attributes]
        lines += _numbered(f"{prefix}_A_{upper(group.name)}", names, f"Attributes of the set {group.name}.")
    commands = [(o.name, o.doc) for o in contract.operations]
    lines += _numbered(f"{prefix}_CMD", commands, "Operations and events.")
    for mcgrp in contract.mcgrps:
        lines += [f'#define {prefix}_MCGRP_{upper(mcgrp.name)}\t"{mcgrp.name}"', ""]
    for struct in contract.structs:
        lines += _struct(snake(contract.family), prefix, struct)
    return "\n".join([*lines, f"#endif /* _UAPI_LINUX_{prefix}_H */", ""])


def _comment(body: Iterable[str]) -> list[str]:
    text = [line for part in body for line in (wrap(part, " * ", " * ", WIDTH) if part else [" *"])]
    if len(text) == 1 and len(text[0]) + 3 <= WIDTH:
        return [f"/*{text[0][2:]} */"]
    return ["/*", *text, " */"]


def _kernel_doc(title: str, members: Iterable[tuple[str, str]], doc: str) -> list[str]:
    lines = ["/**", *wrap(title, " * ", " *\t", WIDTH)]
    for name, text in members:
        lines += wrap(f"@{name}: {plain(text)}".rstrip(), " * ", " *\t", WIDTH)
    if doc:
        lines += [" *", *wrap(plain(doc), " * ", " * ", WIDTH)]
    return [*lines, " */"]


def _enum(prefix: str, family: str, enum: Enum) -> list[str]:
    entries = [(f"{prefix}_{upper(enum.name)}_{upper(e.name)}", e) for e in enum.entries]
    lines = _kernel_doc(
        f"enum {family}_{snake(enum.name)} - {plain(enum.doc)}",
        [(name, e.doc or e.name) for name, e in entries],
        "",
    )
    lines.append(f"enum {family}_{snake(enum.name)} {{")
    lines += [f"\t{name} = {e.value}," for name, e in entries]
    return [*lines, "};", ""]


def _numbered(prefix: str, names: list[tuple[str, str]], title: str) -> list[str]:
    """An anonymous enumeration from 1, with its end and its highest value, as genetlink has them."""
    notes = [f"{prefix}_{upper(name)}: {plain(doc)}" for name, doc in names if doc]
    lines = _comment([title, "", *notes]) if notes else _comment([title])
    lines.append("enum {")
    for index, (name, _) in enumerate(names):
        lines.append(f"\t{prefix}_{upper(name)}" + (" = 1," if index == 0 else ","))
    return [*lines, "", f"\t__{prefix}_MAX,", f"\t{prefix}_MAX = (__{prefix}_MAX - 1)", "};", ""]


def _struct(family: str, prefix: str, struct: Struct) -> list[str]:
    tag = f"struct {family}_{snake(struct.name)}"
    title, _, rest = plain(struct.doc).partition(". ")
    lines = _kernel_doc(
        f"{tag} - {title.rstrip('.')}.", [(snake(m.name), m.doc) for m in struct.members], rest
    )
    lines.append(f"{tag} {{")
    for member in struct.members:
        kind = f"__{member.type}" if member.type in SCALAR_SIZES else f"struct {family}_{snake(member.type)}"
        count = f"{prefix}_{upper(member.count_name)}" if member.count_name else str(member.count)
        array = f"[{count}]" if member.count > 1 else ""
        lines.append(f"\t{kind} {snake(member.name)}{array};")
    return [*lines, "};", ""]
