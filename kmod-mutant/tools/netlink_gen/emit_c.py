# SPDX-License-Identifier: Apache-2.0
"""Makes the C files: the header for programs, the module's half of the netlink family, and the tables of the
arms.

`genl_register_family` gets `struct genl_ops` with a policy for each operation. Linux 6.1 and 6.12 both
understand this form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.declaration import Declaration

from .spec import SCALAR_SIZES, Attribute, Contract, Definition, Named, Operation, Struct
from .text import NOTICE, plain, snake, upper, wrap

WIDTH = 100
S16_MAX = 32767
FLAGS = {"none": "", "admin-perm": "GENL_ADMIN_PERM", "uns-admin-perm": "GENL_UNS_ADMIN_PERM"}
HEAD = f"SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)@\n/* {NOTICE} */\n"
FAMILY = """};

struct genl_family mutant_nl_family __ro_after_init = {
	.name		= MUTANT_FAMILY_NAME,
	.version	= MUTANT_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= mutant_nl_ops,
	.n_ops		= ARRAY_SIZE(mutant_nl_ops),
	.mcgrps		= mutant_nl_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(mutant_nl_mcgrps),
};
"""
ARMS_HEADER = """\
#define MUTANT_FIRST_LEARNED	MUTANT_ARM_ID_{}
#define MUTANT_LAST_LEARNED	MUTANT_ARM_ID_{}
#define MUTANT_LEARNED_ARMS	(MUTANT_LAST_LEARNED - MUTANT_FIRST_LEARNED + 1)

/* By id. */
extern const char * const mutant_arm_names[MUTANT_LAST_LEARNED + 1];

