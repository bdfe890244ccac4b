# SPDX-License-Identifier: Apache-2.0
"""The known prefixes and hosts. Each has a number, and lines that tell how the value of a flow depends on its
size. A flow's value is the logarithm of its reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.gain.outcomes import PREFIX_KEY, prefix_keys
from ltp_switcher.daemon.step.learning import places
from ltp_switcher.daemon.step.learning.hosts import Watched
from ltp_switcher.daemon.step.learning.lines import SizeLines
from ltp_switcher.daemon.step.learning.places import PLACE, Places
from ltp_switcher.errors import ArtifactError
from ltp_switcher.slots import SlotArrays, column

PREFIXES_MAX: Final = 16_384
"""Largest number of prefixes and hosts together that are remembered."""
HOSTS_MAX: Final = 16
"""Largest number of hosts of a prefix that have knowledge of their own."""
_MAKES_ROOM: Final = 16
"""Divisor of `PREFIXES_MAX`. When there is no room, at least this quotient of places is forgotten at once."""
_OPAQUE: Final = np.dtype(f"V{PREFIX_KEY.itemsize}")


class KnownPrefixes(SlotArrays):
    """The known places, which are prefixes and single hosts below them. Each place has a number, from 0 on,
    which is its row in every column. The number of a forgotten place is used again.
    """

    place = column(PLACE)
    parent = column(np.int64, initial=-1)
    """The number of a host's prefix; -1 if the place is a prefix."""
    hosts = column(np.int64)
    """Number of single hosts of the prefix that have rows of their own."""
    several = column(np.bool_)
    """Whether flows went to more than one host of the prefix."""
    _address = column(np.uint8, 16)
    """Address of the first host of the prefix to which a flow went."""
    seen_s = column(np.float64)
    """Unix time of the last outcome."""

    def __init__(self, most: int = PREFIXES_MAX) -> None:
        super().__init__()
        self._most = most
        self._number: dict[bytes, int] = {}
        self._by_text: dict[str, int] = {}
        self._free: list[int] = []
        self._gone: list[Places] = []
        self._watched = Watched()
        self.lines = self.part(SizeLines())
        self.texts: list[str] = []
        """Prefixes and hosts as the daemon writes them, by number; empty where a number is free."""

    def __len__(self) -> int:
        return len(self._number)

    @property
    def single_hosts(self) -> int:
        """Number of hosts that have numbers of their own."""
        return int(np.count_nonzero(self.parent[self.numbers()] >= 0))

    def numbers(self) -> Ints:
        """The numbers in use."""
        return np.fromiter(self._number.values(), np.int64, len(self._number))

    def find(self, text: str) -> int | None:
        """The number of a prefix or host from its text; None if the place is not known."""
        return self._by_text.get(text)

    def of(self, outcomes: OutcomeArray, now_s: float) -> tuple[Ints, Ints]:
        """Find the number of each flow's host or, if the host has none, of its prefix, shape (n,). Prefixes
        that are not known get numbers.

        The second result has these new numbers.
        """
        keys, members = np.unique(prefix_keys(outcomes).view(_OPAQUE), return_inverse=True)
        members, wanted = members.ravel(), places.of_prefixes(keys.view(PREFIX_KEY))
        numbers = self._numbered(wanted)
        (missing,) = np.nonzero(numbers < 0)
        if missing.size:
            self._make_room(missing.size, numbers)
            numbers[missing] = [self._add(place) for place in wanted[missing]]
        new = self.seen_s[numbers] == 0.0
        self.seen_s[numbers] = now_s
        of_flows = numbers[members]
        self._note_hosts(of_flows, outcomes)
        (at,) = np.nonzero(self.hosts[of_flows])
        if at.size:
            of_hosts = self._numbered(places.hosts_of(outcomes[at]))
            of_flows[at] = np.where(of_hosts >= 0, of_hosts, of_flows[at])
            self.seen_s[of_flows[at]] = now_s
        return of_flows, numbers[new]

    def _note_hosts(self, numbers: Ints, outcomes: OutcomeArray) -> None:
        """Note whether flows went to more than one host of their prefix. `numbers` and `outcomes` have the
        shape (n,).
        """
        addresses = outcomes["daddr"]
        none = ~self._address[numbers].any(axis=1)
        self._address[numbers[none]] = addresses[none]
        others = (self._address[numbers] != addresses).any(axis=1)
        self.several[numbers[others]] = True

    def split(self, numbers: Ints, outcomes: OutcomeArray, visits: Ints) -> Ints:
        """Give numbers to hosts that have had enough visits and are not alone in their prefix. Returns the
        new numbers. No host gets a number once half of the room for places is in use.

        A visit is a group of flows that began near each other on one arm.

        Args:
            numbers: numbers of the flows' prefixes or hosts, shape (n,).
            outcomes: outcomes of these flows, shape (n,).
            visits: number of each flow's visit, shape (n,).
        """
        mask = (self.parent[numbers] < 0) & self.several[numbers] & (self.hosts[numbers] < HOSTS_MAX)
        (at,) = np.nonzero(mask)
        if not at.size or len(self) >= self._most // 2:
            return np.zeros(0, np.int64)
        hosts = places.hosts_of(outcomes[at])
        made = []
        for place in self._watched.count(hosts, visits[at]).tolist():
            parent = numbers[at[place]]
            if self.hosts[parent] < HOSTS_MAX and len(self) < self._most // 2:
                number = self._add(hosts[place])
                self.parent[number], self.seen_s[number] = parent, self.seen_s[parent]
                self.hosts[parent] += 1
                made.append(number)
        return np.array(made, np.int64)

    def and_hosts(self, number: int) -> Ints:
        """The number of a prefix, followed by the numbers of its hosts."""
        numbers = self.numbers()
        return np.concatenate([[number], numbers[self.parent[numbers] == number]])

    def told(self, keys: np.ndarray, now_s: float) -> tuple[Ints, Ints]:
        """Return the numbers of prefixes about which other servers have reported, shape (n,), and the indices
        of the prefixes that were not known before.

        No known prefix is forgotten to make room. Once half of the room for places is in use, a new prefix
        gets the number -1.

        Args:
            keys: the prefixes, `PREFIX_KEY`, shape (n,), each once.
            now_s: Unix time.
        """
        wanted = places.of_prefixes(keys)
        numbers = self._numbered(wanted)
        new = np.flatnonzero(numbers < 0)[: max(self._most // 2 - len(self), 0)]
        numbers[new] = [self._add(place) for place in wanted[new]]
        self.seen_s[numbers[new]] = now_s
        return numbers, new

    def forget(self, numbers: Ints) -> None:
        """Free the numbers of these prefixes and of their hosts."""
        known = self.numbers()
        numbers = np.union1d(numbers, known[np.isin(self.parent[known], numbers)])
        self._gone.append(self.place[numbers])
        np.subtract.at(self.hosts, self.parent[numbers[self.parent[numbers] >= 0]], 1)
        for number in numbers.tolist():
            del self._number[self.place[number].tobytes()], self._by_text[self.texts[number]]
            self.texts[number] = ""
            self._free.append(number)
        self.reset(numbers)

    def gone(self) -> Places:
        """The prefixes and hosts that were forgotten since the last call."""
        gone, self._gone = self._gone, []
        return np.concatenate([np.zeros(0, PLACE), *gone])

    def state(self) -> dict[str, np.ndarray]:
        """All prefixes and hosts by number, up to the highest number in use, as arrays that the caller may
        keep.
        """
        size = len(self.texts)
        return {
            "keys": self.place[:size].copy().view(np.uint8).reshape(size, PLACE.itemsize),
            "prefix_seen_s": self.seen_s[:size].copy(),
            **self.lines.state(size),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> int:
        """Take over the result of `state`. Returns the number of rows that it has, including rows of free
        numbers.

        Raises `ArtifactError` if the arrays do not fit each other, or have values that are not finite.
        """
        keys, seen_s = np.asarray(arrays["keys"], np.uint8), np.asarray(arrays["prefix_seen_s"], float)
        size = len(seen_s)
        if keys.shape == (size, PREFIX_KEY.itemsize):
            # A state of an earlier release has no hosts.
            known = places.of_prefixes(np.ascontiguousarray(keys).view(PREFIX_KEY).ravel())
            keys = known.view(np.uint8).reshape(size, PLACE.itemsize)
        if keys.shape != (size, PLACE.itemsize):
            raise ArtifactError("the arrays of prefixes do not fit each other")
        if not np.isfinite(seen_s).all():
            raise ArtifactError("prefixes have numbers that are not finite")
        self.grow(size)
        self.place[:size] = np.ascontiguousarray(keys).view(PLACE).ravel()
        self.seen_s[:size] = seen_s
        self.lines.restore(arrays, size)
        self.texts = [""] * size
        for number in range(size):
            if seen_s[number]:
                self._name(number)
            else:
                self._free.append(number)
        if len(self._number) + len(self._free) != size or len(self._by_text) != len(self._number):
            raise ArtifactError("a prefix is there twice")
        self._restore_hosts()
        return size

    def _restore_hosts(self) -> None:
        """Find the prefixes of hosts. Raises `ArtifactError` where one is missing."""
        known = self.numbers()
        hosts = known[places.are_hosts(self.place[known])]
        parents = self._numbered(places.prefixes_of(self.place[hosts]))
        if (parents < 0).any():
            raise ArtifactError("a host is there without its prefix")
        self.parent[hosts] = parents
        np.add.at(self.hosts, parents, 1)

    def _numbered(self, wanted: Places) -> Ints:
        """The numbers of these prefixes and hosts, shape (n,); -1 where one has none."""
        return np.fromiter(map(self._number.get, places.names_of(wanted), repeat(-1)), np.int64, len(wanted))

    def _add(self, place: np.void) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.texts)
            self.texts.append("")
        self.reset(np.array([number]))
        self.place[number] = place
        self._name(number)
        return number

    def _name(self, number: int) -> None:
        text = places.text_of(self.place[number])
        self._number[self.place[number].tobytes()] = number
        self.texts[number] = text
        self._by_text[text] = number

    def _make_room(self, wanted: int, in_use: Ints) -> None:
        """Forget the places that were seen the longest time ago, except those in use."""
        lacking = len(self._number) + wanted - self._most
        if lacking <= 0:
            return
        known = np.setdiff1d(self.numbers(), in_use)
        count = min(max(lacking, self._most // _MAKES_ROOM), known.size)
        self.forget(known[np.argsort(self.seen_s[known], kind="stable")[:count]])
