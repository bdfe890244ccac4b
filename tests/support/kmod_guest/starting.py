# SPDX-License-Identifier: Apache-2.0
"""Starting arms: a new flow begins on the arm of its destination's longest prefix."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath import Datapath, RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import START_DTYPE, ControlLaw

from .harness import Context, require, sh
from .net import choose, congestion, namespace


def table(context: Context, arms: Mapping[str, str], lifetime_s: int = 0) -> npt.NDArray[np.void]:
    """Entries from arms' names by prefix; an empty name takes a prefix out."""
    made = np.zeros(len(arms), START_DTYPE)
    for entry, (prefix, name) in zip(made, arms.items(), strict=True):
        network = ipaddress.ip_network(prefix)
        packed = np.frombuffer(network.network_address.packed, np.uint8)
        entry["addr"][: packed.size] = packed
        entry["family"] = socket.AF_INET if network.version == 4 else socket.AF_INET6
        entry["bits"] = network.prefixlen
        entry["choice"]["arm"][0] = context.arm_id(name) if name else 0
        entry["choice"]["weight"][0] = bool(name)
        entry["lifetime_s"] = lifetime_s
    return made


@contextmanager
def session_inside(context: Context, *, start_arms: bool = True) -> Iterator[Datapath]:
    """A session in the namespace from which the flows come."""
    with namespace("la"):
        datapath = Datapath()
    datapath.open_session(start_arms=start_arms)
    try:
        yield datapath
    finally:
        datapath.close()


def started(context: Context) -> str:
    """The arm on which a new flow to the link's other end begins."""
    flow = context.link.connect("mutant")
    name = flow.congestion
    flow.client.close()
    flow.server.close()
    return name


def the_longest_prefix_says_where_a_flow_starts(context: Context) -> None:
    with session_inside(context) as datapath:
        require(started(context) == "m/cubic", "without an entry")
        datapath.set_starts(table(context, {"10.1.0.0/16": "bbr", "0.0.0.0/0": "veno", "10.2.0.0/24": "bic"}))
        require(started(context) == "m/bbr", started(context))
        datapath.set_starts(table(context, {"10.1.0.2/32": "vegas", "10.1.0.0/24": "htcp"}))
        require(started(context) == "m/vegas", started(context))
        datapath.set_starts(table(context, {"10.1.0.2/32": ""}))
        require(started(context) == "m/htcp", started(context))
        datapath.set_starts(table(context, {"10.1.0.0/24": "hybla"}))
        require(started(context) == "m/hybla", "an entry is not replaced")
        datapath.set_starts(table(context, {"10.1.0.0/24": "", "10.1.0.0/16": ""}))
        require(started(context) == "m/veno", "the default route of the table")
        # The other namespace has a table of its own.
        require(context.datapath.starts().size == 0, "another namespace's entries are shown")
        shown = {(int(e["bits"]), int(e["choice"]["arm"][0])) for e in datapath.starts()}
        require(shown == {(0, context.arm_id("veno")), (24, context.arm_id("bic"))}, f"{shown}")
        datapath.set_starts(table(context, {"0.0.0.0/0": "", "10.2.0.0/24": ""}))
        require(datapath.starts().size == 0, f"{datapath.starts()}")


def ipv6_destinations_have_prefixes_too(context: Context) -> None:
    context.datapath.open_session(start_arms=True)
    context.datapath.set_starts(table(context, {"::/0": "bbr", "::1/128": "illinois", "127.0.0.0/8": "bic"}))
    for family, address, name in ((socket.AF_INET6, "::1", "illinois"), (socket.AF_INET, "127.0.0.1", "bic")):
        with socket.socket(family) as listener, socket.socket(family) as client:
            listener.bind((address, 0))
            listener.listen()
            choose(client, "mutant")
            client.connect(listener.getsockname())
            require(congestion(client) == f"m/{name}", congestion(client))
    context.datapath.set_starts(table(context, {"::/0": "", "::1/128": "", "127.0.0.0/8": ""}))
    context.datapath.open_session()


