# SPDX-License-Identifier: Apache-2.0
"""Asking a path for more than its arm takes."""

from __future__ import annotations

import numpy as np

from ltp_switcher.daemon.datapath import RecordArray, RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import FlowFlags, PulseKind

from .handover import DELAY_MS, long_flow, long_link, to
from .harness import Context, require
from .net import Flow, TcpInfo
from .steering import commands

RTT_S = 2e-3 * DELAY_MS
TICK_S = 0.02
FASTER_MBIT = 120


def asking(
    context: Context, flow: Flow, arm: str, duration_s: float, *, pulses: PulseKind | bool
) -> RecordArray:
    """The records of a time in which the path is asked for more every ten round trips, or never."""
    batch = commands({flow.cookie: context.arm_id(arm)})
    batch["pulse"] = int(pulses)
    found, waited_s = [], 0.0
    for _ in range(round(duration_s / TICK_S)):
        if waited_s <= 0:
            require(context.datapath.select(batch).applied == 1, "the command was not applied")
            waited_s = 10 * RTT_S
        waited_s -= TICK_S
        context.traffic.pump(TICK_S)
        found.append(context.datapath.close_step())
    return np.concatenate(found)


def gained(records: RecordArray) -> bool:
    """Whether a pulse has found more."""
    return bool((records["flags"] & FlowFlags.GAINED).any())


def pulses_fill_a_link_that_has_become_faster(context: Context) -> None:
    product = FASTER_MBIT * 1e6 * RTT_S / 8 / 1500
    filled = {}
    for pulses in (False, True):
        with long_link(context):
            flow = long_flow(context)
            to(context, flow, "vegas")
            context.traffic.pump(3)
            context.link.shape(rate_mbit=FASTER_MBIT, delay_ms=DELAY_MS, limit_packets=1000)
            records = asking(context, flow, "vegas", 3.0, pulses=pulses)
            filled[pulses] = TcpInfo.of(flow.client).snd_cwnd / product
            require(gained(records) == pulses, f"pulses {pulses}: gained {gained(records)}")
            context.end(flow)
    require(filled[False] < 0.8, f"without pulses the window is {filled[False]:.2f} of the product")
    require(filled[True] > 0.85, f"with pulses the window is {filled[True]:.2f} of the product")


def a_pulse_on_a_full_link_gives_the_window_back(context: Context) -> None:
    with long_link(context):
        flow = long_flow(context)
        to(context, flow, "vegas")
        context.traffic.pump(4)
        before = TcpInfo.of(flow.client).snd_cwnd
        records = asking(context, flow, "vegas", 2.0, pulses=True)
        # The last pulse may be under way still.
        context.traffic.pump(10 * RTT_S)
        after = TcpInfo.of(flow.client).snd_cwnd
        context.end(flow)
    require(not gained(records), "a pulse found more on a full link")
    windows = records["snd_cwnd"].astype(float)
    rose = float((windows[4:] / windows[:-4]).max())
    require(rose >= 1.1, f"within four steps the window rose by a factor of {rose:.2f} only")
    # Vegas itself may still come down from its start.
    require(after <= 1.1 * before, f"the window was {before}, and is {after}")


def a_pulse_leaves_an_arm_with_a_model_alone(context: Context) -> None:
    with long_link(context):
        flow = long_flow(context)
        to(context, flow, "bbr")
        context.traffic.pump(2)
        records = asking(context, flow, "bbr", 1.0, pulses=True)
        context.end(flow)
    require(not gained(records), "BBR had a pulse")


def pulses_fill_a_queue_of_acks(context: Context) -> None:
    """The way back carries the ACKs of a part of the rate. Cubic alone needs much longer to get beyond."""
    rate_mbps = {}
    for pulses in (PulseKind.NONE, PulseKind.FILL):
        context.link.shape(rate_mbit=40, limit_packets=1000)
        context.link.slow_back(200, limit_packets=100)
        flow = long_flow(context)
        to(context, flow, "cubic")
        context.traffic.pump(2)
        records = asking(context, flow, "cubic", 4.0, pulses=pulses)
        last = records[records["time_ns"] > records["time_ns"].max() - 10**9]
        rate_mbps[pulses] = 8e-6 * float(last["acked_bytes"].sum())
        context.end(flow)
        context.link.fast_back()
    alone, filled = rate_mbps[PulseKind.NONE], rate_mbps[PulseKind.FILL]
    require(filled > 1.3 * alone, f"with pulses the rate is {filled:.1f}, without {alone:.1f} Mbit/s")


def a_pulse_does_not_fill_the_way_there(context: Context) -> None:
    """Cubic's own queue stands on the way to the receiver. Cubic itself grows by some 7 % in 0.3 s."""
    with long_link(context):
        flow = long_flow(context)
        to(context, flow, "cubic")
        context.traffic.pump(4)
        records = asking(context, flow, "cubic", 1.0, pulses=PulseKind.FILL)
        context.end(flow)
    require(not gained(records), "a pulse filled a path that is full")
    windows, steps = records["snd_cwnd"].astype(float), round(0.3 / TICK_S)
    rose = float((windows[steps:] / windows[:-steps]).max())
    require(rose < 1.15, f"within 0.3 s the window rose by a factor of {rose:.2f}")


def a_command_with_another_pulse_is_refused(context: Context) -> None:
    flow = context.flow()
    batch = commands({flow.cookie: context.arm_id("cubic")})
    batch["pulse"] = 3
    try:
        context.datapath.select(batch)
    except RequestRefusedError as error:
        require("pulse" in str(error), f"the error does not name the field: {error}")
    else:
        require(False, "pulse 3 was taken")
    finally:
        context.end(flow)


CHECKS = (
    pulses_fill_a_link_that_has_become_faster,
    a_pulse_on_a_full_link_gives_the_window_back,
    pulses_fill_a_queue_of_acks,
    a_pulse_does_not_fill_the_way_there,
    a_pulse_leaves_an_arm_with_a_model_alone,
    a_command_with_another_pulse_is_refused,
)
