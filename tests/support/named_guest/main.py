# SPDX-License-Identifier: Apache-2.0
"""Runs one group of checks in the guest: `python3 -m named_guest.main GROUP`."""

from __future__ import annotations

import sys

from kmod_guest.harness import Check, run

from . import winners
from .world import build

GROUPS: dict[str, tuple[Check, ...]] = {
    "winners": winners.CHECKS,
}


if __name__ == "__main__":
    build()
    run(GROUPS[sys.argv[1]])
