# SPDX-License-Identifier: Apache-2.0
"""Callers without rights, and namespaces that must not see each other."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable

from ltp_switcher.daemon.datapath import (
    Datapath,
    FlowNotFoundError,
    PermissionDeniedError,
)
from ltp_switcher.daemon.datapath.protocol import ControlLaw
from ltp_switcher.errors import DatapathError

from .harness import Context, require, sh
from .loading import loopback
from .net import CLONE_NEWNET, CLONE_NEWUSER, congestion, cookie, enter, namespace, unshare
from .steering import commands, control

NOBODY = 65534
OWN_FLOWS_ALONE = {
    "session-open": "answered",
    "step-get": "answered",
    "select": "answered 1",
    "control": "answered 1",
    "pin": "ENOENT",
    "unpin": "ENOENT",
    "arm-load": "EPERM",
    "config-set": "EPERM",
    "events": "answered",
    "start-get": "answered",
}
"""How `_refusals` goes, for a flow of another namespace, with rights in one's own alone."""


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
    """How each operation that takes rights is answered for a flow."""
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
        # It tells of everybody's destinations.
        "start-get": datapath.starts,
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
    require(answer["foreign"] == OWN_FLOWS_ALONE, f"{answer['foreign']}")
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
    require(answer["foreign"] == OWN_FLOWS_ALONE, f"{answer['foreign']}")
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
    without_rights_one_may_look_and_not_touch,
    without_rights_other_namespaces_are_invisible,
    a_user_namespace_rules_over_its_own_flows_alone,
    a_container_rules_over_its_own_flows_alone,
    events_stay_in_their_namespace,
)
