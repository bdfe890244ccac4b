# SPDX-License-Identifier: Apache-2.0
"""Switching live flows: every pair of arms, frozen state, and the parts of it that carry over."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from ltp_switcher.daemon.datapath import RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import Cmd, FallbackReason, FlowFlags, RestoreMode

from .harness import Context, require, rmmod, sh
from .net import CA_LOSS, EVENTS_S, SO_MAX_PACING_RATE, Flow, TcpInfo, bbr_bdp_packets
from .steering import commands, switch

ARMS = (
    "cubic", "bbr", "vegas", "westwood", "hybla", "htcp", "veno", "yeah", "bic", "highspeed", "illinois",
    "ltp", "jury", "spine", "owl",
)  # fmt: skip
PROBE = "/lib/mutant/tcp_probecc.ko"
COUNTERS = Path("/sys/module/tcp_probecc/parameters")
PACING_NONE, PACING_NEEDED = 0, 1
INFINITE_SSTHRESH = 0x7FFFFFFF
FREQUENT = 40


def circuit(nodes: Sequence[str]) -> list[str]:
    """A closed walk over every ordered pair of nodes, each once (Hierholzer)."""
    ahead = {a: [b for b in nodes if b != a] for a in nodes}
    stack, walk = [nodes[0]], []
    while stack:
        if ahead[stack[-1]]:
            stack.append(ahead[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return walk[::-1]


def counter(name: str) -> int:
    """A counter of the probe."""
    return int((COUNTERS / name).read_text())


def every_pair_of_arms_both_ways(context: Context) -> None:
    ids = {name: context.arm_id(name) for name in ARMS}
    flow = context.flow()
    walk = circuit(ARMS)
    require(len(walk) == len(ARMS) * (len(ARMS) - 1) + 1, f"{len(walk)} steps")
    carried = []
    for number, (before, after) in enumerate(pairwise(walk), start=1):
        old = context.datapath.flow(flow.cookie).record[0]
        switch(context.datapath, context.traffic, flow, ids[after], after)
        new = context.datapath.flow(flow.cookie).record[0]
        told = (int(new["arm"]), int(new["prev_arm"]), int(new["want_arm"]), int(new["switches"]))
        require(told == (ids[after], ids[before], ids[after], number), f"{before} to {after}: {told}")
        # An ACK may have come since, on which the new arm cut its window: that sets ssthresh too, and YeAH's
        # to the very window that it leaves, which may be above the old ssthresh.
        cut = new["ssthresh"] < old["ssthresh"] and new["ssthresh"] <= new["snd_cwnd"] + 2
        if after == "yeah" and new["ssthresh"] > old["ssthresh"]:
            cut = abs(int(new["ssthresh"]) - int(new["snd_cwnd"])) <= 2
        if not cut:
            carried.append((before, after, int(old["snd_cwnd"]), int(new["snd_cwnd"])))
        context.traffic.pump(0.03)
    # BBR sets its own window all the time; every other arm goes on from the one that it finds.
    steady = [c for c in carried if "bbr" not in c[:2]]
    broken = [c for c in steady if not 0.8 * c[2] - 2 <= c[3] <= 1.25 * c[2] + 10]
    require(len(carried) > len(walk) // 2, f"only {len(carried)} switches without a cut")
    require(not broken, f"the window was not carried over: {broken}")
    context.end(flow)


def many_flows_at_once(context: Context) -> None:
    ids = {name: context.arm_id(name) for name in ARMS}
    flows = [context.flow() for _ in range(8)]
    for offset in range(4):
        for index, flow in enumerate(flows):
            name = ARMS[(3 * offset + index) % len(ARMS)]
            if flow.congestion != f"m/{name}":
                switch(context.datapath, context.traffic, flow, ids[name], name)
    context.end(*flows)


def _freeze_and_restore(context: Context, mode: RestoreMode) -> None:
    context.datapath.set_config(restore=mode)
    sh(f"insmod {PROBE}") if not COUNTERS.exists() else None
    probe = context.datapath.load_arm("probecc")
    require(probe.available, str(probe))
    before = {name: counter(name) for name in ("inits", "releases", "checks", "mismatches", "orphans")}
    flow = context.flow()
    others = ARMS[:5]
    for name in others:
        switch(context.datapath, context.traffic, flow, probe.id, "probecc")
        context.traffic.pump(0.1)
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
        context.traffic.pump(0.1)
    inits = counter("inits") - before["inits"]
    expected = len(others) if mode == RestoreMode.REINIT else 1
    require(inits == expected, f"{inits} calls of init instead of {expected}")
    checks = counter("checks") - before["checks"]
    require(checks > FREQUENT * len(others), f"only {checks} comparisons of the private bytes")
    context.end(flow)
    for name in ("mismatches", "orphans"):
        require(counter(name) == before[name], f"{counter(name) - before[name]} {name} in {checks} checks")
    # The flow ended on another arm: the frozen state was released all the same.
    releases = counter("releases") - before["releases"]
    require(releases == inits, f"{inits} calls of init, {releases} of release")
    context.datapath.set_config(restore=RestoreMode.AS_IS)


def private_bytes_survive_restore_as_is(context: Context) -> None:
    _freeze_and_restore(context, RestoreMode.AS_IS)


def private_bytes_survive_restore_rebase(context: Context) -> None:
    _freeze_and_restore(context, RestoreMode.REBASE)
    require(counter("restarts") > 0, "no restart was told")


def private_bytes_are_released_before_reinit(context: Context) -> None:
    _freeze_and_restore(context, RestoreMode.REINIT)


def in_use(cache: str) -> int:
    """Objects in use in one of the kernel's slab caches."""
    # Without this the allocator keeps empty slabs, and counts their objects as in use.
    Path(f"/sys/kernel/slab/{cache}/shrink").write_text("1")
    lines = Path("/proc/slabinfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == cache)


def heap_of_a_frozen_arm_is_freed(context: Context) -> None:
    """Cdg holds a kilobyte of heap for each flow; these flows end while cdg and the probe are frozen."""
    count, noise = 20, 5
    # 128 gradients of 8 bytes.
    sh("modprobe tcp_cdg window=128")
    cdg = context.datapath.load_arm("cdg")
    require(cdg.available, str(cdg))
    probe = context.datapath.load_arm("probecc")
    inits, releases = counter("inits"), counter("releases")
    before = in_use("kmalloc-1k")
    flows = []
    for _ in range(count):
        flow = context.flow()
        switch(context.datapath, context.traffic, flow, cdg.id, "cdg")
        switch(context.datapath, context.traffic, flow, probe.id, "probecc")
        switch(context.datapath, context.traffic, flow, context.arm_id("veno"), "veno")
        flow.talking = False
        context.traffic.pump(0.2)
        flows.append(flow)
    held = in_use("kmalloc-1k") - before
    require(count <= held <= count + noise, f"{held} objects for {count} flows with cdg frozen")
    context.end(*flows)
    left = in_use("kmalloc-1k") - before
    require(abs(left) <= noise, f"{left} of {held} objects are still there")
    require(counter("inits") - inits == count, f"the probe did not run {count} times")
    require(counter("releases") - releases == count, "a frozen state was not released")


def leaving_an_arm_that_paces_stops_pacing(context: Context) -> None:
    probe = context.datapath.load_arm("probecc")
    for name, asked, expected in (
        ("bbr", None, PACING_NONE),
        ("bbr", 100_000_000, PACING_NEEDED),
        ("ltp", None, PACING_NONE),
        ("spine", 100_000_000, PACING_NEEDED),
    ):
        flow = context.flow()
        if asked is not None:
            flow.client.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, asked)
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
        context.traffic.pump(0.5)
        switch(context.datapath, context.traffic, flow, probe.id, "probecc")
        require(counter("init_pacing") == expected, f"{name} with {asked}: {counter('init_pacing')}")
        context.traffic.pump(0.2)
        before = flow.received
        context.traffic.pump(1)
        rate = 8 * (flow.received - before)
        require(rate > 10_000_000, f"{rate / 1e6:.1f} of 20 Mbit/s after {name}")
        context.end(flow)


