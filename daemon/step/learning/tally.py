# SPDX-License-Identifier: Apache-2.0
"""Turns the outcomes of flows (sums over their lives) into visits that have ended.

A visit is a group of flows to a prefix that began near each other on one arm. It is one observation: the mean
value of its flows (`gain.value`), weighted by their information. A visit has ended when no outcome came for
`QUIET_S`, because an open flow would have sent one in that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Bools, Floats, Ints
from ltp_switcher.daemon.choose.visits.learner import Visits
from ltp_switcher.daemon.step.learning.lots import incumbents
from ltp_switcher.errors import ArtifactError
from ltp_switcher.slots import SlotArrays, column

QUIET_S: Final = 12.0
"""Time without an outcome after which a visit has ended, in seconds. An open flow reports every 10 s, and the
daemon asks once a second.
"""
OPEN_MAX: Final = 65_536
"""Largest number of visits that are open at a time. Outcomes of further visits are counted and left out."""
_KEY: Final = np.dtype([("prefix", "=i8"), ("number", "=i8"), ("generation", "=u4"), ("lot", "=u4")])
_OPAQUE: Final = np.dtype(f"V{_KEY.itemsize}")
_COLUMNS: Final = ("key", "information", "values", "flows", "heard_s", "ended_s")


class Tally(SlotArrays):
    """The visits that have not ended, and the sums over their flows.

    A visit is a group of flows to a prefix that began near each other on one arm. Its lot is the arm that it
    drew. A flow's value is the logarithm of its reward, and its information is the weight of the value.
    """

    is_open = column(np.bool_)
    key = column(_KEY)
    information = column(np.float64)
    """Sum of the information of the visit's flows that have ended with a known value."""
    values = column(np.float64)
    """Sum of the flows' values, weighted by information."""
    flows = column(np.float64)
    heard_s = column(np.float64)
    """Time of the last outcome of any of the visit's flows."""
    ended_s = column(np.float64)
    """Time at which the last of the visit's flows ended."""

    def __init__(self, most: int = OPEN_MAX) -> None:
        super().__init__()
        self._most = most
        self._at: dict[bytes, int] = {}
        self._free: list[int] = []
        self.left_out = 0
        """Number of outcomes whose visits had no room."""

    def __len__(self) -> int:
        return len(self._at)

    def take(
        self, prefixes: Ints, lots: ArmIds, numbers: Ints, generations: Ints, told_s: Floats,
        ended: Bools, values: Floats, information: Floats,
    ) -> None:  # fmt: skip
        """Take in outcomes; each array has the shape (n,). The outcome of an open flow only keeps its visit
        open.

        Args:
            prefixes: numbers of the flows' prefixes.
            lots: arms that the visits drew.
            numbers: numbers of the visits. Visits to different prefixes may have the same number.
            generations: generations of the table entries from which the visits drew.
            told_s: Unix time of each outcome.
            ended: whether the flow has ended.
            values: value of each flow; NaN if unknown.
            information: weight of each value.
        """
        keys = np.zeros(len(prefixes), _KEY)
        keys["prefix"], keys["number"] = prefixes, numbers
        keys["generation"], keys["lot"] = generations, lots
        found, members = np.unique(keys.view(_OPAQUE), return_inverse=True)
        members, at = members.ravel(), self._places(found)
        known = at[members] >= 0
        self.left_out += int(np.count_nonzero(~known))
        np.maximum.at(self.heard_s, at[members[known]], told_s[known])
        says = known & ended & ~np.isnan(values) & (information > 0)
        places = at[members[says]]
        np.add.at(self.information, places, information[says])
        np.add.at(self.values, places, values[says] * information[says])
        np.add.at(self.flows, places, 1.0)
        np.maximum.at(self.ended_s, places, told_s[says])

    def ended(self, now_s: float) -> tuple[Visits, npt.NDArray[np.uint32]]:
        """Remove the visits that have ended. Return those with at least one known value, oldest first, and
        the generations of the table entries from which they drew.

        `Visits.arms` has the lots of the visits.
        """
        at = np.flatnonzero(self.is_open & (now_s - self.heard_s >= QUIET_S))
        at = at[np.argsort(self.ended_s[at], kind="stable")]
        self._close(at)
        at = at[self.flows[at] > 0]
        keys = self.key[at]
        mean = self.values[at] / self.information[at]
        visits = Visits(
            keys["prefix"].copy(), keys["lot"].astype(np.int64), mean, self.information[at],
            self.flows[at], self.ended_s[at],
        )  # fmt: skip
        return visits, keys["generation"].copy()

    def trying(self) -> Ints:
        """Return the numbers of the prefixes that have an open visit whose lot was not the incumbent of its
        entry.
        """
        keys = self.key[np.flatnonzero(self.is_open)]
        found: Ints = np.unique(keys["prefix"][keys["lot"] != incumbents(keys["generation"])])
        return found

    def forget(self, prefixes: Ints) -> None:
        """Remove the open visits to the prefixes with these numbers."""
        if self._at:
            self._close(np.flatnonzero(self.is_open & np.isin(self.key["prefix"], prefixes)))

    def state(self) -> dict[str, np.ndarray]:
        """The open visits, as arrays that the caller may keep."""
        at = np.flatnonzero(self.is_open)
        keys = self.key[at].view(np.uint8).reshape(at.size, _KEY.itemsize)
        return {"open_key": keys} | {f"open_{name}": getattr(self, name)[at] for name in _COLUMNS[1:]}

    def restore(self, arrays: Mapping[str, np.ndarray], prefixes: int) -> None:
        """Take over the result of `state`. `prefixes` is the number of known prefixes, to which the visits
        must belong.

        Raises `ArtifactError` if the state does not fit.
        """
        keys = np.ascontiguousarray(arrays["open_key"], np.uint8)
        size = len(keys)
        columns = {name: np.asarray(arrays[f"open_{name}"], float) for name in _COLUMNS[1:]}
        if keys.shape != (size, _KEY.itemsize) or any(
            part.shape != (size,) or not np.isfinite(part).all() for part in columns.values()
        ):
            raise ArtifactError("the arrays of open visits do not fit each other")
        named = keys.view(_KEY).ravel()
        if not ((named["prefix"] >= 0) & (named["prefix"] < prefixes)).all():
            raise ArtifactError("an open visit is of no prefix")
        at = self._places(named.view(_OPAQUE))
        for name, part in columns.items():
            getattr(self, name)[at] = part

    def _places(self, keys: np.ndarray) -> Ints:
        """Return the rows of visits by their keys, shape (n,). No key appears twice. A new visit gets a free
        row, or -1 if there is no room.
        """
        names = keys.tolist()
        made = np.fromiter(map(self._at.get, names, repeat(-1)), np.int64, len(names))
        new = np.flatnonzero(made < 0)[: self._most - len(self._at)]
        if new.size > len(self._free):
            before = self.capacity
            self.grow(before + new.size - len(self._free))
            self._free.extend(range(before, self.capacity))
        if new.size:
            made[new] = [self._free.pop() for _ in range(new.size)]
            self.reset(made[new])
            self.key[made[new]] = keys[new].view(_KEY)
            self.is_open[made[new]] = True
            self._at.update(zip([names[place] for place in new.tolist()], made[new].tolist(), strict=True))
        return made

    def _close(self, at: Ints) -> None:
        """Remove the visits in these rows."""
        self._free.extend(map(self._at.pop, self.key[at].view(_OPAQUE).tolist()))
        self.is_open[at] = False
