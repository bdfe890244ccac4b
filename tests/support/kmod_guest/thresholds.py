# SPDX-License-Identifier: Apache-2.0
"""Switches to and from learned arms amid losses: the slow-start threshold and a reduction under way."""

from __future__ import annotations

from ltp_switcher.daemon.datapath.protocol import ControlLaw

from .harness import Context, require
from .learned import send, to_window
from .net import CA_LOSS, CA_RECOVERY, Flow, TcpInfo
from .steering import commands, switch

INFINITE_SSTHRESH = 0x7FFFFFFF


def a_timeout_leaves_the_next_arm_where_to_return_to(context: Context) -> None:
    """By arm, control, and length of the outage in seconds: a window is expired after the longer one."""
    for name, law, values, outage_s, least in (
        ("spine", ControlLaw.AIMD, (0.1, 0.1, 2, 0.9), 0.5, 18),
        ("spine", ControlLaw.CUBIC, (0.9, 0.4), 0.5, 18),
        ("spine", ControlLaw.NONE, (), 0.5, 10),
        ("ltp", ControlLaw.WINDOW, (20.0,), 0.5, 20),
        ("ltp", ControlLaw.WINDOW, (20.0,), 1.3, 20),
    ):
        flow = context.flow()
        switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
        to_window(context, flow, "ltp", 20)
        send(context, flow, name, law, *values) if values else None
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name) if name != "ltp" else None
        context.link.shape(loss_percent=100)
        window = TcpInfo.of(flow.client).snd_cwnd
        context.traffic.pump(outage_s)
        collapsed = TcpInfo.of(flow.client)
        require(collapsed.ca_state == CA_LOSS and collapsed.snd_cwnd <= 2, f"{name}: no timeout: {collapsed}")
        # Westwood takes no threshold of its own before the next loss.
        context.datapath.select(commands({flow.cookie: context.arm_id("westwood")}))
        context.link.shape()
        require(context.traffic.pump(5, lambda flow=flow: flow.congestion == "m/westwood"), "not switched")
        left = TcpInfo.of(flow.client).ssthresh
        context.end(flow)
        # The ACKs on their way let AIMD's window grow yet.
        most = max(20, window + 2)
        require(least <= left <= most, f"{name}, {law.name}, {outage_s} s: a threshold of {left}")


def what_a_window_law_took_is_not_had_back_by_slow_start(context: Context) -> None:
    flow = context.flow()
    switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
    to_window(context, flow, "ltp", 20)
    context.link.shape(loss_percent=5)
    lost = context.traffic.pump(5, lambda: TcpInfo.of(flow.client).ssthresh < INFINITE_SSTHRESH)
    require(lost, "nothing was lost")
    context.link.shape()
    context.traffic.pump(0.2)
    to_window(context, flow, "ltp", 20)
    to_window(context, flow, "ltp", 8)
    switch(context.datapath, context.traffic, flow, context.arm_id("westwood"), "westwood")
    info = TcpInfo.of(flow.client)
    context.end(flow)
    require(info.ssthresh <= 8, f"from 8 packets slow start to {info.ssthresh}")


def slow_start_that_delay_ended_stays_ended(context: Context) -> None:
    context.link.shape(rate_mbit=100, delay_ms=20)
    flow = context.flow()
    require(TcpInfo.of(flow.client).ssthresh == INFINITE_SSTHRESH, "not in slow start")
    send(context, flow, "spine", ControlLaw.CUBIC, 0.7, 0.4)
    switch(context.datapath, context.traffic, flow, context.arm_id("spine"), "spine")
    context.link.shape(rate_mbit=20, delay_ms=20)
    ended = context.traffic.pump(2, lambda: TcpInfo.of(flow.client).ssthresh < INFINITE_SSTHRESH)
    require(ended, "the delay does not end slow start")
    context.link.shape(rate_mbit=100, delay_ms=20)
    context.traffic.pump(0.5)
    before = context.datapath.flow(flow.cookie).record[0]
    require(before["total_lost"] == 0, "something was lost")
    require(before["srtt_us"] < 1.2 * before["min_rtt_us"], f"a queue: {before['srtt_us']} µs")
    switch(context.datapath, context.traffic, flow, context.arm_id("westwood"), "westwood")
    left = TcpInfo.of(flow.client).ssthresh
    context.end(flow)
    context.link.shape()
    require(left == before["ssthresh"], f"a threshold of {left} instead of {before['ssthresh']}")


