# SPDX-License-Identifier: Apache-2.0
"""A daemon that dies, is silent, or restarts; another socket that would steer."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ltp_switcher.daemon.datapath import (
    Datapath,
    EventStream,
    FlowEvent,
)
from ltp_switcher.daemon.datapath.protocol import Cmd, ControlLaw, FallbackReason, FlowFlags
from ltp_switcher.errors import DatapathError

from .harness import Context, require
from .net import EVENTS_S, Flow
from .steering import commands, control, switch

WATCHDOG_MS = 300
ACK_WAIT_MS = 100
"""A flow acts at an ACK. It may wait a round trip for one, while another flow's packets pass."""


@contextmanager
def steerer(context: Context, arms: Sequence[str], flow: Flow) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that steers, and switches a flow among arms; afterwards the context steers again."""
    context.datapath.close_session(60_000)
    ids = [str(context.arm_id(name)) for name in arms]
    process = subprocess.Popen([sys.executable, "-m", "kmod_guest.steering", *ids])
    try:
        before = context.datapath.flow(flow.cookie).record[0]["switches"]
        steered = context.traffic.pump(
            60, lambda: context.datapath.flow(flow.cookie).record[0]["switches"] > before + 20
        )
        require(steered, "the steerer does nothing")
        yield process
    finally:
        process.kill()
        process.wait()
        context.datapath.open_session()


def everything(events: EventStream) -> list[FlowEvent]:
    """All events so far; flows of the checks before may end late, and many at once."""
    found: list[FlowEvent] = []
    while batch := events.read().events:
        found += batch
    return found


def flags_of(context: Context, flow: Flow) -> FlowFlags:
    """How a flow stands."""
    return FlowFlags(int(context.datapath.flow(flow.cookie).record[0]["flags"]) & 7)


def _falls_back(context: Context, end: signal.Signals, reason: FallbackReason, within_ms: float) -> None:
    """A steerer gets a signal; its flow goes to the fallback arm, a pinned one stays, and events say so."""
    context.datapath.set_config(watchdog_ms=WATCHDOG_MS, fallback_arm=context.arm_id("westwood"))
    events = context.datapath.events()
    flow, pinned = context.flow(), context.flow()
    context.datapath.pin(pinned.cookie, context.arm_id("hybla"))
    with steerer(context, ("vegas", "bic", "htcp"), flow) as daemon:
        everything(events)
        sent = flow.sent
        daemon.send_signal(end)
        if end == signal.SIGKILL:
            daemon.wait()
        ended = time.monotonic()
        require(context.traffic.pump(2, lambda: flow.congestion == "m/westwood"), flow.congestion)
        waited_ms = 1000 * (time.monotonic() - ended)
        require(waited_ms <= within_ms, f"{waited_ms:.0f} ms until the fallback")
        context.notes[f"fallback after {end.name}, ms"] = round(waited_ms)
        info = context.datapath.flow(flow.cookie)
        require(info.reason == reason, info.reason.name)
        require(flags_of(context, flow) == FlowFlags.FALLEN_BACK, f"flags {flags_of(context, flow)!r}")
        context.traffic.pump(EVENTS_S)
        told = [(e.flow.cookie, e.flow.reason) for e in everything(events) if e.kind == Cmd.FLOW_FALLBACK]
        require(told == [(flow.cookie, reason)], f"events {told}")
        context.traffic.pump(0.5)
        require(pinned.congestion == "m/hybla", f"the pinned flow runs {pinned.congestion}")
        require(flow.sent > sent, "nothing was sent after the steerer's end")
    # A new daemon takes the flow up again, and is missed when it is silent.
    switch(context.datapath, context.traffic, flow, context.arm_id("veno"), "veno")
    require(flags_of(context, flow) == FlowFlags.STEERED, f"flags {flags_of(context, flow)!r}")
    context.traffic.pump(1)
    require(flow.congestion == "m/westwood", "no second fallback")
    context.end(flow, pinned)
    events.close()
    context.datapath.set_config(watchdog_ms=0, fallback_arm=context.arm_id("cubic"))


def a_killed_daemon_leaves_its_flows_to_the_fallback_at_once(context: Context) -> None:
    _falls_back(context, signal.SIGKILL, FallbackReason.SESSION_ENDED, ACK_WAIT_MS)


def a_stopped_daemon_leaves_its_flows_after_the_watchdogs_time(context: Context) -> None:
    _falls_back(context, signal.SIGSTOP, FallbackReason.SILENCE, WATCHDOG_MS + ACK_WAIT_MS)


def a_killed_daemon_is_missed_without_a_watchdog_too(context: Context) -> None:
    flow = context.flow()
    with steerer(context, ("vegas", "bic"), flow) as daemon:
        daemon.kill()
        daemon.wait()
        require(context.traffic.pump(2, lambda: flow.congestion == "m/cubic"), flow.congestion)
    context.end(flow)


def a_clean_restart_costs_no_flow_its_arm(context: Context) -> None:
    """Within the time of grace the next session takes over; after it the flows fall back."""
    context.datapath.set_config(watchdog_ms=WATCHDOG_MS)
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
    first, second = Datapath(), Datapath()
    context.datapath.close_session(2000)
    context.traffic.pump(1)
    first.open_session()
    require(flow.congestion == "m/vegas", f"during the grace: {flow.congestion}")
    require(flags_of(context, flow) == FlowFlags.STEERED, f"flags {flags_of(context, flow)!r}")
    first.close_session(1000)
    first.close()
    context.traffic.pump(0.8)
    require(flow.congestion == "m/vegas", f"the socket's end ended the grace: {flow.congestion}")
    require(context.traffic.pump(0.4, lambda: flow.congestion == "m/cubic"), "the grace does not end")
    second.open_session()
    second.close_session(0)
    second.close()
    context.datapath.open_session()
    context.datapath.set_config(watchdog_ms=0)
    context.end(flow)


def one_socket_steers_and_others_look(context: Context) -> None:
    flow = context.flow()
    other = Datapath()
    context.datapath.open_session()
    attempts: dict[str, Callable[[], object]] = {
        "session-open": other.open_session,
        "session-close": lambda: other.close_session(0),
        "step-get": other.close_step,
        "select": lambda: other.select(commands({flow.cookie: 3})),
        "control": lambda: other.control(control(flow.cookie, 12, ControlLaw.WINDOW, (20,))),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except DatapathError as error:
            require("another socket steers" in str(error), f"{name}: {error}")
        else:
            raise AssertionError(f"{name} of a second steerer was answered")
    # To look takes nothing away.
    context.datapath.close_step()
    context.traffic.pump(0.05)
    seen = int(other.flow(flow.cookie).record[0]["samples"])
    taken = int(context.datapath.close_step()["samples"].sum())
    require(0 < seen <= taken, f"seen {seen}, then taken {taken}")
    other.close()
    context.end(flow)


def a_flow_that_nobody_steers_stays_as_it_is(context: Context) -> None:
    context.datapath.set_config(watchdog_ms=50)
    flow = context.flow()
    context.traffic.pump(1)
    info = context.datapath.flow(flow.cookie)
    require((info.reason, flow.congestion) == (FallbackReason.NONE, "m/cubic"), str(info))
    # Without a watchdog even a steered one does.
    context.datapath.set_config(watchdog_ms=0)
    switch(context.datapath, context.traffic, flow, context.arm_id("bbr"), "bbr")
    context.traffic.pump(3)
    require(flow.congestion == "m/bbr", flow.congestion)
    context.end(flow)


CHECKS = (
    a_killed_daemon_leaves_its_flows_to_the_fallback_at_once,
    a_stopped_daemon_leaves_its_flows_after_the_watchdogs_time,
    a_killed_daemon_is_missed_without_a_watchdog_too,
    a_clean_restart_costs_no_flow_its_arm,
    one_socket_steers_and_others_look,
    a_flow_that_nobody_steers_stays_as_it_is,
)
