# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher fleet status` shows how this host exchanges knowledge with other hosts, and their knowledge
of prefixes.
"""

from __future__ import annotations

import argparse
import math
from typing import cast

from ltp_switcher.daemon.cli.printing import Object, as_object, as_objects, ask, print_json, print_table

NAMES_SHOWN = 3


def fleet(options: argparse.Namespace) -> int:
    """Print the state of the exchange, the hosts of the site, and the prefixes about which the hosts know
    something.
    """
    found = as_object(ask(options, "fleet.get"))
    if options.json:
        return print_json(found)
    if not options.terse:
        print(_summary(found))
    print_table(
        options, ["HOST", "SEEN", "VERSION", "LESSONS", "REFUSED", "APART", ""],
        [_host(one) for one in as_objects(found["hosts"])],
    )  # fmt: skip
    if not options.terse:
        print()
    return print_table(
        options, ["PREFIX", "HOSTS", "FROM", "AGE", "OWN VISITS", "REWARD OVER DECISION"],
        [_prefix(one) for one in as_objects(found["prefixes"])],
    )  # fmt: skip


def _summary(found: Object) -> str:
    if not found["share"]:
        return 'This host shares nothing: fleet.share is "off".'
    if not found["running"]:
        return "ltp-switcher-fleet does not run: `systemctl status ltp-switcher-fleet` tells more."
    told = [f"{found['host']} of the site {found['site']} shares over {found['store']}"]
    lag = f"the last whole exchange was {cast('float', found['lag_s']):.1f} s ago"
    told.append(lag if found["reachable"] else f"{found['error'] or 'no exchange yet'}; {lag}")
    told.append(f"{found['written']} lessons written, {found['read']} read")
    if found["namesakes"]:
        told.append(f"{found['namesakes']} more of the name {found['host']} in the site: set fleet.host")
    return "; ".join(told)


def _host(one: Object) -> list[str]:
    compared, apart = cast("float", one["compared"]), cast("float", one["apart"])
    marks = [name.replace("_", " ") for name in ("disagrees", "shut_out") if one[name]]
    return [
        str(one["name"]),
        f"{cast('float', one['age_s']):.0f} s ago",
        str(one["version"]),
        str(one["lessons"]),
        str(one["refused"]),
        f"{apart / compared:.0%}" if compared else "-",
        ", ".join(marks),
    ]


def _prefix(one: Object) -> list[str]:
    sources = cast("list[str]", one["from"])
    more = len(sources) - NAMES_SHOWN
    names = ", ".join(sources[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return [
        str(one["prefix"]), str(one["hosts"]), names or "-", f"{cast('float', one['age_s']):.0f} s",
        str(one["visits"]),
        ", ".join(
            f"{arm} {math.exp(cast('float', as_object(told)['mean'])):.2f}"
            for arm, told in as_object(one["effects"]).items()
        ),
    ]  # fmt: skip