/* The laws that an arm executes, by id: bit n for law n of enum mutant_control_law. */
extern const u32 mutant_arm_laws[MUTANT_LAST_LEARNED + 1];
"""


def _header(guard: str, includes: tuple[str, ...], lines: Iterable[str]) -> str:
    head = [f"/* {HEAD.replace('@', ' */')}", f"#ifndef {guard}", f"#define {guard}", ""]
    return "\n".join([*head, *(f"#include {name}" if name else "" for name in includes), "", *lines,
                      f"#endif /* {guard} */", ""])  # fmt: skip


def _source(includes: tuple[str, ...], lines: Iterable[str]) -> str:
    names = (f"#include {name}" if name else "" for name in includes)
    return "\n".join([f"// {HEAD.replace('@', '')}", *names, "", *lines, ""])


def emit_uapi(contract: Contract) -> str:
    """Return include/uapi/linux/mutant.h: the contract between the kernel and a program."""
    lines = [f'#define MUTANT_FAMILY_NAME\t\t"{contract.family.name}"', "#define MUTANT_FAMILY_VERSION\t1"]
    lines += [f"#define MUTANT_RECORD_VERSION\t{contract.records.version}", ""]
    for const in contract.constants:
        lines += [*_comment(plain(const.doc)), f"#define {upper('mutant', const.name)}\t{const.value}", ""]
    for enum in contract.enums:
        lines += _enum(enum)
    for space in contract.family.attribute_sets:
        lines += _ids(upper("mutant-a", space.name), space.attributes, f"Attributes of the set {space.name}.")
    lines += _ids("MUTANT_CMD", contract.family.operations, "Operations and events.")
    lines += [f'#define {upper("mutant-mcgrp", g.name)}\t"{g.name}"\n' for g in contract.family.mcast_groups]
    for struct in contract.records.structs:
        lines += _struct(contract, struct)
    return _header("_UAPI_LINUX_MUTANT_H", ("<linux/types.h>",), lines)


def _comment(*body: str) -> list[str]:
    text = [line for part in body for line in (wrap(part, " * ", " * ", WIDTH) or [" *"])]
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


def _ids(prefix: str, items: Iterable[Named], title: str) -> list[str]:
    """An anonymous enumeration that counts from 1. Its last entries are its end and its highest value, as
    genetlink's own enumerations have them.
    """
    names = [(f"{prefix}_{upper(item.name)}", item.doc) for item in items]
    notes = [f"{name}: {plain(doc)}" for name, doc in names if doc]
    lines = [*_comment(title, *(["", *notes] if notes else [])), "enum {", f"\t{names[0][0]} = 1,"]
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


def emit_kernel_header(contract: Contract) -> str:
    """Return mutant_nl_gen.h: the handlers that the module must write, and the family."""
    lines: list[str] = []
    for operation in contract.family.operations:
        handler = f"int mutant_nl_{snake(operation.name)}"
        lines += [f"{handler}_doit(struct sk_buff *skb, struct genl_info *info);"] if operation.do else []
        if operation.dump:
            lines += [f"{handler}_dumpit(struct sk_buff *skb, struct netlink_callback *cb);"]
    lines += ["", "/* Index of each multicast group within the family. */", "enum {"]
    lines += [f"\t{upper('mutant-nlgrp', group.name)}," for group in contract.family.mcast_groups]
    lines += ["};", "", "extern struct genl_family mutant_nl_family;", ""]
    includes = ("<net/genetlink.h>", "<net/netlink.h>", "", "<uapi/linux/mutant.h>")
    return _header("_MUTANT_NL_GEN_H", includes, lines)


def emit_kernel_source(contract: Contract) -> str:
    """Return mutant_nl_gen.c: policies, operations, groups and family."""
    lines = ["/* The layout of the packed records is ABI. */"]
    for struct in contract.records.structs:
        lines += [
            f"static_assert(sizeof(struct mutant_{snake(struct.name)}) == {contract.sizes[struct.name]});"
        ]
    lines += [""]
    for operation in contract.family.operations:
        lines += _policy(contract, operation) if operation.request else []
    lines += ["static const struct genl_ops mutant_nl_ops[] = {"]
    for operation in contract.family.operations:
        lines += _operation(contract, operation) if operation.event is None else []
    lines += ["};", "", "static const struct genl_multicast_group mutant_nl_mcgrps[] = {"]
    for group in contract.family.mcast_groups:
        lines += [f"\t[{upper('mutant-nlgrp', group.name)}] = {{"]
        lines += [f"\t\t.name\t= {upper('mutant-mcgrp', group.name)},"]
        lines += [*(["\t\t.flags\t= GENL_MCAST_CAP_NET_ADMIN,"] if group.flags else []), "\t},"]
    includes = ("<linux/build_bug.h>", "<linux/module.h>", "", '"mutant_nl_gen.h"')
    return _source(includes, [*lines, FAMILY.rstrip("\n")])


def _policy(contract: Contract, operation: Operation) -> list[str]:
    ranges: list[str] = []
    rows: list[str] = []
    for name, attribute in contract.attributes(operation).items():
        if name in operation.request:
            rule, table = _rule(attribute, f"mutant_{snake(operation.name)}_{snake(name)}_range")
            key = upper("mutant-a", operation.attribute_set, name)
            ranges += table
            rows += [f"\t[{key}] =", f"\t\t{rule},"] if table else [f"\t[{key}] = {rule},"]
    title = f"static const struct nla_policy mutant_{snake(operation.name)}_nl_policy[] = {{"
    return [*ranges, title, *rows, "};", ""]


def _rule(attribute: Attribute, bound: str) -> tuple[str, list[str]]:
    """Return an attribute's policy, and the lines of a table with its bounds. There are no lines if the
    bounds fit in signed 16 bits, because then the policy itself has them.
    """
    low, high, length = attribute.checks.min, attribute.checks.max, attribute.checks.max_len
    kind = "NLA_NUL_STRING" if attribute.type == "string" else f"NLA_{attribute.type.upper()}"
    if max(low or 0, high or 0) > S16_MAX:
        # The table is not const, because the pointer to it in struct nla_policy is not const on Linux 6.1.
        table = [f"static struct netlink_range_validation {bound} = {{"]
        table += [f"\t.min\t= {low}ULL,"] if low else []
        table += [f"\t.max\t= {high}ULL,"] if high else []
        return f"NLA_POLICY_FULL_RANGE({kind}, &{bound})", [*table, "};", ""]
    if low is not None and high is not None:
        return f"NLA_POLICY_RANGE({kind}, {low}, {high})", []
    if low is not None or high is not None:
        return f"NLA_POLICY_{'MIN' if high is None else 'MAX'}({kind}, {low if high is None else high})", []
    return f"{{ .type = {kind}{'' if length is None else f', .len = {length}'} }}", []


def _operation(contract: Contract, operation: Operation) -> list[str]:
    name = f"mutant_nl_{snake(operation.name)}"
    policy = f"mutant_{snake(operation.name)}_nl_policy" if operation.request else ""
    rows = {
        ".cmd\t\t": upper("mutant-cmd", operation.name),
        ".doit\t\t": f"{name}_doit" if operation.do else "",
        ".dumpit\t\t": f"{name}_dumpit" if operation.dump else "",
        ".policy\t\t": policy,
        ".maxattr\t": f"ARRAY_SIZE({policy}) - 1" if policy else "",
        ".flags\t\t": FLAGS[contract.permission(operation)],
    }
    return ["\t{", *(f"\t\t{key}= {value}," for key, value in rows.items() if value), "\t},"]


def emit_arms(contract: Contract, learned: Mapping[str, Declaration]) -> tuple[str, str]:
    """Return mutant_arms_gen.h and mutant_arms_gen.c: the names of all arms, and the laws of learned arms.

    Raises `InvalidValueError` unless the contract lists exactly the learned arms as its last arms.
    """
    names = [e.name for enum in contract.enums if enum.name == "arm-id" for e in enum.entries[1:]]
    for name in learned:
        if name not in names:
            raise InvalidValueError(
                "definitions[arm-id].entries", name, f"add the line `- {name}` at their end"
            )
    last = names[-len(learned) :]
    if set(last) != set(learned):
        raise InvalidValueError(
            "definitions[arm-id].entries", last, f"the learned arms last: {', '.join(learned)}"
        )
    lines = ["const char * const mutant_arm_names[] = {"]
    lines += [f'\t[{upper("mutant-arm-id", name)}] = "{name}",' for name in names]
    lines += ["};", "", "#define LAW(name)\t(1U << MUTANT_CONTROL_LAW_##name)", ""]
    lines += ["const u32 mutant_arm_laws[] = {"]
    for name in last:
        laws = " | ".join(f"LAW({law.upper()})" for law in learned[name].laws)
        lines += [f"\t[{upper('mutant-arm-id', name)}] = {laws},"]
    header = ARMS_HEADER.format(upper(last[0]), upper(last[-1]))
    return _header("_MUTANT_ARMS_GEN_H", ('"mutant_control.h"',), [header]), _source(
        ('"mutant_arms_gen.h"',), [*lines, "};"])  # fmt: skip
