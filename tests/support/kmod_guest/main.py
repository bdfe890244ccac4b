# SPDX-License-Identifier: Apache-2.0
"""Runs one group of checks in the guest, or one check of it: `python3 -m kmod_guest.main GROUP [CHECK]`."""

from __future__ import annotations

import sys

from ltp_switcher.daemon.datapath import Datapath

from . import (
    handover,
    learned,
    loading,
    marks,
    measuring,
    memory,
    mptcp,
    outcomes,
    pulses,
    resuming,
    rights,
    safety,
    selection,
    sockets,
    starting,
    switching,
    telling,
    thresholds,
    tracing,
    visits,
)
from .harness import Check, Context, insmod, run
from .net import Link, Traffic

GROUPS: dict[str, tuple[Check, ...]] = {
    "loading": loading.CHECKS,
    "flows": memory.CHECKS
    + selection.CHECKS
    + measuring.CHECKS
    + safety.CHECKS
    + rights.CHECKS
    + switching.CHECKS
    + mptcp.CHECKS
    + switching.LAST,
    "handover": starting.CHECKS + handover.CHECKS + pulses.CHECKS,
    "resuming": resuming.CHECKS,
    "sockets": telling.CHECKS + tracing.CHECKS + sockets.CHECKS,
    "outcomes": outcomes.CHECKS + visits.CHECKS,
    "learned": learned.CHECKS + thresholds.CHECKS + marks.CHECKS,
}


def main(group: str, only: str = "") -> None:
    """Run the group's checks. Those of "loading" load the module themselves."""
    checks = [check for check in GROUPS[group] if only in ("", check.__name__)]
    if group == "loading":
        run(checks)
        return
    # Most checks steer by hand, with pauses longer than a daemon's; the watchdog has checks of its own.
    # And they are about what the paper does at a switch; what is done beyond it has a group of its own.
    insmod(watchdog_ms=0, handover="as-is", restore="as-is")
    datapath = Datapath()
    datapath.open_session()
    run(checks, Context(datapath, Link.create("l", 1), Traffic()))


if __name__ == "__main__":
    main(*sys.argv[1:])
