# SPDX-License-Identifier: Apache-2.0
"""Single hosts, and how many visits each of them has had while it shared its prefix's knowledge.

Hosts of one /24 or /48 may be on different paths. So a host with enough visits is known by itself, below its
prefix, if other hosts of the prefix have flows, too.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.step.learning.places import Places, names_of

ENOUGH: Final = 40
"""Visits of a host after which it is known by itself (docs/lab-notes/learner.md)."""
WATCHED_MAX: Final = 16_384
"""Hosts whose visits are counted. The one that was unseen for longest makes room."""


class Watched:
    """The visits of hosts that are not known by themselves yet."""

    def __init__(self, most: int = WATCHED_MAX) -> None:
        self._most = most
        # A plain dict takes long to find its oldest entry once many of them are gone.
        self._visits: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._visits)

    def count(self, hosts: Places, visits: Ints) -> Ints:
        """Take in flows. Returns the places of hosts that have had enough visits, each once.

        A visit counts once, if its flows are told of one after the other.

        Args:
            hosts: the flows' hosts, shape (n,).
            visits: the numbers of their visits, shape (n,).
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
