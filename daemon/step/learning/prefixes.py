# SPDX-License-Identifier: Apache-2.0
"""The destination prefixes that are known, each with a number, and the sizes of the flows to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.outcomes import PREFIX_KEY, prefix_keys, prefix_text
from ltp_switcher.errors import ArtifactError
from ltp_switcher.slots import SlotArrays, column

PREFIXES_MAX: Final = 16_384
"""Prefixes that are remembered."""
_MAKES_ROOM: Final = 16
"""The share of the prefixes that is forgotten at a time, for want of room, is one over this."""
FLOWS_MEMORY: Final = 200.0
"""Flows after which the mean of a prefix and size class is that of the newest ones."""
_OPAQUE: Final = np.dtype(f"V{PREFIX_KEY.itemsize}")


class KnownPrefixes(SlotArrays):
    """Numbers of prefixes, from 0 on. A number is used again after its prefix was forgotten."""

    key = column(PREFIX_KEY)
    seen_s = column(np.float64)
    """Unix time of the last outcome."""
    mean = column(np.float64, len(value.SIZE_NAMES))
    """Mean raw value of the flows of each size class."""
    flows = column(np.float64, len(value.SIZE_NAMES))
    """Flows in that mean, at most `FLOWS_MEMORY`; 0 where there is none."""

    def __init__(self, most: int = PREFIXES_MAX) -> None:
        super().__init__()
        self._most = most
        self._number: dict[bytes, int] = {}
        self._by_text: dict[str, int] = {}
        self._free: list[int] = []
        self._gone: list[np.ndarray] = []
        self.texts: list[str] = []
        """The prefixes as the daemon writes them; empty where a number is free."""

    def __len__(self) -> int:
        return len(self._number)

    def numbers(self) -> Ints:
        """The numbers in use."""
        return np.fromiter(self._number.values(), np.int64, len(self._number))

    def find(self, text: str) -> int | None:
        """The number of a prefix that is known."""
        return self._by_text.get(text)

    def of(self, outcomes: OutcomeArray, now_s: float) -> tuple[Ints, Ints]:
        """The numbers of the flows' prefixes, shape (n,), and those that are new or were given anew."""
        keys, places = np.unique(prefix_keys(outcomes).view(_OPAQUE), return_inverse=True)
        found = [self._number.get(name, -1) for name in keys.tolist()]
        missing = found.count(-1)
        if missing:
            self._make_room(missing, np.array(found, np.int64))
            found = [
                self._add(key) if number < 0 else number for key, number in zip(keys, found, strict=True)
            ]
        numbers = np.array(found, np.int64)
        new = self.seen_s[numbers] == 0.0
        self.seen_s[numbers] = now_s
        return numbers[places.ravel()], numbers[new]

    def told(self, keys: np.ndarray, now_s: float) -> tuple[Ints, Ints]:
        """The numbers of prefixes that others tell of, and the places of those that are new.

        No prefix is forgotten for them. One for which there is no room has the number -1.

        Args:
            keys: `PREFIX_KEY`, shape (n,), each once.
            now_s: Unix time.
        """
        names = keys.view(_OPAQUE).tolist()
        numbers = np.array([self._number.get(name, -1) for name in names], np.int64)
        new = np.flatnonzero(numbers < 0)[: max(self._most // 2 - len(self), 0)]
        numbers[new] = [self._add(key) for key in keys[new]]
        self.seen_s[numbers[new]] = now_s
        return numbers, new

    def take(self, numbers: Ints, classes: Ints, raw: Floats) -> Floats:
        """The values of flows relative to the mean of prefix and size class, clipped: shape (n,).

        The mean is that of the flows before these or, where there is none, of these. They enter it then.

        Args:
            numbers: of the prefixes, shape (n,).
            classes: of size, shape (n,).
            raw: `value.raw_values`, shape (n,).
        """
        groups, members = np.unique(numbers * len(value.SIZE_NAMES) + classes, return_inverse=True)
        members = members.ravel()
        finite = np.isfinite(raw)
        counts = np.bincount(members[finite], minlength=groups.size)
        sums = np.bincount(members[finite], weights=raw[finite], minlength=groups.size)
        at = np.divmod(groups, len(value.SIZE_NAMES))
        before, mean = self.flows[at], self.mean[at]
        own = np.divide(sums, counts, out=np.full(groups.size, np.nan), where=counts > 0)
        told = np.where(before > 0, mean, own)
        total = np.minimum(before + counts, FLOWS_MEMORY)
        share = np.divide(counts, total, out=np.zeros(groups.size), where=total > 0)
        self.mean[at] = np.where(counts > 0, told + np.minimum(share, 1.0) * (own - told), mean)
        self.flows[at] = total
        relative: Floats = np.clip(raw - told[members], -value.CLIP, value.CLIP)
        return relative

    def forget(self, numbers: Ints) -> None:
        """Give these numbers back."""
        self._gone.append(self.key[numbers])
        for number in numbers.tolist():
            del self._number[self.key[number].tobytes()], self._by_text[self.texts[number]]
            self.texts[number] = ""
            self._free.append(number)
        self.reset(numbers)

    def gone(self) -> np.ndarray:
        """The keys (`PREFIX_KEY`) of the prefixes that were forgotten since the last call."""
        gone, self._gone = self._gone, []
        return np.concatenate([np.zeros(0, PREFIX_KEY), *gone])

    def state(self) -> dict[str, np.ndarray]:
        """The prefixes by number up to the highest, as arrays that the caller may keep."""
        size = len(self.texts)
        return {
            "keys": self.key[:size].copy().view(np.uint8).reshape(size, PREFIX_KEY.itemsize),
            "prefix_seen_s": self.seen_s[:size].copy(),
            "class_mean": self.mean[:size].copy(),
            "class_flows": self.flows[:size].copy(),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> int:
        """Take over the result of `state`. Returns how many numbers there are. Raises `ArtifactError`."""
        keys, seen_s = np.asarray(arrays["keys"], np.uint8), np.asarray(arrays["prefix_seen_s"], float)
        size = len(seen_s)
        mean, flows = (np.asarray(arrays[name], float) for name in ("class_mean", "class_flows"))
        shape = (size, len(value.SIZE_NAMES))
        if keys.shape != (size, PREFIX_KEY.itemsize) or mean.shape != shape or flows.shape != shape:
            raise ArtifactError("the arrays of prefixes do not fit each other")
        if not all(np.isfinite(part).all() for part in (seen_s, mean, flows)):
            raise ArtifactError("prefixes have numbers that are not finite")
        self.grow(size)
        self.key[:size] = np.ascontiguousarray(keys).view(PREFIX_KEY).ravel()
        self.seen_s[:size], self.mean[:size], self.flows[:size] = seen_s, mean, flows
        self.texts = [""] * size
        for number in range(size):
            if seen_s[number]:
                self._name(number)
            else:
                self._free.append(number)
        if len(self._number) + len(self._free) != size or len(self._by_text) != len(self._number):
            raise ArtifactError("a prefix is there twice")
        return size

    def _add(self, key: np.void) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.texts)
            self.texts.append("")
        self.reset(np.array([number]))
        self.key[number] = key.view(PREFIX_KEY)
        self._name(number)
        return number

    def _name(self, number: int) -> None:
        text = prefix_text(self.key[number])
        self._number[self.key[number].tobytes()] = number
        self.texts[number] = text
        self._by_text[text] = number

    def _make_room(self, wanted: int, in_use: Ints) -> None:
        """Forget the prefixes that were seen the longest time ago, none of those in use."""
        lacking = len(self._number) + wanted - self._most
        if lacking <= 0:
            return
        known = np.setdiff1d(self.numbers(), in_use)
        count = min(max(lacking, self._most // _MAKES_ROOM), known.size)
        self.forget(known[np.argsort(self.seen_s[known], kind="stable")[:count]])
