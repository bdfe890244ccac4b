# SPDX-License-Identifier: Apache-2.0
"""The settings of learning from flow to flow."""

from __future__ import annotations

from dataclasses import dataclass

from ltp_switcher.daemon.settings.rules import Section, key


@dataclass(frozen=True, slots=True)
class VisitsSection(Section):
    """Learning from flow to flow: the arms on which the flows to a destination prefix begin."""

    learn: str = key(
        "off",
        "on: in mode active, visits to a destination prefix try other arms now and then, at a price of at "
        "most 1 % of all flows' reward, and run the arm that is surely better than the policy's own choice. "
        "See docs/visits.md.",
        choices=("off", "on"),
    )
    arms: tuple[str, ...] = key(
        (),
        "Arms that visits try beside the policy's own choice. Empty: bbr, ltp, vegas and cubic, as far as "
        "this machine has them.",
    )
