# SPDX-License-Identifier: Apache-2.0
"""Congestion marks (ECN): they are counted, and no learned arm ignores them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ltp_switcher.daemon.datapath.protocol import ControlLaw

from .harness import Context, require, sh
from .learned import send, to_window
from .net import CA_CWR, CA_RECOVERY, Flow, TcpInfo, ip, namespace, tc
from .steering import switch

RATE_MBIT, RTT_MS = 20, 40
ACCURATE_ECN = Path("/proc/sys/net/ipv4/tcp_ecn_option")
BDP_PKTS = round(RATE_MBIT * 1e6 * RTT_MS * 1e-3 / 8 / 1500)


@contextmanager
def marking_link(context: Context) -> Iterator[None]:
    """A bottleneck under fq_codel, which marks instead of dropping; ECN is negotiated."""
    name = context.link.name
    for side in "ab":
        sh(f"ip netns exec {name}{side} sysctl -qw net.ipv4.tcp_ecn=1")
    # Behind netem, which lets go of the sender's memory: else TCP small queues would bound the queue.
    ip(f"-n {name}b link add bottleneck type ifb")
    ip(f"-n {name}b link set bottleneck up")
    # `replace` would keep the rate.
    tc(f"-n {name}a qdisc del dev {name}va root")
    tc(f"-n {name}a qdisc add dev {name}va root netem delay {RTT_MS // 2}ms limit 10000")
    tc(f"-n {name}b qdisc add dev {name}vb ingress")
    to_bottleneck = "matchall action mirred egress redirect dev bottleneck"
    tc(f"-n {name}b filter add dev {name}vb parent ffff: {to_bottleneck}")
    shaper = f"tbf rate {RATE_MBIT}mbit burst 3100 limit 15mb"
    tc(f"-n {name}b qdisc add dev bottleneck root handle 1: {shaper}")
    tc(f"-n {name}b qdisc add dev bottleneck parent 1:1 fq_codel limit 10000 ecn")
    tc(f"-n {name}b qdisc replace dev {name}vb root netem delay {RTT_MS // 2}ms limit 10000")
    try:
        yield
    finally:
        tc(f"-n {name}b qdisc del dev {name}vb ingress")
        ip(f"-n {name}b link del bottleneck")
        for side in "ab":
            sh(f"ip netns exec {name}{side} sysctl -qw net.ipv4.tcp_ecn=2")
        context.link.shape()


def _long_flow(context: Context) -> Flow:
    flow = context.link.connect("mutant")
    flow.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    flow.outstanding_bytes = 8 << 20
    context.traffic.add(flow)
    return flow


def learned_arms_answer_congestion_marks(context: Context) -> None:
    """Told to keep eight times what the path holds, or to grow whatever is lost, they bound the queue."""
    with marking_link(context):
        for name, law, values in (
            ("ltp", ControlLaw.WINDOW, (8 * BDP_PKTS,)),
            ("spine", ControlLaw.AIMD, (0.5, 0, 2, 1)),
            ("spine", ControlLaw.CUBIC, (0.95, 10)),
        ):
            flow = _long_flow(context)
            switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
            rtts_us = []
            for step in range(200):
                send(context, flow, name, law, *values)
                context.traffic.pump(0.04)
                if step >= 100:
                    rtts_us.append(int(context.datapath.flow(flow.cookie).record[0]["srtt_us"]))
            record = context.datapath.flow(flow.cookie).record[0]
            marked, delivered = int(record["total_delivered_ce"]), int(record["total_delivered"])
            mean_ms = float(np.mean(rtts_us)) / 1e3
            context.notes[f"marks under {name}, {law.name}"] = [marked, delivered, round(mean_ms, 1)]
            require(0 < marked < delivered, f"{name}: {marked} marks of {delivered} packets")
            require(mean_ms < 2 * RTT_MS, f"{name}, {law.name}: mean RTT {mean_ms:.0f} ms of {RTT_MS}")
            rate_mbps = 8e-6 * flow.received / 8
            require(rate_mbps > 0.7 * RATE_MBIT, f"{name}, {law.name}: {rate_mbps:.1f} Mbit/s")
            context.end(flow)


def a_drop_in_a_local_queue_is_no_mark(context: Context) -> None:
    """The kernel enters the same state for both. Nobody has negotiated ECN here."""
    window = 16
    context.link.shape(limit_packets=60)
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
    to_window(context, flow, "ltp", window)
    with namespace("lb"):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((context.link.address, 0))
    with namespace("la"):
        burst = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    windows, states = [], set()
    for step in range(150):
        send(context, flow, "ltp", ControlLaw.WINDOW, window)
        if step % 5 == 0:
            for _ in range(90):
                burst.sendto(bytes(1000), sink.getsockname())
        for _ in range(8):
            context.traffic.pump(0.004)
            info = TcpInfo.of(flow.client)
            states.add(info.ca_state)
            # A timeout takes the window away, whatever filled the queue; it comes back ACK by ACK.
            if info.ca_state < CA_RECOVERY:
                windows.append(info.snd_cwnd)
    sink.close()
    burst.close()
    context.notes["windows beside a full local queue"] = [min(windows), sorted(states)]
    require(CA_CWR in states, f"no packet was dropped here: states {states}")
    require(min(windows) == window, f"{min(windows)} instead of {window} packets")
    context.end(flow)
    context.link.shape()


def _marks_of(flow: Flow, seen: socket.socket) -> set[tuple[int, int]]:
    """Of the data packets that have come from a flow's client: ECN field, and the flags AE, CWR and ECE."""
    port = flow.client.getsockname()[1]
    found = set()
    while True:
        try:
            packet = seen.recv(2000)
        except BlockingIOError:
            return found
        tcp = (packet[0] & 15) * 4
        is_from_it = packet[9] == socket.IPPROTO_TCP and packet[tcp : tcp + 2] == port.to_bytes(2, "big")
        if is_from_it and int.from_bytes(packet[2:4], "big") > tcp + (packet[tcp + 12] >> 4) * 4:
            found.add((packet[1] & 3, (packet[tcp + 12] & 1) << 2 | packet[tcp + 13] >> 6))


def flags_of_accurate_ecn_stay_across_a_switch(context: Context) -> None:
    """Linux knows accurate ECN (RFC 9768) since 7.0. Without marks the counter in the flags stays at 5."""
    name = context.link.name
    if not ACCURATE_ECN.exists():
        return
    for side in "ab":
        sh(f"ip netns exec {name}{side} sysctl -qw net.ipv4.tcp_ecn=3")
    context.link.shape()
    with namespace(f"{name}b"):
        seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    seen.bind((f"{name}vb", 0x0800))
    seen.setblocking(False)
    for congestion in ("cubic", "mutant"):
        flow = context.flow(congestion)
        for arm in ("", "bbr", "ltp", "cubic", "vegas"):
            if arm and congestion == "mutant":
                switch(context.datapath, context.traffic, flow, context.arm_id(arm), arm)
            context.traffic.pump(0.2)
            marks = _marks_of(flow, seen)
            require(marks == {(2, 5)}, f"{congestion}, {arm or 'at first'}: {marks}")
        context.end(flow)
    seen.close()
    for side in "ab":
        sh(f"ip netns exec {name}{side} sysctl -qw net.ipv4.tcp_ecn=2")


CHECKS = (
    learned_arms_answer_congestion_marks,
    a_drop_in_a_local_queue_is_no_mark,
    flags_of_accurate_ecn_stay_across_a_switch,
)
