# SPDX-License-Identifier: Apache-2.0
"""One exchange: this host's lessons go to the store, and the knowledge of other hosts comes back.

A lesson is the knowledge of one host about the arms on a prefix. A prefix's stamp is a number in the store
that every write to the prefix changes. A host's presence is a sign of life that it writes into the store. An
exchange waits only for the store and the daemon, and no flow waits for the exchange. It has these steps:

1. The daemon names the prefixes with traffic that have learned since the last exchange.
2. This host reads the stamps, which show the prefixes to which other hosts have written. It also reads its
   own presence. If this is not the latest one, the store was emptied, or failed over and lost the last
   seconds. Then this host writes all of its lessons again.
3. This host writes the lessons that tell something new, and then its presence.
4. It reads the prefixes with another stamp, merges the lessons of all hosts, and passes the result on to the
   daemon.

After a loss, a host puts off its reads to its next exchange. The first host that finds the loss writes into
the store the time by which all hosts must have written again. At that time every host exchanges once more.

A prefix whose changes tell nothing new is read less and less often, down to once a minute. So busy prefixes
of a large site cost as little as quiet ones. A prefix without traffic on this host is read less and less
often in any case, down to once an hour.
"""

from __future__ import annotations

import json
import logging
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import numpy as np

import ltp_switcher
from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.fleet.hosts import Hosts, Namesakes, Presence, presence_of
from ltp_switcher.daemon.fleet.lesson import ARMS, PLACES, Verdict, effects, pack, unpack
from ltp_switcher.daemon.fleet.merge import HOSTS_MAX, Merged, merge, quorum
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.gain.outcomes import prefix_key, prefix_text
from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.errors import InvalidValueError, StoreError

LIVE_S: Final = 3600.0
"""Time in seconds without a report from the daemon after which a prefix counts as without traffic."""
SELDOM_S: Final = 60.0
"""Longest time in seconds until this host reads a prefix again to which it has traffic and other
hosts write.
"""
RARE_S: Final = 3600.0
"""Longest time in seconds until this host reads a prefix again to which it has no traffic, but other hosts
write.
"""
AGAIN_S: Final = 600.0
"""Time in seconds after which each lesson is written again, even if nothing has changed."""
SURVEY_S: Final = 30.0
"""Time in seconds between two surveys. A survey finds other hosts, and the prefixes that other hosts know."""
NEWEST: Final = 1024
"""Number of prefixes that this host reads even before its own first flow: those to which other hosts wrote
last.
"""
FRESH: Final = 64
"""Number of prefixes with the latest writes that each exchange looks for. A survey looks for `NEWEST` such
prefixes.
"""
JITTER: Final = 0.2
"""Largest random change of the pause between exchanges, as a share of the pause. It keeps hosts from
exchanging at the same moments.
"""
PAUSE_MAX: Final = 10.0
"""Longest pause between exchanges while they fail, as a multiple of the usual pause."""
READS_MAX: Final = 512
"""Largest number of prefixes that are read in one exchange."""
KNOWN_MAX: Final = 8192
"""Largest number of prefixes that this host remembers."""
SAYS_SD: Final = 0.1
"""The mean of an effect (an arm's gain in log reward) tells something new if it has moved by more than this
share of its standard deviation.
"""
SAYS_VARIANCE: Final = 0.1
"""The variance of an effect (an arm's gain in log reward) tells something new if it has changed by more than
this share of itself.
"""
WRITTEN: Final = 1.1
"""After a loss, all hosts have written again within this number of longest pauses. The number includes the
time that exchanges take.
"""
READ_ALL_S: Final = 0.005
"""Time in seconds that the store needs for all reads of one host. After a loss, the hosts' reads are spread
over this time times the number of hosts.
"""
TOLD_MAX_BYTES: Final = 48 * 1024
"""Largest request to the daemon in bytes, somewhat below the daemon's limit."""
SOURCES_TOLD: Final = 32
_MARKS: Final = 1024
"""Number of different marks. A host's mark comes from its name, and is the remainder of its stamps by this
number.
"""
NAMES: Final = {place: name for name, place in PLACES.items()}
log = logging.getLogger(__name__)


class Daemon(Protocol):
    """The part of the daemon's control socket that an exchange uses; see `ControlClient`."""

    def call(self, method: str, **params: Json) -> Json:
        """Call a method of the daemon, and return its result."""
        ...


