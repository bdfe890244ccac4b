# SPDX-License-Identifier: Apache-2.0
"""The learned arms' executors: what they are sent is checked, kept, obeyed, and survived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ltp_switcher.daemon.datapath import ControlArray, ControlResult
from ltp_switcher.daemon.datapath.protocol import CONTROL_DTYPE, CONTROL_ONE, ControlLaw

from .harness import Context, require
from .net import Flow
from .steering import switch

PACKET_BYTES = 1448
TAKEN = ControlResult(applied=1, unknown=0, refused=0, clamped=0)


def control(cookie: int, arm: int, law: ControlLaw, values: Sequence[int]) -> ControlArray:
    """One control; missing values are 0."""
    one = np.zeros(1, CONTROL_DTYPE)
    one["cookie"], one["arm"], one["law"] = cookie, arm, law
    one["value"][0, : len(values)] = values
    return one


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


CHECKS = (a_window_is_obeyed_within_a_round_trip,)
