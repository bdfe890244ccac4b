# SPDX-License-Identifier: Apache-2.0
"""The learned arms' executors: their controls are checked, kept, obeyed, and survived."""

from __future__ import annotations

import random
import time
import zlib

import numpy as np

from ltp_switcher.daemon.datapath import ControlResult
from ltp_switcher.daemon.datapath.protocol import CONTROL_ONE, ControlLaw

from .harness import Context, require
from .net import CA_RECOVERY, Flow, TcpInfo
from .steering import commands, control, switch

PACKET_BYTES = 1448
TAKEN = ControlResult(applied=1, unknown=0, refused=0, clamped=0)
CLAMPED = ControlResult(applied=1, unknown=0, refused=0, clamped=1)


def send(context: Context, flow: Flow, name: str, law: ControlLaw, *values: float) -> ControlResult:
    """Control an arm of a flow; fractions for the laws that take these, packets for a window."""
    scale = 1 if law == ControlLaw.WINDOW else CONTROL_ONE
    fixed = [round(value * scale) for value in values]
    return context.datapath.control(control(flow.cookie, context.arm_id(name), law, fixed))


def to_window(context: Context, flow: Flow, name: str, window: int) -> None:
    """Bring the flow to a window at the rate that it is permitted: half or twice in a control."""
    for _ in range(20):
        result = send(context, flow, name, ControlLaw.WINDOW, window)
        context.traffic.pump(0.05)
        if result == TAKEN and context.datapath.flow(flow.cookie).record[0]["snd_cwnd"] == window:
            return
    raise AssertionError(f"{name} does not come to {window} packets")


def a_window_is_obeyed_within_a_round_trip(context: Context) -> None:
    flow = context.flow()
    for name in ("ltp", "jury", "owl"):
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
        to_window(context, flow, name, 24)
        for window in (14, 20, 11, 20):
            result = send(context, flow, name, ControlLaw.WINDOW, window)
            require(result == TAKEN, f"{name}, {window}: {result}")
            context.traffic.pump(0.03)
            record = context.datapath.flow(flow.cookie).record[0]
            require(record["snd_cwnd"] == window, f"{name}: {record['snd_cwnd']} instead of {window}")
            rate = window * PACKET_BYTES * 1e6 / int(record["srtt_us"])
            require(abs(record["pacing_rate"] / rate - 1) < 0.02, f"{record['pacing_rate']} is not {rate}")
    context.end(flow)


