# SPDX-License-Identifier: Apache-2.0
"""Tracepoints: a switch and a fallback show in tracefs, with the flow and the arms that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ltp_switcher.daemon.datapath import Datapath

from .harness import Context, require, sh
from .net import Flow, TcpInfo
from .steering import commands, switch

TRACING = Path("/sys/kernel/tracing")
FLOW_FIELDS = {
    "cookie": 8, "netns": 8, "family": 2, "sport": 2, "dport": 2, "saddr": 16, "daddr": 16,
}  # fmt: skip
FIELDS = {
    "mutant_switch": FLOW_FIELDS
    | {"from": 1, "to": 1, "from_arm": 16, "to_arm": 16, "cwnd_before": 4, "cwnd": 4},
    "mutant_fallback": FLOW_FIELDS | {"to": 1, "reason": 1, "to_arm": 16},
}


@contextmanager
def traced(event: str) -> Iterator[None]:
    """Have an event in the trace buffer for a while."""
    if not (TRACING / "trace").exists():
        sh(f"mount -t tracefs tracefs {TRACING}")
    (TRACING / "trace").write_text("")
    switched = TRACING / "events/mutant" / event / "enable"
    switched.write_text("1")
    try:
        yield
    finally:
        switched.write_text("0")


def told(event: str) -> list[dict[str, str]]:
    """The values of the events in the buffer, by name."""
    lines = re.findall(rf" {event}: (.*)", (TRACING / "trace").read_text())
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines]


def described(event: str) -> dict[str, int]:
    """Bytes of each field of an event, by its name, without those that all events have."""
    text = (TRACING / "events/mutant" / event / "format").read_text()
    fields = re.findall(r"field:[^;]*?(\w+)(?:\[\d+\])?;\s*offset:\d+;\s*size:(\d+)", text)
    return {name: int(size) for name, size in fields if not name.startswith("common_")}


def who(context: Context, flow: Flow) -> dict[str, str]:
    """A flow as the events name it."""
    info = context.datapath.flow(flow.cookie)
    return {
        "cookie": str(flow.cookie),
        "netns": str(info.netns),
        "saddr": f"[::ffff:{info.local_address}]:{info.local_port}",
        "daddr": f"[::ffff:{info.remote_address}]:{info.remote_port}",
    }


def the_events_have_the_fields_that_are_promised(_: Context) -> None:
    with traced("mutant_switch"):
        for event, fields in FIELDS.items():
            require(described(event) == fields, f"{event}: {described(event)}")


def a_switch_is_traced(context: Context) -> None:
    flow = context.flow()
    with traced("mutant_switch"):
        switch(context.datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
        window = TcpInfo.of(flow.client).snd_cwnd
        # A command for the arm that runs is no switch.
        context.datapath.select(commands({flow.cookie: context.arm_id("vegas")}))
        context.traffic.pump(0.1)
        events = told("mutant_switch")
    require(len(events) == 1, f"{events}")
    windows = {name: int(events[0].pop(name)) for name in ("cwnd_before", "cwnd")}
    expected = who(context, flow) | {"from": "cubic", "to": "vegas"}
    require(events[0] == expected, f"{events[0]} instead of {expected}")
    require(windows["cwnd"] == windows["cwnd_before"] > 0, f"{windows}")
    require(abs(windows["cwnd"] - window) <= windows["cwnd"], f"{windows}, the socket says {window}")
    context.end(flow)


def a_fallback_is_traced_with_its_reason(context: Context) -> None:
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("bic"), "bic")
    # Somebody else's session, which ends without a time of grace.
    context.datapath.close_session(60_000)
    with traced("mutant_fallback"):
        with Datapath() as other:
            other.open_session()
        context.traffic.pump(2, lambda: flow.congestion == "m/cubic")
        events = told("mutant_fallback")
    context.datapath.open_session()
    expected = who(context, flow) | {"to": "cubic", "reason": "session-ended"}
    require(events == [expected], f"{events} instead of {expected}")
    context.end(flow)


CHECKS = (
    the_events_have_the_fields_that_are_promised,
    a_switch_is_traced,
    a_fallback_is_traced_with_its_reason,
)
