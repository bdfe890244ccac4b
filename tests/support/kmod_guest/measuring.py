# SPDX-License-Identifier: Apache-2.0
"""The aggregates: nothing lost, nothing counted twice, and every sample credited to whom it belongs."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import numpy as np

from ltp_switcher.daemon.datapath.protocol import ACK_GAPS, CREDITS_MAX, RECORD_DTYPE

from .harness import Context, require
from .net import TcpInfo
from .steering import commands, switch
from .switching import ARMS

SUMMED = ("delivered", "lost", "acked_bytes", "retrans")
CREDITED = ("samples", "rtt_samples", "delivered", "lost", "acked_bytes")
STATS = {
    "rtt_stat": "rtt_samples",
    "srtt_stat": "samples",
    "mdev_stat": "samples",
    "lost_out_stat": "samples",
    "in_flight_stat": "samples",
    "throughput_stat": "samples",
}
LAST_BYTES = 100
"""Size of the last packet that a flow sends, alone."""


def steps_add_up_to_the_totals(context: Context) -> None:
    """Dumps race ACKs, losses and random switches; the kernel's own counters are the reference."""
    context.link.shape(loss_percent=1)
    rng = random.Random(2)
    ids = [context.arm_id(name) for name in ARMS]
    flow = context.flow()
    steps = [context.datapath.close_step()]
    until = time.monotonic() + 4
    while time.monotonic() < until:
        context.traffic.pump(rng.choice((0, 0.004, 0.01)))
        steps.append(context.datapath.close_step())
        context.datapath.select(commands({flow.cookie: rng.choice(ids)}))
    # The kernel counts a packet that it sends anew at once, a record at the next ACK of new data. So the last
    # packet goes alone: no probe sends it anew before the receiver's delayed ACK.
    context.link.shape()
    context.traffic.pump(0.5)
    flow.talking = False
    context.traffic.pump(3)
    context.traffic.send(flow, LAST_BYTES)
    context.traffic.pump(1)
    steps.append(context.datapath.close_step())
    kernel = TcpInfo.of(flow.client)
    total = context.datapath.flow(flow.cookie).record[0]
    context.end(flow)

    records = np.concatenate([step[step["cookie"] == total["cookie"]] for step in steps])
    require(len(records) > 200, f"{len(records)} steps")
    for name in SUMMED:
        told, summed = int(total[f"total_{name}"]), int(records[name].sum())
        require(told == summed, f"{name}: steps add up to {summed}, the total is {told}")
    # The handshake's SYN counts as a packet and a byte, before the flow is born.
    require(int(total["total_acked_bytes"]) == kernel.bytes_acked - 1, f"{kernel}")
    require(int(total["total_delivered"]) == kernel.delivered - 1, f"{kernel}")
    require(int(total["total_retrans"]) == kernel.total_retrans, f"{total['total_retrans']} of {kernel}")
    require(int(total["total_lost"]) > 0, "nothing was lost: this shows nothing")
    gaps = np.diff(records["time_ns"].astype(np.int64)) - records["interval_ns"][1:].astype(np.int64)
    require(not gaps.any(), f"intervals leave gaps of {gaps[gaps != 0]} ns")
    _minima_means_and_maxima(records)
    _credits(records)
    counted, samples = records["ack_gaps"].sum(axis=1), records["samples"]
    require(bool((counted <= samples).all()), "a step has more gaps than ACKs")
    require(counted.sum() > 0.8 * samples.sum(), f"{counted.sum()} gaps of {samples.sum()} ACKs")


def _minima_means_and_maxima(records: np.ndarray) -> None:
    for name, samples in STATS.items():
        stat, count = records[name], records[samples]
        empty = count == 0
        require(not stat[empty]["sum"].any() and not stat[empty]["max"].any(), f"{name} without samples")
        mean = stat["sum"][~empty] / count[~empty]
        inside = (stat["min"][~empty] <= mean) & (mean <= stat["max"][~empty])
        require(bool(inside.all()), f"{name}: a mean outside its minimum and maximum")
    rtt = records["rtt_stat"][records["rtt_samples"] > 0]
    require(bool((rtt["min"] >= 10_000).all()), f"an RTT of {rtt['min'].min()} µs on a link of 10 ms")


def _credits(records: np.ndarray) -> None:
    credit = records["credit"]
    full = credit["arm"][:, CREDITS_MAX - 1] != 0
    for name in CREDITED:
        summed, told = credit[name].sum(axis=1), records[name]
        require(bool((summed <= told).all()), f"more {name} credited than there were")
        wrong = (summed != told) & ~full
        require(not wrong.any(), f"{name}: {int(wrong.sum())} steps lost credit with slots to spare")
    require(bool(full.any()), "no step filled all slots: this shows nothing")
    arms = dict(zip(records["epoch"].tolist(), records["arm"].tolist(), strict=True))
    for row, used in zip(credit, credit["arm"] != 0, strict=True):
        epochs = row["epoch"][used].astype(np.int64)
        require(bool((np.diff(epochs) > 0).all()), f"epochs {epochs} are not in order")
        require(bool((row["samples"][used] > 0).all()), f"a slot without a sample among {epochs}")
        for epoch, arm in zip(epochs.tolist(), row["arm"][used].tolist(), strict=True):
            require(arms.get(epoch, arm) == arm, f"epoch {epoch} of arm {arms.get(epoch)} credited to {arm}")


