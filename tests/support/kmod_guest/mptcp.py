# SPDX-License-Identifier: Apache-2.0
"""Multipath TCP: each subflow is a flow, and a join leaves the flows that are there alone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ltp_switcher.daemon.datapath import FlowInfo
from ltp_switcher.daemon.datapath.protocol import FlowFlags

from .harness import Context, require
from .net import Flow, choose, congestion, ip, namespace
from .steering import commands

SECOND = "10.1.0.9"
"""The client's other address."""


@contextmanager
def connection(context: Context, congestion_control: str) -> Iterator[Flow]:
    """A connection of Multipath TCP, on which the accepting side sends under this congestion control."""
    for side in "ab":
        ip(f"-n l{side} mptcp limits set subflow 2 add_addr_accepted 2")
    ip(f"-n la address add {SECOND}/24 dev lva")
    with namespace("lb"):
        listener = socket.socket(proto=socket.IPPROTO_MPTCP)
    choose(listener, congestion_control)
    listener.bind((context.link.address, 0))
    listener.listen()
    with namespace("la"):
        client = socket.socket(proto=socket.IPPROTO_MPTCP)
    client.connect(listener.getsockname())
    # A join needs the listener, so it stays open.
    flow = Flow(listener.accept()[0], client)
    context.datapath.close_step()
    context.traffic.add(flow)
    context.traffic.pump(0.2)
    try:
        yield flow
    finally:
        listener.close()
        ip("-n la mptcp endpoint flush")
        ip(f"-n la address del {SECOND}/24 dev lva")


def join(context: Context) -> None:
    """Let the client open a subflow from its other address, to the side that accepts."""
    ip(f"-n la mptcp endpoint add {SECOND} dev lva subflow")
    joined = context.traffic.pump(5, lambda: len(context.datapath.flows()) == 2)
    require(joined, f"{len(context.datapath.flows())} subflows of 2")
    context.traffic.pump(0.3)


def subflows(context: Context) -> tuple[FlowInfo, FlowInfo]:
    """The flow to the client's first address, and the one to its other address."""
    by_address = {
        flow.remote_address: context.datapath.flow(flow.cookie) for flow in context.datapath.flows()
    }
    require(set(by_address) == {"10.1.0.1", SECOND}, f"{set(by_address)}")
    return by_address["10.1.0.1"], by_address[SECOND]


def arm(flow: FlowInfo) -> int:
    """The id of the flow's arm."""
    return int(flow.record[0]["arm"])


def a_passive_join_leaves_the_first_subflow_alone(context: Context) -> None:
    vegas, bic = context.arm_id("vegas"), context.arm_id("bic")
    with connection(context, "mutant") as flow:
        (before,) = context.datapath.flows()
        context.datapath.select(commands({before.cookie: vegas}))
        require(
            context.traffic.pump(2, lambda: congestion(flow.client) == "m/vegas"), congestion(flow.client)
        )
        join(context)
        first, second = subflows(context)
        require(first.cookie == before.cookie, "the first subflow was born again")
        require(arm(first) == vegas, f"the first subflow runs arm {arm(first)}")
        require(first.record[0]["switches"] == 1, f"{first.record[0]['switches']} switches")
        result = context.datapath.select(commands({second.cookie: bic}))
        require(result.applied == 1, f"the second subflow: {result}")
        context.traffic.pump(0.5)
        first, second = subflows(context)
        require((arm(first), arm(second)) == (vegas, bic), f"{arm(first)}, {arm(second)}")
        context.end(flow)
    # The protocol's worker ends the subflows.
    require(context.traffic.pump(2, lambda: not context.datapath.flows()), "a closed connection leaves flows")


def a_join_takes_over_what_the_application_chose(context: Context) -> None:
    vegas = context.arm_id("vegas")
    with connection(context, "mutant") as flow:
        choose(flow.client, "m/vegas")
        require(congestion(flow.client) == "m/vegas", congestion(flow.client))
        join(context)
        for subflow in subflows(context):
            require(arm(subflow) == vegas, f"a subflow runs arm {arm(subflow)}")
            flags = subflow.record[0]["flags"]
            require(bool(flags & FlowFlags.PINNED), "the application's choice does not pin")
        context.end(flow)


CHECKS = (
    a_passive_join_leaves_the_first_subflow_alone,
    a_join_takes_over_what_the_application_chose,
)
