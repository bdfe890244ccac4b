# SPDX-License-Identifier: Apache-2.0
"""Every flow has an outcome at its end, and a long one every 10 s, however short or idle it was."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ltp_switcher.daemon.datapath import Datapath, OutcomeArray, RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import OUTCOME_ONE, StartCause

from .harness import Context, require
from .net import Flow, TcpInfo, choose, namespace
from .starting import table
from .steering import switch

RTT_MS, RATE_MBIT = 20, 20


@contextmanager
def asking(context: Context, most: int = 64) -> Iterator[Datapath]:
    """The session asks for outcomes; what waited before is gone."""
    context.link.shape(rate_mbit=RATE_MBIT, delay_ms=RTT_MS // 2)
    context.datapath.open_session(outcomes_max=most)
    try:
        yield context.datapath
    finally:
        context.datapath.open_session()
        context.link.shape()


def receive(flow: Flow, size: int) -> None:
    while size:
        size -= len(flow.server.recv(min(size, 1 << 16)))


def carry(flow: Flow, size: int) -> float:
    """Send so many bytes, wait for them at the other side, and return the time that both took, s."""
    began_s = time.monotonic()
    flow.client.sendall(bytes(size))
    receive(flow, size)
    return time.monotonic() - began_s


def close(*flows: Flow) -> None:
    """End both sides, and let the flows go."""
    for flow in flows:
        flow.client.shutdown(socket.SHUT_WR)
        flow.server.close()
    time.sleep(0.3)
    for flow in flows:
        flow.client.close()


def only(outcomes: OutcomeArray, cookie: int) -> np.void:
    """The one outcome of a flow."""
    found = outcomes[outcomes["cookie"] == cookie]
    require(len(found) == 1, f"{len(found)} outcomes of {cookie} among {outcomes['cookie']}")
    one: np.void = found[0]
    return one


def a_flow_that_nobody_measured_has_an_outcome(context: Context) -> None:
    with asking(context) as datapath:
        flow = context.link.connect("mutant")
        cookie, port = flow.cookie, flow.client.getpeername()[1]
        own_port = flow.client.getsockname()[1]
        took_s = carry(flow, 40_000)
        time.sleep(1)
        took_s += carry(flow, 20_000)
        info = TcpInfo.of(flow.client)
        close(flow)
        told = datapath.outcomes()
        require(told.dropped == 0, f"{told.dropped} dropped")
        found = only(told.outcomes, cookie)
        require(not len(datapath.outcomes().outcomes), "told twice")
    require(bool(found["ended"]) and found["cause"] == StartCause.DEFAULT, f"{found}")
    require(found["daddr"].tobytes() == socket.inet_aton("10.1.0.2") + bytes(12), f"{found}")
    require((found["family"], found["sport"], found["dport"]) == (socket.AF_INET, own_port, port), f"{found}")
    # The FIN counts as a byte.
    require(int(found["acked_bytes"]) in (60_000, 60_001), f"{found['acked_bytes']} bytes")
    require(int(found["delivered"]) >= info.delivered - 1, f"{found['delivered']} of {info.delivered}")
    require((found["arm"], found["share_arm"][0]) == (context.arm_id("cubic"),) * 2, f"{found}")
    require(found["share"].tolist() == [OUTCOME_ONE, 0, 0, 0], f"{found}")
    # The handshake and the FIN take an RTT each, the last ACKs half of one and a delay of 40 ms at most.
    extra_s = float(found["busy_us"]) / 1e6 - took_s
    require(
        0.5 * RTT_MS < extra_s * 1e3 < 3.5 * RTT_MS + 80,
        f"busy for {found['busy_us']} µs, data for {took_s} s",
    )
    require(RTT_MS * 1000 <= found["rtt_min_us"] < RTT_MS * 1500, f"{found['rtt_min_us']}")
    mean_us = found["rtt_us_sum"] / found["rtt_samples"]
    require(found["rtt_min_us"] <= mean_us < 3 * found["rtt_min_us"], f"{mean_us}")
    require(RATE_MBIT / 32 < found["rate_max"] / 1e6 < RATE_MBIT / 6, f"{found['rate_max']} bytes/s")
    require(found["slow_start_cwnd"] >= 20, f"{found['slow_start_cwnd']}")
    require(found["age_ns"] > 1e9 + took_s * 1e9, f"{found['age_ns']}")


def waits_for_the_receiver_do_not_count_and_timeouts_do(context: Context) -> None:
    with asking(context) as datapath:
        slow, cut = context.link.connect("mutant"), context.link.connect("mutant")
        size = 3_000_000
        slow.client.setblocking(False)
        sent = 0
        until_s = time.monotonic() + 4
        while time.monotonic() < until_s:
            try:
                sent += slow.client.send(bytes(1 << 16))
            except BlockingIOError:
                time.sleep(0.05)
            if sent > size:
                break
        receive(slow, sent)
        carry(cut, 10_000)
        context.link.shape(rate_mbit=RATE_MBIT, delay_ms=RTT_MS // 2, loss_percent=100)
        cut.client.sendall(bytes(10_000))
        time.sleep(1)
        context.link.shape(rate_mbit=RATE_MBIT, delay_ms=RTT_MS // 2)
        receive(cut, 10_000)
        cookies = slow.cookie, cut.cookie
        close(slow, cut)
        outcomes = datapath.outcomes().outcomes
        waited, lost = (only(outcomes, cookie) for cookie in cookies)
    require(waited["receiver_us"] > 2e6, f"{waited['receiver_us']} µs of waits for the receiver")
    require(waited["busy_us"] < 2.5e6, f"busy for {waited['busy_us']} µs")
    require(lost["receiver_us"] < 0.1e6 and lost["busy_us"] > 0.9e6, f"{lost}")
    require(lost["retrans"] > 0 and lost["lost"] > 0, f"{lost}")


def a_long_flow_is_told_of_every_ten_seconds(context: Context) -> None:
    with asking(context) as datapath:
        flow = context.flow()
        switch(datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
        context.traffic.pump(4)
        switch(datapath, context.traffic, flow, context.arm_id("htcp"), "htcp")
        context.traffic.pump(8)
        cookie = flow.cookie
        (first,) = datapath.outcomes().outcomes
        context.end(flow)
        last = only(datapath.outcomes().outcomes, cookie)
    require(first["cookie"] == cookie and not first["ended"], f"{first}")
    require(first["switches"] == last["switches"] == 2, f"{first['switches']}, {last['switches']}")
    require(0 < first["acked_bytes"] < last["acked_bytes"], "the counts do not grow")
    require(int(last["acked_bytes"]) in (flow.sent, flow.sent + 1), f"{last['acked_bytes']} of {flow.sent}")
    require(9.9e9 < first["age_ns"] < 10.5e9, f"told after {first['age_ns']} ns")
    arms = [context.arm_id(name) for name in ("htcp", "vegas", "cubic")]
    require(last["share_arm"].tolist() == [*arms, 0], f"{last}")
    shares = last["share"] / OUTCOME_ONE
    require(abs(shares.sum() - 1) < 1e-3 and abs(shares[1] - 4 / 12.3) < 0.05, f"{shares}")
    require(last["arm"] == context.arm_id("cubic"), f"{last['arm']}")


def a_full_ring_turns_outcomes_away_and_counts_them(context: Context) -> None:
    """A container's flows have all of their own session's ring, and half of the host's."""
    for inside, room in ((True, 4), (False, 2)):
        with namespace("la" if inside else "lb"):
            own = Datapath()
        session = own if inside else context.datapath
        session.open_session(outcomes_max=4)
        flows = [context.link.connect("mutant") for _ in range(6)]
        cookies = [flow.cookie for flow in flows]
        for flow in flows:
            close(flow)
        told = session.outcomes()
        require(told.outcomes["cookie"].tolist() == cookies[:room], f"{told.outcomes['cookie']}")
        require(told.dropped == 6 - room, f"{told.dropped} dropped")
        flow = context.link.connect("mutant")
        cookies = [flow.cookie]
        close(flow)
        told = session.outcomes()
        require((told.outcomes["cookie"].tolist(), told.dropped) == (cookies, 6 - room), f"{told}")
        own.close()
        context.datapath.open_session()


