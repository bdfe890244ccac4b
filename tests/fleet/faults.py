# SPDX-License-Identifier: Apache-2.0
"""Fifty hosts on a real store that is killed, emptied and failed over, with one host killed and one cut off.

Afterwards the knowledge of each host is compared with all lessons, merged at once.
"""

from __future__ import annotations

import threading
import time
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


class Site:
    """The hosts, whose exchanges happen one after the other; a round is a period."""

    def __init__(self, store: SiteStore, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.now_s = time.time()
        self.daemons = [ToldDaemon() for _ in range(HOSTS)]
        self.settings = FleetSection(store=(str(store.socket),), period_s=1.5)
        self.exchanges = [self._exchange(number) for number in range(HOSTS)]
        self.knows: dict[str, dict[int, dict[str, tuple[float, float]]]] = {}
        for number in range(PREFIXES):
            prefix = f"10.0.{number}.0/24"
            self.knows[prefix] = {}
            for host in self.rng.choice(HOSTS, ON_EACH, replace=False).tolist():
                self.learn(prefix, host)

    def _exchange(self, number: int) -> Exchange:
        return Exchange(self.settings, f"host-{number:02}", self.daemons[number], Store(self.settings))

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

    def round(self, without: frozenset[int] = frozenset()) -> float:
        """One exchange of each host. Returns the mean time of one, s."""
        order = [number for number in self.rng.permutation(HOSTS).tolist() if number not in without]
        began_s = time.perf_counter()
        for number in order:
            self.exchanges[number].run(self.now_s)
            self.now_s += self.settings.period_s / HOSTS
        return (time.perf_counter() - began_s) / max(len(order), 1)

    def far(self) -> float:
        """The largest distance of any host's knowledge of others from that of one that read everything."""
        worst = 0.0
        for prefix, hosts in self.knows.items():
            rows = {host: row for row, host in enumerate(sorted(hosts))}
            mean, variance = np.zeros((1, ON_EACH, ARMS)), np.full((1, ON_EACH, ARMS), np.inf)
            for other, told in hosts.items():
                for arm, pair in told.items():
                    mean[0, rows[other], PLACES[arm]], variance[0, rows[other], PLACES[arm]] = pair
            # For each host that asks, all lessons but its own.
            variance = np.repeat(variance, ON_EACH, axis=0)
            variance[range(ON_EACH), range(ON_EACH)] = np.inf
            merged = merge(np.repeat(mean, ON_EACH, axis=0), variance, quorum(HOSTS))
            for host, row in rows.items():
                has = self.daemons[host].told.get(prefix, {})
                for arm in NAMES:
                    should = merged.variance[row, PLACES[arm]]
                    if np.isfinite(should):
                        told_mean, told_variance = has.get(arm, (np.inf, np.inf))
                        away = abs(told_mean - merged.mean[row, PLACES[arm]]) / np.sqrt(should)
                        worst = max(worst, float(away), abs(float(np.sqrt(told_variance / should)) - 1))
        return worst


def faults(folder: Path, seed: int = 1) -> dict[str, object]:
    """Run through the faults. Distances are in standard deviations of the merged effect."""
    found: dict[str, object] = {
        "what": f"{HOSTS} hosts, {PREFIXES} prefixes, {ON_EACH} hosts on each; distance from all lessons "
        "merged at once, in standard deviations",
        "target": "equal within one period after the last fault (news begin at 0.1)",
    }
    with site_store(folder) as store:
        site = Site(store, seed)
        for _ in range(2):
            site.round()
        found["no fault"] = site.far()
        store.kill()
        site.learn_more(0.3)
        site.round()
        found["store away"] = site.far()
        store.start()
        _settle(site, found, "store restarted, without what it held")
        site.learn_more(0.3)
        site.round()
        store.client.flushall()
        _settle(site, found, "store emptied")
        dump = {key: store.client.dump(key) for key in store.client.keys("*")}  # type: ignore[union-attr]
        site.learn_more(0.5)
        site.round()
        store.client.flushall()
        for key, value in dump.items():
            store.client.restore(key, 0, value)  # type: ignore[arg-type]
        _settle(site, found, "failed over to a copy from before the last lessons")
        # One host is killed and another cut off, while all others learn.
        for _ in range(3):
            site.learn_more(0.2)
            site.round(frozenset({7, 8}))
        site.exchanges[7] = site._exchange(7)
        _settle(site, found, "a host killed and started again, a host cut off for three periods")
        for number in range(HOSTS):
            for known in site.exchanges[number]._prefixes.values():
                known.wrote = None
        _settle(site, found, "every lesson written once more")
        for exchange in site.exchanges:
            exchange._store.close()
    return found


def _settle(site: Site, found: dict[str, object], what: str) -> None:
    distances = []
    for wait_s in (0.0, 0.0, 60.0):
        site.now_s += wait_s
        site.round()
        distances.append(round(site.far(), 4))
    found[f"{what}: after 1 and 2 periods, and a minute later"] = distances


def latency(folder: Path, seed: int = 1, lessons: int = 20) -> dict[str, object]:
    """The time from a lesson of one host until another one's daemon has it, with the usual pauses."""
    from ltp_switcher.daemon.fleet.process import pause_s

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
