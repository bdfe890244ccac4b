# SPDX-License-Identifier: Apache-2.0
"""daemon/datapath/protocol.py: the contract for the daemon, records as numpy dtypes."""

from __future__ import annotations

from .model import SCALAR_SIZES, Contract, Enum, Member, Struct
from .text import NOTICE, camel, plain, snake, upper, wrap

WIDTH = 110


def emit_python(contract: Contract) -> str:
    """Return the module's text."""
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# {NOTICE}",
        '"""The netlink contract of `tcp_mutant`: operations, attributes, packed records as numpy dtypes.',
        "",
        "Records are native endian and naturally aligned; see docs/netlink.md for their byte offsets.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum, IntFlag",
        "from typing import Final",
        "",
        "import numpy as np",
        "",
        f'FAMILY_NAME: Final = "{contract.family}"',
        "FAMILY_VERSION: Final = 1",
        f"RECORD_VERSION: Final = {contract.record_version}",
    ]
    for const in contract.constants:
        lines += wrap(plain(const.doc), "# ", "# ", WIDTH)
        lines.append(f"{upper(const.name)}: Final = {const.value}")
    lines += [f'GROUP_{upper(group.name)}: Final = "{group.name}"' for group in contract.mcgrps]
    for enum in contract.enums:
        lines += _enum(enum)
    commands = [(o.name, o.id, o.doc) for o in contract.operations]
    lines += _class("Cmd", "IntEnum", "Operations and events.", commands)
    for group in contract.sets:
        attributes = [(a.name, a.id, a.doc) for a in group.attributes]
        title = f"Attributes of the set `{group.name}`."
        lines += _class(f"{camel(group.name)}Attr", "IntEnum", title, attributes)
    lines += [""]
    for struct in contract.structs:
        lines += ["", *_struct(struct)]
    return "\n".join([*lines, ""])


def _class(name: str, base: str, doc: str, entries: list[tuple[str, int, str]]) -> list[str]:
    lines = ["", "", f"class {name}({base}):", f'    """{doc}"""', ""]
    for entry, value, said in entries:
        lines += wrap(plain(said), "    # ", "    # ", WIDTH) if said else []
        lines.append(f"    {upper(entry)} = {value}")
    return lines


def _enum(enum: Enum) -> list[str]:
    base = "IntFlag" if enum.kind == "flags" else "IntEnum"
    return _class(camel(enum.name), base, enum.doc, [(e.name, e.value, e.doc) for e in enum.entries])


def _struct(struct: Struct) -> list[str]:
    lines = wrap(plain(f"{struct.size} bytes. {struct.doc}"), "# ", "# ", WIDTH)
    lines += [f"{upper(struct.name)}_DTYPE: Final[np.dtype[np.void]] = np.dtype(", "    ["]
    lines += [f"        {_field(member)},{_note(member)}" for member in struct.members]
    return [*lines, "    ]", ")"]


def _field(member: Member) -> str:
    size = SCALAR_SIZES.get(member.type)
    kind = f'"=u{size}"' if size else f"{upper(member.type)}_DTYPE"
    count = upper(member.count_name) if member.count_name else str(member.count)
    shape = f", ({count},)" if member.count > 1 else ""
    return f'("{snake(member.name)}", {kind}{shape})'


def _note(member: Member) -> str:
    note = f"  # {plain(member.doc)}"
    return note if member.doc and len(_field(member)) + len(note) + 9 <= WIDTH else ""
