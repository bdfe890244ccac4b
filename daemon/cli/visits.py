# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher visits` shows the daemon's knowledge from visits. A visit is a group of flows to a prefix
that began near each other.
"""

from __future__ import annotations

import argparse
import math
from typing import cast

from ltp_switcher.daemon.cli.printing import (
    Object,
    as_object,
    as_objects,
    ask,
    print_json,
    print_table,
    words,
)


def visits(options: argparse.Namespace) -> int:
    """Print for each prefix the arms that its visits try, and the effects of these arms. The most recently
    seen prefix comes first.
    """
    params: Object = {"limit": options.limit}
    if options.prefix is not None:
        params["prefix"] = options.prefix
    found = as_object(ask(options, "visits.get", **params))
    if options.json:
        return print_json(found)
    if not options.terse:
        print(_summary(found))
    heads = [
        "PREFIX",
        "VISITS",
        "FLOWS",
        "INCUMBENT",
        "TRIAL",
        "CHANCE",
        "SPENT",
        "CHANGES",
        "SURPRISES",
        "REWARD OVER DECISION",
    ]
    return print_table(options, heads, [_row(one) for one in as_objects(found["prefixes"])])


def _summary(found: Object) -> str:
    if not found["learn"]:
        return 'The daemon does not learn from flow to flow: visits.learn is "off".'
    return (
        f"{found['known']} prefixes, arms {words(found['arms'])}; since the start {found['visits']} visits, "
        f"{found['trials']} of them trials; {found['path_changes']} changes of paths, "
        f"{found['surprises']} surprises; all trials have cost "
        f"{cast('float', found['share']):.2%} of the reward"
    )


def _row(one: Object) -> list[str]:
    trial = one["trial"]
    return [
        str(one["prefix"]),
        str(one["visits"]),
        f"{cast('float', one['flows']):.0f}",
        "-" if one["ruled"] else str(one["incumbent"]),
        "-" if trial is None or one["ruled"] else str(trial),
        "-" if trial is None or one["ruled"] else f"{cast('float', one['chance']):.3f}",
        f"{cast('float', one['spent']):.2f}",
        str(one["path_changes"]),
        str(one["surprises"]),
        ", ".join(_effect(arm, told) for arm, told in as_object(one["effects"]).items()),
    ]


def _effect(arm: str, told: object) -> str:
    """The factor of the reward with its bounds."""
    mean, lower, upper = (
        math.exp(cast("dict[str, float]", told)[name]) for name in ("mean", "lower", "upper")
    )
    return f"{arm} {mean:.2f} ({lower:.2f} to {upper:.2f})"
