# SPDX-License-Identifier: Apache-2.0
"""The other hosts of the site: their signs of life, and how well each host's lessons (its knowledge about the
arms on a prefix) agree with the others' lessons.

Each host writes its presence, a sign of life, into the store under its name. Two hosts that have the same
name by mistake overwrite each other's presence, and so notice the mistake.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.fleet.lesson import REFUSED, Verdict
from ltp_switcher.daemon.settings.fleet import NAME

KNOWN_MAX: Final = 256
"""Largest number of hosts that are remembered."""
HALF_LIFE_S: Final = 600.0
"""Time in seconds after which a comparison of a host's lesson with the lessons of other hosts counts only
half.
"""
COMPARED_LEAST: Final = 8.0
"""Least number of comparisons, weighted by age, before a host can be reported as disagreeing."""
APART_SHARE: Final = 0.5
"""Share of a host's comparisons in which its lesson is far from all others. Above this share, the host is
reported as disagreeing.
"""
PRESENCE_MAX_BYTES: Final = 512
NAMESAKES_MAX: Final = 64
"""Largest number of other services with this host's name that are remembered."""
NAMESAKE_S: Final = 60.0
"""Time in seconds for which another service with this host's name counts after its latest sign of life."""


@dataclass(slots=True)
class Presence:
    """The sign of life that a host writes into the store at each exchange."""

    instance: str
    """A random text that the host's service drew at its start."""
    version: str
    number: int
    """Number of the host's latest exchange, from 1 on."""
    time_s: float
    lessons: int
    """Number of lessons that the host's service has written since its start."""

    def packed(self) -> bytes:
        """Return the presence as bytes for the store."""
        return json.dumps([self.instance, self.version, self.number, int(self.time_s), self.lessons]).encode()


def presence_of(value: bytes | None) -> Presence | None:
    """The presence in some bytes from the store; None if they are missing or damaged."""
    if value is None or len(value) > PRESENCE_MAX_BYTES:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    if not isinstance(found, list) or [type(part) for part in found] != [str, str, int, int, int]:
        return None
    if min(found[2:]) < 0:
        return None
    return Presence(*found)


@dataclass(slots=True)
class Seen:
    """Counts and times about one other host, as this host has seen it."""

    version: str = ""
    time_s: float = 0.0
    """Unix time of the host's latest sign of life."""
    lessons: int = 0
    """Number of the host's lessons that were merged with others."""
    refused: int = 0
    other_version: int = 0
    other_model: int = 0
    compared: float = 0.0
    apart: float = 0.0

    @property
    def disagrees(self) -> bool:
        """Whether the host's lessons are far from the lessons of all other hosts in most comparisons."""
        return self.compared >= COMPARED_LEAST and self.apart > APART_SHARE * self.compared


class Namesakes:
    """Other services that write their presence (a sign of life) into the store under this host's name.

    Such a presence may also be left from an earlier run of this host, if a store that failed over brings it
    back. A presence comes from a living service if it was written after this host's own, or if it comes again
    with a higher number.
    """

    def __init__(self) -> None:
        self._met: dict[str, tuple[int, float]] = {}

    def lives(self, presence: Presence, wrote_s: float, now_s: float) -> bool:
        """Whether a presence under this host's name comes from another living service. Times are Unix times.

        `wrote_s` is the time at which this host wrote its own presence.
        """
        number, seen_s = self._met.pop(presence.instance, (presence.number, -math.inf))
        found = presence.number > number or presence.time_s >= int(wrote_s)
        # The latest are last.
        self._met[presence.instance] = presence.number, now_s if found else seen_s
        while len(self._met) > NAMESAKES_MAX:
            del self._met[next(iter(self._met))]
        return found

    def count(self, now_s: float) -> int:
        """The number of living services under this host's name, this host not included. `now_s` is
        Unix time.
        """
        return sum(now_s - seen_s <= NAMESAKE_S for _, seen_s in self._met.values())


class Hosts:
    """The other hosts of the site, by name."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._faded_s = 0.0

    def __len__(self) -> int:
        return len(self._seen)

    def of(self, name: bytes) -> Seen | None:
        """Return the counts about the host with this name, which are 0 for a new host; None if the name is
        not allowed. If there is no room, the host that was seen the longest time ago is forgotten.
        """
        text = name.decode(errors="replace")
        if not NAME.fullmatch(text):
            return None
        if text not in self._seen and len(self._seen) >= KNOWN_MAX:
            oldest = min(self._seen, key=lambda known: self._seen[known].time_s)
            del self._seen[oldest]
        return self._seen.setdefault(text, Seen())

    def met(self, presences: Mapping[bytes, bytes]) -> None:
        """Take in the presences (signs of life) that other hosts have written into the store, by the hosts'
        names.
        """
        for name, value in presences.items():
            presence, seen = presence_of(value), self.of(name)
            if seen is not None and presence is not None:
                seen.version, seen.time_s = presence.version[:64], float(presence.time_s)

    def judged(self, name: bytes, verdict: Verdict) -> None:
        """Count the verdict on a host's lesson that is not usable."""
        seen = self.of(name)
        if seen is None:
            return
        seen.refused += verdict in REFUSED
        seen.other_version += verdict is Verdict.OTHER_VERSION
        seen.other_model += verdict is Verdict.OTHER_MODEL

    def fade(self, now_s: float) -> None:
        """Reduce the weight of earlier comparisons of lessons, by half in `HALF_LIFE_S`. `now_s` is Unix
        time.
        """
        factor = 0.5 ** (max(now_s - self._faded_s, 0.0) / HALF_LIFE_S)
        self._faded_s = now_s
        for seen in self._seen.values():
            seen.compared *= factor
            seen.apart *= factor

    def told(self, now_s: float, shut_out: tuple[str, ...]) -> list[Json]:
        """The counts and times of each host, in the form that the daemon takes. `shut_out` has the names of
        hosts whose lessons the settings exclude.
        """
        return [
            {
                "name": name, "version": seen.version, "age_s": round(max(now_s - seen.time_s, 0.0), 1),
                "lessons": seen.lessons, "refused": seen.refused, "other_version": seen.other_version,
                "other_model": seen.other_model, "compared": round(seen.compared, 2),
                "apart": round(seen.apart, 2), "disagrees": seen.disagrees, "shut_out": name in shut_out,
            }
            for name, seen in sorted(self._seen.items())
        ]  # fmt: skip
