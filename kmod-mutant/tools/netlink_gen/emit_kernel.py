# SPDX-License-Identifier: Apache-2.0
"""mutant_nl_gen.h and .c: policies, operations, groups and family, for `genl_register_family`.

It uses `struct genl_ops` with a policy per operation, which both 6.1 and 6.12 understand.
"""

from __future__ import annotations

from .model import SCALAR_SIZES, Attribute, Contract, Operation
from .text import DUAL_LICENCE, NOTICE, snake, upper

S16_MAX = 32767
PERMISSIONS = {"none": None, "admin-perm": "GENL_ADMIN_PERM", "uns-admin-perm": "GENL_UNS_ADMIN_PERM"}


def emit_kernel_header(contract: Contract) -> str:
    """Return mutant_nl_gen.h: the handlers that the module must write, and the family."""
    family, prefix = snake(contract.family), upper(contract.family)
    lines = [
        f"/* SPDX-License-Identifier: {DUAL_LICENCE} */",
        f"/* {NOTICE} */",
        "",
        f"#ifndef _{prefix}_NL_GEN_H",
        f"#define _{prefix}_NL_GEN_H",
        "",
        "#include <net/genetlink.h>",
        "#include <net/netlink.h>",
        "",
        f"#include <uapi/linux/{family}.h>",
        "",
    ]
    for prototype in _prototypes(contract):
        lines.append(prototype)
    lines += ["", "/* Index of each multicast group within the family. */", "enum {"]
    lines += [f"\t{prefix}_NLGRP_{upper(group.name)}," for group in contract.mcgrps]
    lines += [
        "};",
        "",
        f"extern struct genl_family {family}_nl_family;",
        "",
        f"#endif /* _{prefix}_NL_GEN_H */",
        "",
    ]
    return "\n".join(lines)


def emit_kernel_source(contract: Contract) -> str:
    """Return mutant_nl_gen.c."""
    family, prefix = snake(contract.family), upper(contract.family)
    lines = [
        f"// SPDX-License-Identifier: {DUAL_LICENCE}",
        f"/* {NOTICE} */",
        "",
        "#include <linux/build_bug.h>",
        "#include <linux/module.h>",
        "",
        f'#include "{family}_nl_gen.h"',
        "",
        "/* The layout of the packed records is ABI. */",
    ]
    for struct in contract.structs:
        lines.append(f"static_assert(sizeof(struct {family}_{snake(struct.name)}) == {struct.size});")
    lines.append("")
    for operation in contract.operations:
        if operation.request:
            lines += _policy(contract, operation)
    lines += [f"static const struct genl_ops {family}_nl_ops[] = {{"]
    for operation in contract.operations:
        if operation.event is None:
            lines += _operation(family, prefix, operation)
    lines += ["};", "", f"static const struct genl_multicast_group {family}_nl_mcgrps[] = {{"]
    for group in contract.mcgrps:
        name = upper(group.name)
        lines += [f"\t[{prefix}_NLGRP_{name}] = {{", f"\t\t.name\t= {prefix}_MCGRP_{name},"]
        lines += [*(["\t\t.flags\t= GENL_MCAST_CAP_NET_ADMIN,"] if group.admin else []), "\t},"]
    lines += [
        "};",
        "",
        f"struct genl_family {family}_nl_family __ro_after_init = {{",
        f"\t.name\t\t= {prefix}_FAMILY_NAME,",
        f"\t.version\t= {prefix}_FAMILY_VERSION,",
        "\t.netnsok\t= true,",
        "\t.parallel_ops\t= true,",
        "\t.module\t\t= THIS_MODULE,",
        f"\t.ops\t\t= {family}_nl_ops,",
        f"\t.n_ops\t\t= ARRAY_SIZE({family}_nl_ops),",
        f"\t.mcgrps\t\t= {family}_nl_mcgrps,",
        f"\t.n_mcgrps\t= ARRAY_SIZE({family}_nl_mcgrps),",
        "};",
        "",
    ]
    return "\n".join(lines)


