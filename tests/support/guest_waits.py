# SPDX-License-Identifier: Apache-2.0
"""Wait for a fact in the guest. A flow that waits for its retransmission timeout obeys seconds late."""

import time
from collections.abc import Callable

from ltp_switcher.daemon.datapath import Datapath, FlowInfo, protocol

PATIENCE_S = 20.0


def until(
    true: Callable[[], bool], told: Callable[[], object] = lambda: "", patience_s: float = PATIENCE_S
) -> None:
    """Wait for a fact that is to come; `told` describes what there is in its place."""
    end_s = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end_s, told()
        time.sleep(0.02)


def until_it_moves(kernel: Datapath, flow: FlowInfo) -> None:
    """Wait for more acknowledged bytes of a flow than `flow` knows."""
    before = flow.record["total_acked_bytes"][0]
    until(lambda: bool(kernel.flow(flow.cookie).record["total_acked_bytes"][0] > before))


def until_it_falls_back(kernel: Datapath, flow: FlowInfo) -> FlowInfo:
    """Wait until the kernel has moved a flow to the fallback arm; the flow as it is then."""
    flag = protocol.FlowFlags.FALLEN_BACK
    until(lambda: bool(kernel.flow(flow.cookie).record["flags"][0] & flag))
    return kernel.flow(flow.cookie)
