# SPDX-License-Identifier: Apache-2.0
"""mutant_nl_gen.h and .c: policies, operations, groups and family, for `genl_register_family`.

It uses `struct genl_ops` with a policy per operation, which both 6.1 and 6.12 understand.
"""

from __future__ import annotations

from .spec import Attribute, Contract, Operation
from .text import C_HEAD, snake, upper

S16_MAX = 32767
FLAGS = {"none": "", "admin-perm": "GENL_ADMIN_PERM", "uns-admin-perm": "GENL_UNS_ADMIN_PERM"}
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


def emit_kernel_header(contract: Contract) -> str:
    """Return mutant_nl_gen.h: the handlers that the module must write, and the family."""
    lines = [f"/* {C_HEAD}\n#ifndef _MUTANT_NL_GEN_H\n#define _MUTANT_NL_GEN_H\n\n#include <net/genetlink.h>"]
    lines += ["#include <net/netlink.h>\n\n#include <uapi/linux/mutant.h>\n"]
    for operation in contract.family.operations:
        handler = f"int mutant_nl_{snake(operation.name)}"
        lines += [f"{handler}_doit(struct sk_buff *skb, struct genl_info *info);"] if operation.do else []
        if operation.dump:
            lines += [f"{handler}_dumpit(struct sk_buff *skb, struct netlink_callback *cb);"]
    lines += ["", "/* Index of each multicast group within the family. */", "enum {"]
    lines += [f"\t{upper('mutant-nlgrp', group.name)}," for group in contract.family.mcast_groups]
    lines += ["};\n\nextern struct genl_family mutant_nl_family;\n\n#endif /* _MUTANT_NL_GEN_H */\n"]
    return "\n".join(lines)


def emit_kernel_source(contract: Contract) -> str:
    """Return mutant_nl_gen.c."""
    lines = [f"// {C_HEAD.replace(' */', '', 1)}\n#include <linux/build_bug.h>\n#include <linux/module.h>\n"]
    lines += ['#include "mutant_nl_gen.h"\n\n/* The layout of the packed records is ABI. */']
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
    return "\n".join([*lines, FAMILY])


def _policy(contract: Contract, operation: Operation) -> list[str]:
    ranges: list[str] = []
    rows: list[str] = []
    for name, attribute in contract.attributes(operation).items():
        if name in operation.request:
            bound = f"mutant_{snake(operation.name)}_{snake(name)}_range"
            rule, table = _rule(contract, attribute, bound)
            key = upper("mutant-a", operation.attribute_set, name)
            ranges += table
            rows += [f"\t[{key}] =", f"\t\t{rule},"] if table else [f"\t[{key}] = {rule},"]
    title = f"static const struct nla_policy mutant_{snake(operation.name)}_nl_policy[] = {{"
    return [*ranges, title, *rows, "};", ""]


def _rule(contract: Contract, attribute: Attribute, bound: str) -> tuple[str, list[str]]:
    """Return an attribute's policy, and a table of its bounds where they exceed signed 16 bits."""
    low, high, length = (contract.number(attribute.checks, key) for key in ("min", "max", "max-len"))
    kind = "NLA_NUL_STRING" if attribute.type == "string" else f"NLA_{attribute.type.upper()}"
    if max(low or 0, high or 0) > S16_MAX:
        # Not const: the member of struct nla_policy that points to it is not, on 6.1.
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