def nobody_else_takes_outcomes(context: Context) -> None:
    with asking(context) as datapath:
        other = Datapath()
        try:
            other.outcomes()
        except RequestRefusedError as error:
            require("another socket steers" in error.reason, str(error))
        else:
            raise AssertionError("a socket without the session takes outcomes")
        other.close()
        flow = context.link.connect("mutant")
        close(flow)
        datapath.open_session()
        require(not len(datapath.outcomes().outcomes), "outcomes wait for a session that wants none")


def the_cause_of_the_first_arm_is_told(context: Context) -> None:
    with namespace("la"):
        datapath = Datapath()
    datapath.open_session(start_arms=True, outcomes_max=16)
    named = context.link.connect("mutant")
    datapath.set_starts(table(context, {"10.1.0.0/24": "bbr"}))
    listed = context.link.connect("mutant")
    client = context.link.client()
    listener = context.link.listen()
    choose(client, "m/vegas")
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    asked = Flow(client, server)
    listener.close()
    flows = {named.cookie: ("cubic", StartCause.DEFAULT), listed.cookie: ("bbr", StartCause.TABLE)}
    flows[asked.cookie] = ("vegas", StartCause.NAMED)
    for flow in (named, listed, asked):
        carry(flow, 300_000)
    close(named, listed, asked)
    outcomes = datapath.outcomes().outcomes
    for cookie, (arm, cause) in flows.items():
        found = only(outcomes, cookie)
        require((found["arm"], found["cause"]) == (context.arm_id(arm), cause), f"{arm}: {found}")
    datapath.set_starts(table(context, {"10.1.0.0/24": ""}))
    datapath.close()


CHECKS = (
    a_flow_that_nobody_measured_has_an_outcome,
    waits_for_the_receiver_do_not_count_and_timeouts_do,
    a_long_flow_is_told_of_every_ten_seconds,
    a_full_ring_turns_outcomes_away_and_counts_them,
    nobody_else_takes_outcomes,
    the_cause_of_the_first_arm_is_told,
)
