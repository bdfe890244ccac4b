# SPDX-License-Identifier: Apache-2.0
"""A made world: prefixes on which the arms differ, and hosts whose learners see visits of their own.

Every host has the same effects, but for a spread between hosts. The lessons go from host to host as values
of the store would, through `pack`, `unpack` and `merge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.daemon.choose.visits.purse import Purse
from ltp_switcher.daemon.choose.visits.replay import replay
from ltp_switcher.daemon.fleet.lesson import ARMS as PLACES
from ltp_switcher.daemon.fleet.lesson import Verdict, effects, pack, unpack
from ltp_switcher.daemon.fleet.merge import merge, quorum
from ltp_switcher.daemon.service.bench import learner as bench

ARMS = 5
PREFIXES = 40
NOISE = 0.4
"""Standard deviation of a visit."""
HOSTS_SPREAD = 0.1
"""Standard deviation of an effect between the hosts of a site."""
GAP_S = 60.0
HEARS = 4
"""Visits between two exchanges of a host."""
DRAWS = 10_000
"""Draws of a bootstrap interval."""
MODEL = 1
EPOCH_S = 1_800_000_000.0


def truth(seed: int) -> Floats:
    """Effects over the decision's own choice, shape (PREFIXES, ARMS). On half of the prefixes it is right."""
    rng = np.random.default_rng(seed)
    made = -np.abs(rng.normal(0, 0.5, (PREFIXES, ARMS)))
    made[:, 0] = 0.0
    wrong = np.arange(0, PREFIXES, 2)
    made[wrong, rng.integers(1, ARMS, wrong.size)] = rng.uniform(0.3, 1.5, wrong.size)
    return made


@dataclass
class Host:
    """A learner on visits of its own."""

    effects: Floats
    rng: np.random.Generator
    learner: Learner
    number: int = 0
    without_trials: list[Floats] = field(default_factory=list)
    """The true values of its incumbents at each visit."""
    trials: list[int] = field(default_factory=list)
    """Trials at each visit."""

    @classmethod
    def of(cls, world: Floats, seed: int) -> Host:
        rng = np.random.default_rng(seed)
        own = world + rng.normal(0, HOSTS_SPREAD, world.shape)
        own[:, 0] = 0.0
        return cls(own, rng, Learner(ARMS))

    def visit(self, prefixes: Ints) -> Floats:
        """One visit to each of these prefixes. Returns the true values of the arms that ran."""
        now_s = EPOCH_S + self.number * GAP_S
        self.number += 1
        plan = self.learner.plan(prefixes, np.full(prefixes.size, 4.0), now_s)
        tries = self.rng.random(prefixes.size) < plan.chances
        self.trials.append(int(np.count_nonzero(tries)))
        arms = np.where(tries, plan.trials, plan.incumbents)
        ran: Floats = self.effects[prefixes, arms]
        self.without_trials.append(self.effects[prefixes, plan.incumbents])
        values = ran + self.rng.normal(0, NOISE, prefixes.size)
        ones = np.ones(prefixes.size)
        self.learner.observe(
            Visits(prefixes, arms, values, 3 * ones, 4 * ones, np.full(prefixes.size, now_s))
        )
        return ran

    def lessons(self, prefixes: Ints) -> list[bytes]:
        """The values that it writes."""
        now_s = EPOCH_S + self.number * GAP_S
        known = self.learner.posteriors.known(prefixes, now_s)
        visits = self.learner.posteriors.visits[prefixes].tolist()
        return [
            pack(MODEL, now_s, count, _placed(mean, 0.0), _placed(variance, np.inf))
            for count, mean, variance in zip(visits, known.mean, known.variance, strict=True)
        ]

    def hear(self, prefixes: Ints, others: Sequence[Sequence[bytes]], site_hosts: int) -> None:
        """Take over the lessons of other hosts, each a list of values in the order of the prefixes."""
        if not others:
            return
        now_s = EPOCH_S + self.number * GAP_S
        told = [unpack(values, MODEL, now_s, 1e6) for values in others]
        assert all((verdicts == Verdict.USABLE).all() for _, verdicts in told)
        means, variances = zip(*(effects(lessons, now_s) for lessons, _ in told), strict=True)
        merged = merge(np.stack(means, 1), np.stack(variances, 1), quorum(site_hosts))
        found = Effects(merged.mean[:, :ARMS], merged.variance[:, :ARMS])
        found.variance[:, 0] = np.inf
        self.learner.tell(prefixes, found, merged.hosts.max(axis=1), now_s)


