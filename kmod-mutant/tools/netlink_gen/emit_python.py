# SPDX-License-Identifier: Apache-2.0
"""Makes daemon/datapath/protocol.py: the contract for the daemon, with records as numpy dtypes."""

from __future__ import annotations

from .spec import SCALAR_SIZES, Contract, Member, Struct
from .text import NOTICE, plain, snake, upper, wrap

WIDTH = 110
HEAD = f'''# SPDX-License-Identifier: Apache-2.0
# {NOTICE}
"""The netlink contract of `tcp_mutant`: operations, attributes, packed records as numpy dtypes.

Records are native endian and naturally aligned; see docs/netlink.md for their byte offsets.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np
'''


def emit_python(contract: Contract) -> str:
    """Return the text of daemon/datapath/protocol.py."""
    lines = [HEAD, f'FAMILY_NAME: Final = "{contract.family.name}"', "FAMILY_VERSION: Final = 1"]
    lines += [f"RECORD_VERSION: Final = {contract.records.version}"]
    for const in contract.constants:
        lines += [*wrap(plain(const.doc), "# ", "# ", WIDTH), f"{upper(const.name)}: Final = {const.value}"]
    lines += [f'GROUP_{upper(group.name)}: Final = "{group.name}"' for group in contract.family.mcast_groups]
    for enum in contract.enums:
        entries = [(e.name, value, e.doc) for e, value in enum.values]
        lines += _class(enum.name, "IntFlag" if enum.type == "flags" else "IntEnum", enum.doc, entries)
    commands = [(o.name, index, o.doc) for index, o in enumerate(contract.family.operations, 1)]
    lines += _class("cmd", "IntEnum", "Operations and events.", commands)
    for space in contract.family.attribute_sets:
        entries = [(a.name, index, a.doc) for index, a in enumerate(space.attributes, 1)]
        lines += _class(f"{space.name}-attr", "IntEnum", f"Attributes of the set `{space.name}`.", entries)
    for struct in contract.records.structs:
        lines += ["", *([""] if struct is contract.records.structs[0] else []), *_struct(contract, struct)]
    return "\n".join([*lines, ""])


def _class(name: str, base: str, doc: str, entries: list[tuple[str, int, str]]) -> list[str]:
    camel = "".join(word.capitalize() for word in name.split("-"))
    lines = ["", "", f"class {camel}({base}):", f'    """{doc}"""', ""]
    for entry, value, said in entries:
        lines += [*wrap(plain(said), "    # ", "    # ", WIDTH), f"    {upper(entry)} = {value}"]
    return lines


def _struct(contract: Contract, struct: Struct) -> list[str]:
    lines = wrap(plain(f"{contract.sizes[struct.name]} bytes. {struct.doc}"), "# ", "# ", WIDTH)
    lines += [f"{upper(struct.name)}_DTYPE: Final[np.dtype[np.void]] = np.dtype(", "    ["]
    for member in struct.members:
        field, note = _field(contract, member), f"  # {plain(member.doc)}"
        lines += [f"        {field},{note if len(field) + len(note) + 9 <= WIDTH else ''}"]
    return [*lines, "    ]", ")"]


def _field(contract: Contract, member: Member) -> str:
    size = SCALAR_SIZES.get(member.type)
    kind = f'"=u{size}"' if size else f"{upper(member.type)}_DTYPE"
    count = upper(member.count) if isinstance(member.count, str) else member.count
    return f'("{snake(member.name)}", {kind}{f", ({count},)" if contract.count(member) > 1 else ""})'
