# SPDX-License-Identifier: Apache-2.0
"""Fifty hosts on a real store that is killed, emptied and failed over, with one host killed and one cut off.

Afterwards the knowledge of each host is compared with all lessons, merged at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from support.site_store import SiteStore, site_store
from support.told_daemon import ToldDaemon

from ltp_switcher.daemon.fleet.exchange import Exchange
from ltp_switcher.daemon.fleet.lesson import ARMS, PLACES
from ltp_switcher.daemon.fleet.merge import merge, quorum
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.settings.fleet import FleetSection

HOSTS, PREFIXES, ON_EACH = 50, 100, 20
"""Hosts, prefixes, and hosts with traffic to each prefix."""
NAMES = ("bbr", "ltp", "vegas", "cubic")
EQUAL = 0.1
"""Distance from which on a lesson is news."""


class Site:
    """The hosts, whose exchanges happen one after the other, with the pauses of the service."""

    def __init__(
        self,
        store: SiteStore,
        seed: int,
        hosts: int = HOSTS,
        prefixes: int = PREFIXES,
        on_each: int = ON_EACH,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.now_s = time.time()
        self.hosts, self._on_each = hosts, on_each
        self.daemons = [ToldDaemon() for _ in range(hosts)]
        self.settings = FleetSection(store=(str(store.socket),), period_s=1.5)
        self.exchanges = [self._exchange(number) for number in range(hosts)]
        self._due_s = self.now_s + self.rng.uniform(0, self.settings.period_s, hosts)
        self._failures = np.zeros(hosts, np.int64)
        self.knows: dict[str, dict[int, dict[str, tuple[float, float]]]] = {}
        for number in range(prefixes):
            prefix = f"10.0.{number}.0/24"
            self.knows[prefix] = {}
            for host in self.rng.choice(hosts, on_each, replace=False).tolist():
                self.learn(prefix, host)

    def _exchange(self, number: int) -> Exchange:
        return Exchange(self.settings, f"host-{number:02}", self.daemons[number], Store(self.settings))

    def start_again(self, number: int) -> None:
        """The service of a host starts anew."""
        self.exchanges[number]._store.close()
        self.exchanges[number] = self._exchange(number)

    def learn(self, prefix: str, host: int) -> None:
        told = {
            arm: (float(self.rng.normal(0, 0.6)), float(self.rng.uniform(0.01, 0.5)))
            for arm in NAMES
            if arm == NAMES[0] or self.rng.random() < 0.8
        }
        self.knows[prefix][host] = told
        self.daemons[host].learn(prefix, **told)  # type: ignore[arg-type]

    def learn_more(self, share: float) -> None:
        for prefix, hosts in self.knows.items():
            for host in hosts:
                if self.rng.random() < share:
                    self.learn(prefix, host)

    def step(self, without: frozenset[int] = frozenset()) -> int:
        """The next exchange of any host; those of hosts that are away do not happen. Returns the host."""
        number = int(np.argmin(self._due_s))
        self.now_s = max(self.now_s, float(self._due_s[number]))
        exchange = self.exchanges[number]
        if number not in without:
            exchange.run(self.now_s)
        failed = bool(exchange.error)
        self._failures[number] = self._failures[number] + 1 if failed else 0
        pause_s = exchange.pause_s(int(self._failures[number]), float(self.rng.random()))
        self._due_s[number] = self.now_s + pause_s
        return number

    def run(self, periods: float, without: frozenset[int] = frozenset()) -> None:
        """All exchanges of so many periods."""
        until_s = self.now_s + periods * self.settings.period_s
        while self._due_s.min() <= until_s:
            self.step(without)
        self.now_s = until_s

    def settle(self, longest: float) -> tuple[float, float]:
        """Exchange until each host has looked once and all are equal, or for so many periods.

        Returns the periods until each host had looked once, and until all were equal to stay so.
        """
        began_s, left = self.now_s, set(range(self.hosts))
        looked = equal = np.inf
        while self._due_s.min() <= began_s + longest * self.settings.period_s:
            left.discard(self.step())
            after = (self.now_s - began_s) / self.settings.period_s
            if not left:
                looked = min(looked, after)
                equal = np.inf if self.far() >= EQUAL else min(equal, after)
        return looked, equal

    def close(self) -> None:
        for exchange in self.exchanges:
            exchange._store.close()

    def far(self) -> float:
        """The largest distance of any host's knowledge of others from that of one that read everything."""
        worst = 0.0
        for prefix, hosts in self.knows.items():
            rows = {host: row for row, host in enumerate(sorted(hosts))}
            size = self._on_each
            mean, variance = np.zeros((1, size, ARMS)), np.full((1, size, ARMS), np.inf)
            for other, told in hosts.items():
                for arm, pair in told.items():
                    mean[0, rows[other], PLACES[arm]], variance[0, rows[other], PLACES[arm]] = pair
            # For each host that asks, all lessons but its own.
            variance = np.repeat(variance, size, axis=0)
            variance[range(size), range(size)] = np.inf
            merged = merge(np.repeat(mean, size, axis=0), variance, quorum(self.hosts))
            for host, row in rows.items():
                has = self.daemons[host].told.get(prefix, {})
                for arm in NAMES:
                    should = merged.variance[row, PLACES[arm]]
                    if np.isfinite(should):
                        told_mean, told_variance = has.get(arm, (np.inf, np.inf))
                        away = abs(told_mean - merged.mean[row, PLACES[arm]]) / np.sqrt(should)
                        worst = max(worst, float(away), abs(float(np.sqrt(told_variance / should)) - 1))
        return worst


