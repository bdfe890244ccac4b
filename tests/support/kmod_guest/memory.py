# SPDX-License-Identifier: Apache-2.0
"""A flow is small until it is measured, loses nothing of its life before, and is one of a limited number."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from ltp_switcher.daemon.datapath import FlowNotFoundError
from ltp_switcher.daemon.datapath.protocol import Cmd, ControlLaw

from .harness import Context, require
from .loading import loopback
from .net import Flow, Link, TcpInfo, cookie
from .steering import commands, control
from .switching import in_use

PARTS = ("mutant_flow", "mutant_measures", "mutant_past", "mutant_slot", "mutant_learned")


def size_bytes(cache: str) -> int:
    """Memory of one object of a slab cache, padding included."""
    return int(Path(f"/sys/kernel/slab/{cache}/slab_size").read_text())


def finish(flow: Flow) -> None:
    """End a flow whose data the check has sent by itself."""
    flow.client.shutdown(socket.SHUT_WR)
    while flow.server.recv(1 << 16):
        pass
    flow.server.close()
    time.sleep(0.2)
    flow.client.close()


def a_flow_grows_when_it_is_measured_switched_controlled(context: Context) -> None:
    count = 20
    before = {part: in_use(part) for part in PARTS}

    def grown() -> dict[str, int]:
        return {part: in_use(part) - before[part] for part in PARTS}

    def talk() -> None:
        for flow in flows:
            flow.client.send(bytes(1000))
        time.sleep(0.3)

    flows = [context.link.connect("mutant") for _ in range(count)]
    talk()
    small = grown()
    require(small == dict(zip(PARTS, (count, 0, 0, 0, 0), strict=True)), f"{small}")
    context.datapath.close_step()
    talk()
    measured = grown()
    require(measured == dict(zip(PARTS, (count, count, 0, 0, 0), strict=True)), f"{measured}")
    first = flows[0].cookie
    context.datapath.select(commands({first: context.arm_id("vegas")}))
    context.datapath.control(control(first, context.arm_id("ltp"), ControlLaw.WINDOW, (20,)))
    talk()
    steered = grown()
    require(steered == dict(zip(PARTS, (count, count, 1, 1, 1), strict=True)), f"{steered}")
    sizes = {part: size_bytes(part) for part in PARTS}
    # The table of sockets has at least a bucket for every flow and a third, the index of cookies 9 bytes.
    tables = 8 * 4 / 3 + 9
    context.notes["bytes of an object"] = sizes
    require(sizes["mutant_flow"] + tables <= 512, f"{sizes}")
    require(sizes["mutant_flow"] + sizes["mutant_measures"] + tables <= 2560, f"{sizes}")
    for flow in flows:
        finish(flow)
    time.sleep(0.5)
    left = {part: amount for part, amount in grown().items() if amount}
    require(not left, f"{left} left behind")


def what_came_before_is_in_the_first_step(context: Context) -> None:
    flow = context.link.connect("mutant")
    flow.client.send(bytes(3000))
    time.sleep(0.5)
    require(not len(context.datapath.close_step()), "a flow that nobody had asked about is in the step")
    flow.client.send(bytes(100))
    time.sleep(0.5)
    step = context.datapath.close_step()
    require(len(step) == 1, f"{len(step)} records")
    record, credit = step[0], step[0]["credit"][0]
    told = (int(record["acked_bytes"]), int(record["total_acked_bytes"]), int(credit["acked_bytes"]))
    require(told == (3100, 3100, 3100), f"{told} of 3100 bytes")
    require(int(record["samples"]) == 1, f"{record['samples']} samples of one ACK")
    # The time in which these bytes came is the flow's life, or its throughput would be too high.
    require(500_000_000 < int(credit["time_ns"]) <= int(record["interval_ns"]), f"{credit}")
    finish(flow)


def a_look_at_an_unmeasured_flow_tells_how_its_socket_stands(context: Context) -> None:
    flow = context.link.connect("mutant")
    flow.client.send(bytes(30_000))
    time.sleep(1)
    record, info = context.datapath.flow(flow.cookie).record[0], TcpInfo.of(flow.client)
    wanted = {
        "snd_cwnd": info.snd_cwnd,
        "srtt_us": info.srtt_us,
        "total_acked_bytes": 30_000,
        "arm": context.arm_id("cubic"),
        "samples": 0,
    }
    told = {name: int(record[name]) for name in wanted}
    require(told == wanted, f"{told} instead of {wanted}")
    finish(flow)


def the_death_of_an_unmeasured_flow_tells_its_totals(context: Context) -> None:
    events = context.datapath.events()
    flow = context.link.connect("mutant")
    cookie = flow.cookie
    flow.client.send(bytes(5000))
    time.sleep(0.5)
    srtt_us = TcpInfo.of(flow.client).srtt_us
    finish(flow)
    time.sleep(0.1)
    told = [(event.kind, event.flow) for event in events.read().events if event.flow.cookie == cookie]
    events.close()
    require([kind for kind, _ in told] == [Cmd.FLOW_BIRTH, Cmd.FLOW_DEATH], f"{told}")
    record = told[1][1].record[0]
    # The FIN takes a byte of sequence space.
    require(int(record["total_acked_bytes"]) in (5000, 5001), f"{record['total_acked_bytes']} bytes")
    require(abs(int(record["srtt_us"]) - srtt_us) < srtt_us / 2, f"{record['srtt_us']} of {srtt_us} µs")


def flows_to_one_destination_are_siblings(context: Context) -> None:
    flows = [context.flow() for _ in range(3)]
    context.traffic.pump(0.5)
    told = [int(context.datapath.flow(flow.cookie).record["siblings"][0]) for flow in flows]
    require(told == [3, 3, 3], f"{told}")
    context.end(flows[0])
    context.traffic.pump(0.5)
    told = [int(context.datapath.flow(flow.cookie).record["siblings"][0]) for flow in flows[1:]]
    require(told == [2, 2], f"{told} after one has ended")
    context.end(*flows[1:])


def a_socket_beyond_the_limit_is_no_flow(context: Context) -> None:
    time.sleep(0.5)
    config, before = context.datapath.config(), context.datapath.flow_counts()
    # They are in a namespace other than the initial one, which has a quarter.
    context.datapath.set_config(flows_max=4 * (before.flows + 1))
    flow, other = context.flow(), context.link.connect("mutant")
    require(other.congestion == "m/cubic", other.congestion)
    try:
        context.datapath.flow(other.cookie)
    except FlowNotFoundError:
        pass
    else:
        raise AssertionError("one flow too many")
    other.client.sendall(bytes(20_000))
    refused = context.datapath.flow_counts().refused - before.refused
    require(refused == 1, f"{refused} refusals are counted")
    finish(other)
    context.end(flow)
    context.datapath.set_config(flows_max=config.flows_max)
    again = context.flow()
    context.datapath.flow(again.cookie)
    context.end(again)


def is_flow(context: Context, sock: socket.socket) -> bool:
    """Whether the module knows a socket."""
    try:
        context.datapath.flow(cookie(sock))
    except FlowNotFoundError:
        return False
    return True


def a_namespace_leaves_flows_to_others(context: Context) -> None:
    """One has a quarter of `flows_max`, all but the host's have half, and the host's has what is left."""
    time.sleep(0.5)
    config, before = context.datapath.config(), context.datapath.flow_counts()
    require(not before.flows, f"{before.flows} flows are left of other checks")
    links = [context.link, Link.create("p", 8), Link.create("q", 9)]
    context.datapath.set_config(flows_max=12)
    flows = [[link.connect("mutant") for _ in range(5)] for link in links]
    known = [sum(is_flow(context, flow.client) for flow in some) for some in flows]
    require(known == [3, 3, 0], f"{known} of five flows each in three namespaces")
    ours = [loopback() for _ in range(8)]
    known = [is_flow(context, client) for client, _ in ours]
    require(known == [True] * 6 + [False] * 2, f"the host's: {known}")
    # What ends makes room in its own namespace, and among all of them.
    finish(flows[0][0])
    time.sleep(0.2)
    again = [link.connect("mutant") for link in links]
    known = [is_flow(context, flow.client) for flow in again]
    require(known == [True, False, False], f"{known}")
    for flow in [*again, *(flow for some in flows for flow in some)]:
        if flow.client.fileno() >= 0:
            finish(flow)
    for pair in ours:
        for sock in pair:
            sock.close()
    context.datapath.set_config(flows_max=config.flows_max)
    time.sleep(0.5)
    left = context.datapath.flow_counts().flows
    require(not left, f"{left} flows are left")


CHECKS = (
    a_flow_grows_when_it_is_measured_switched_controlled,
    what_came_before_is_in_the_first_step,
    a_look_at_an_unmeasured_flow_tells_how_its_socket_stands,
    the_death_of_an_unmeasured_flow_tells_its_totals,
    flows_to_one_destination_are_siblings,
    a_socket_beyond_the_limit_is_no_flow,
    a_namespace_leaves_flows_to_others,
)