def _placed(row: Floats, rest: float) -> Floats:
    made = np.full(PLACES, rest)
    made[1:ARMS] = row[1:]
    return made


def second_host(seeds: Sequence[int], taught: int = 200, first: int = 10) -> dict[str, object]:
    """The reward of a new host's first visits over that of the host that teaches it, in the same visits."""
    prefixes = np.arange(PREFIXES)
    ratios: dict[str, list[float]] = {"sharing": [], "sharing, without trials": [], "without sharing": []}
    for seed in seeds:
        world = truth(seed)
        one, new, none = hosts = [Host.of(world, 1000 * seed + number) for number in range(3)]
        # The same path for all of them, so that only knowledge differs.
        new.effects = none.effects = one.effects
        for _ in range(taught):
            one.visit(prefixes)
        for host in (new, none):
            host.number = one.number
        ran: list[list[Floats]] = [[], [], []]
        for _ in range(first):
            # Visits are a minute apart, and exchanges some seconds. So the first host goes on teaching.
            new.hear(prefixes, [one.lessons(prefixes)], 2)
            for values, host in zip(ran, hosts, strict=True):
                values.append(host.visit(prefixes))
        kept = [host.without_trials[-first:] for host in hosts]
        for name, values, over in (
            ("sharing", ran[1], ran[0]), ("sharing, without trials", kept[1], kept[0]),
            ("without sharing", ran[2], ran[0]),
        ):  # fmt: skip
            ratios[name].append(float(np.exp(values).mean() / np.exp(over).mean()))
    return {
        "what": f"reward of a new host's first {first} visits over that of a host with {taught} visits: mean "
        "and worst world",
        "target": ">= 0.98",
        **{name: [round(float(np.mean(of)), 3), round(min(of), 3)] for name, of in ratios.items()},
        "seeds": list(seeds),
    }


def new_prefixes(seeds: Sequence[int]) -> dict[str, object]:
    """The log of the reward of a new host with all knowledge of another one, over that of one by itself.

    Both meet prefixes that the other has never met. So all that can help is the wider level and LinUCB on the
    numbers of paths, as exact as their host has them. No value in a store could tell more.
    """
    found: dict[str, object] = {
        "what": "log reward on prefixes that no host knows, of a new host with another's wider level and "
        "LinUCB over one without: visits 1-10 and 11-30, with intervals of 95 %",
        "target": "above 0 in visits 1-10",
    }
    for name, kind in {**bench.SHOWN, "half": bench.TUNING["half"]}.items():
        for told in (0.0, 0.3):
            apart = np.concatenate([_told_apart(kind, told, seed) for seed in seeds])
            found[f"{name}, numbers tell {told:.0%}"] = [
                f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
                for mean, low, high in zip(apart.mean(axis=0), *_ends(apart), strict=True)
            ]
    found["seeds"] = list(seeds)
    return found


def _told_apart(kind: bench.Kind, told: float, seed: int) -> Floats:
    """The gain of each new prefix with the knowledge less that without, shape (prefixes, windows)."""
    rng, size, teacher = np.random.default_rng(seed), kind.prefixes, Learner(bench.ARMS)
    both = kind.effects(rng, size), kind.effects(rng, size)
    pools = [bench.made(effects, kind, rng) for effects in both]
    numbers = bench.paths(rng, np.concatenate(both), told)
    teacher.tell_paths(np.arange(size), numbers[:size])
    replay(pools[0], bench.VISITS, teacher, seed)
    gains = []
    for knows in (True, False):
        host = Learner(bench.ARMS)
        if knows:
            host.restore(teacher.state())
            # What the other host has earned, this one may not spend.
            host.purse = Purse()
        host.tell_paths(np.arange(size, 2 * size), numbers[size:])
        parts = replay(pools[1], 30, host, seed, [np.array([at]) for at in range(size)], size).parts
        gains.append([[window.gain for window in prefix] for prefix in parts])
    apart: Floats = np.array(gains[0]) - np.array(gains[1])
    return apart