def the_table_counts_while_a_session_wants_it(context: Context) -> None:
    with session_inside(context) as datapath:
        datapath.set_starts(table(context, {"10.1.0.0/24": "vegas"}))
        require(started(context) == "m/vegas", "not obeyed")
        datapath.open_session(start_arms=False)
        require(started(context) == "m/cubic", "obeyed in advise mode")
        datapath.open_session(start_arms=True)
        require(started(context) == "m/vegas", "not obeyed again")
    require(started(context) == "m/cubic", "obeyed without a session")
    with session_inside(context) as datapath:
        require(started(context) == "m/vegas", "the next session has not found the table")
        datapath.set_starts(table(context, {"10.1.0.0/24": "bbr"}, lifetime_s=1))
        require(started(context) == "m/bbr", "a young entry does not count")
        time.sleep(1.1)
        require(started(context) == "m/cubic", "an old entry counts")
        require(1100 <= int(datapath.starts()["age_ms"][0]) < 2000, f"{datapath.starts()}")
        datapath.set_starts(table(context, {"10.1.0.0/24": ""}))


def entries_that_cannot_be_are_refused(context: Context) -> None:
    with session_inside(context) as datapath:
        good = table(context, {"10.1.0.0/24": "vegas", "10.3.0.0/24": "vegas"})
        ltp, window = context.arm_id("ltp"), ControlLaw.WINDOW
        for field, change, text in (
            ("family", {"family": 1}, "family"),
            ("bits", {"bits": 33}, "bits"),
            ("no control", {"arm": [ltp, 0, 0, 0]}, "first control"),
            ("another law", {"arm": [ltp, 0, 0, 0], "law": [ControlLaw.AIMD, 0, 0, 0]}, "first control"),
            ("window 0", {"arm": [ltp, 0, 0, 0], "law": [window, 0, 0, 0]}, "first control"),
            ("law of a kernel arm", {"law": [window, 0, 0, 0]}, "law is 0"),
            ("arm", {"arm": [20, 0, 0, 0]}, "not available"),
            ("weight", {"weight": [0, 0, 0, 0]}, "weight 0"),
            ("weights", {"arm": [1, 2, 0, 0], "weight": [65535, 1, 0, 0]}, "65535"),
            ("gap", {"arm": [1, 0, 2, 0], "weight": [1, 0, 1, 0]}, "unused place"),
            ("weight of nothing", {"weight": [1, 1, 0, 0]}, "unused place"),
        ):
            bad = good.copy()
            for name, value in change.items():
                (bad if name in START_DTYPE.fields else bad["choice"])[name][1] = value
            try:
                datapath.set_starts(bad)
            except RequestRefusedError as error:
                require(text in error.reason, f"{field}: {error}")
            else:
                raise AssertionError(f"{field}: it is taken")
            require(datapath.starts().size == 0, f"{field}: half of the batch is taken")
        with namespace("la"):
            other = Datapath()
        try:
            other.set_starts(good)
        except RequestRefusedError as error:
            require("another socket steers" in error.reason, str(error))
        else:
            raise AssertionError("a socket without the session fills the table")
        other.close()


def look_up_ns(context: Context, name: str) -> float:
    """Mean of 100 look-ups by the kernel's function graph tracer: in the lab a nanosecond is an instruction.

    Each look-up is for a new flow, which must begin on the arm `name`.
    """
    tracing = Path("/sys/kernel/tracing")
    (tracing / "trace").write_text("")
    (tracing / "set_ftrace_filter").write_text("mutant_start_draw")
    (tracing / "current_tracer").write_text("function_graph")
    for _ in range(100):
        require(started(context) == name, f"not {name}")
    told = (tracing / "trace").read_text()
    (tracing / "current_tracer").write_text("nop")
    (tracing / "set_ftrace_filter").write_text("")
    times_us = re.findall(r"([\d.]+) us\s*\|\s*mutant_start_draw", told)
    require(len(times_us) == 100, f"{len(times_us)} look-ups for 100 flows")
    return 1000 * float(np.mean([float(us) for us in times_us]))


