# SPDX-License-Identifier: Apache-2.0
"""Counts the visits to single hosts that share their prefix's knowledge.

A visit is a group of flows that began near each other on one arm. Hosts of one /24 or /48 may be on different
paths. So a host with enough visits gets knowledge of its own, below its prefix, if other hosts of the prefix
have flows, too.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.step.learning.places import Places, names_of

ENOUGH: Final = 40
"""Number of visits after which a host gets knowledge of its own (docs/lab-notes/learner.md)."""
WATCHED_MAX: Final = 16_384
"""Largest number of hosts whose visits are counted. The host that was unseen for longest makes room for a new
one.
"""


class Watched:
    """Counts the visits to hosts that have no knowledge of their own yet. A visit is a group of flows that
    began near each other on one arm.
    """

    def __init__(self, most: int = WATCHED_MAX) -> None:
        self._most = most
        # A plain dict takes long to find its oldest entry once many of them are gone.
        self._visits: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._visits)

    def count(self, hosts: Places, visits: Ints) -> Ints:
        """Count the visits of flows. Returns the indices of flows to hosts that have had `ENOUGH` visits, one
        flow for each host.

        A visit counts once if no other visit to the host reports between its own reports. Otherwise it counts
        again.

        Args:
            hosts: host of each flow, shape (n,).
            visits: number of each flow's visit, shape (n,).
        """
        found: dict[bytes, int] = {}
        for place, (name, visit) in enumerate(zip(names_of(hosts), visits.tolist(), strict=True)):
            count, last = self._visits.get(name, (0, 0))
            count += not count or visit != last
            self._visits[name] = count, visit
            self._visits.move_to_end(name)
            if count >= ENOUGH:
                found[name] = place
        for name in found:
            del self._visits[name]
        while len(self._visits) > self._most:
            self._visits.popitem(last=False)
        return np.array(list(found.values()), np.int64)
