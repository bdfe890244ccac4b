# SPDX-License-Identifier: Apache-2.0
"""The rule's memory of destination prefixes: the next flow to a prefix profits from the findings of the last
one.

The memory outlives the daemon. On disk its times are Unix times, because CLOCK_MONOTONIC begins anew when the
machine boots. So the findings grow old even while no daemon runs.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import numpy as np

from ltp_switcher.errors import ArtifactError

PREFIXES_MAX: Final = 65_536
"""Largest number of prefixes in memory. The prefix that was learned longest ago is forgotten first."""
_FIELDS: Final = [("value", np.float64), ("learned_ns", np.int64)]


class Prefixes:
    """A memory with one number for each destination prefix. A number is valid for a limited time.

    Args:
        memory_s: time for which a number is valid, s.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory_ns = memory_s * 1e9
        self._known: dict[str, tuple[float, int]] = {}
        """Number of each prefix, and the time when it was learned, CLOCK_MONOTONIC in ns (oldest first)."""

    def learn(self, prefix: str, value: float, now_ns: int) -> None:
        """Remember the number `value` for the prefix, from `now_ns` on, CLOCK_MONOTONIC."""
        self._known.pop(prefix, None)
        self._known[prefix] = value, now_ns
        if len(self._known) > PREFIXES_MAX:
            del self._known[next(iter(self._known))]

    def value(self, prefix: str, now_ns: int) -> float | None:
        """The number of the prefix; None if it was never learned, or is too old."""
        value, learned_ns = self._known.get(prefix, (None, 0))
        return value if self._counts(learned_ns, now_ns) else None

    def state(self, now_ns: int, ahead_ns: int) -> np.ndarray:
        """Return the memory as an array for the saved state, shape (n,).

        The array has the prefixes whose numbers are still valid, in the order in which they were learned. Its
        columns are `prefix`, `value` (the number) and `learned_ns`.

        Args:
            now_ns: CLOCK_MONOTONIC.
            ahead_ns: Unix time less CLOCK_MONOTONIC, by which `learned_ns` becomes Unix time in the array.
        """
        newest_first = takewhile(
            lambda known: self._counts(known[1][1], now_ns), reversed(self._known.items())
        )
        known = list(newest_first)[::-1]
        prefixes = np.array([prefix for prefix, _ in known], np.bytes_)
        made = np.empty(len(known), [("prefix", prefixes.dtype), *_FIELDS])
        made["prefix"] = prefixes
        made["value"] = [value for _, (value, _) in known]
        made["learned_ns"] = [learned_ns + ahead_ns for _, (_, learned_ns) in known]
        return made

    def restore(self, array: np.ndarray, now_ns: int, ahead_ns: int) -> None:
        """Take over the result of `state`. Numbers that have become too old meanwhile are not valid. The
        arguments `now_ns` and `ahead_ns` are as in `state`, at the present time.

        Raises `ArtifactError` if the array has another form.
        """
        kinds = {name: array.dtype[name].kind for name in array.dtype.names or ()}
        if kinds != {"prefix": "S", "value": "f", "learned_ns": "i"} or array.ndim != 1:
            raise ArtifactError("the rule's memory of prefixes has another form")
        for prefix, value, learned_ns in array.tolist():
            # The machine's clock may have been set back.
            self.learn(prefix.decode(), value, min(learned_ns - ahead_ns, now_ns))

    def _counts(self, learned_ns: int, now_ns: int) -> bool:
        return now_ns - learned_ns < self._memory_ns