def _trickle(context: Context, flow: Flow) -> Callable[[], bool]:
    """A condition for `pump` that is always true, and sends 4 packets at each tick of 2 ms."""

    def send() -> bool:
        context.traffic.send(flow, 4 * 1448)
        return True

    return send


def _probes_rtt(info: TcpInfo) -> bool:
    """Whether BBR has cut the window to measure the RTT; a timeout's window is small, too."""
    return info.snd_cwnd <= 4 and info.ca_state != CA_LOSS


def _ssthresh_after_bbr(context: Context, flow: Flow, also: Callable[[], bool] = lambda: True) -> int:
    """Switch from BBR to the probe, which notes the threshold that it finds before anything else happens."""
    require(TcpInfo.of(flow.client).ssthresh == INFINITE_SSTHRESH, "BBR's start-up is over")
    probe = context.datapath.load_arm("probecc")
    inits = counter("inits")
    context.datapath.select(commands({flow.cookie: probe.id}))
    context.traffic.pump(5, lambda: also() and flow.congestion == "m/probecc")
    require(counter("inits") == inits + 1, "the probe did not start anew")
    return counter("init_ssthresh")


def leaving_bbr_leaves_a_sane_ssthresh(context: Context) -> None:
    """BBR sets the threshold to infinity, and to something else only at the end of its start-up."""
    context.datapath.set_config(restore=RestoreMode.REINIT)
    bbr = context.arm_id("bbr")
    flow = context.flow()
    context.link.shape(loss_percent=2)
    context.traffic.pump(1)
    context.link.shape()
    context.traffic.pump(1)
    require(TcpInfo.of(flow.client).ssthresh < INFINITE_SSTHRESH, "no loss, which shows nothing")
    switch(context.datapath, context.traffic, flow, bbr, "bbr")
    left = _ssthresh_after_bbr(context, flow)
    window = TcpInfo.of(flow.client).snd_cwnd
    require(window > 10 and abs(left - window) <= 2, f"a threshold of {left}, a window of {window}")
    context.end(flow)

    # What the application sends is too little to end the start-up; it fills 10 ms with 20 packets.
    context.link.shape(rate_mbit=100, loss_percent=2)
    flow = context.flow()
    lost = context.traffic.pump(2, lambda: TcpInfo.of(flow.client).ssthresh < INFINITE_SSTHRESH)
    require(lost, "no loss, which shows nothing")
    context.link.shape(rate_mbit=100)
    flow.talking = False
    context.traffic.pump(0.2)
    trickle = _trickle(context, flow)
    context.datapath.select(commands({flow.cookie: bbr}))
    context.traffic.pump(1, lambda: trickle() and flow.congestion == "m/bbr")
    probing = context.traffic.pump(15, lambda: trickle() and _probes_rtt(TcpInfo.of(flow.client)))
    require(probing, "no ProbeRTT")
    modelled = 0.0

    def look() -> bool:
        nonlocal modelled
        if flow.congestion == "m/bbr":
            modelled = bbr_bdp_packets(flow.client)
        return trickle()

    left = _ssthresh_after_bbr(context, flow, look)
    # The bursts of one round trip may move BBR's model between this look and the switch.
    require(modelled > 10, f"a product of {modelled:.1f} packets is too near to ProbeRTT's window of 4")
    require(0.7 <= left / modelled <= 1.4, f"a threshold of {left} in ProbeRTT, a product of {modelled:.1f}")
    context.end(flow)
    context.link.shape()
    context.datapath.set_config(restore=RestoreMode.AS_IS)


