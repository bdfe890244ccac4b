# SPDX-License-Identifier: Apache-2.0
"""How a connection comes under `mutant`, stays there, and leaves: whose choice wins, and events."""

from __future__ import annotations

import socket

from ltp_switcher.daemon.datapath import FlowNotFoundError
from ltp_switcher.daemon.datapath.protocol import Cmd, FlowFlags

from .harness import Context, require
from .loading import loopback
from .net import Flow, choose, congestion, cookie, disconnect, enter, ip
from .rights import as_another, give_up_rights
from .steering import commands, switch


def chosen_by_sysctl(context: Context) -> None:
    setting = "netns exec la sysctl -qw net.ipv4.tcp_congestion_control="
    ip(setting + "mutant")
    flow = context.flow(None)
    require(flow.congestion == "m/cubic", flow.congestion)
    context.datapath.flow(flow.cookie)
    context.end(flow)
    ip(setting + "cubic")


def chosen_by_route(context: Context) -> None:
    route = "-n la route replace 10.1.0.0/24 dev lva src 10.1.0.1 "
    ip(route + "congctl mutant")
    flow = context.flow(None)
    require(flow.congestion == "m/cubic", flow.congestion)
    context.datapath.flow(flow.cookie)
    # What the application chooses on the open connection wins over the route.
    choose(flow.client, "bic")
    require(flow.congestion == "bic", flow.congestion)
    context.end(flow)
    ip(route)


def the_applications_own_choice_wins(context: Context) -> None:
    flow = context.flow()
    events = context.datapath.events()
    vegas = context.arm_id("vegas")
    context.datapath.pin(flow.cookie, vegas)
    choose(flow.client, "reno")
    require(flow.congestion == "reno", flow.congestion)
    try:
        context.datapath.flow(flow.cookie)
    except FlowNotFoundError:
        pass
    else:
        raise AssertionError("the flow is still known")
    result = context.datapath.select(commands({flow.cookie: vegas}))
    require((result.applied, result.unknown) == (0, 1), str(result))
    context.traffic.pump(0.3)
    require(flow.congestion == "reno", flow.congestion)
    choose(flow.client, "mutant")
    context.traffic.pump(0.1)
    require(context.datapath.flow(flow.cookie).record[0]["switches"] == 0, "it is not a new flow")
    require(flow.congestion == "m/cubic", flow.congestion)
    switch(context.datapath, context.traffic, flow, vegas, "vegas")
    kinds = [event.kind for event in events.read().events]
    events.close()
    require(kinds == [Cmd.FLOW_DEATH, Cmd.FLOW_BIRTH], f"events {kinds}")
    context.end(flow)


def what_an_application_is_shown_it_may_set(context: Context) -> None:
    """A program that saves and restores the name, or sets and verifies it, keeps its connection's arm."""
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
    shown = flow.congestion
    choose(flow.client, shown)
    require(flow.congestion == shown == "m/vegas", flow.congestion)
    context.traffic.pump(0.1)
    result = context.datapath.select(commands({flow.cookie: context.arm_id("bic")}))
    # The same name changes nothing, as for any congestion control.
    require(result.applied == 1, str(result))
    choose(flow.client, "reno")
    choose(flow.client, "m/vegas")
    context.traffic.pump(0.1)
    require(flow.congestion == "m/vegas", flow.congestion)
    flags = context.datapath.flow(flow.cookie).record[0]["flags"]
    require(bool(flags & FlowFlags.PINNED), "the application's choice does not pin")
    result = context.datapath.select(commands({flow.cookie: context.arm_id("bic")}))
    require(result.refused == 1, str(result))
    asked = context.flow("m/westwood")
    require(asked.congestion == "m/westwood", asked.congestion)
    listener = context.link.listen("m/htcp")
    client = context.link.client()
    client.connect(listener.getsockname())
    child, _ = listener.accept()
    require(congestion(child) == "m/htcp", congestion(child))
    for sock in (child, client, listener):
        sock.close()
    context.end(flow, asked)


def an_unprivileged_application_may_choose_mutant(context: Context) -> None:
    """And a connection, whatever it then runs: by itself nobody may choose vegas."""

    def work() -> dict[str, object]:
        enter("la")
        give_up_rights()
        client, server = loopback("mutant")
        with socket.socket() as other:
            try:
                choose(other, "vegas")
            except PermissionError:
                vegas = "EPERM"
            else:
                vegas = "chosen"
        client.sendall(bytes(3000))
        received = len(server.recv(3000, socket.MSG_WAITALL))
        return {"active": congestion(client), "received": received, "vegas": vegas}

    answer = as_another(work)
    require(answer == {"active": "m/cubic", "received": 3000, "vegas": "EPERM"}, f"{answer}")