def first_trials(seeds: Sequence[int], after: Sequence[int] = (3, 8)) -> dict[str, object]:
    """What a host by itself learns, where prefixes have their first trials after so many visits.

    The worlds of these seeds are those of `make demo-fleet`.
    """
    found: dict[str, object] = {
        "what": "share of the gap that is closed in visits 31-100 and 101-150, and trials in visits 31-100, "
        "by world",
        "target": "none: a choice of the learner's",
    }
    for visits in after:
        told = []
        for seed in seeds:
            host, prefixes = Host.of(truth(seed), seed), np.arange(PREFIXES)
            host.learner = Learner(ARMS, first_trial=visits)
            ran = np.array([host.visit(prefixes) for _ in range(150)])
            closed = ran.mean(axis=1) / host.effects.max(axis=1).mean()
            told.append(
                f"{closed[30:100].mean():.2f} {closed[100:].mean():.2f} {sum(host.trials[30:100])} trials"
            )
        found[f"first trial after {visits} visits"] = told
    found["seeds"] = list(seeds)
    return found


def liar(seeds: Sequence[int], hosts: int = 20, visits: int = 60) -> dict[str, object]:
    """The reward lost by the honest hosts beside a liar, over a site whose first host is honest.

    Beside it stands the loss over the same site, where the first host is honest, too, and has visits of
    other chances. So much comes of chance alone.
    """
    alike = [_site(seed, hosts, visits) for seed in seeds]
    losses = {"no lie, other chances": [_site(seed, hosts, visits, chance=1) for seed in seeds]}
    for lie, told in _TOLD.items():
        losses[lie] = [_site(seed, hosts, visits, told(truth(seed))) for seed in seeds]
    return {
        "what": f"loss of {hosts - 1} hosts beside one that lies, %: mean, its interval of 95 % over the "
        "seeds, and the worst seed",
        "target": "<= 1 %",
        **{name: _loss(100 * (1 - np.array(rewards) / alike)) for name, rewards in losses.items()},
        "seeds": list(seeds),
    }


def _loss(losses: Floats) -> list[float]:
    low, high = _ends(losses)
    return [round(float(value), 2) for value in (losses.mean(), low, high, losses.max())]


def _ends(values: Floats) -> Floats:
    """The ends of the mean's bootstrap interval of 95 %; values: shape (n, ...), drawn along the first."""
    drawn = np.random.default_rng(0).integers(0, len(values), (DRAWS, len(values)))
    ends: Floats = np.percentile(values[drawn].mean(axis=1), (2.5, 97.5), axis=0)
    return ends


def _against(world: Floats) -> Floats:
    """The largest effects for the worst arm of each prefix, and the least for the others."""
    made = np.full(world.shape, -6.0)
    made[np.arange(PREFIXES), 1 + np.argmin(world[:, 1:], axis=1)] = 6.0
    return made


_TOLD: Mapping[str, Callable[[Floats], Floats]] = {
    # No lie. It shows how much comes of a host's having a word on every arm from the first minute on.
    "the truth of all arms": lambda world: np.clip(world, -6, 6),
    "the worst arm is best, e^6": _against,
    "every sign turned": lambda world: np.clip(-3 * world, -6, 6),
    "the worst arm is somewhat better": lambda world: np.where(_against(world) > 0, 0.5, -0.5),
}


def _site(seed: int, hosts: int, visits: int, lies: Floats | None = None, chance: int = 0) -> float:
    """Mean reward of all hosts but the first, in a site that shares every few visits.

    Each host begins at another time, two of them at each visit; the first one is there from the beginning.

    Args:
        seed: of the world, and of each host's visits.
        hosts: size of the site.
        visits: of each prefix, to the hosts that are there.
        lies: the effects that the first host tells, shape (PREFIXES, ARMS); None where it is honest.
        chance: other numbers give the first host visits of other chances in the same world.
    """
    world, prefixes = truth(seed), np.arange(PREFIXES)
    members = [Host.of(world, 1000 * seed + number) for number in range(hosts)]
    if chance:
        members[0].rng = np.random.default_rng([seed, chance])
    total, count = 0.0, 0
    spoken: dict[int, list[bytes]] = {}
    for number in range(visits):
        for place, host in enumerate(members):
            host.number = number
            if number < place // 2:
                continue
            if place == 0 and lies is not None:
                spoken[place] = [
                    pack(MODEL, EPOCH_S + number * GAP_S, 2**31, _placed(row, 0.0),
                         _placed(np.full(ARMS, 1e-4), np.inf))
                    for row in lies
                ]  # fmt: skip
                continue
            if number % HEARS == place % HEARS:
                others = [values for other, values in sorted(spoken.items()) if other != place]
                host.hear(prefixes, others, hosts)
            ran = host.visit(prefixes)
            if number % HEARS == place % HEARS:
                spoken[place] = host.lessons(prefixes)
            if place:
                total += float(np.exp(ran).sum())
                count += ran.size
    return total / count
