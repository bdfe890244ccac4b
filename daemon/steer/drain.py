# SPDX-License-Identifier: Apache-2.0
"""Windows that empty a queue, whatever the policy of a learned arm wants."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.daemon.datapath import ControlArray, RecordArray
from ltp_switcher.daemon.datapath.protocol import ControlLaw

SHARE: Final = 2
"""Part of the path's bandwidth-delay product that is left in flight: one half. The RTT floor shows then, even
where a queue as long as the path was taken for a part of it."""
WINDOW_LEAST_PKTS: Final = 4


def drain(controls: ControlArray, records: RecordArray) -> None:
    """Lower the windows of these flows, in place.

    Args:
        controls: `CONTROL_DTYPE`, shape (m,); of any flows.
        records: `RECORD_DTYPE`, shape (n,), of the flows whose queues are to be emptied.
    """
    order = np.argsort(records["cookie"])
    cookies = records["cookie"][order]
    at = np.minimum(np.searchsorted(cookies, controls["cookie"]), cookies.size - 1)
    found = (cookies[at] == controls["cookie"]) & (controls["law"] == ControlLaw.WINDOW)
    small = np.maximum(records["bdp"][order[at[found]]] // SHARE, WINDOW_LEAST_PKTS)
    controls["value"][found, 0] = np.minimum(controls["value"][found, 0], small)