def a_pinned_flow_is_left_alone(context: Context) -> None:
    flow, other = context.flow(), context.flow()
    hybla, bic = context.arm_id("hybla"), context.arm_id("bic")
    context.datapath.pin(flow.cookie, hybla)
    context.traffic.pump(5, lambda: flow.congestion == "m/hybla")
    require(flow.congestion == "m/hybla", flow.congestion)
    require(bool(context.datapath.flow(flow.cookie).record[0]["flags"] & FlowFlags.PINNED), "not flagged")
    result = context.datapath.select(commands({flow.cookie: bic, other.cookie: bic}))
    require((result.applied, result.refused) == (1, 1), str(result))
    context.traffic.pump(0.3)
    require((flow.congestion, other.congestion) == ("m/hybla", "m/bic"), f"{flow} {other}")
    context.datapath.unpin(flow.cookie)
    switch(context.datapath, context.traffic, flow, bic, "bic")
    context.end(flow, other)


def a_batch_counts_what_it_cannot_do(context: Context) -> None:
    flow = context.flow()
    batch = commands({flow.cookie: 4, 12345: 4})
    result = context.datapath.select(batch)
    require((result.applied, result.unknown, result.refused) == (1, 1, 0), str(result))
    result = context.datapath.select(commands({flow.cookie: 19}))
    require((result.applied, result.unknown, result.refused) == (0, 0, 1), str(result))
    result = context.datapath.select(commands({flow.cookie: 4} | dict.fromkeys(range(1, 10000), 4)))
    require(result.applied == 1, str(result))
    require(result.applied + result.unknown + result.refused >= 10000 - 8, str(result))
    context.end(flow)


def reconnected_after_disconnect(context: Context) -> None:
    client = context.link.client("mutant")
    for _ in range(2):
        listener = context.link.listen()
        client.setblocking(True)
        client.connect(listener.getsockname())
        flow = Flow(client, listener.accept()[0])
        listener.close()
        context.traffic.add(flow)
        context.traffic.pump(0.1)
        require(flow.congestion == "m/cubic", flow.congestion)
        switch(context.datapath, context.traffic, flow, context.arm_id("bbr"), "bbr")
        switch(context.datapath, context.traffic, flow, context.arm_id("illinois"), "illinois")
        context.traffic.flows.remove(flow)
        disconnect(client)
        require(not context.datapath.flows(), "a disconnected socket is still a flow")
        flow.server.close()
    client.close()


def a_listeners_children_are_flows(context: Context) -> None:
    listener = context.link.listen("mutant")
    require(not context.datapath.flows(), "a listener is not a flow")
    client = context.link.client()
    client.connect(listener.getsockname())
    child, _ = listener.accept()
    require(congestion(child).startswith("m/") and congestion(client) == "cubic", congestion(child))
    require([flow.cookie for flow in context.datapath.flows()] == [cookie(child)], "the child is unknown")
    # The child sends, the client receives.
    flow = Flow(child, client)
    context.traffic.add(flow)
    switch(context.datapath, context.traffic, flow, context.arm_id("htcp"), "htcp")
    info = context.datapath.flow(flow.cookie)
    ends = (info.local_address, info.local_port, info.remote_address, info.remote_port)
    require(ends == (*child.getsockname(), *child.getpeername()), f"{ends}")
    require(info.family == socket.AF_INET, str(info.family))
    listener.close()
    context.end(flow)


def ipv6_flows_are_known_by_their_addresses(context: Context) -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        listener.listen()
        client = socket.socket(socket.AF_INET6)
        choose(client, "mutant")
        client.connect(listener.getsockname())
        flow = Flow(client, listener.accept()[0])
    context.traffic.add(flow)
    switch(context.datapath, context.traffic, flow, context.arm_id("veno"), "veno")
    info = context.datapath.flow(flow.cookie)
    ends = (info.local_address, info.local_port, info.remote_address, info.remote_port)
    require(ends == (*client.getsockname()[:2], *client.getpeername()[:2]), f"{ends}")
    context.end(flow)


def births_and_deaths_are_told(context: Context) -> None:
    events = context.datapath.events()
    flows = [context.flow() for _ in range(5)]
    cookies = [flow.cookie for flow in flows]
    context.end(*flows)
    batch = events.read()
    events.close()
    require(not batch.lost, "events were lost")
    for kind in (Cmd.FLOW_BIRTH, Cmd.FLOW_DEATH):
        told = [event.flow.cookie for event in batch.events if event.kind == kind]
        require(sorted(told) == sorted(cookies), f"{kind.name}: {told} instead of {cookies}")
    totals = {e.flow.cookie: e.flow.record[0] for e in batch.events if e.kind == Cmd.FLOW_DEATH}
    for flow, key in zip(flows, cookies, strict=True):
        acked = int(totals[key]["total_acked_bytes"])
        # The FIN takes a byte of sequence space.
        require(acked in (flow.sent, flow.sent + 1), f"{acked} acknowledged of {flow.sent} sent")


CHECKS = (
    # First, because a sysctl that names a protocol may allow it to everybody.
    an_unprivileged_application_may_choose_mutant,
    chosen_by_sysctl,
    chosen_by_route,
    the_applications_own_choice_wins,
    what_an_application_is_shown_it_may_set,
    a_pinned_flow_is_left_alone,
    a_batch_counts_what_it_cannot_do,
    reconnected_after_disconnect,
    a_listeners_children_are_flows,
    ipv6_flows_are_known_by_their_addresses,
    births_and_deaths_are_told,
)
