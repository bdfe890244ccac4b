# SPDX-License-Identifier: Apache-2.0
"""Kinds of sockets and queues: IPv6 in its forms, Fast Open, listeners that change, fq and no queue."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ltp_switcher.daemon.datapath import FlowInfo
from ltp_switcher.daemon.datapath.protocol import FlowFlags

from .harness import Context, require, sh
from .net import Flow, choose, congestion, cookie, disconnect, ip, namespace, tc
from .steering import switch

GLOBAL = {"a": "2001:db8:1::1", "b": "2001:db8:1::2"}
TCP_FASTOPEN = 23
SYN_DATA = 32
"""TCPI_OPT_SYN_DATA of the kernel's `struct tcp_info`."""


def link_local(inside: str, device: str) -> str:
    """The link-local address of a device, once nobody else turns out to have it."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        shown = sh(f"ip -n {inside} -6 -o address show dev {device} scope link -tentative").stdout
        if shown:
            return shown.split()[3].partition("/")[0]
        time.sleep(0.1)
    raise AssertionError(f"{device} has no link-local address")


@contextmanager
def ipv6(context: Context) -> Iterator[dict[str, tuple[str, int]]]:
    """Addresses on the link: by side, the link-local one and the index of its device."""
    for side, address in GLOBAL.items():
        device = f"{context.link.name}v{side}"
        inside = f"{context.link.name}{side}"
        ip(f"-n {inside} address add {address}/64 dev {device} nodad")
    local: dict[str, tuple[str, int]] = {}
    for side in GLOBAL:
        device = f"{context.link.name}v{side}"
        address = link_local(f"{context.link.name}{side}", device)
        with namespace(f"{context.link.name}{side}"):
            local[side] = address, socket.if_nametoindex(device)
    try:
        yield local
    finally:
        for side, address in GLOBAL.items():
            ip(f"-n {context.link.name}{side} address del {address}/64 dev {context.link.name}v{side}")


def connect(context: Context, family: int, near: tuple[object, ...], far: tuple[object, ...]) -> Flow:
    """A connection under `mutant` between two addresses; the near side sends."""
    with namespace(f"{context.link.name}b"):
        listener = socket.socket(family)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(far)
    listener.listen()
    with namespace(f"{context.link.name}a"):
        client = socket.socket(family)
    choose(client, "mutant")
    client.bind(near)
    client.connect((*far[:1], listener.getsockname()[1], *far[2:]))
    flow = Flow(client, listener.accept()[0])
    listener.close()
    return flow


def moves_and_switches(context: Context, flow: Flow) -> FlowInfo:
    """Let a flow switch and send; whoever the module says it is."""
    context.traffic.add(flow)
    context.datapath.close_step()
    context.traffic.pump(0.2)
    for name in ("bbr", "veno"):
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
    step = context.datapath.close_step()
    require(flow.cookie in step["cookie"].tolist(), "the flow is in no step")
    info = context.datapath.flow(flow.cookie)
    context.end(flow)
    return info


def ends(info: FlowInfo) -> tuple[int, str, str]:
    """The family and the addresses of a flow."""
    return info.family, info.local_address, info.remote_address


def a_flow_over_global_ipv6_addresses(context: Context) -> None:
    with ipv6(context):
        flow = connect(context, socket.AF_INET6, (GLOBAL["a"], 0), (GLOBAL["b"], 0))
        info = moves_and_switches(context, flow)
    require(ends(info) == (socket.AF_INET6, GLOBAL["a"], GLOBAL["b"]), str(info))


def a_flow_over_link_local_addresses(context: Context) -> None:
    with ipv6(context) as local:
        near, far = ((address, 0, 0, index) for address, index in (local["a"], local["b"]))
        with namespace(f"{context.link.name}b"):
            listener = socket.socket(socket.AF_INET6)
        listener.bind(far)
        listener.listen()
        with namespace(f"{context.link.name}a"):
            client = socket.socket(socket.AF_INET6)
        choose(client, "mutant")
        client.connect((far[0], listener.getsockname()[1], 0, near[3]))
        flow = Flow(client, listener.accept()[0])
        listener.close()
        info = moves_and_switches(context, flow)
    require(ends(info) == (socket.AF_INET6, near[0], far[0]), str(info))


def a_flow_over_v4_mapped_addresses_is_one_of_ipv4(context: Context) -> None:
    flow = connect(context, socket.AF_INET6, ("::ffff:10.1.0.1", 0), ("::ffff:10.1.0.2", 0))
    info = moves_and_switches(context, flow)
    require(ends(info) == (socket.AF_INET, "10.1.0.1", "10.1.0.2"), str(info))


def a_fast_open_brings_its_first_data_in_the_syn(context: Context) -> None:
    """Both ends run `mutant`: the accepting one is a flow before the handshake is over."""
    for side in "ab":
        sh(f"ip netns exec l{side} sysctl -qw net.ipv4.tcp_fastopen=3")
    listener = context.link.listen("mutant")
    listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 16)
    greeting = bytes(500)
    for attempt in ("to get the cookie", "with the cookie"):
        client = context.link.client("mutant")
        client.sendto(greeting, socket.MSG_FASTOPEN, listener.getsockname())
        server, _ = listener.accept()
        require(server.recv(len(greeting), socket.MSG_WAITALL) == greeting, f"{attempt}: other data")
        known = {flow.cookie for flow in context.datapath.flows()}
        require(known == {cookie(client), cookie(server)}, f"{attempt}: {len(known)} flows of 2")
        with_data = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & SYN_DATA
        require(bool(with_data) == (attempt == "with the cookie"), f"{attempt}: options {with_data}")
        # What was sent before counts for this flow, too: its first byte came in the SYN.
        flow = Flow(server, client)
        moves_and_switches(context, flow)
    listener.close()
    require(not context.datapath.flows(), "flows are left")


def a_listener_that_changes_leaves_the_connections_it_has(context: Context) -> None:
    """Each child runs what its listener ran when it was born; and a listener is no flow itself."""
    listener = context.link.listen("mutant")
    children: list[socket.socket] = []
    clients: list[socket.socket] = []

    def accept(expected: str) -> socket.socket:
        client = context.link.client()
        client.connect(listener.getsockname())
        child = listener.accept()[0]
        clients.append(client)
        children.append(child)
        require(congestion(child) == expected, f"{congestion(child)} instead of {expected}")
        return child

    accept("m/cubic")
    context.datapath.set_config(default_arm=context.arm_id("westwood"))
    second = accept("m/westwood")
    context.datapath.set_config(default_arm=context.arm_id("cubic"))
    choose(listener, "m/bic")
    third = accept("m/bic")
    choose(listener, "m/ltp")
    accept("m/ltp")
    choose(listener, "reno")
    fifth = accept("reno")
    names = [congestion(child) for child in children]
    require(names == ["m/cubic", "m/westwood", "m/bic", "m/ltp", "reno"], f"{names}")
    flows = {flow.cookie: flow for flow in context.datapath.flows()}
    require(len(flows) == 4 and cookie(fifth) not in flows, f"{len(flows)} flows")
    pinned = bool(flows[cookie(third)].record[0]["flags"] & FlowFlags.PINNED)
    require(pinned, "a child of a listener with an arm of its own is not pinned")
    flow = Flow(second, clients[1])
    context.traffic.add(flow)
    switch(context.datapath, context.traffic, flow, context.arm_id("htcp"), "htcp")
    context.end(flow)
    for sock in (*children, *clients, listener):
        sock.close()


def a_flow_that_becomes_a_listener_is_none_any_more(context: Context) -> None:
    """Its children begin anew, on the default arm, whatever the flow ran before."""
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("bbr"), "bbr")
    context.traffic.flows.remove(flow)
    disconnect(flow.client)
    flow.server.close()
    listener = flow.client
    listener.bind(("10.1.0.1", 0))
    listener.listen()
    listener.setblocking(True)
    require(not context.datapath.flows(), "a listener is a flow")
    with namespace("lb"):
        client = socket.socket()
    client.connect(listener.getsockname())
    child = Flow(listener.accept()[0], client)
    require(congestion(child.client) == "m/cubic", congestion(child.client))
    require(context.datapath.flow(child.cookie).record[0]["switches"] == 0, "the child has a past")
    moves_and_switches(context, child)
    listener.close()


def _over(context: Context, discipline: str) -> None:
    """Switches among arms that pace and arms that do not, over this queue discipline."""
    tc("-n la qdisc del dev lva root")
    tc(f"-n la qdisc add dev lva root {discipline}")
    try:
        flow = context.flow()
        for name in ("bbr", "cubic", "ltp", "vegas", "bbr", "spine", "cubic"):
            switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
            before = flow.received
            context.traffic.pump(0.3)
            require(flow.received > before, f"under {name} nothing moves")
        context.end(flow)
    finally:
        tc("-n la qdisc del dev lva root")
        context.link.shape()


def flows_over_fq_switch(context: Context) -> None:
    """fq paces in the place of the socket."""
    _over(context, "fq")
    # The socket's own pacing comes back with the next flow.
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("bbr"), "bbr")
    context.end(flow)


def flows_without_a_queue_switch(context: Context) -> None:
    tc("-n la qdisc del dev lva root")
    shown = sh("tc -n la qdisc show dev lva").stdout
    context.link.shape()
    require("noqueue" in shown, shown)
    _over(context, "noqueue")


CHECKS = (
    a_flow_over_global_ipv6_addresses,
    a_flow_over_link_local_addresses,
    a_flow_over_v4_mapped_addresses_is_one_of_ipv4,
    a_fast_open_brings_its_first_data_in_the_syn,
    a_listener_that_changes_leaves_the_connections_it_has,
    a_flow_that_becomes_a_listener_is_none_any_more,
    flows_over_fq_switch,
    flows_without_a_queue_switch,
)