@dataclass(frozen=True, slots=True)
class Word:
    """The knowledge of a prefix: the effect of each arm, as mean and variance, by the arm's id, shape
    (ARMS,). An effect is the log of the arm's reward over the reward of the decision's own choice. The
    variance is infinite for an unknown effect.
    """

    mean: Floats
    variance: Floats

    def says_more(self, before: Word | None) -> bool:
        """Return whether these effects would tell a host that knows `before` something new: a newly known or
        unknown arm, or a mean or variance that moved enough (`SAYS_SD`, `SAYS_VARIANCE`).

        Without `before`, any known effect is new.
        """
        known = np.isfinite(self.variance)
        if before is None:
            return bool(known.any())
        if (np.isfinite(before.variance) != known).any():
            return True
        mean, variance = self.mean[known], self.variance[known]
        moved = np.abs(mean - before.mean[known]) > SAYS_SD * np.sqrt(variance)
        surer = np.abs(variance - before.variance[known]) > SAYS_VARIANCE * variance
        return bool((moved | surer).any())


@dataclass(slots=True)
class Prefix:
    """The fleet service's memory of a prefix. Times are Unix times in seconds."""

    heard_s: float = -np.inf
    """Time at which the daemon last reported the prefix."""
    visits: int = 0
    own: Word | None = None
    wrote: Word | None = None
    """The effects that this host last wrote to the store."""
    wrote_s: float = -np.inf
    stamp: float | None = None
    """The prefix's stamp at the latest read. Every write to the prefix changes its stamp."""
    due_s: float = -np.inf
    """Time from which on the prefix may be read again."""
    wait_s: float = 0.0
    """Time in seconds between two reads. It grows while reads bring nothing new."""
    told: Word | None = None
    """The effects from other hosts that the daemon was told last."""
    lessons: dict[bytes, bytes] = field(default_factory=dict)
    """The latest packed lesson of each other host, by the host's name. The lesson that was read last comes
    last.
    """


