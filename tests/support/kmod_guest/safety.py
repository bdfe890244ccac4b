# SPDX-License-Identifier: Apache-2.0
"""A daemon that dies, callers without rights, and namespaces that must not see each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ltp_switcher.daemon.datapath import (
    Datapath,
    EventStream,
    FlowEvent,
    FlowNotFoundError,
    PermissionDeniedError,
)
from ltp_switcher.daemon.datapath.protocol import Cmd, ControlLaw, FallbackReason, FlowFlags
from ltp_switcher.errors import DatapathError

from .harness import Context, require, sh
from .loading import loopback
from .net import CLONE_NEWNET, CLONE_NEWUSER, Flow, congestion, cookie, enter, namespace, unshare
from .steering import commands, control, switch

NOBODY = 65534
WATCHDOG_MS = 300


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
        # An ACK comes each millisecond or so.
        require(waited_ms <= within_ms, f"{waited_ms:.0f} ms until the fallback")
        context.notes[f"fallback after {end.name}, ms"] = round(waited_ms)
        info = context.datapath.flow(flow.cookie)
        require(info.reason == reason, info.reason.name)
        require(flags_of(context, flow) == FlowFlags.FALLEN_BACK, f"flags {flags_of(context, flow)!r}")
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
    _falls_back(context, signal.SIGKILL, FallbackReason.SESSION_ENDED, 10)


def a_stopped_daemon_leaves_its_flows_after_the_watchdogs_time(context: Context) -> None:
    _falls_back(context, signal.SIGSTOP, FallbackReason.SILENCE, WATCHDOG_MS + 50)


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


def as_another(
    work: Callable[[], dict[str, object]], meanwhile: Callable[[], None] | None = None
) -> dict[str, object]:
    """Run `work` in a child, `meanwhile` here while the child waits after it. Returns its answer."""
    told, tell = os.pipe()
    go, release = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = work()
        except BaseException as error:
            answer = {"error": "".join(traceback.format_exception(error)[-3:])}
        os.write(tell, json.dumps(answer).encode() + b"\n")
        os.read(go, 1)
        os._exit(0)
    answer = json.loads(os.read(told, 65536))
    try:
        if meanwhile is not None and "error" not in answer:
            meanwhile()
    finally:
        os.write(release, b"g")
        os.waitpid(child, 0)
        for descriptor in (told, tell, go, release):
            os.close(descriptor)
    require("error" not in answer, str(answer.get("error")))
    return dict(answer)


def give_up_rights() -> None:
    """Become nobody, without capabilities."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _refusals(datapath: Datapath, flow: int) -> dict[str, str]:
    """How each operation that changes something is answered for a flow."""
    attempts: dict[str, Callable[[], object]] = {
        "session-open": datapath.open_session,
        "step-get": datapath.close_step,
        "select": lambda: datapath.select(commands({flow: 3})).unknown,
        "control": lambda: datapath.control(control(flow, 12, ControlLaw.WINDOW, (20,))).unknown,
        "pin": lambda: datapath.pin(flow, 3),
        "unpin": lambda: datapath.unpin(flow),
        "arm-load": lambda: datapath.load_arm("reno"),
        "config-set": lambda: datapath.set_config(watchdog_ms=5),
        "events": lambda: datapath.events().close(),
    }
    found = {}
    for name, attempt in attempts.items():
        try:
            result = attempt()
            found[name] = f"answered {result if isinstance(result, int) else ''}".strip()
        except PermissionDeniedError:
            found[name] = "EPERM"
        except FlowNotFoundError:
            found[name] = "ENOENT"
        except DatapathError as error:
            found[name] = str(error)
    return found


def without_rights_one_may_look_and_not_touch(context: Context) -> None:
    flow = context.flow()
    key = flow.cookie

    def work() -> dict[str, object]:
        enter("la")
        give_up_rights()
        datapath = Datapath()
        seen = [info.cookie for info in datapath.flows()]
        return {
            "refused": _refusals(datapath, key),
            "seen": seen,
            "arms": len(datapath.arms()),
            "watchdog_ms": datapath.config().watchdog_ms,
        }

    answer = as_another(work)
    wrong = {name: said for name, said in dict(answer["refused"]).items() if said != "EPERM"}  # type: ignore[call-overload]
    require(not wrong, f"without rights: {wrong}")
    require(answer["seen"] == [key], f"sees {answer['seen']} of {key}")
    require(answer["watchdog_ms"] == 0, f"{answer}")
    require(flow.congestion == "m/cubic", flow.congestion)
    context.end(flow)


def without_rights_other_namespaces_are_invisible(context: Context) -> None:
    flow = context.flow()
    key = flow.cookie

    def work() -> dict[str, object]:
        enter("lb")
        give_up_rights()
        datapath = Datapath()
        try:
            datapath.flow(key)
        except FlowNotFoundError:
            one = "ENOENT"
        else:
            one = "seen"
        return {"all": [info.cookie for info in datapath.flows()], "one": one}

    answer = as_another(work)
    require(answer == {"all": [], "one": "ENOENT"}, f"seen from another namespace: {answer}")
    context.end(flow)


