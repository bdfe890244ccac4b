# SPDX-License-Identifier: Apache-2.0
"""Caps the windows of learned arms so that a queue empties, whatever windows the arms' policies ask for."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.daemon.datapath import ControlArray, RecordArray
from ltp_switcher.daemon.datapath.protocol import ControlLaw

SHARE: Final = 2
"""The capped window is the path's bandwidth-delay product over this number. With half of the product in
flight no queue stands, so the path's lowest RTT shows. This holds even if a queue had doubled the product.
"""
WINDOW_LEAST_PKTS: Final = 4


def drain(controls: ControlArray, records: RecordArray) -> None:
    """Lower the windows of flows whose queues are to be emptied. The windows are in the controls, which are
    changed in place.

    Args:
        controls: the latest decisions for flows of learned arms, `CONTROL_DTYPE`, shape (m,). Controls of
            other flows stay as they are.
        records: records of the flows whose queues are to be emptied, `RECORD_DTYPE`, shape (n,).
    """
    order = np.argsort(records["cookie"])
    cookies = records["cookie"][order]
    at = np.minimum(np.searchsorted(cookies, controls["cookie"]), cookies.size - 1)
    found = (cookies[at] == controls["cookie"]) & (controls["law"] == ControlLaw.WINDOW)
    small = np.maximum(records["bdp"][order[at[found]]] // SHARE, WINDOW_LEAST_PKTS)
    controls["value"][found, 0] = np.minimum(controls["value"][found, 0], small)