def slow_start_goes_on_after_bbr(context: Context) -> None:
    """Neither a queue nor a loss has shown this flow where to end it."""
    context.datapath.set_config(restore=RestoreMode.REINIT)
    context.link.shape(rate_mbit=100)
    flow = context.link.connect("mutant")
    flow.talking = False
    context.traffic.add(flow)
    trickle = _trickle(context, flow)
    context.datapath.select(commands({flow.cookie: context.arm_id("bbr")}))
    context.traffic.pump(0.2, lambda: trickle() and False)
    require(flow.congestion == "m/bbr", flow.congestion)
    left = _ssthresh_after_bbr(context, flow, trickle)
    require(left == INFINITE_SSTHRESH, f"slow start is ended by a threshold of {left}")
    context.end(flow)
    context.link.shape()
    context.datapath.set_config(restore=RestoreMode.AS_IS)


def an_arm_that_refuses_a_flow_leaves_it_to_the_fallback(context: Context) -> None:
    refusing = context.datapath.load_arm("refusecc")
    require(refusing.available, str(refusing))
    events = context.datapath.events()
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
    result = context.datapath.select(commands({flow.cookie: refusing.id}))
    require(result.applied == 1, str(result))
    require(context.traffic.pump(5, lambda: flow.congestion == "m/cubic"), flow.congestion)
    info = context.datapath.flow(flow.cookie)
    require(info.reason == FallbackReason.INIT_REFUSED, info.reason.name)
    require(bool(info.record[0]["flags"] & FlowFlags.FALLEN_BACK), "not flagged")
    context.traffic.pump(EVENTS_S)
    told = [e.flow.reason for e in events.read().events if e.kind == Cmd.FLOW_FALLBACK]
    events.close()
    require(told == [FallbackReason.INIT_REFUSED], f"events {told}")
    # It is not tried again.
    result = context.datapath.select(commands({flow.cookie: refusing.id}))
    require(result.refused == 1, str(result))
    try:
        context.datapath.pin(flow.cookie, refusing.id)
    except RequestRefusedError as error:
        require("refused" in error.reason, error.reason)
    else:
        raise AssertionError("the flow was pinned to an arm that refused it")
    switch(context.datapath, context.traffic, flow, context.arm_id("vegas"), "vegas")
    context.end(flow)


def the_probe_can_be_unloaded_after_the_module(context: Context) -> None:
    context.datapath.close()
    require(counter("inits") == counter("releases") > 0, "init and release differ in the end")
    require(counter("mismatches") == counter("orphans") == 0, "a late mismatch")
    require(rmmod(), "rmmod tcp_mutant is refused after the last flow")
    require(rmmod("tcp_probecc") and rmmod("tcp_cdg"), "an extra arm's protocol is still held")


CHECKS = (
    every_pair_of_arms_both_ways,
    many_flows_at_once,
    private_bytes_survive_restore_as_is,
    private_bytes_survive_restore_rebase,
    private_bytes_are_released_before_reinit,
    heap_of_a_frozen_arm_is_freed,
    leaving_an_arm_that_paces_stops_pacing,
    leaving_bbr_leaves_a_sane_ssthresh,
    slow_start_goes_on_after_bbr,
    an_arm_that_refuses_a_flow_leaves_it_to_the_fallback,
)
LAST = (the_probe_can_be_unloaded_after_the_module,)