def _reducing(flow: Flow) -> bool:
    """Whether the kernel is in the midst of a reduction of the window, some packets from its end."""
    info = TcpInfo.of(flow.client)
    return info.ca_state == CA_RECOVERY and info.snd_cwnd > info.ssthresh + 4


def a_reduction_that_a_switch_cuts_short_is_finished_once(context: Context) -> None:
    # An ACK every 2.4 ms and a full window in flight, so that a switch falls into a reduction.
    context.link.shape(rate_mbit=5, delay_ms=20)
    flow = context.flow()
    context.traffic.pump(1)
    context.link.shape(rate_mbit=5, delay_ms=20, loss_percent=2)
    require(context.traffic.pump(20, lambda: _reducing(flow)), "no reduction met")
    threshold = TcpInfo.of(flow.client).ssthresh
    for name in ("spine", "owl", "jury", "spine"):
        switch(context.datapath, context.traffic, flow, context.arm_id(name), name)
        info = TcpInfo.of(flow.client)
        require(info.ca_state == CA_RECOVERY, f"{name}: the recovery has ended: {info}")
        require(info.snd_cwnd == info.ssthresh == threshold, f"{name}: {info} instead of {threshold}")
    context.end(flow)
    context.link.shape()


def _switched_in_a_recovery(context: Context, flow: Flow) -> TcpInfo | None:
    """What a switch leaves within a recovery from 24 packets, with 30 in use; None where there is none."""
    to_window(context, flow, "ltp", 24)
    context.link.shape(rate_mbit=5, delay_ms=20, loss_percent=2)

    def recovers() -> bool:
        # A window lapses after a second, and a loss may come later.
        send(context, flow, "ltp", ControlLaw.WINDOW, 24)
        return context.traffic.pump(0.2, lambda: TcpInfo.of(flow.client).ca_state == CA_RECOVERY)

    require(any(recovers() for _ in range(50)), "no recovery met")
    send(context, flow, "ltp", ControlLaw.WINDOW, 30)
    require(context.traffic.pump(1, lambda: TcpInfo.of(flow.client).snd_cwnd == 30), "not obeyed")
    before = TcpInfo.of(flow.client)
    switch(context.datapath, context.traffic, flow, context.arm_id("spine"), "spine")
    after = TcpInfo.of(flow.client)
    within = before.ssthresh == 24 and {before.ca_state, after.ca_state} == {CA_RECOVERY}
    return after if within else None


def no_switch_cuts_what_a_window_law_kept(context: Context) -> None:
    for _ in range(5):
        context.link.shape(rate_mbit=5, delay_ms=20)
        flow = context.flow()
        switch(context.datapath, context.traffic, flow, context.arm_id("ltp"), "ltp")
        info = _switched_in_a_recovery(context, flow)
        context.end(flow)
        context.link.shape()
        if info is not None:
            require(info.ssthresh == 24 and info.snd_cwnd == 30, f"{info} instead of 30 above 24")
            return
    raise AssertionError("no switch within a recovery from 24 packets in five attempts")


CHECKS = (
    a_timeout_leaves_the_next_arm_where_to_return_to,
    what_a_window_law_took_is_not_had_back_by_slow_start,
    slow_start_that_delay_ended_stays_ended,
    a_reduction_that_a_switch_cuts_short_is_finished_once,
    no_switch_cuts_what_a_window_law_kept,
)