def ten_thousand_prefixes_are_kept_and_shown(context: Context) -> None:
    """A new flow asks the table once. What an empty table costs is what the tracer itself costs."""
    sh("mount -t tracefs tracefs /sys/kernel/tracing", check=False)
    with session_inside(context) as datapath:
        many = ten_thousand(context, "vegas")
        costs_ns = [look_up_ns(context, "m/cubic")]
        datapath.set_starts(many)
        require(datapath.starts().size == 10_000, f"{datapath.starts().size} of 10000 are shown")
        require(np.unique(datapath.starts()["addr"], axis=0).shape[0] == 10_000, "some come twice")
        require(started(context) == "m/cubic", started(context))
        datapath.set_starts(table(context, {"10.1.0.0/24": "vegas"}))
        costs_ns.append(look_up_ns(context, "m/vegas"))
        # Longer prefixes are looked for first.
        longer = ("12.0.0.0/32", "12.0.0.0/28", "12.0.0.0/26")
        datapath.set_starts(table(context, dict.fromkeys(longer, "vegas")))
        costs_ns.append(look_up_ns(context, "m/vegas"))
        context.notes["ns of a look-up: no prefix, 10,000 of one length, of four"] = costs_ns
        many["choice"] = np.zeros((), many.dtype["choice"].base)
        datapath.set_starts(many)
        datapath.set_starts(table(context, dict.fromkeys(("10.1.0.0/24", *longer), "")))
        require(datapath.starts().size == 0, f"{datapath.starts().size} are left")


def ten_thousand(context: Context, arm: str, count: int = 10_000) -> npt.NDArray[np.void]:
    """Entries of so many prefixes of 24 bits."""
    made = table(context, {"11.0.0.0/24": arm}).repeat(count)
    numbers = np.arange(count)
    made["addr"][:, 0] = 11 + numbers // 65_536
    made["addr"][:, 1] = numbers // 256
    made["addr"][:, 2] = numbers % 256
    return made


def another_arm_for_a_prefix_takes_no_memory(context: Context) -> None:
    """So no allocation that fails can lose the entry that there was."""
    sh("mount -t tracefs tracefs /sys/kernel/tracing", check=False)
    event = Path("/sys/kernel/tracing/events/kmem/kmalloc")
    trace = Path("/sys/kernel/tracing/trace")

    def allocations(entries: npt.NDArray[np.void]) -> int:
        trace.write_text("")
        (event / "enable").write_text("1")
        datapath.set_starts(entries)
        (event / "enable").write_text("0")
        return trace.read_text().count("call_site=mutant_start_set")

    with session_inside(context) as datapath:
        made = allocations(ten_thousand(context, "vegas", 50))
        require(made == 50, f"{made} allocations for 50 new prefixes")
        made = allocations(ten_thousand(context, "bbr", 50))
        require(made == 0, f"{made} allocations for 50 known prefixes")
        require(set(datapath.starts()["choice"]["arm"][:, 0]) == {context.arm_id("bbr")}, "not replaced")
        datapath.set_starts(ten_thousand(context, "", 50))


def a_page_of_the_table_begins_where_the_last_one_ended(context: Context) -> None:
    """A page that looked at all entries before its own would make the list's cost grow with its square."""

    def list_us() -> int:
        began_ns = time.perf_counter_ns()
        shown = datapath.starts()
        took_us = (time.perf_counter_ns() - began_ns) // 1000
        prefixes = np.unique(shown["addr"], axis=0)
        require(len(prefixes) == len(shown), "an entry is shown twice")
        counts.append(len(shown))
        return took_us

    with session_inside(context) as datapath:
        counts: list[int] = []
        datapath.set_starts(ten_thousand(context, "vegas", 2_000))
        few_us = list_us()
        datapath.set_starts(ten_thousand(context, "vegas", 32_000))
        many_us = list_us()
        datapath.set_starts(ten_thousand(context, "", 32_000))
        require(counts == [2_000, 32_000], f"{counts} entries are shown")
    context.notes["us to list 2,000 entries, 32,000"] = [few_us, many_us]
    # The guest's time counts instructions, so the ratio is the same on every machine.
    require(many_us < 24 * few_us, f"{few_us} us for 2,000 entries, {many_us} us for 16 times as many")


CHECKS = (
    another_arm_for_a_prefix_takes_no_memory,
    the_longest_prefix_says_where_a_flow_starts,
    ipv6_destinations_have_prefixes_too,
    the_table_counts_while_a_session_wants_it,
    entries_that_cannot_be_are_refused,
    ten_thousand_prefixes_are_kept_and_shown,
    a_page_of_the_table_begins_where_the_last_one_ended,
)
