# SPDX-License-Identifier: Apache-2.0
"""Commands to the module; as a program (`python3 -m kmod_guest.steering`), a steerer to be killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np

from ltp_switcher.daemon.datapath import CommandArray, ControlArray, Datapath
from ltp_switcher.daemon.datapath.protocol import COMMAND_DTYPE, CONTROL_DTYPE

from .net import Flow, Traffic


def commands(arms: Mapping[int, int]) -> CommandArray:
    """One command per flow, from arms by cookie."""
    batch = np.zeros(len(arms), COMMAND_DTYPE)
    batch["cookie"] = list(arms.keys())
    batch["arm"] = list(arms.values())
    return batch


def control(cookie: int, arm: int, law: int, values: Sequence[int]) -> ControlArray:
    """One control; missing values are 0."""
    one = np.zeros(1, CONTROL_DTYPE)
    one["cookie"], one["arm"], one["law"] = cookie, arm, law
    one["value"][0, : len(values)] = values
    return one


def switch(datapath: Datapath, traffic: Traffic, flow: Flow, arm: int, name: str) -> None:
    """Switch a flow and keep the traffic going until its next ACK has done it."""
    result = datapath.select(commands({flow.cookie: arm}))
    if result.applied != 1:
        raise AssertionError(f"the command for {name} was not applied: {result}")
    if not traffic.pump(5, lambda: flow.congestion == f"m/{name}"):
        raise AssertionError(f"told to run {name}, the flow runs {flow.congestion}")


def main(arguments: Sequence[str]) -> None:
    """Give every flow the arms in turn, every 10 ms, until killed."""
    arms = [int(argument) for argument in arguments]
    datapath = Datapath()
    datapath.open_session()
    turn = 0
    while True:
        datapath.close_step()
        turn += 1
        datapath.select(commands({flow.cookie: arms[turn % len(arms)] for flow in datapath.flows()}))
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1:])
