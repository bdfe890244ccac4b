# SPDX-License-Identifier: Apache-2.0
"""A rule whose steps are recorded in memory."""

from __future__ import annotations

import numpy as np

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.datapath.recording import ROW_DTYPE
from ltp_switcher.daemon.settings.rule_policy import RuleSection


class Recorded(RuleChooser):
    """A rule that keeps the rows of its steps as a recording has them."""

    def __init__(self) -> None:
        super().__init__([int(ArmId.BBR), int(ArmId.LTP), int(ArmId.VEGAS)], RuleSection())
        self.rows: list[np.ndarray] = []

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Decide, and keep what was decided on."""
        draw = super().step(slots, records, given)
        self.asks(slots)
        self.drains(slots, records)
        self.begins_anew(slots)
        rows = np.zeros(len(slots), ROW_DTYPE)
        rows["step"], rows["slot"], rows["chosen"], rows["record"] = len(self.rows), slots, draw.arms, records
        self.rows.append(rows)
        return draw
