# SPDX-License-Identifier: Apache-2.0
"""Decides which flows need a command, and makes these commands."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, PulseKinds
from ltp_switcher.daemon.datapath import RecordArray, protocol


def commands_for(
    records: RecordArray,
    arms: ArmIds,
    differs: Bools | None = None,
    steered: Bools | None = None,
    asks: PulseKinds | None = None,
    whole: Bools | None = None,
) -> RecordArray:
    """Make the commands (`COMMAND_DTYPE`, shape (m ≤ n,)) that bring n flows to their `arms`.

    There are three reasons for a command. First, the flow should run another arm. Second, the module waits
    for a command, because the flow was never steered or has gone to the fallback arm. Third, a short rise of
    the flow's window should show whether the path has more rate. Pinned flows get no command.

    Args:
        records: the flows, shape (n,).
        arms: the arm that each flow should run, shape (n,).
        differs: `arms != records["want_arm"]`, if the caller has it already.
        steered: flows that may get commands, shape (n,); None for all.
        asks: the pulses that flows should get, shape (n,); None for none.
        whole: flows that take their whole windows to their next arms, shape (n,); None for none.
    """
    flags = records["flags"]
    needed: Bools = (flags & _HEARD) != _STEERED
    needed |= arms != records["want_arm"] if differs is None else differs
    if asks is not None:
        needed |= asks != protocol.PulseKind.NONE
    needed &= (flags & PINNED) == 0
    (chosen,) = (needed if steered is None else needed & steered).nonzero()
    commands = np.zeros(chosen.size, protocol.COMMAND_DTYPE)
    if not chosen.size:
        return commands
    commands["cookie"] = records["cookie"][chosen]
    commands["arm"] = arms[chosen]
    if asks is not None:
        commands["pulse"] = asks[chosen]
    if whole is not None:
        commands["handover"] = np.where(whole[chosen], protocol.HandoverMode.AS_IS, commands["handover"])
    return commands


# These are numpy scalars, because members of an enumeration would be converted anew at every step.
_HEARD: Final = np.uint32(protocol.FlowFlags.STEERED | protocol.FlowFlags.FALLEN_BACK)
_STEERED: Final = np.uint32(protocol.FlowFlags.STEERED)
PINNED: Final = np.uint32(protocol.FlowFlags.PINNED)
