# SPDX-License-Identifier: Apache-2.0
"""The window that a flow takes from arm to arm, and an arm's leftovers at its end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import nan

import numpy as np

from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import FlowFlags, HandoverMode, RestoreMode

from .harness import Context, require, sh
from .net import CA_RECOVERY, Flow, TcpInfo, bbr_bdp_packets, choose, vegas_base_us
from .steering import commands, switch
from .switching import ARMS, COUNTERS, PACING_NONE, PROBE, circuit, counter

RATE_MBIT, DELAY_MS, RTT_US = 20, 20, 40_000
BDP_PKTS = RATE_MBIT * 1e6 * RTT_US * 1e-6 / 8 / 1500
CLAMP = 12
"""Packets; far below the windows of the link."""
TICK_S = 0.02


@contextmanager
def long_link(context: Context, delay_ms: int = DELAY_MS) -> Iterator[None]:
    """A link with a queue of several bandwidth-delay products."""
    context.link.shape(rate_mbit=RATE_MBIT, delay_ms=delay_ms, limit_packets=1000)
    try:
        yield
    finally:
        context.link.shape()
        context.datapath.set_config(handover=HandoverMode.AS_IS, restore=RestoreMode.AS_IS)


def long_flow(context: Context) -> Flow:
    """A flow whose window no send buffer bounds."""
    flow = context.link.connect("mutant")
    flow.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    flow.outstanding_bytes = 4 << 20
    context.datapath.close_step()
    context.traffic.add(flow)
    return flow


def steps(context: Context, duration_s: float) -> RecordArray:
    """The records of a time, one each `TICK_S` with data in it."""
    context.datapath.close_step()
    found = []
    for _ in range(round(duration_s / TICK_S)):
        context.traffic.pump(TICK_S)
        found.append(context.datapath.close_step())
    return np.concatenate(found)


def to(context: Context, flow: Flow, name: str) -> None:
    """Switch to an arm."""
    switch(context.datapath, context.traffic, flow, context.arm_id(name), name)


def power(records: RecordArray) -> float:
    """Eq. 1 of Mutant over some records, with nothing lost: (Mbit/s)² / ms."""
    mbps = 8e3 * float(records["acked_bytes"].sum()) / float(records["interval_ns"].sum())
    return mbps**2 / (float(records["rtt_stat"]["sum"].sum()) / float(records["rtt_samples"].sum()) / 1e3)


def a_record_tells_the_floor_and_the_product(context: Context) -> None:
    with long_link(context):
        flow = long_flow(context)
        to(context, flow, "cubic")
        context.traffic.pump(4)
        record = context.datapath.flow(flow.cookie).record[0]
        require(record["srtt_us"] > 1.5 * RTT_US, f"no queue: {record['srtt_us']} µs")
        require(abs(int(record["rtt_floor_us"]) - RTT_US) < 3000, f"floor {record['rtt_floor_us']} µs")
        require(
            abs(int(record["bdp"]) - BDP_PKTS) < 0.15 * BDP_PKTS, f"{record['bdp']} of {BDP_PKTS:.0f} packets"
        )
        before = int(record["round_trips"])
        context.traffic.pump(1)
        rounds = int(context.datapath.flow(flow.cookie).record[0]["round_trips"]) - before
        expected = 1e6 / float(record["srtt_us"])
        # Whole round trips, of which the second may cut one at each end.
        require(
            abs(rounds - expected) <= 0.4 * expected + 1, f"{rounds} round trips in 1 s of {expected:.1f}"
        )
        context.end(flow)


def the_floor_follows_the_path(context: Context) -> None:
    """After a rise of the RTT, the next handover takes the longer path for a queue once, not for ever."""
    with long_link(context):
        context.datapath.set_config(handover=HandoverMode.BDP)
        flow = long_flow(context)
        to(context, flow, "vegas")
        context.traffic.pump(4)
        context.link.shape(rate_mbit=RATE_MBIT, delay_ms=3 * DELAY_MS, limit_packets=1000)
        context.traffic.pump(1)
        to(context, flow, "westwood")
        context.traffic.pump(1.5)
        floor_us = int(context.datapath.flow(flow.cookie).record[0]["rtt_floor_us"])
        require(floor_us > 2.5 * RTT_US, f"floor {floor_us} µs on a path of {3 * RTT_US}")
        context.end(flow)


def vegas_hears_no_rtt_in_whole_milliseconds(context: Context) -> None:
    """The kernel tells the RTT of a packet that was sent again in whole milliseconds, rounded down."""
    # With 0.6 ms for a packet of 1,514 bytes the RTT is 5.8 ms, and 5 ms in whole milliseconds.
    delay_ms = 2.6
    with long_link(context):
        context.link.shape(rate_mbit=RATE_MBIT, delay_ms=delay_ms, loss_percent=1, limit_packets=1000)
        flow = long_flow(context)
        to(context, flow, "cubic")
        context.traffic.pump(2)
        to(context, flow, "vegas")
        # Vegas forgets its base where the sender has been idle, and knows none until the next ACK.
        bases_us = []

        def ask() -> bool:
            bases_us.append(vegas_base_us(flow.client))
            return False

        context.traffic.pump(2, ask)
        record = context.datapath.flow(flow.cookie).record[0]
        require(record["total_retrans"] > 20, f"{record['total_retrans']} packets sent again")
        rtt_us = min(bases_us) - 1
        require(rtt_us % 1000 > 0, f"Vegas has {rtt_us} µs")
        require(0 <= rtt_us - 2e3 * delay_ms < 2e3, f"Vegas has {rtt_us} µs on a path of {2 * delay_ms} ms")
        context.end(flow)


def bbr_is_told_of_a_longer_path(context: Context) -> None:
    """Its own minimum holds for 10 s, and with a window of twice the old product it lost half of its rate."""
    with long_link(context):
        context.datapath.set_config(handover=HandoverMode.BDP)
        flow = long_flow(context)
        to(context, flow, "bbr")
        context.traffic.pump(3)
        to(context, flow, "vegas")
        context.traffic.pump(4)
        context.link.shape(rate_mbit=RATE_MBIT, delay_ms=4 * DELAY_MS, limit_packets=1000)
        context.traffic.pump(1)
        to(context, flow, "bbr")
        context.traffic.pump(3)
        before = int(context.datapath.flow(flow.cookie).record[0]["total_acked_bytes"])
        context.traffic.pump(2)
        after = int(context.datapath.flow(flow.cookie).record[0]["total_acked_bytes"])
        share = (after - before) * 8e-6 / 2 / RATE_MBIT
        require(share > 0.7, f"{share:.2f} of the rate, 3 to 5 s after the RTT rose fourfold")
        context.end(flow)


def vegas_is_told_of_the_empty_path(context: Context) -> None:
    """It would take the queue that the arm before left for a part of the path, and keep it."""
    with long_link(context):
        context.datapath.set_config(handover=HandoverMode.AS_IS, restore=RestoreMode.REBASE)
        flow = long_flow(context)
        for _ in range(2):
            to(context, flow, "cubic")
            context.traffic.pump(3)
            queued_us = TcpInfo.of(flow.client).srtt_us
            require(queued_us > 1.5 * RTT_US, f"no queue: {queued_us} µs")
            to(context, flow, "vegas")
            context.traffic.pump(0.2)
            base_us = vegas_base_us(flow.client)
            require(abs(base_us - RTT_US) < 3000, f"a base of {base_us} µs on a path of {RTT_US}")
        context.end(flow)


def a_recovery_of_bbr_hands_over_what_the_path_holds(context: Context) -> None:
    """In a recovery BBR's window is what it has in flight, and comes back at the end.

    Every other attempt meets a recovery whose window is small.
    """
    for _ in range(12):
        # The limit counts the packets on their way, too: a buffer of 15.
        with long_link(context):
            context.link.shape(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS, limit_packets=50, loss_percent=1)
            context.datapath.set_config(handover=HandoverMode.BDP)
            flow = long_flow(context)
            to(context, flow, "bbr")
            context.traffic.pump(1)

            def product(flow: Flow = flow) -> float:
                bdp = int(context.datapath.flow(flow.cookie).record[0]["bdp"])
                return min(bbr_bdp_packets(flow.client), bdp)

            def small(flow: Flow = flow) -> bool:
                now = TcpInfo.of(flow.client)
                return now.ca_state == CA_RECOVERY and now.snd_cwnd < 0.8 * product()

            found, least = context.traffic.pump(20, small), 0.9 * product()
            before = TcpInfo.of(flow.client)
            to(context, flow, "ltp")
            after = TcpInfo.of(flow.client)
            context.end(flow)
        if found and {before.ca_state, after.ca_state} == {CA_RECOVERY} and before.snd_cwnd < least:
            require(
                after.snd_cwnd >= least, f"{before.snd_cwnd}, then {after.snd_cwnd} of {least:.0f} packets"
            )
            return
    raise AssertionError("no switch within a recovery with a small window in twelve attempts")


def each_mode_hands_over_its_window(context: Context) -> None:
    """A queue of 3 BDP and more stands when a flow leaves Cubic."""
    with long_link(context):
        for mode, low, high in (
            (HandoverMode.AS_IS, 2.0, 40.0),
            (HandoverMode.BDP, 0.8, 1.4),
            (HandoverMode.DRAIN, 0.03, 0.8),
        ):
            flow = long_flow(context)
            to(context, flow, "cubic")
            require(
                context.traffic.pump(10, lambda flow=flow: _window(context, flow) > 3 * BDP_PKTS), "no queue"
            )
            batch = commands({flow.cookie: context.arm_id("vegas")})
            batch["handover"] = mode
            context.datapath.select(batch)
            arm = context.arm_id("vegas")
            arrived = context.traffic.pump(
                2, lambda flow=flow, arm=arm: context.datapath.flow(flow.cookie).record[0]["arm"] == arm
            )
            require(arrived, "not switched")
            share = _window(context, flow) / BDP_PKTS
            require(low <= share <= high, f"{mode.name}: {share:.2f} BDP")
            context.end(flow)


def _window(context: Context, flow: Flow) -> int:
    return int(context.datapath.flow(flow.cookie).record[0]["snd_cwnd"])


def vegas_after_bbr_is_settled_within_15_round_trips(context: Context) -> None:
    """Settled is within 5 % of what Vegas earns in the end; without a handover that takes 195 round trips."""
    with long_link(context):
        flow = long_flow(context)
        chunk = round(5 * RTT_US * 1e-6 / TICK_S)
        settled = nan
        for mode in (HandoverMode.BDP, HandoverMode.AS_IS):
            context.datapath.set_config(handover=mode)
            to(context, flow, "bbr")
            context.traffic.pump(6)
            to(context, flow, "vegas")
            records = steps(context, 8)
            if mode == HandoverMode.BDP:
                settled = power(records[-10 * chunk :])
                require(settled > 0.7 * RATE_MBIT**2 / (RTT_US / 1e3), f"Vegas earns {settled:.1f}")
            shares = [power(records[i : i + chunk]) / settled for i in range(0, len(records) - chunk, chunk)]
            late = [i for i, share in enumerate(shares) if share < 0.95]
            rounds = 5 * (late[-1] + 1) if late else 0
            context.notes[f"round trips of vegas after bbr, {mode.name}"] = rounds
            if mode == HandoverMode.BDP:
                require(rounds <= 15, f"settled after {rounds} round trips: {shares[:20]}")
        context.end(flow)


def every_pair_hands_over_a_window_that_fits(context: Context) -> None:
    """Both ways, over a queue that a window of two bandwidth-delay products keeps."""
    ids = {name: context.arm_id(name) for name in ARMS}
    with long_link(context):
        context.datapath.set_config(handover=HandoverMode.BDP, restore=RestoreMode.REBASE)
        flow = long_flow(context)
        to(context, flow, ARMS[0])
        context.traffic.pump(4)
        unfit = []
        for before, after in pairwise(circuit(ARMS)):
            old = context.datapath.flow(flow.cookie).record[0]
            switch(context.datapath, context.traffic, flow, ids[after], after)
            new = context.datapath.flow(flow.cookie).record[0]
            # A round trip may have ended between the look and the switch, and renewed the product.
            products = int(old["bdp"]), int(new["bdp"])
            most = min(int(old["snd_cwnd"]), max(products) + 4)
            least = 4 if after == "bbr" else min(int(old["snd_cwnd"]), 0.45 * min(products))
            if not least <= new["snd_cwnd"] <= 1.3 * most + 10:
                unfit.append((before, after, int(old["snd_cwnd"]), products, int(new["snd_cwnd"])))
            context.traffic.pump(0.15)
        require(not unfit, f"windows before, products, windows after: {unfit}")
        context.end(flow)


def bbr_comes_back_without_probe_rtt(context: Context) -> None:
    """After 5 s elsewhere, whenever in its 10 s between two ProbeRTTs it was left."""
    with long_link(context):
        context.datapath.set_config(handover=HandoverMode.BDP, restore=RestoreMode.REBASE)
        flow = long_flow(context)
        for stay_s in (4, 7, 9.3, 10.1):
            to(context, flow, "bbr")
            context.traffic.pump(stay_s)
            to(context, flow, "vegas")
            context.traffic.pump(5)
            to(context, flow, "bbr")
            records = steps(context, 1)
            records = records[records["arm"] == context.arm_id("bbr")]
            drained = int(((records["flags"] & FlowFlags.DRAINING) != 0).sum())
            require(drained == 0, f"after {stay_s} s: {drained} of {len(records)} steps in ProbeRTT")
        context.end(flow)


def bbrs_probe_rtt_is_told(context: Context) -> None:
    with long_link(context):
        flow = long_flow(context)
        to(context, flow, "bbr")
        context.traffic.pump(2)
        records = steps(context, 14)
        told = (records["flags"] & FlowFlags.DRAINING) != 0
        share = told.mean()
        require(0.005 < share < 0.08, f"{share:.3f} of the steps told as draining")
        windows = float(np.median(records["snd_cwnd"][told])), float(np.median(records["snd_cwnd"][~told]))
        require(windows[0] <= 4 < windows[1], f"windows while draining and else: {windows}")
        context.end(flow)


def release_leaves_nothing_of_an_arm(context: Context) -> None:
    """An application that sets `mutant` again, or another protocol, gets a flow as the first one was."""
    sh(f"insmod {PROBE}") if not COUNTERS.exists() else None
    probe = context.datapath.load_arm("probecc")
    for name in ("bbr", "hybla", "spine"):
        for asked in ("mutant", "cubic"):
            flow = context.flow()
            switch(context.datapath, context.traffic, flow, probe.id, "probecc")
            clamp, pacing = counter("init_clamp"), counter("init_pacing")
            to(context, flow, name)
            context.datapath.pin(flow.cookie, context.arm_id(name))
            context.traffic.pump(0.3)
            choose(flow.client, asked)
            choose(flow.client, "mutant")
            context.traffic.pump(0.2)
            switch(context.datapath, context.traffic, flow, probe.id, "probecc")
            left = counter("init_clamp"), counter("init_pacing")
            require(left == (clamp, pacing), f"{name}, then {asked}: {left} of {(clamp, pacing)}")
            require(pacing == PACING_NONE, "paced from the start")
            context.end(flow)


def a_clamp_that_was_set_after_birth_stays(context: Context) -> None:
    """As a BPF program sets it: neither an arm's own clamp nor an arm that comes back lifts it."""
    sh(f"insmod {PROBE}") if not COUNTERS.exists() else None
    probe = context.datapath.load_arm("probecc")
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("hybla"), "hybla")
    switch(context.datapath, context.traffic, flow, probe.id, "probecc")
    most = steps(context, 0.5)["snd_cwnd"].max()
    require(most > 2 * CLAMP, f"the window is {most} without a clamp")
    (COUNTERS / "set_clamp").write_text(str(CLAMP))
    require(context.traffic.pump(5, lambda: not counter("set_clamp")), "the clamp is not set")
    for arm, name in (
        (context.arm_id("hybla"), "hybla"),
        (context.arm_id("cubic"), "cubic"),
        (probe.id, "probecc"),
    ):
        switch(context.datapath, context.traffic, flow, arm, name)
        most = steps(context, 0.5)["snd_cwnd"].max()
        require(most <= CLAMP, f"{name} has a window of {most}, above the clamp of {CLAMP}")
    context.end(flow)


CHECKS = (
    a_clamp_that_was_set_after_birth_stays,
    a_record_tells_the_floor_and_the_product,
    the_floor_follows_the_path,
    vegas_hears_no_rtt_in_whole_milliseconds,
    bbr_is_told_of_a_longer_path,
    vegas_is_told_of_the_empty_path,
    a_recovery_of_bbr_hands_over_what_the_path_holds,
    each_mode_hands_over_its_window,
    every_pair_hands_over_a_window_that_fits,
    vegas_after_bbr_is_settled_within_15_round_trips,
    bbr_comes_back_without_probe_rtt,
    bbrs_probe_rtt_is_told,
    release_leaves_nothing_of_an_arm,
)
