# SPDX-License-Identifier: Apache-2.0
"""Links on which LTP is trained and compared: Table 3's regions, with the flows that share a link here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ltp_switcher.policies.simulator.regions import LTP_LARGE, LTP_MEDIUM, LTP_SMALL, Region
from ltp_switcher.policies.simulator.simulator import Roster

REGIONS: Final[Mapping[str, Region]] = {"small": LTP_SMALL, "medium": LTP_MEDIUM, "large": LTP_LARGE}
ROSTER: Final = Roster(window=3, cubic=2)
FLOWS: Final = (1, 4)
"""Flows of a link. The paper has 2 to 10. Most of its figures are about one flow, and ten cost too much."""