def fail_over(store: SiteStore, dump: Mapping[bytes, bytes]) -> None:
    """Let the store hold what it held some time before."""
    store.client.flushall()
    for key, value in dump.items():
        store.client.restore(key, 0, value)


def dump_of(store: SiteStore) -> dict[bytes, bytes]:
    """What the store holds, but for the key that ends within moments."""
    keys = [key for key in store.client.keys("*") if not key.endswith(b":whole")]  # type: ignore[union-attr]
    return {key: store.client.dump(key) for key in keys}  # type: ignore[misc]


def faults(folder: Path, seed: int = 1) -> dict[str, object]:
    """Run through the faults. Distances are in standard deviations of the merged effect."""
    found: dict[str, object] = {
        "what": f"{HOSTS} hosts, {PREFIXES} prefixes, {ON_EACH} hosts on each: periods after a fault until "
        "each host has looked once, until all know what one knows that saw everything, and the distance then",
        "target": "equal within one period after the last fault (a pause is 0.8 to 1.2 periods)",
    }
    with site_store(folder) as store:
        site = Site(store, seed)
        site.run(4.0)
        found["no fault, distance"] = round(site.far(), 4)
        store.kill()
        site.learn_more(0.3)
        site.run(1.0)
        found["store away, distance"] = round(site.far(), 4)
        store.start()
        _settle(site, found, "store restarted, without what it held")
        site.learn_more(0.3)
        site.run(1.0)
        store.client.flushall()
        _settle(site, found, "store emptied")
        dump = dump_of(store)
        site.learn_more(0.5)
        site.run(1.0)
        fail_over(store, dump)
        _settle(site, found, "failed over to a copy from before the last lessons")
        # One host is killed and another cut off, while all others learn.
        for _ in range(3):
            site.learn_more(0.2)
            site.run(1.0, frozenset({7, 8}))
        site.start_again(7)
        _settle(site, found, "a host killed and started again, a host cut off for three periods")
        for number in range(HOSTS):
            for known in site.exchanges[number]._prefixes.values():
                known.wrote = None
        _settle(site, found, "every lesson written once more")
        site.close()
    return found


def _settle(site: Site, found: dict[str, object], what: str) -> None:
    looked, equal = site.settle(5.0)
    found[what] = [round(looked, 2), round(equal, 2), round(site.far(), 4)]


def latency(folder: Path, seed: int = 1, lessons: int = 20) -> dict[str, object]:
    """The time from a lesson of one host until another one's daemon has it, with the usual pauses."""
    from ltp_switcher.daemon.fleet.exchange import pause_s

    rng, took = np.random.default_rng(seed), []
    with site_store(folder) as store:
        settings = FleetSection(store=(str(store.socket),))
        daemons = [ToldDaemon(), ToldDaemon()]
        stop = threading.Event()

        def share(number: int) -> None:
            exchange = Exchange(settings, f"host-{number}", daemons[number], Store(settings))
            chances = np.random.default_rng(seed + number)
            while not stop.is_set():
                exchange.run(time.time())
                stop.wait(pause_s(settings.period_s, 0, chances.random()))

        threads = [threading.Thread(target=share, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for number in range(lessons):
            prefix = f"10.0.{number}.0/24"
            if number % 2:
                daemons[1].learn(prefix)
            time.sleep(rng.uniform(0, 2 * settings.period_s))
            began_s = time.monotonic()
            daemons[0].learn(prefix, bbr=(0.5, 0.05))
            while prefix not in daemons[1].told:
                time.sleep(0.01)
            took.append(time.monotonic() - began_s)
        stop.set()
        for thread in threads:
            thread.join()
    return {
        "what": "time from a lesson on one host to another one's daemon, s; half of the prefixes have "
        "traffic there. The module has the arm at the next look, a second later at most",
        "target": "<= 5", "median": round(float(np.median(took)), 2), "longest": round(max(took), 2),
        "lessons": lessons,
    }  # fmt: skip
