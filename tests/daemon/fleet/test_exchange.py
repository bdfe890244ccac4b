# SPDX-License-Identifier: Apache-2.0
"""Hosts that share lessons over a real store, and the store's faults."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from os import kill
from pathlib import Path

import numpy as np
import pytest
from fleet import faults
from support.site_store import SiteStore, site_store
from support.told_daemon import ToldDaemon

from ltp_switcher.daemon.fleet import exchange as exchanges
from ltp_switcher.daemon.fleet import lesson
from ltp_switcher.daemon.fleet import store as stores
from ltp_switcher.daemon.fleet.exchange import Exchange
from ltp_switcher.daemon.fleet.lesson import ARMS, PLACES, pack
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.settings.fleet import FleetSection

NOW_S = 1_800_000_000.0
A, B, SIX = "192.0.2.0/24", "198.51.100.0/24", "2001:db8:7::/48"
KNOWN = {"bbr": (0.5, 0.05), "vegas": (-0.3, 0.1)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SiteStore]:
    with site_store(tmp_path) as made:
        yield made


class Site:
    """Hosts of a site, whose time is one."""

    def __init__(self, store: SiteStore, **settings: object) -> None:
        self.now_s = NOW_S
        self._settings = FleetSection(store=(str(store.socket),), **settings)  # type: ignore[arg-type]
        self.daemons: dict[str, ToldDaemon] = {}
        self.exchanges: dict[str, Exchange] = {}

    def host(self, name: str, model: int = 7) -> ToldDaemon:
        daemon = self.daemons[name] = ToldDaemon(model)
        self.exchanges[name] = Exchange(self._settings, name, daemon, Store(self._settings))
        return daemon

    def run(self, *names: str, rounds: int = 1) -> None:
        """Exchanges of these hosts, or of all, one after the other."""
        for _ in range(rounds):
            for name in names or tuple(self.exchanges):
                self.exchanges[name].run(self.now_s)
            self.now_s += self._settings.period_s

    def close(self) -> None:
        for exchange in self.exchanges.values():
            exchange._store.close()


@pytest.fixture
def site(store: SiteStore) -> Iterator[Site]:
    made = Site(store)
    yield made
    made.close()


def test_a_lesson_on_one_host_is_known_on_another_two_exchanges_later(site: Site) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    a.learn(SIX, ltp=(0.2, 0.3))
    b.learn(A, cubic=(0.0, 0.2))
    b.learn(B)
    site.run(rounds=2)
    assert b.told[A] == {
        "bbr": pytest.approx([0.5, 0.05], rel=1e-3),
        "vegas": pytest.approx([-0.3, 0.1], rel=1e-3),
    }
    # That prefix has no traffic there; so its arm is there before the first flow.
    assert b.told[SIX] == {"ltp": pytest.approx([0.2, 0.3], rel=1e-3)}
    assert b.sources[A] == ["a"]
    assert a.told.keys() == {A}
    assert a.told[A]["cubic"] == pytest.approx([0.0, 0.2], rel=1e-3)
    assert b.status["reachable"]
    assert (b.status["lag_s"], b.status["live"], b.status["error"]) == (0.0, 2, "")


def test_repeated_writes_change_nothing_and_nobody_hears_its_own_word(site: Site, store: SiteStore) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(A)
    site.run(rounds=3)
    before, told = store.lessons(A), b.told[A]
    for _ in range(5):
        a.learn(A, **KNOWN)
        b.learn(A)
        site.run()
    assert store.lessons(A) == before
    assert b.told[A] == told
    assert b.tells == 1
    assert A not in a.told
    # After ten minutes it is written again, since it may have been lost.
    site.now_s += 601
    a.learn(A, **KNOWN)
    site.run("a")
    assert store.lessons(A) != before


def test_an_emptied_store_fills_again_in_one_exchange(site: Site, store: SiteStore) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(A, cubic=(0.1, 0.2))
    site.run(rounds=3)
    told = b.told[A]
    store.client.flushall()
    # What is known already stays, though the store has nothing now.
    site.run("b")
    assert b.told[A] == told
    site.run()
    assert store.lessons(A).keys() == {b"a", b"b"}
    assert b.told[A] == told
    store.kill()
    site.run()
    assert not b.status["reachable"]
    assert "cannot be reached" in b.status["error"]
    assert b.told[A] == told
    a.learn(A, bbr=(1.5, 0.01), vegas=(-0.3, 0.1))
    store.start()
    site.run(rounds=2)
    assert b.status["reachable"]
    assert b.told[A]["bbr"][0] == pytest.approx(1.5, rel=1e-3)


def test_a_store_that_lost_the_last_seconds_gets_them_again(
    site: Site, store: SiteStore, tmp_path: Path
) -> None:
    """A failover: the hosts find what the other server had some time before."""
    a, b = site.host("a"), site.host("b")
    a.learn(A, bbr=(0.1, 0.05))
    b.learn(A)
    site.run(rounds=2)
    keys = store.client.keys("*")
    dump = {key: store.client.dump(key) for key in keys}  # type: ignore[union-attr]
    a.learn(A, bbr=(0.9, 0.05))
    site.run()
    store.client.flushall()
    for key, value in dump.items():
        store.client.restore(key, 0, value)  # type: ignore[arg-type]
    # Whoever looks before the lessons are there again knows better than the store.
    site.run("b")
    assert b.told[A]["bbr"][0] == pytest.approx(0.9, rel=1e-3)
    site.run(rounds=2)
    assert b.told[A]["bbr"][0] == pytest.approx(0.9, rel=1e-3)


def test_after_a_loss_all_are_equal_once_the_last_has_looked(store: SiteStore) -> None:
    many = faults.Site(store, seed=1, hosts=12, prefixes=10, on_each=6)
    many.run(4.0)
    # In a quiet store nobody asks whether anything was lost.
    assert "cmdstat_set" not in store.client.info("commandstats")  # type: ignore[operator]
    many.learn_more(0.5)
    many.run(1.0)
    store.client.flushall()
    looked, equal = many.settle(4.0)
    many.close()
    assert looked <= 1.2
    # Without the hosts' agreement all wait for their second exchange, and the last one's is later.
    assert equal <= 1.6


def test_a_host_whose_presence_survived_a_failover_joins_the_agreement(site: Site, store: SiteStore) -> None:
    a, b, c = (site.host(name) for name in "abc")
    for daemon in (a, b, c):
        daemon.learn(A, **KNOWN)
    site.run(rounds=3)
    dump = faults.dump_of(store)
    # The store loses this, and nothing of the others.
    a.learn(A, bbr=(1.5, 0.01))
    site.run("a")
    faults.fail_over(store, dump)
    site.run("b")
    assert site.exchanges["b"].pause_s(0, 0.5) == 1.5
    site.run("a")
    said_s = float(store.client.get("ltp-switcher:default:whole"))  # type: ignore[arg-type]
    site.exchanges["c"].run(site.now_s)
    assert site.now_s < said_s
    assert site.exchanges["c"].pause_s(0, 0.0) == pytest.approx(said_s - site.now_s, abs=1e-3)
    # Until then it reads nothing, and at that time it reads what was written again.
    told = c.told[A]
    assert c.tells == 1
    site.now_s = said_s
    site.run("c")
    assert c.told[A] != told
    assert site.exchanges["c"].pause_s(0, 0.5) == 1.5


def test_after_a_failover_that_some_survived_all_are_equal_once_the_last_has_looked(store: SiteStore) -> None:
    many = faults.Site(store, seed=1, hosts=12, prefixes=10, on_each=6)
    many.run(4.0)
    dump = faults.dump_of(store)
    many.learn_more(0.5)
    # Most hosts write what is lost, and the others find their presence as they left it.
    many.run(0.8)
    faults.fail_over(store, dump)
    looked, equal = many.settle(4.0)
    many.close()
    assert looked <= 1.2
    # If those others keep their pauses, the last one reads after 1.9 periods.
    assert equal <= 1.7


@pytest.mark.parametrize("told", ["nonsense", "nan", "1e12", "0"])
def test_no_time_that_others_say_stops_exchanges(store: SiteStore, told: str) -> None:
    site = Site(store)
    site.host("a").learn(A, **KNOWN)
    site.run(rounds=2)
    store.client.flushall()
    store.client.set("ltp-switcher:default:whole", told)
    site.run("a")
    assert 0 < site.exchanges["a"].pause_s(0, 1.0) < 3.0
    site.close()


def test_a_full_store_is_told_and_is_still_read(store: SiteStore, site: Site) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(B)
    site.run("a")
    store.client.config_set("maxmemory", "1")
    b.learn(A, cubic=(0.1, 0.1))
    site.run("b", rounds=2)
    assert b.status["write_failures"] > 0
    assert "full" in b.status["error"]
    assert b.told[A]["bbr"][0] == pytest.approx(0.5, rel=1e-3)
    store.client.config_set("maxmemory", "0")
    site.run(rounds=2)
    assert b.status["error"] == ""
    assert store.lessons(A).keys() == {b"a", b"b"}


def test_a_store_that_hangs_costs_its_time_out_and_no_more(
    site: Site, store: SiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "TIMEOUT_S", 0.1)
    a = site.host("a")
    a.learn(A, **KNOWN)
    kill(store.pid, signal.SIGSTOP)
    try:
        site.run()
    finally:
        kill(store.pid, signal.SIGCONT)
    assert "cannot be reached" in a.status["error"]
    site.run()
    assert a.status["error"] == ""
    assert store.lessons(A).keys() == {b"a"}


def test_values_that_cannot_be_are_refused_and_their_host_is_told(site: Site, store: SiteStore) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(A)
    site.run("a")
    key = f"ltp-switcher:default:lessons:{A}"
    odd = {"bad": b"\x01\x00" + b"x" * 142, "old": b"\x02\x00" + b"y" * 60, "n\xf6": b"", "": b"z"}
    for name, value in odd.items():
        store.client.hset(key, name, value)
    store.client.zadd(
        "ltp-switcher:default:stamps", {"no prefix": 1, "192.0.2.9/32": 2, b"\xff": 3, "10.0.0.0/8": 4}
    )
    store.client.hset("ltp-switcher:default:hosts", mapping={"bad": "[1, 2]", "worse": b"\xff\xfe"})
    site.run("b", rounds=2)
    assert b.told.keys() == {A}
    assert b.sources[A] == ["a"]
    assert b.hosts["bad"]["refused"] > 0
    assert (b.hosts["old"]["other_version"] > 0, b.hosts["old"]["refused"]) == (True, 0)
    assert b.status["error"] == ""


def test_a_liar_is_outvoted_and_named_and_can_be_shut_out(store: SiteStore) -> None:
    site = Site(store)
    rng = np.random.default_rng(1)
    prefixes = [f"10.0.{number}.0/24" for number in range(20)]
    truth = {prefix: float(rng.normal(0, 0.5)) for prefix in prefixes}
    for name in ("a", "b", "c", "d", "liar", "new"):
        daemon = site.host(name)
        for prefix, effect in truth.items():
            if name == "liar":
                daemon.learn(prefix, bbr=(6.0, 1e-4))
            elif name == "new":
                daemon.learn(prefix)
            else:
                daemon.learn(prefix, bbr=(effect + float(rng.normal(0, 0.2)), 0.05))
    site.run(rounds=2)
    new = site.daemons["new"]
    errors = [abs(new.told[prefix]["bbr"][0] - effect) for prefix, effect in truth.items()]
    assert max(errors) < 0.8
    assert sum(errors) / len(errors) < 0.25
    assert {name for name, host in new.hosts.items() if host["disagrees"]} == {"liar"}
    settled = Site(store, shut_out=("liar",))
    other = settled.host("other")
    for prefix in prefixes:
        other.learn(prefix)
    settled.run(rounds=2)
    assert all("liar" not in sources for sources in other.sources.values())
    for each in (site, settled):
        each.close()


def test_half_of_the_site_on_other_settings_is_left_alone(site: Site) -> None:
    for name in ("a", "b"):
        site.host(name, model=7).learn(A, **KNOWN)
    for name in ("c", "d"):
        site.host(name, model=8).learn(A, bbr=(-2.0, 0.01))
    site.run(rounds=2)
    assert site.daemons["b"].sources == {A: ["a"]}
    assert site.daemons["d"].told[A]["bbr"][0] == pytest.approx(-2.0)
    assert site.daemons["b"].hosts["c"]["other_model"] > 0
    assert site.daemons["b"].hosts["c"]["refused"] == 0


def test_half_of_the_site_on_another_release_is_counted_and_nothing_is_lost(
    site: Site, store: SiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchange(rounds: int = 1) -> None:
        """The hosts `old-…` write and read lessons of another version."""
        for _ in range(rounds):
            site.run("a", "b")
            with monkeypatch.context() as patch:
                patch.setattr(lesson, "VERSION", 99)
                site.run("old-a", "old-b")

    for name in ("a", "old-a"):
        site.host(name).learn(A, **KNOWN)
    for name in ("b", "old-b"):
        site.host(name).learn(A, cubic=(0.1, 0.2))
    exchange(rounds=3)
    assert store.lessons(A).keys() == {b"a", b"b", b"old-a", b"old-b"}
    for mine, other in (("a", "b"), ("b", "a"), ("old-a", "old-b"), ("old-b", "old-a")):
        daemon = site.daemons[mine]
        assert daemon.sources == {A: [other]}
        strangers = [host for name, host in daemon.hosts.items() if ("old" in name) != ("old" in mine)]
        assert len(strangers) == 2
        assert all(host["other_version"] > 0 and host["refused"] == 0 for host in strangers)
        assert (daemon.status["error"], daemon.status["write_failures"]) == ("", 0)
    # One of them comes up to date: its service begins anew, and its lesson counts at once.
    site.host("old-a").learn(A, **KNOWN)
    site.run("old-a", "b", rounds=2)
    assert sorted(site.daemons["b"].sources[A]) == ["a", "old-a"]


def test_a_silent_hosts_word_ages_out(site: Site, store: SiteStore) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(A, cubic=(0.1, 0.1))
    site.run(rounds=2)
    assert store.client.ttl(f"ltp-switcher:default:lessons:{A}") > 0  # type: ignore[operator]
    site.now_s += 8 * 86_400
    b.learn(A, cubic=(0.1, 0.01))
    # A third host reads what both have written.
    site.host("c").learn(A)
    site.run("b", "c", rounds=2)
    assert site.daemons["c"].sources[A] == ["b"]
    assert store.lessons(A).keys() == {b"b"}
    assert store.client.hkeys("ltp-switcher:default:hosts") == [b"b", b"c"]


@pytest.mark.parametrize("ahead_s", [0.0, 40.0])
def test_hosts_of_one_name_are_counted_and_do_not_write_again_and_again(
    site: Site, store: SiteStore, caplog: pytest.LogCaptureFixture, ahead_s: float
) -> None:
    """The clock of the first one may be ahead, so that the presence of the others looks old to it."""
    other = site.host("b")
    other.learn(A)
    names = ("a", "twin", "triplet")
    for name in names:
        site.host(name).learn(A, **KNOWN)
        site.exchanges[name]._host = "a"

    def run(rounds: int) -> None:
        for _ in range(rounds):
            site.now_s += ahead_s
            site.exchanges["a"].run(site.now_s)
            site.now_s -= ahead_s
            site.run("twin", "triplet", "b")

    run(5)
    before = [site.daemons[name].status["written"] for name in names]
    run(5)
    told = [site.daemons[name].status for name in names]
    assert [status["written"] for status in told] == before
    assert [status["namesakes"] for status in told] == [1, 1, 1]
    assert caplog.text.count("another host of the site has the name a, too") == 3
    assert other.sources == {A: ["a"]}
    # What is new is written still, and a store that was emptied fills again.
    site.daemons["twin"].learn(A, bbr=(1.5, 0.01))
    store.client.flushall()
    run(3)
    assert other.told[A]["bbr"][0] == pytest.approx(1.5, rel=1e-3)
    # One of them has another name now, and the second one ends.
    del site.exchanges["twin"], site.exchanges["triplet"]
    for _ in range(50):
        site.run("a", "b")
    assert site.daemons["a"].status["namesakes"] == 0


def test_many_hosts_of_one_name_do_not_make_each_other_write_again(site: Site) -> None:
    first = site.host("a")
    first.learn(A, **KNOWN)
    site.run()
    for _ in range(5):
        # An exchange of one that was never seen before.
        site.host("another")
        site.exchanges["another"]._host = "a"
        site.run("another", "a")
    assert first.status["written"] == 1
    assert first.status["namesakes"] == 5


def test_the_presence_of_an_earlier_run_is_no_host_of_the_same_name(site: Site, store: SiteStore) -> None:
    """A store that fails over brings it back, and has lost what was written since."""
    site.host("a").learn(A, **KNOWN)
    site.run(rounds=2)
    dump = faults.dump_of(store)
    again = site.host("a")
    again.learn(A, bbr=(1.5, 0.01))
    site.run()
    written = store.lessons(A)
    faults.fail_over(store, dump)
    site.run(rounds=2)
    assert again.status["namesakes"] == 0
    assert store.lessons(A)[b"a"][16:] == written[b"a"][16:]


def test_another_daemon_is_told_all_again(site: Site) -> None:
    site.host("a").learn(A, **KNOWN)
    b = site.host("b")
    b.learn(A)
    site.run(rounds=2)
    b.told.clear()
    b.epoch = 2
    site.run()
    assert b.told.keys() == {A}


def test_a_busy_prefix_that_says_nothing_new_is_read_seldom(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "AGAIN_S", 0.0)
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(A)
    site.run(rounds=200)
    # 200 exchanges in five minutes; waits double from 1.5 s to 60 s.
    assert 8 < b.status["read"] < 20
    assert b.tells == 1


def test_after_a_loss_a_prefix_that_was_read_seldom_is_read_at_once(
    site: Site, store: SiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = site.host("a"), site.host("b")
    a.learn(A, **KNOWN)
    b.learn(A)
    with monkeypatch.context() as patch:
        patch.setattr(exchanges, "AGAIN_S", 0.0)
        site.run(rounds=200)
    store.client.flushall()
    site.run(rounds=2)
    a.learn(A, bbr=(1.5, 0.01))
    site.run(rounds=2)
    assert b.told[A]["bbr"][0] == pytest.approx(1.5, rel=1e-3)


def test_a_store_that_forgets_time_and_again_is_read_all_the_same(site: Site, store: SiteStore) -> None:
    a, b = site.host("a"), site.host("b")
    b.learn(A)
    site.run()
    a.learn(A, **KNOWN)
    for _ in range(4):
        store.client.hdel("ltp-switcher:default:hosts", "b")
        site.run()
    assert b.told[A]["bbr"][0] == pytest.approx(0.5, rel=1e-3)


def test_a_long_list_of_lessons_goes_in_requests_that_the_daemon_takes() -> None:
    lessons = [{"prefix": f"10.0.{n}.0/24", "from": [f"host-{m:03}" for m in range(32)]} for n in range(256)]
    pieces = list(exchanges._pieces(lessons))  # type: ignore[arg-type]
    assert [one for piece in pieces for one in piece] == lessons
    assert len(pieces) > 1
    assert all(len(str(piece)) < 65_536 for piece in pieces)


def test_a_value_is_small() -> None:
    every = np.full(ARMS, 0.5)
    assert len(pack(1, NOW_S, 10, every, every)) <= 1024
    assert len(PLACES) == 15
