# SPDX-License-Identifier: Apache-2.0
"""A step tells of the flows with something to tell, each once, whoever asks and whenever."""

from __future__ import annotations

import time
from itertools import pairwise

from ltp_switcher.daemon.datapath import Datapath
from ltp_switcher.daemon.datapath.protocol import FallbackReason

from .harness import Context, require
from .net import Flow, Link, namespace
from .steering import switch

WATCHDOG_MS = 300
QUIET_S = 3 * WATCHDOG_MS / 1000
RTT_MS = 40


def quiet(context: Context, flow: Flow) -> None:
    """Let what is under way arrive, and close the step."""
    flow.talking = False
    context.traffic.pump(1)
    context.datapath.close_step()


def say(context: Context, flow: Flow) -> None:
    """A packet and its ACK."""
    context.traffic.send(flow, 100)
    context.traffic.pump(0.1)


def to_ask_for_steps_keeps_idle_flows_on_their_arms(context: Context) -> None:
    """An idle flow is in no step, and its session's requests are a sign of life all the same."""
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
    quiet(context, flow)
    context.datapath.set_config(watchdog_ms=WATCHDOG_MS)
    until = time.monotonic() + QUIET_S
    while time.monotonic() < until:
        time.sleep(0.05)
        require(not len(context.datapath.close_step()), "an idle flow is in a step")
    say(context, flow)
    require(flow.congestion == "m/vegas", f"with a session that asks: {flow.congestion}")
    quiet(context, flow)
    time.sleep(QUIET_S)
    say(context, flow)
    info = context.datapath.flow(flow.cookie)
    require(flow.congestion == "m/cubic", f"with a silent session: {flow.congestion}")
    require(info.reason == FallbackReason.SILENCE, str(info))
    context.datapath.set_config(watchdog_ms=0)
    context.end(flow)


def an_open_step_waits_for_the_next_session(context: Context) -> None:
    flow = context.flow()
    quiet(context, flow)
    before = int(context.datapath.flow(flow.cookie).record[0]["total_acked_bytes"])
    say(context, flow)
    context.datapath.close_session(60_000)
    with Datapath() as other:
        other.open_session()
        first, second = other.close_step(), other.close_step()
        other.close_session(60_000)
    context.datapath.open_session()
    require(first["cookie"].tolist() == [flow.cookie], f"told of {first['cookie']}")
    require(int(first["acked_bytes"][0]) == 100, f"{first['acked_bytes']} bytes")
    require(int(first["total_acked_bytes"][0]) == before + 100, f"{first['total_acked_bytes']} in all")
    require(not len(second), "told twice")
    context.end(flow)


def the_host_takes_a_containers_open_steps_over(context: Context) -> None:
    """While a container has a session, its steps are its own. What is open at the end is the host's."""
    flow = context.flow()
    quiet(context, flow)
    with namespace("la"):
        container = Datapath()
    container.open_session()
    say(context, flow)
    require(not len(context.datapath.close_step()), "the host closes a container's step")
    require(container.close_step()["cookie"].tolist() == [flow.cookie], "the container is not told")
    say(context, flow)
    require(not len(context.datapath.close_step()), "the host closes a container's step")
    container.close()
    left = context.datapath.close_step()
    require(left["cookie"].tolist() == [flow.cookie], "the open step is told to nobody")
    require(int(left["acked_bytes"][0]) == 100, f"{left['acked_bytes']} bytes")
    require(not len(context.datapath.close_step()), "told twice")
    context.end(flow)


def flows_of_many_namespaces_are_told_once_each(context: Context) -> None:
    other = Link.create("t", 7)
    flows = [link.connect("mutant") for link in (context.link, other) for _ in range(60)]
    cookies = {flow.cookie for flow in flows}
    context.datapath.close_step()
    for count in (1, 2):
        for flow in flows:
            flow.client.send(bytes(100))
        time.sleep(1)
        told = context.datapath.close_step()
        require(len(told) == len(flows) and set(told["cookie"].tolist()) == cookies, f"{len(told)} records")
        require(bool((told["total_acked_bytes"] == 100 * count).all()), "bytes are missing")
    with namespace("ta"):
        inside = Datapath()
    seen = {flow.cookie for flow in inside.flows()}
    require(seen == {flow.cookie for flow in flows[60:]}, f"{len(seen)} flows seen from inside")
    inside.close()
    for flow in flows:
        flow.client.close()
        flow.server.close()


def foreign_flows_cost_the_host_nothing(context: Context) -> None:
    """A container's own session closes no step: its flows wait for it, and the host does not meet them."""
    count, tries = 200, 20

    def least_us() -> float:
        # A nanosecond of the lab is an instruction.
        taken = []
        for _ in range(tries):
            began_ns = time.perf_counter_ns()
            require(not len(context.datapath.close_step()), "the host closes a container's step")
            taken.append(time.perf_counter_ns() - began_ns)
        return min(taken) / 1e3

    with namespace("la"):
        container = Datapath()
    container.open_session()
    context.datapath.close_step()
    before_us = least_us()
    flows = [context.link.connect("mutant") for _ in range(count)]
    for flow in flows:
        flow.client.send(bytes(100))
    time.sleep(0.5)
    after_us = least_us()
    context.notes["a step beside 200 foreign flows, 1000 instructions"] = [before_us, after_us]
    # One look at a flow takes 300 instructions.
    require(after_us < before_us + count * 0.03, f"{after_us} µs instead of {before_us}")
    container.close_step()
    for flow in flows:
        flow.client.send(bytes(100))
    time.sleep(0.5)
    require(len(container.close_step()) == count, "the container is not told of its flows")
    container.close()
    for flow in flows:
        flow.client.close()
        flow.server.close()


def a_step_lasts_quarters_of_the_rtt(context: Context) -> None:
    context.link.shape(delay_ms=RTT_MS // 2)
    context.datapath.open_session(rtt_quarters=4)
    flow = context.flow()
    records = []
    until = time.monotonic() + 3
    while time.monotonic() < until:
        context.traffic.pump(0.005)
        records += list(context.datapath.close_step())
    flow.talking = False
    context.traffic.pump(2)
    records += list(context.datapath.close_step())
    total = context.datapath.flow(flow.cookie).record[0]
    context.datapath.open_session()
    context.end(flow)
    context.link.shape()
    require(20 < len(records) < 3000 / RTT_MS + 2, f"{len(records)} steps")
    for before, record in pairwise(records):
        lasted_us = int(record["interval_ns"]) / 1000
        require(lasted_us >= before["srtt_us"], f"{lasted_us} µs at an RTT of {before['srtt_us']}")
    summed = sum(int(record["acked_bytes"]) for record in records)
    require(summed == int(total["total_acked_bytes"]), f"{summed} of {total['total_acked_bytes']} bytes")


CHECKS = (
    to_ask_for_steps_keeps_idle_flows_on_their_arms,
    an_open_step_waits_for_the_next_session,
    the_host_takes_a_containers_open_steps_over,
    flows_of_many_namespaces_are_told_once_each,
    foreign_flows_cost_the_host_nothing,
    a_step_lasts_quarters_of_the_rtt,
)