def a_full_step_credits_its_last_epochs(context: Context) -> None:
    """Six epochs in one step, and no data in flight at a switch: the last four have all of theirs."""
    flow = context.flow()
    flow.talking = False
    context.traffic.pump(0.5)
    context.datapath.close_step()
    looks = [context.datapath.flow(flow.cookie).record[0]]
    for number, name in enumerate(("vegas", "bic", "bbr", "htcp", "veno"), start=1):
        for _ in range(number):
            context.traffic.send(flow, 20_000 * number)
            context.traffic.pump(0.1)
        context.datapath.select(commands({flow.cookie: context.arm_id(name)}))
        # The one ACK for this makes the switch, and is the last of the epoch before.
        context.traffic.send(flow, 100)
        context.traffic.pump(0.2)
        require(flow.congestion == f"m/{name}", f"{flow.congestion} instead of {name}")
        looks.append(context.datapath.flow(flow.cookie).record[0])
    context.traffic.send(flow, 30_000)
    context.traffic.pump(0.2)
    step = context.datapath.close_step()[0]
    looks.append(step)
    context.end(flow)
    require(int(step["lost"]) == 0, "something was lost")
    require(step["switches"] == looks[0]["switches"] + 5, f"{step['switches']} switches")
    told = [tuple(int(slot[name]) for name in ("epoch", "arm", *CREDITED)) for slot in step["credit"]]
    expected = [
        tuple(
            int(x)
            for x in (before["epoch"], before["arm"], *(after[name] - before[name] for name in CREDITED))
        )
        for before, after in pairwise(looks)
    ]
    require(told == expected[-CREDITS_MAX:], f"credited {told} of {expected}")


def credit_follows_the_data_that_was_sent(context: Context) -> None:
    """For one RTT, 100 ms, after a switch every sample still belongs to the arm before it."""
    context.link.shape(delay_ms=50)
    flow = context.flow()
    context.traffic.pump(1)
    westwood = context.arm_id("westwood")
    switch(context.datapath, context.traffic, flow, westwood, "westwood")
    context.traffic.pump(2)
    context.datapath.close_step()
    bic = context.arm_id("bic")
    switch(context.datapath, context.traffic, flow, bic, "bic")
    switched = time.monotonic()
    early, late = np.zeros(16, np.int64), np.zeros(16, np.int64)
    record = context.datapath.flow(flow.cookie).record[0]
    epoch, since_s = record["epoch"], 0.0
    while since_s < 0.3:
        context.traffic.pump(0.01)
        step = context.datapath.close_step()
        since_s = time.monotonic() - switched
        for record in step[step["cookie"] == flow.cookie]:
            for credit in record["credit"]:
                (early if since_s < 0.09 else late)[credit["arm"]] += credit["delivered"]
                if credit["arm"] == bic:
                    require(credit["epoch"] == epoch, f"credited to epoch {credit['epoch']} of {epoch}")
    context.end(flow)
    context.link.shape()
    require(early[westwood] > 20 and early[bic] == 0, f"within one RTT: {early}")
    require(late[bic] > late[westwood], f"after one RTT: {late}")


def a_look_does_not_close_the_step(context: Context) -> None:
    flow = context.flow()
    context.datapath.close_step()
    context.traffic.pump(0.5)
    looks = [context.datapath.flow(flow.cookie).record[0] for _ in range(3)]
    samples = [int(look["samples"]) for look in looks]
    require(samples[0] > 10 and samples == sorted(samples), f"samples {samples}")
    step = context.datapath.close_step()
    require(int(step["samples"][0]) >= samples[-1], f"{step['samples']} after a look at {samples}")
    context.end(flow)


def a_quiet_flow_is_not_in_the_next_step(context: Context) -> None:
    flow = context.flow()
    flow.talking = False
    context.traffic.pump(1)
    context.datapath.close_step()
    context.traffic.pump(0.5)
    require(len(context.datapath.close_step()) == 0, "a flow without samples is in the step")
    context.end(flow)