class Exchange:
    """The exchange of lessons with the other hosts of a site. It keeps its state from one run to the next. A
    lesson is the knowledge of one host about the arms on a prefix.

    Args:
        settings: the settings of the fleet.
        host: this host's name.
        daemon: the daemon's control socket.
        store: the site's store.
    """

    def __init__(self, settings: FleetSection, host: str, daemon: Daemon, store: Store) -> None:
        self._settings = settings
        self._host = host
        self._daemon = daemon
        self._store = store
        self._mark = zlib.crc32(host.encode()) % _MARKS
        self._instance = secrets.token_hex(8)
        self._prefixes: dict[str, Prefix] = {}
        self._cursor: str | None = None
        self._model = 0
        self._presence: bytes | None = None
        self._wrote_s = -np.inf
        self._waited = False
        self._whole_in_s = 0.0
        self._number = 0
        self._survey_s = -np.inf
        self._whole_s = -np.inf
        self._site_hosts = 1
        self._others: list[str] = []
        self.hosts = Hosts()
        self.namesakes = Namesakes()
        self.counts = dict.fromkeys(("exchanges", "failures", "written", "write_failures", "read"), 0)
        self.error = ""
        self.learns = False

    def run(self, now_s: float) -> None:
        """Do one exchange; `now_s` is Unix time. Raises `ControlError` if the daemon cannot be reached.

        If the store cannot be reached, `error` says why, and the daemon is told.
        """
        self.error, self._whole_in_s = "", 0.0
        self._hear(now_s)
        try:
            if self.learns:
                self._exchange(now_s)
            self.counts["exchanges"] += 1
            self._whole_s = now_s
        except StoreError as error:
            self.error = str(error)
            self.counts["failures"] += 1
        self._report(now_s)

    def pause_s(self, failures: int, chance: float) -> float:
        """Return the time in seconds until the next exchange, after this number of failures in a row. After a
        loss of the store's data, it is the time until all hosts have written again.

        `chance` is a random number from 0 to 1, by which the pauses of hosts differ.
        """
        if self._whole_in_s and not failures:
            return self._whole_in_s + READ_ALL_S * self._site_hosts * chance
        return pause_s(self._settings.period_s, failures, chance)

    # The daemon

    def _hear(self, now_s: float) -> None:
        """Ask the daemon for its lessons since the last exchange."""
        told = cast("dict[str, Json]", self._daemon.call("fleet.lessons", since=self._cursor))
        cursor, model = cast("str | None", told["cursor"]), cast("int", told["model"])
        if _epoch(cursor) != _epoch(self._cursor) or model != self._model:
            # A daemon that restarted may have lost its knowledge. With another decision, effects mean
            # something else.
            for known in self._prefixes.values():
                known.own = known.wrote = known.told = known.stamp = None
            self._survey_s = -np.inf
        self._cursor, self._model, self.learns = cursor, model, bool(told["learn"])
        for entry in cast("list[dict[str, Json]]", told["lessons"]):
            known = self._prefixes.setdefault(cast("str", entry["prefix"]), Prefix())
            if now_s - known.heard_s >= LIVE_S:
                known.due_s, known.wait_s = -np.inf, 0.0
            known.heard_s, known.visits = now_s, cast("int", entry["visits"])
            word = Word(np.zeros(ARMS), np.full(ARMS, np.inf))
            for name, (mean, variance) in cast("dict[str, list[float]]", entry["arms"]).items():
                if name in PLACES:
                    word.mean[PLACES[name]], word.variance[PLACES[name]] = mean, variance
            known.own = word if np.isfinite(word.variance).any() else None
        if len(self._prefixes) > KNOWN_MAX:
            order = sorted(self._prefixes, key=lambda name: self._prefixes[name].heard_s)
            for name in order[: len(order) - KNOWN_MAX]:
                del self._prefixes[name]

    def _tell(self, names: Sequence[str], words: Sequence[Word], sources: Sequence[list[str]]) -> None:
        """Tell the daemon the knowledge of other hosts about prefixes."""
        lessons: list[Json] = []
        for name, word, hosts in zip(names, words, sources, strict=True):
            known = np.flatnonzero(np.isfinite(word.variance)).tolist()
            arms: dict[str, Json] = {
                NAMES[place]: [float(word.mean[place]), min(float(word.variance[place]), 100.0)]
                for place in known
                if place in NAMES
            }
            lessons.append({"prefix": name, "from": [*hosts], "arms": arms})
        for batch in _pieces(lessons):
            self._daemon.call("fleet.tell", lessons=batch)
        for name, word in zip(names, words, strict=True):
            self._prefixes[name].told = word

    def _report(self, now_s: float) -> None:
        """Tell the daemon how well exchanges work, for its status."""
        counts: dict[str, Json] = {**self.counts}
        lag_s = now_s - self._whole_s
        self._daemon.call(
            "fleet.tell",
            status={
                **counts, "host": self._host, "site": self._settings.site, "store": self._store.address[:256],
                "reachable": self.learns and not self.error, "error": self.error[:256],
                "lag_s": lag_s if np.isfinite(lag_s) else 0.0, "live": len(self._live(now_s)),
                "namesakes": self.namesakes.count(now_s),
            },
            hosts=self.hosts.told(now_s, self._settings.shut_out),
        )  # fmt: skip

    def _live(self, now_s: float) -> list[str]:
        """The prefixes with traffic on this host."""
        return [name for name, known in self._prefixes.items() if now_s - known.heard_s < LIVE_S]

    # The store

    def _exchange(self, now_s: float) -> None:
        live = self._live(now_s)
        self._meet(self._store.newest(FRESH), live)
        asked = [*live, *(name for name in self._others if name in self._prefixes)]
        look = self._store.look(asked, self._host)
        has_lost = self._check_presence(look.presence, now_s)
        self._write(live, now_s)
        # No two exchanges in a row wait, so that a store that loses data again and again is still read.
        self._waited = not self._waited and self._waits(has_lost, look.whole_s, now_s)
        if self._waited:
            return
        if now_s - self._survey_s >= SURVEY_S:
            self._survey(now_s)
        due = []
        for name, stamp in zip(asked, look.stamps, strict=True):
            known = self._prefixes[name]
            if stamp is not None and stamp != known.stamp and now_s >= known.due_s:
                due.append((name, stamp))
        self._read(due[:READS_MAX], now_s)

    def _waits(self, has_lost: bool, whole_s: float, now_s: float) -> bool:
        """Return whether to read nothing yet, because the store has lost lessons and other hosts have to
        write theirs again. Until then, the store may have older lessons than this host knows.

        Sets `_whole_in_s`, the time until all hosts have written again.
        """
        period_s = self._settings.period_s
        longest_s = WRITTEN * pause_s(period_s, 0, 1.0)
        if has_lost:
            # The time is kept for a longest pause more. So a host that could not reach the store still learns
            # of it.
            keep_s = longest_s + pause_s(period_s, 64, 1.0)
            whole_s = self._store.whole_again(now_s + longest_s, keep_s)
        # The clock of the host that set the time may be wrong.
        self._whole_in_s = min(max(whole_s - now_s, 0.0), longest_s)
        if self._whole_in_s > 0:
            for known in self._prefixes.values():
                known.due_s, known.wait_s = -np.inf, 0.0
        return self._whole_in_s > 0

    def _check_presence(self, presence: bytes | None, now_s: float) -> bool:
        """Return whether the store has lost this host's last writes. If the store does not have the presence
        that this host wrote last, this host writes and reads everything again.

        The result is false if this host has written no presence yet, or if its last write failed. It is also
        false if another host has the same name by mistake. Then the store has lost nothing, and each host
        writes its news.
        """
        if presence == self._presence:
            return False
        other = presence_of(presence)
        if other is not None and other.instance != self._instance:
            before = self.namesakes.count(now_s)
            if self._presence is not None and self.namesakes.lives(other, self._wrote_s, now_s):
                if not before:
                    log.warning("another host of the site has the name %s, too; set fleet.host", self._host)
                return False
        for known in self._prefixes.values():
            known.wrote = known.stamp = None
            known.due_s, known.wait_s = -np.inf, 0.0
        return bool(self._presence)

    def _write(self, live: Sequence[str], now_s: float) -> None:
        lessons: dict[str, bytes] = {}
        for name in live:
            known = self._prefixes[name]
            own = known.own
            if own is not None and (own.says_more(known.wrote) or now_s - known.wrote_s >= AGAIN_S):
                lessons[name] = pack(self._model, now_s, known.visits, own.mean, own.variance)
        # Two hosts that write at the same moment leave different stamps.
        stamp = int(now_s * 1000) * _MARKS + self._mark
        refused = set(self._store.write(self._host, lessons, stamp, self._settings.age_s))
        self.counts["written"] += len(lessons) - len(refused)
        self.counts["write_failures"] += len(refused)
        for name in lessons.keys() - refused:
            known = self._prefixes[name]
            known.wrote, known.wrote_s = known.own, now_s
        self._number += 1
        presence = Presence(
            self._instance, ltp_switcher.__version__, self._number, now_s, self.counts["written"]
        )
        # The store's copy of the presence is unknown until it is written.
        self._presence, self._wrote_s = b"", now_s
        if self._store.greet(self._host, presence.packed()):
            self._presence = presence.packed()
        else:
            self.error = f"the store at {self._store.address} takes no more writes: it is full"

    def _survey(self, now_s: float) -> None:
        """Look at the site's hosts, and at prefixes that other hosts know and this host does not."""
        self.hosts.fade(now_s)
        self._site_hosts, presences = self._store.hosts()
        for host, value in presences.items():
            presence = presence_of(value)
            if presence is None or now_s - presence.time_s > self._settings.age_s:
                self._store.forget_host(host)
        self.hosts.met({name: value for name, value in presences.items() if name != self._host.encode()})
        self._others = []
        self._meet(self._store.newest(NEWEST), self._live(now_s))
        self._survey_s = now_s

    def _meet(self, newest: Sequence[str], live: Sequence[str]) -> None:
        """Look at these prefixes from now on, even without traffic to them on this host."""
        known = {*live, *self._others}
        for name in newest:
            if name not in known and _is_prefix(name):
                self._prefixes.setdefault(name, Prefix())
                self._others.append(name)

    def _read(self, due: Sequence[tuple[str, float]], now_s: float) -> None:
        """Read prefixes, merge the hosts' lessons about each, and tell the daemon the news."""
        if not due:
            return
        names = [name for name, _ in due]
        found = self._store.read(names)
        merged, sources = self._merge(names, found, now_s)
        news = []
        for row, (name, stamp) in enumerate(due):
            known = self._prefixes[name]
            word = Word(merged.mean[row], merged.variance[row])
            says_more = word.says_more(known.told) and bool(sources[row])
            if says_more:
                news.append((name, word, sources[row][:SOURCES_TOLD]))
            known.stamp = stamp
            is_live = now_s - known.heard_s < LIVE_S
            if is_live and stamp % _MARKS == self._mark and not says_more:
                # This host itself was the last to write.
                continue
            # The first waits are shorter than a period, and change nothing.
            longer_s = max(2 * known.wait_s, self._settings.period_s / 4)
            # For a prefix without traffic on this host, the wait grows even if a read brings news.
            known.wait_s = min(longer_s, SELDOM_S if is_live else RARE_S)
            if is_live and says_more:
                known.wait_s = 0.0
            known.due_s = now_s + known.wait_s
        if news:
            self._tell(*cast("tuple[list[str], list[Word], list[list[str]]]", zip(*news, strict=True)))

    def _remember(self, name: str, found: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Take in the lessons about a prefix, by host. Returns all lessons that count, including the ones of
        earlier reads.

        Earlier reads count, so that no knowledge is lost if the store was emptied, or if it returns the
        lessons of only some hosts.
        """
        known = self._prefixes[name].lessons
        own = self._host.encode()
        for host, value in found.items():
            if host != own and host.decode(errors="replace") not in self._settings.shut_out:
                # The newest are last.
                known.pop(host, None)
                known[host] = value
        while len(known) > HOSTS_MAX:
            del known[next(iter(known))]
        return known

    def _merge(
        self, names: Sequence[str], found: Sequence[dict[bytes, bytes]], now_s: float
    ) -> tuple[Merged, list[list[str]]]:
        """Merge the lessons about each prefix. The second result has the names of the hosts whose lessons
        were merged.
        """
        entries = []
        for row, (name, lessons) in enumerate(zip(names, found, strict=True)):
            known = self._remember(name, lessons)
            # The order is always the same, so that sums are equal to the last digit.
            entries += [(row, host, known[host]) for host in sorted(known)]
        lessons_read, verdicts = unpack(
            [value for _, _, value in entries], self._model, now_s, self._settings.age_s
        )
        mean, variance = (
            np.zeros((len(names), HOSTS_MAX, ARMS)),
            np.full((len(names), HOSTS_MAX, ARMS), np.inf),
        )
        means, variances = effects(lessons_read, now_s)
        sources: list[list[str]] = [[] for _ in names]
        stale = []
        for number, ((row, host, _), verdict) in enumerate(zip(entries, verdicts.tolist(), strict=True)):
            seen = self.hosts.of(host)
            if verdict != Verdict.USABLE or seen is None:
                self.hosts.judged(host, Verdict(verdict))
                del self._prefixes[names[row]].lessons[host]
                if verdict == Verdict.STALE:
                    stale.append((names[row], host))
                continue
            place = len(sources[row])
            mean[row, place], variance[row, place] = means[number], variances[number]
            sources[row].append(host.decode())
            seen.lessons += host in found[row]
            seen.time_s = max(seen.time_s, float(lessons_read["time_s"][number]))
        self.counts["read"] += sum(map(len, found))
        merged = merge(mean, variance, quorum(self._site_hosts))
        compared, apart = merged.compared.sum(axis=2), merged.apart.sum(axis=2)
        for row, hosts in enumerate(sources):
            for place, name in enumerate(hosts):
                seen = self.hosts.of(name.encode())
                if seen is not None:
                    seen.compared += float(compared[row, place])
                    seen.apart += float(apart[row, place])
        if stale:
            self._store.drop(stale)
        return merged, sources


def pause_s(period_s: float, failures: int, chance: float) -> float:
    """Time in seconds until the next exchange: the period of the settings, doubled for each failure in a row
    up to `PAUSE_MAX` periods.

    `chance` is a random number from 0 to 1, by which the pauses of hosts differ by `JITTER`.
    """
    longer = min(2.0 ** min(failures, 32), PAUSE_MAX)
    return period_s * longer * (1.0 + JITTER * (2.0 * chance - 1.0))


def _is_prefix(name: str) -> bool:
    """Whether a text from the store, which may be any text, is a prefix as the daemon writes it."""
    try:
        return prefix_text(prefix_key(name)) == name
    except InvalidValueError:
        return False


def _epoch(cursor: str | None) -> str:
    """The part of a cursor that identifies one run of the daemon."""
    return (cursor or "").partition(":")[0]


def _pieces(lessons: Sequence[Json]) -> Iterator[list[Json]]:
    """Split lessons into lists that are small enough for one request to the daemon."""
    batch: list[Json] = []
    size = 0
    for lesson in lessons:
        length = len(json.dumps(lesson)) + 2
        if batch and size + length > TOLD_MAX_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(lesson)
        size += length
    if batch:
        yield batch