def echoes_tell_a_window_from_one_a_packet_larger(context: Context) -> None:
    """What was sent under each control is told apart, though bursts are of several packets."""
    context.link.shape(rate_mbit=100, delay_ms=20)
    # Long enough that the one packet by which a larger window begins hardly counts: with stretches of three
    # controls the ratio was 1.055 to 1.081, depending on when the bursts fell.
    stretch = 6
    # How much of its own window an echo waits behind hangs on how bursts fall; more than 21 frames it cannot.
    longest_us = 40_000 + 21 * 1538 * 8 / 100 + 1_000
    flow = context.flow()
    # By window: packets, and the times in which they were sent and came back.
    told = {20: np.zeros(3), 21: np.zeros(3)}
    differ: list[float] = []
    rtts_us: list[float] = []
    for name in ("ltp", "jury", "owl"):
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
        to_window(context, flow, name, 20)
        last, fresh = 0, 0
        for number in range(1000, 1060):
            window = 20 + number // stretch % 2
            send(context, flow, name, ControlLaw.WINDOW, window, number)
            context.traffic.pump(0.03)
            record = context.datapath.flow(flow.cookie).record[0]
            for echo, mean_us in zip(record["echo"], record["echo_rtt_us"].tolist(), strict=True):
                if not max(last + 1, 1000) <= echo["number"] <= number:
                    continue
                last, fresh = int(echo["number"]), fresh + 1
                rtt_us = int(echo["rtt_us_min"])
                require(40_000 < rtt_us < longest_us, f"an RTT of {rtt_us} µs")
                require(rtt_us <= mean_us < longest_us, f"a mean of {mean_us} µs above {rtt_us} µs")
                rtts_us.append(rtt_us)
                seen = np.array(
                    [echo[field] for field in ("delivered", "sending_us", "acking_us")], np.float64
                )
                told[20 + last // stretch % 2] += seen
                differ.append(abs(seen[1] / seen[2] - 1))
        require(fresh > 50, f"{name}: {fresh} echoes of 60")
    context.end(flow)
    context.link.shape()
    small, large = (told[window][0] / told[window][1:] for window in (20, 21))
    context.notes["echo_ratio"] = [round(float(value), 4) for value in large / small]
    require(bool((np.abs(large / small - 1.05) < 0.03).all()), f"{large / small} in place of 1.05")
    require(np.quantile(rtts_us, 0.95) < 42_000, f"RTTs of {np.quantile(rtts_us, 0.95)} µs and more")
    require(np.median(differ) < 0.03, f"the same packets left and came at rates {np.median(differ)} apart")


def what_was_paced_leaves_no_mark_on_the_clock(context: Context) -> None:
    """Packets that an unpaced arm sends carry the time at which they leave, so no RTT is too short."""
    rng = random.Random(1)
    context.link.shape(loss_percent=1)
    flow = context.flow()
    ltp, cubic = context.arm_id("ltp"), context.arm_id("cubic")
    context.datapath.close_step()
    for _ in range(100):
        send(context, flow, "ltp", ControlLaw.WINDOW, rng.choice((4, 8, 16)))
        context.datapath.select(commands({flow.cookie: ltp}))
        context.traffic.pump(rng.choice((0.011, 0.016, 0.023)))
        context.datapath.select(commands({flow.cookie: cubic}))
        context.traffic.pump(rng.choice((0.004, 0.012)))
    context.traffic.pump(0.1)
    (step,) = context.datapath.close_step()
    context.end(flow)
    context.link.shape()
    shortest_us = int(step["rtt_stat"]["min"])
    require(shortest_us >= 10_000, f"an RTT of {shortest_us} µs on a link of 10 ms")


def what_does_not_fit_is_refused_and_changes_nothing(context: Context) -> None:
    flow = context.flow()
    ltp, spine, cubic = (context.arm_id(name) for name in ("ltp", "spine", "cubic"))
    switch(context.datapath, context.traffic, flow, ltp, "ltp")
    to_window(context, flow, "ltp", 20)
    one = CONTROL_ONE
    unfit = [
        (ltp, ControlLaw.WINDOW, (0,)),
        (ltp, ControlLaw.WINDOW, (20, 1, 1)),
        (ltp, ControlLaw.AIMD, (1, 1, 1, 1)),
        (ltp, ControlLaw.NONE, (20,)),
        (ltp, 99, (20,)),
        (cubic, ControlLaw.CUBIC, (one // 2, one)),
        (0, ControlLaw.WINDOW, (20,)),
        (0xFFFFFFFF, ControlLaw.WINDOW, (20,)),
        (spine, ControlLaw.WINDOW, (20,)),
        (spine, ControlLaw.AIMD, (one // 2 + 1, 0, 0, 0)),
        (spine, ControlLaw.AIMD, (0, 0, 2 * one + 1, 0)),
        (spine, ControlLaw.AIMD, (0, 0, 0, one + 1)),
        (spine, ControlLaw.CUBIC, (one // 5, one)),
        (spine, ControlLaw.CUBIC, (one // 2, 11 * one)),
    ]
    batch = np.concatenate([control(flow.cookie, arm, law, values) for arm, law, values in unfit])
    result = context.datapath.control(batch)
    require(result == ControlResult(0, 0, len(unfit), 0), str(result))
    result = context.datapath.control(control(12345, ltp, ControlLaw.WINDOW, (20,)))
    require(result == ControlResult(0, 1, 0, 0), str(result))
    context.traffic.pump(0.1)
    require(TcpInfo.of(flow.client).snd_cwnd == 20, "a refused control changed the window")
    # Half and twice is what one control may do; a control may be for the arm that does not run, too.
    for wanted, given in ((1000, 40), (1, 20)):
        result = send(context, flow, "ltp", ControlLaw.WINDOW, wanted)
        require(result == CLAMPED, str(result))
        context.traffic.pump(0.1)
        found = TcpInfo.of(flow.client).snd_cwnd
        require(found == given, f"{wanted} became {found} instead of {given}")
    require(send(context, flow, "spine", ControlLaw.AIMD, 0.1, 0.1, 1, 0.5) == TAKEN, "not kept")
    # More than an attribute holds.
    batch = np.repeat(control(flow.cookie, ltp, ControlLaw.WINDOW, (20,)), 5000)
    require(context.datapath.control(batch) == ControlResult(5000, 0, 0, 0), "a long batch")
    context.end(flow)


def a_flow_enters_with_the_control_that_it_has(context: Context) -> None:
    flow = context.flow()
    ids = {name: context.arm_id(name) for name in ("ltp", "jury", "cubic")}
    switch(context.datapath, context.traffic, flow, ids["ltp"], "ltp")
    to_window(context, flow, "ltp", 20)
    require(send(context, flow, "jury", ControlLaw.WINDOW, 15) == TAKEN, "not kept")
    switch(context.datapath, context.traffic, flow, ids["jury"], "jury")
    context.traffic.pump(0.03)
    require(TcpInfo.of(flow.client).snd_cwnd == 15, "the stored window is not taken")
    switch(context.datapath, context.traffic, flow, ids["ltp"], "ltp")
    context.traffic.pump(0.03)
    require(TcpInfo.of(flow.client).snd_cwnd == 20, "the window of before is not taken again")
    # One that is too old is none: the flow goes on from where it is, upwards.
    switch(context.datapath, context.traffic, flow, ids["jury"], "jury")
    context.traffic.pump(1.5)
    switch(context.datapath, context.traffic, flow, ids["ltp"], "ltp")
    before = TcpInfo.of(flow.client).snd_cwnd
    context.traffic.pump(0.2)
    after = TcpInfo.of(flow.client).snd_cwnd
    require(before <= after <= before + 20, f"{before} packets, then {after}")
    context.end(flow)


def a_window_holds_under_random_loss(context: Context) -> None:
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
    to_window(context, flow, "ltp", 20)
    context.link.shape(loss_percent=1)
    before = context.datapath.flow(flow.cookie).record[0]
    windows: set[int] = set()

    def look() -> bool:
        windows.add(TcpInfo.of(flow.client).snd_cwnd)
        return False

    received, lost, pumped_s = flow.received, 0, 0.0
    while lost < 20 and pumped_s < 15:
        for _ in range(10):
            send(context, flow, "ltp", ControlLaw.WINDOW, 20)
            context.traffic.pump(0.3, look)
        pumped_s += 3
        lost = int(context.datapath.flow(flow.cookie).record[0]["total_lost"] - before["total_lost"])
    require(lost >= 20, f"only {lost} packets were lost")
    require(windows == {20}, f"the window went through {sorted(windows)}")
    rate = 8 * (flow.received - received) / pumped_s
    require(rate > 0.8 * 20 * PACKET_BYTES * 8 / 0.012, f"{rate / 1e6:.1f} Mbit/s")
    context.link.shape()
    context.end(flow)


def a_timeout_collapses_the_window_and_slow_start_brings_it_back(context: Context) -> None:
    for name, law, values in (
        ("ltp", ControlLaw.WINDOW, (20.0,)),
        ("spine", ControlLaw.AIMD, (0.1, 0.1, 2, 0.9)),
        ("spine", ControlLaw.CUBIC, (0.9, 0.4)),
    ):
        flow = context.flow()
        switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
        to_window(context, flow, "ltp", 20)
        send(context, flow, name, law, *values)
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name) if name != "ltp" else None
        context.link.shape(loss_percent=100)
        windows: list[int] = []

        def look(flow: Flow = flow, windows: list[int] = windows) -> bool:
            windows.append(TcpInfo.of(flow.client).snd_cwnd)
            return False

        context.traffic.pump(0.5, look)
        context.link.shape()
        for _ in range(10):
            send(context, flow, name, law, *values)
            context.traffic.pump(0.2, look)
        require(min(windows) <= 2, f"{name}: the window stayed at {min(windows)}")
        require(windows[-1] >= 16, f"{name}, {law.name}: back at {windows[-1]} of 20")
        require(name != "ltp" or windows[-1] == 20, f"{windows[-1]} instead of the window asked for")
        context.end(flow)


def silence_makes_a_window_reno_and_then_the_fallback(context: Context) -> None:
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("owl"), "owl")
    to_window(context, flow, "owl", 12)
    context.traffic.pump(0.9)
    require(TcpInfo.of(flow.client).snd_cwnd == 12, "the window moved within a second of its control")
    context.traffic.pump(0.6)
    later = TcpInfo.of(flow.client).snd_cwnd
    # A packet a round trip of 10 ms or more, from a second after the control on.
    require(12 < later <= 12 + 60, f"{later} packets")
    require(flow.congestion == "m/owl", flow.congestion)
    context.datapath.set_config(watchdog_ms=300)
    context.datapath.select(commands({flow.cookie: context.arm_id("owl")}))
    context.traffic.pump(2, lambda: flow.congestion == "m/cubic")
    require(flow.congestion == "m/cubic", flow.congestion)
    # Controls are a sign of life, as selections are.
    switch(context.datapath, context.traffic, flow, context.arm_id("owl"), "owl")
    for _ in range(10):
        send(context, flow, "owl", ControlLaw.WINDOW, 12)
        context.traffic.pump(0.1)
    require(flow.congestion == "m/owl", flow.congestion)
    context.datapath.set_config(watchdog_ms=0)
    context.end(flow)


def _growth(context: Context, flow: Flow, duration_s: float) -> float:
    """Packets that the window gains for each acknowledged one."""
    before = context.datapath.flow(flow.cookie).record[0]
    context.traffic.pump(duration_s)
    after = context.datapath.flow(flow.cookie).record[0]
    delivered = int(after["total_delivered"] - before["total_delivered"])
    require(delivered > 100, f"only {delivered} packets")
    return (int(after["snd_cwnd"]) - int(before["snd_cwnd"])) / delivered


def spine_moves_by_its_parameters(context: Context) -> None:
    context.link.shape(rate_mbit=100, delay_ms=20)
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("spine"), "spine")
    # Until its first loss a flow is in Spine's slow start, whatever the parameters.
    send(context, flow, "spine", ControlLaw.AIMD, 0, 0, 0, 1)
    slow = _growth(context, flow, 0.15)
    require(0.05 < slow < 0.12, f"slow start grows by {slow:.3f} a packet")
    context.link.shape(rate_mbit=100, delay_ms=20, loss_percent=20)
    context.traffic.pump(0.1)
    context.link.shape(rate_mbit=100, delay_ms=20)
    context.traffic.pump(0.3)
    expected = ((0, 0.25, 0, -0.25), (0.1, 0.5, 2, 0.1), (0.02, 0.5, 2, 0.02), (0, 0.05, 0, -0.05))
    for thr, lat, tol, wanted in expected:
        require(send(context, flow, "spine", ControlLaw.AIMD, thr, lat, tol, 1) == TAKEN, "not taken")
        if wanted == -0.25:
            # Down to the smallest window, to have room above.
            context.traffic.pump(2)
            record = context.datapath.flow(flow.cookie).record[0]
            require(record["snd_cwnd"] == 2, f"it does not shrink: {record}")
            continue
        grown = _growth(context, flow, 1.5 if wanted > 0 else 0.3)
        require(abs(grown / wanted - 1) < 0.25, f"{wanted} a packet by Eq. 3, {grown:.4f} measured")
    # Eq. 4: a loss event leaves alpha_loss of the window.
    for share in (1.0, 0.5):
        send(context, flow, "spine", ControlLaw.AIMD, 0.05, 0, 2, share)
        context.traffic.pump(1.5)
        send(context, flow, "spine", ControlLaw.AIMD, 0, 0, 2, share)
        context.traffic.pump(0.05)
        before = TcpInfo.of(flow.client).snd_cwnd
        context.link.shape(rate_mbit=100, delay_ms=20, loss_percent=3)
        found: list[int] = []

        def cut(flow: Flow = flow, found: list[int] = found) -> bool:
            info = TcpInfo.of(flow.client)
            found.append(info.snd_cwnd)
            return info.ca_state == CA_RECOVERY

        # No longer than that: the loss of a retransmission ends in a timeout, and in a window of 1.
        require(context.traffic.pump(1, cut), "no loss met")
        context.link.shape(rate_mbit=100, delay_ms=20)
        require(found[-1] == int(before * share), f"{before} packets, then {found[-1]} with {share}")
    context.link.shape()
    context.end(flow)


def cubic_moves_by_its_constants(context: Context) -> None:
    reached = {}
    for c in (0.01, 10.0):
        context.link.shape(rate_mbit=100, delay_ms=80)
        flow = context.flow()
        switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
        to_window(context, flow, "ltp", 20)
        # A flow that has lost before goes on in congestion avoidance.
        context.link.shape(rate_mbit=100, delay_ms=80, loss_percent=5)

        def lost(flow: Flow = flow) -> bool:
            return bool(context.datapath.flow(flow.cookie).record[0]["total_lost"] > 0)

        require(context.traffic.pump(5, lost), "nothing was lost")
        context.link.shape(rate_mbit=100, delay_ms=80)
        context.traffic.pump(0.5)
        to_window(context, flow, "ltp", 20)
        send(context, flow, "spine", ControlLaw.CUBIC, 0.5, c)
        switch(context.datapath, context.traffic, flow, context.arm_id("spine"), "spine")
        context.link.shape(rate_mbit=100, delay_ms=80, loss_percent=5)
        found = [TcpInfo.of(flow.client).snd_cwnd]

        def cut(flow: Flow = flow, found: list[int] = found) -> bool:
            found.append(TcpInfo.of(flow.client).snd_cwnd)
            return found[-1] < found[-2]

        require(context.traffic.pump(3, cut), "no loss cut the window")
        context.link.shape(rate_mbit=100, delay_ms=80)
        # Some ACKs of growth may lie between the two looks.
        left = found[-1] / found[-2]
        require(0.45 < left < 0.6, f"{found[-2]} packets, then {found[-1]} with beta 0.5")
        context.traffic.pump(3)
        reached[c] = TcpInfo.of(flow.client).snd_cwnd
        context.end(flow)
    context.link.shape()
    context.notes["packets_by_c"] = reached
    require(reached[10.0] > 1.5 * reached[0.01], f"packets by C: {reached}")


def paused(context: Context, name: str, law: ControlLaw, values: tuple[float, ...]) -> tuple[Flow, int]:
    """A flow under a law that was silent for three seconds, and its window before that."""
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
    to_window(context, flow, "ltp", 40)
    if name != "ltp":
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
        send(context, flow, name, law, *values)
        context.traffic.pump(0.1)
    flow.talking = False
    context.traffic.pump(1)
    before = TcpInfo.of(flow.client).snd_cwnd
    require(before >= 30, f"{name}, {law.name}: {before} packets before")
    time.sleep(3)
    return flow, before


def a_pause_leaves_the_window(context: Context) -> None:
    """As RFC 7661 has it for a sender that paces."""
    for name, law, values in (
        ("ltp", ControlLaw.WINDOW, (40,)),
        ("spine", ControlLaw.AIMD, (0, 0, 2, 1)),
        ("spine", ControlLaw.CUBIC, (0.7, 0.4)),
    ):
        flow, before = paused(context, name, law, values)
        flow.client.send(bytes(100))
        after = TcpInfo.of(flow.client).snd_cwnd
        require(after == before, f"{name}, {law.name}: {after} packets after a pause, {before} before")
        flow.client.send(bytes(100))
        flow.sent += 200
        flow.sent_crc = zlib.crc32(bytes(200), flow.sent_crc)
        context.end(flow)


def a_loss_after_a_pause_halves_the_window(context: Context) -> None:
    """The law itself does not cut: see a_window_holds_under_random_loss."""
    flow, before = paused(context, "ltp", ControlLaw.WINDOW, (40,))
    context.link.shape(rate_mbit=100, delay_ms=20, loss_percent=20)
    flow.talking = True
    lowest = [before]

    def halved() -> bool:
        lowest.append(TcpInfo.of(flow.client).snd_cwnd)
        return TcpInfo.of(flow.client).ca_state == CA_RECOVERY

    require(context.traffic.pump(3, halved), "no loss")
    context.link.shape()
    require(lowest[-1] <= before / 2, f"{lowest[-1]} packets after a loss, {before} before the pause")
    context.end(flow)


CHECKS = (
    a_window_is_obeyed_within_a_round_trip,
    echoes_tell_a_window_from_one_a_packet_larger,
    what_was_paced_leaves_no_mark_on_the_clock,
    what_does_not_fit_is_refused_and_changes_nothing,
    a_flow_enters_with_the_control_that_it_has,
    a_window_holds_under_random_loss,
    a_timeout_collapses_the_window_and_slow_start_brings_it_back,
    silence_makes_a_window_reno_and_then_the_fallback,
    spine_moves_by_its_parameters,
    cubic_moves_by_its_constants,
    a_pause_leaves_the_window,
    a_loss_after_a_pause_halves_the_window,
)