def a_user_namespace_rules_over_its_own_flows_alone(context: Context) -> None:
    flow = context.flow()
    key = flow.cookie
    kept_open: list[object] = []
    context.datapath.close_step()

    def work() -> dict[str, object]:
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
        sh("ip link set lo up")
        client, server = loopback()
        datapath = Datapath()
        # The session ends with its socket.
        kept_open.extend((client, server, datapath))
        mine = cookie(client)
        foreign = _refusals(datapath, key)
        seen = [info.cookie for info in datapath.flows()]
        applied = datapath.select(commands({mine: 3, key: 3})).applied
        client.send(bytes(3000))
        time.sleep(0.1)
        records = datapath.close_step()["cookie"].tolist()
        datapath.pin(mine, 4)
        client.send(bytes(3000))
        time.sleep(0.1)
        return {
            "mine": mine,
            "foreign": foreign,
            "seen": seen,
            "applied": applied,
            "records": records,
            "active": congestion(client),
        }

    def meanwhile() -> None:
        # The initial user namespace rules over all others.
        cookies = [info.cookie for info in context.datapath.flows()]
        require(len(cookies) == 2 and key in cookies, f"root sees {cookies}")
        other = next(c for c in cookies if c != key)
        # It has a session of its own, which wins over the host's; but the host may pin.
        require(
            context.datapath.select(commands({other: 5})).unknown == 1, "the host steers the child's flow"
        )
        require(other not in context.datapath.close_step()["cookie"].tolist(), "and closes its steps")
        context.datapath.pin(other, 5)
        context.datapath.unpin(other)

    answer = as_another(work, meanwhile)
    mine = answer["mine"]
    require(answer["seen"] == [mine] and answer["records"] == [mine], f"sees more than its own: {answer}")
    require(answer["applied"] == 1, f"{answer}")
    require(answer["active"] == "m/westwood", f"{answer}")
    expected = {
        "session-open": "answered",
        "step-get": "answered",
        "select": "answered 1",
        "control": "answered 1",
        "pin": "ENOENT",
        "unpin": "ENOENT",
        "arm-load": "EPERM",
        "config-set": "EPERM",
        "events": "answered",
    }
    require(answer["foreign"] == expected, f"{answer['foreign']}")
    require(flow.congestion == "m/cubic", "the other's flow was changed")
    require(context.datapath.config().watchdog_ms == 0, "the settings were changed")
    context.end(flow)


def a_container_rules_over_its_own_flows_alone(context: Context) -> None:
    """CAP_NET_ADMIN in the initial user namespace, as an ordinary container has it."""
    flow = context.flow()
    key = flow.cookie
    kept_open: list[object] = []
    context.datapath.close_step()

    def work() -> dict[str, object]:
        unshare(CLONE_NEWNET)
        sh("ip link set lo up")
        client, server = loopback()
        datapath = Datapath()
        # The session ends with its socket.
        kept_open.extend((client, server, datapath))
        mine = cookie(client)
        answer = {"foreign": _refusals(datapath, key), "seen": [info.cookie for info in datapath.flows()]}
        applied = datapath.select(commands({mine: 3, key: 3})).applied
        client.send(bytes(3000))
        time.sleep(0.1)
        records = datapath.close_step()["cookie"].tolist()
        return {**answer, "mine": mine, "applied": applied, "records": records, "active": congestion(client)}

    answer = as_another(work)
    mine = answer["mine"]
    require(answer["seen"] == [mine] and answer["records"] == [mine], f"sees more than its own: {answer}")
    require(answer["applied"] == 1 and answer["active"] == "m/vegas", f"{answer}")
    expected = {
        "session-open": "answered",
        "step-get": "answered",
        "select": "answered 1",
        "control": "answered 1",
        "pin": "ENOENT",
        "unpin": "ENOENT",
        "arm-load": "EPERM",
        "config-set": "EPERM",
        "events": "answered",
    }
    require(answer["foreign"] == expected, f"{answer['foreign']}")
    require(flow.congestion == "m/cubic", "the host's flow was changed")
    require(context.datapath.config().watchdog_ms == 0, "the settings were changed")
    context.end(flow)


def events_stay_in_their_namespace(context: Context) -> None:
    with namespace("lb"):
        foreign = context.datapath.events()
    with namespace("la"):
        own = context.datapath.events()
    flow = context.flow()
    key = flow.cookie
    context.end(flow)
    told = [event.flow.cookie for event in own.read().events]
    require(told == [key, key], f"in the flow's namespace: {told}")
    require(not foreign.read().events, "told in another namespace")
    own.close()
    foreign.close()


CHECKS = (
    a_killed_daemon_leaves_its_flows_to_the_fallback_at_once,
    a_stopped_daemon_leaves_its_flows_after_the_watchdogs_time,
    a_killed_daemon_is_missed_without_a_watchdog_too,
    a_clean_restart_costs_no_flow_its_arm,
    one_socket_steers_and_others_look,
    a_flow_that_nobody_steers_stays_as_it_is,
    without_rights_one_may_look_and_not_touch,
    without_rights_other_namespaces_are_invisible,
    a_user_namespace_rules_over_its_own_flows_alone,
    a_container_rules_over_its_own_flows_alone,
    events_stay_in_their_namespace,
)