def _prototypes(contract: Contract) -> list[str]:
    family = snake(contract.family)
    found = []
    for operation in contract.operations:
        handler = f"{family}_nl_{snake(operation.name)}"
        if operation.do is not None:
            found.append(f"int {handler}_doit(struct sk_buff *skb, struct genl_info *info);")
        if operation.dump is not None:
            if operation.dump.pre:
                found.append(f"int {operation.dump.pre}(struct netlink_callback *cb);")
            found.append(f"int {handler}_dumpit(struct sk_buff *skb, struct netlink_callback *cb);")
            if operation.dump.post:
                found.append(f"int {operation.dump.post}(struct netlink_callback *cb);")
    return found


def _attribute_id(contract: Contract, operation: Operation, name: str) -> str:
    return f"{upper(contract.family)}_A_{upper(operation.attribute_set)}_{upper(name)}"


def _policy(contract: Contract, operation: Operation) -> list[str]:
    family = snake(contract.family)
    space = contract.set(operation.attribute_set)
    table = f"{family}_{snake(operation.name)}_nl_policy"
    ranges: list[str] = []
    rows: list[str] = []
    for attribute in sorted((space.attribute(name) for name in operation.request), key=lambda a: a.id):
        bound = f"{family}_{snake(operation.name)}_{snake(attribute.name)}_range"
        if _wide(attribute):
            # Not const: the member of struct nla_policy that points to it is not, on 6.1.
            ranges += [
                f"static struct netlink_range_validation {bound} = {{",
                *([f"\t.min\t= {attribute.minimum}ULL,"] if attribute.minimum else []),
                f"\t.max\t= {_maximum(attribute)}ULL,",
                "};",
                "",
            ]
        key, rule = _attribute_id(contract, operation, attribute.name), _rule(attribute, bound)
        rows += [f"\t[{key}] =", f"\t\t{rule},"] if _wide(attribute) else [f"\t[{key}] = {rule},"]
    return [*ranges, f"static const struct nla_policy {table}[] = {{", *rows, "};", ""]


def _maximum(attribute: Attribute) -> int:
    full = (1 << (8 * SCALAR_SIZES[attribute.type])) - 1
    return full if attribute.maximum is None else attribute.maximum


def _wide(attribute: Attribute) -> bool:
    """Whether a bound needs a table of its own, because a policy's limits are 16 bits and signed."""
    return any(bound is not None and bound > S16_MAX for bound in (attribute.minimum, attribute.maximum))


def _rule(attribute: Attribute, bound: str) -> str:
    if attribute.type == "string":
        length = f", .len = {attribute.max_len}" if attribute.max_len is not None else ""
        return f"{{ .type = NLA_NUL_STRING{length} }}"
    if attribute.type == "binary":
        length = f", .len = {attribute.max_len}" if attribute.max_len is not None else ""
        return f"{{ .type = NLA_BINARY{length} }}"
    kind = f"NLA_{attribute.type.upper()}"
    if _wide(attribute):
        return f"NLA_POLICY_FULL_RANGE({kind}, &{bound})"
    if attribute.minimum is not None and attribute.maximum is not None:
        return f"NLA_POLICY_RANGE({kind}, {attribute.minimum}, {attribute.maximum})"
    if attribute.minimum is not None:
        return f"NLA_POLICY_MIN({kind}, {attribute.minimum})"
    if attribute.maximum is not None:
        return f"NLA_POLICY_MAX({kind}, {attribute.maximum})"
    return f"{{ .type = {kind} }}"


def _operation(family: str, prefix: str, operation: Operation) -> list[str]:
    handler = f"{family}_nl_{snake(operation.name)}"
    lines = ["\t{", f"\t\t.cmd\t\t= {prefix}_CMD_{upper(operation.name)},"]
    if operation.do is not None:
        lines.append(f"\t\t.doit\t\t= {handler}_doit,")
    if operation.dump is not None:
        if operation.dump.pre:
            lines.append(f"\t\t.start\t\t= {operation.dump.pre},")
        lines.append(f"\t\t.dumpit\t\t= {handler}_dumpit,")
        if operation.dump.post:
            lines.append(f"\t\t.done\t\t= {operation.dump.post},")
    if operation.request:
        policy = f"{family}_{snake(operation.name)}_nl_policy"
        lines += [f"\t\t.policy\t\t= {policy},", f"\t\t.maxattr\t= ARRAY_SIZE({policy}) - 1,"]
    if flag := PERMISSIONS[operation.permission]:
        lines.append(f"\t\t.flags\t\t= {flag},")
    return [*lines, "\t},"]
