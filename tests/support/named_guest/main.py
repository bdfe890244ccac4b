# SPDX-License-Identifier: Apache-2.0
"""Runs one group of checks in the guest: `python3 -m named_guest.main GROUP`."""

from __future__ import annotations

import sys

from kmod_guest.harness import Check, run

from . import costs, layouts, life, winners
from .world import build

GROUPS: dict[str, tuple[Check, ...]] = {
    "winners": winners.CHECKS,
    "life": life.CHECKS,
    "layouts": layouts.CHECKS,
    "costs": costs.CHECKS,
    "before_a_reboot": (life.prefixes_outlive_this_boot,),
    "after_a_reboot": (life.prefixes_come_into_force_at_boot,),
}


if __name__ == "__main__":
    build()
    run(GROUPS[sys.argv[1]])