def gaps_between_acks_are_those_of_the_path(context: Context) -> None:
    """An ACK comes each 2 ms, the receiver's turn, for three packets or so. A pause is no gap of the path."""
    flow = context.flow()
    context.traffic.pump(1)
    gaps = np.zeros(ACK_GAPS)
    context.datapath.close_step()
    for _ in range(3):
        flow.talking = True
        context.traffic.pump(1)
        flow.talking = False
        context.traffic.pump(1)
        step = context.datapath.close_step()[0]
        require(int(step["ack_gaps"].sum()) <= int(step["samples"]), "a step has more gaps than ACKs")
        gaps += step["ack_gaps"]
    context.end(flow)
    context.notes["ack_gaps"] = gaps.tolist()
    # Range 5 is 1 to 2 ms and range 6 is 2 to 4 ms.
    require(gaps[5:7].sum() > 0.9 * gaps.sum() > 900, f"gaps {gaps}")
    require(not gaps[11:].any(), f"a pause, or another gap above 65 ms: {gaps}")


def the_causes_that_limit_a_flow_are_the_kernels(context: Context) -> None:
    """A flow that pauses for a second, and whose receiver does not read for another one."""
    flow = context.flow()
    context.traffic.pump(1)
    flow.talking = False
    context.traffic.pump(1)
    flow.talking, flow.outstanding_bytes = True, 16 << 20
    for _ in range(100):
        context.traffic.send(flow)
        time.sleep(0.01)
    flow.outstanding_bytes = 1 << 17
    context.traffic.pump(2)
    context.datapath.close_step()
    context.traffic.pump(0.02)
    told = context.datapath.flow(flow.cookie).record[0]
    kernel = TcpInfo.of(flow.client)
    context.end(flow)
    # What is told is as of the step's first ACK.
    for name in ("busy_us", "receiver_us", "buffer_us"):
        late_us = getattr(kernel, name) - int(told[name])
        require(0 <= late_us < 40_000, f"{name}: {told[name]} of {kernel}")
    require(2_500_000 < int(told["busy_us"]) < 4_400_000, f"busy for {told['busy_us']} µs")
    require(400_000 < int(told["receiver_us"]) < 1_600_000, f"receiver: {told['receiver_us']} µs")


def reordering_is_the_kernels(context: Context) -> None:
    """Where packets overtake others, the kernel counts it, and a record tells both of its numbers."""
    flow = context.flow()
    context.traffic.pump(0.5)
    require(int(context.datapath.flow(flow.cookie).record[0]["reord_seen"]) == 0, "reordered in a queue")
    context.link.shape(early_percent=5)
    context.traffic.pump(1)
    context.link.shape()
    flow.talking = False
    context.traffic.pump(1)
    told = context.datapath.close_step()[0]
    kernel = TcpInfo.of(flow.client)
    context.end(flow)
    require(kernel.reord_seen > 0, f"nothing came early: {kernel}")
    require(int(told["reord_seen"]) == kernel.reord_seen, f"{told['reord_seen']} of {kernel}")
    require(int(told["reordering"]) == kernel.reordering > 3, f"{told['reordering']} of {kernel}")


def a_queue_is_told_by_its_way(context: Context) -> None:
    """A slow way to the receiver has a queue, and then a slow way back. TCP's timestamps tell which it is."""
    link = context.link
    ways = (
        ("there_us", "back_us", lambda: link.shape(rate_mbit=4)),
        ("back_us", "there_us", lambda: link.slow_back(100)),
    )
    for way, other, slow in ways:
        link.shape(rate_mbit=100)
        flow = context.flow()
        context.datapath.close_step()
        context.traffic.pump(1)
        slow()
        context.traffic.pump(1.5)
        told = context.datapath.flow(flow.cookie).record[0]
        context.end(flow)
        queues = f"there {told['there_us']} µs, back {told['back_us']} µs, RTT {told['rtt_us']} µs"
        require(int(told[way]) > 20_000, f"{way}: {queues}")
        require(int(told[other]) < 5_000, f"{other}: {queues}")
    link.fast_back()


def many_flows_fill_many_messages(context: Context) -> None:
    """More records than one netlink message holds: 200 of 808 bytes."""
    flows = [context.link.connect("mutant") for _ in range(200)]
    context.datapath.close_step()
    for flow in flows:
        flow.client.send(bytes(100))
    time.sleep(1)
    step = context.datapath.close_step()
    require(step.dtype == RECORD_DTYPE and len(step) == len(flows), f"{len(step)} records")
    require(set(step["cookie"].tolist()) == {flow.cookie for flow in flows}, "other flows than these")
    require(bool((step["acked_bytes"] == 100).all()), "not the 100 bytes that each sent")
    require(len(context.datapath.flows()) == len(flows), "flow-get misses some")
    for flow in flows:
        flow.client.close()
        flow.server.close()


CHECKS = (
    steps_add_up_to_the_totals,
    a_full_step_credits_its_last_epochs,
    credit_follows_the_data_that_was_sent,
    a_look_does_not_close_the_step,
    a_quiet_flow_is_not_in_the_next_step,
    gaps_between_acks_are_those_of_the_path,
    the_causes_that_limit_a_flow_are_the_kernels,
    reordering_is_the_kernels,
    a_queue_is_told_by_its_way,
    many_flows_fill_many_messages,
)
