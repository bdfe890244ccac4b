# SPDX-License-Identifier: Apache-2.0
"""The values of the flows to each prefix or host, as lines in the logarithm of the flow's size.

A flow's value is the logarithm of its reward. It depends on the flow's size more than on the arm: a flow that
ends in its start reaches a fraction of the path's rate. Flows of one size class differ tenfold in size. So
each class of a prefix has a line, and a flow's value counts relative to this line. About a third less of the
variance is left than about the mean of the class (docs/lab-notes/traffic.md).

A line leaves out the gains of the arms that the flows drew. Otherwise it would follow the arms, and a prefix
that moves to a better arm would seem to have a path that becomes worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.gain import value
from ltp_switcher.errors import ArtifactError
from ltp_switcher.slots import SlotArrays, column

FLOWS_MEMORY: Final = 200.0
"""Number of latest flows over which the line of a prefix and size class is fitted."""
_CLASSES: Final = len(value.SIZE_NAMES)


class SizeLines(SlotArrays):
    """The lines of each prefix or host, one for each size class, by the place's number."""

    flows = column(np.float64, _CLASSES)
    """Number of flows in the line, at most `FLOWS_MEMORY`; 0 if there is no line."""
    value = column(np.float64, _CLASSES)
    """Mean value of these flows."""
    size = column(np.float64, _CLASSES)
    """Mean logarithm of the sizes of these flows, in log bytes."""
    _spread2 = column(np.float64, _CLASSES)
    """Variance of the logarithm of the size."""
    _together = column(np.float64, _CLASSES)
    """Covariance of the logarithm of the size and the value."""

    def take(self, numbers: Ints, sizes_bytes: Ints, raw: Floats, gains: Floats | float = 0.0) -> Floats:
        """Return the values of flows relative to the lines of their places, clipped to ±`value.CLIP`, shape
        (n,). A place is a prefix or host.

        The line is fitted to earlier flows. If there are none, it is fitted to these flows. Afterwards these
        flows enter the line.

        Args:
            numbers: numbers of the places, shape (n,).
            sizes_bytes: sizes of the flows, shape (n,).
            raw: values of the flows from `value.raw_values`, shape (n,).
            gains: gains in value of the flows' arms over the decision's own choice, as far as they are known,
                shape (n,); 0 if no flow drew an arm.
        """
        expected = self.expected(numbers, sizes_bytes)
        self._learn(numbers, sizes_bytes, raw - gains)
        new = np.isnan(expected)
        expected[new] = self.expected(numbers[new], sizes_bytes[new])
        relative: Floats = np.clip(raw - expected, -value.CLIP, value.CLIP)
        return relative

    def expected(self, numbers: Ints, sizes_bytes: Ints) -> Floats:
        """The values of the lines at the sizes of flows, shape (n,); NaN where there is no line.

        Args:
            numbers: numbers of the flows' prefixes or hosts, shape (n,).
            sizes_bytes: sizes of the flows, shape (n,).
        """
        at = numbers, value.classes_of(sizes_bytes)
        flows = self.flows[at]
        slope = value.line_slope(self._together[at], self._spread2[at], flows)
        line: Floats = self.value[at] + slope * (value.log_sizes(sizes_bytes) - self.size[at])
        line[flows == 0] = np.nan
        return line

    def _learn(self, numbers: Ints, sizes_bytes: Ints, raw: Floats) -> None:
        """Let the finite values enter the lines of their places and size classes."""
        told = np.isfinite(raw)
        x, y = value.log_sizes(sizes_bytes[told]), raw[told]
        places = numbers[told] * _CLASSES + value.classes_of(sizes_bytes[told])
        groups, members, counts = np.unique(places, return_inverse=True, return_counts=True)
        at, members = np.divmod(groups, _CLASSES), members.ravel()
        own_x, own_y = np.bincount(members, x) / counts, np.bincount(members, y) / counts
        dx, dy = x - own_x[members], y - own_y[members]
        own_xx, own_xy = np.bincount(members, dx * dx) / counts, np.bincount(members, dx * dy) / counts
        self.flows[at] = total = np.minimum(self.flows[at] + counts, FLOWS_MEMORY)
        share = np.minimum(counts / total, 1.0)
        off_x, off_y = own_x - self.size[at], own_y - self.value[at]
        # The variance of a mixture is the variance within its parts plus the variance between their means.
        # The same holds for the covariance.
        self._spread2[at] += share * (own_xx - self._spread2[at] + (1.0 - share) * off_x**2)
        self._together[at] += share * (own_xy - self._together[at] + (1.0 - share) * off_x * off_y)
        self.size[at] += share * off_x
        self.value[at] += share * off_y

    def state(self, size: int) -> dict[str, np.ndarray]:
        """The lines of the places with numbers below `size`, as arrays that the caller may keep."""
        return {f"line_{name.lstrip('_')}": getattr(self, name)[:size].copy() for name in _COLUMNS}

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for `size` places. The state of an earlier release has no lines, so
        they begin anew.

        Raises `ArtifactError` if the arrays do not fit.
        """
        self.grow(size)
        names = [f"line_{name.lstrip('_')}" for name in _COLUMNS]
        if not arrays.keys() & set(names):
            return
        for name, saved in zip(_COLUMNS, names, strict=True):
            told = np.asarray(arrays[saved], float)
            if told.shape != (size, _CLASSES) or not np.isfinite(told).all():
                raise ArtifactError(f"the lines do not fit {size} prefixes and hosts")
            getattr(self, name)[:size] = told


_COLUMNS: Final = ("flows", "value", "size", "_spread2", "_together")
