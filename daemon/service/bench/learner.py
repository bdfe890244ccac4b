# SPDX-License-Identifier: Apache-2.0
"""The gain and the cost of learning from flow to flow: `python -m ltp_switcher.daemon.service.bench.learner`.

A visit is a group of flows to a prefix that began near each other on one arm. The decision is the daemon's
usual policy, which chooses arms while flows run. Learners are replayed on simulated prefixes whose best arm
is known (`choose.visits.replay`). A prefix is off-model if an arm earns at least `OFF` more than the
decision, in the logarithm of the reward. The learner's constants were chosen on the kinds `TUNING`; the
figures to report come from the kinds `SHOWN`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.replay import GAP_S, WINDOWS, Pool, Replayed, replay
from ltp_switcher.daemon.step.learning.prefixes import KnownPrefixes

ARMS: Final = 5
OFF: Final = 0.3
VISITS: Final = 400
FLOWS: Final = 2.0
"""Number of flows in a visit."""
STEADY: Final = 200
"""Number of visits before a change of the path, and again after it."""
SHOWS: Final = 0.44
"""Probability that one of the two flows of a visit lasts for 2.6 s. The rule needs this time to check whether
its own arm earns too little. A quarter of the flows lasts that long in the first runs of
docs/lab-notes/traffic.md.
"""
FALSE: Final = 0.005
"""Probability that the self-check of the rule raises a false alarm in a visit.

The self-check compares a flow's arm with the other arms. It was tried on 1,500 simulated flows of 10 s. The
flow's arm had a log reward 0.2 below another arm's, with noise of 0.6 between measurements. An alarm was
raised on one flow in a hundred. Half of the visits have a flow that is long enough.
"""
HALF: Final = float(np.log(2.0))
"""Deficit in log reward at which the rule's self-check leaves an arm (`choose.rule.surprise`)."""
NEW_VISITS: Final = 100
"""Number of visits to each prefix that is new to a learner."""
TOLD: Final = (None, 0.0, 0.3, 0.6)
"""Shares of the variance of arms' effects (gains in log reward) that the numbers of paths explain. With None
the learner gets no numbers.
"""
DRAWS: Final = 200
"""Number of simulated visits of each arm on each prefix. The replay draws its visits from them."""
UNSEEN: Final = 0.15
"""Probability that a number of a path is not observed."""
_TYPICAL: Final = np.array([2e6, 0.1, 40e3, 1e3, 80.0, 1e-3, 2e3, 0.2])
"""Usual values of the numbers of a path, in their units and the order of `Number`."""
_DEVIATIONS: Final = np.array([1.2, 0.7, 0.9, 0.8, 1.0, 1.5, 1.0, 0.7])
"""Standard deviations of the logarithms of the numbers of paths, in the order of `Number`."""
_BOOTSTRAPS: Final = 1000

Interval = tuple[float, float, float]
"""A value with the ends of its 95 % interval, from a bootstrap over prefixes."""


class Made(Protocol):
    """A function that makes the effects (gains in log reward) of arms on n prefixes, shape (n, arms). Arm 0
    is the decision's own choice, and its effects are 0.
    """

    def __call__(self, rng: np.random.Generator, n: int, arms: int = ARMS, /) -> Floats: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of prefixes: the effects of their arms (gains in log reward), their number, and the noise of
    their visits.
    """

    effects: Made
    prefixes: int
    noise: Callable[[np.random.Generator, int], Floats]
    """A function that draws noise for n visits: deviations of their values from the mean, shape (n,)."""


def _normal(deviation: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, n: rng.normal(0.0, deviation, n)


def _laplace(rng: np.random.Generator, n: int) -> Floats:
    """Laplace noise. Its scale is drawn once for each pool, from 0.15 to 0.6."""
    return rng.laplace(0.0, np.exp(rng.uniform(np.log(0.15), np.log(0.6))), n)


def _right(rng: np.random.Generator, n: int, arms: int = ARMS) -> Floats:
    return _decision(-np.abs(rng.normal(0.0, 0.5, (n, arms))))


def _decision(effects: Floats) -> Floats:
    effects[:, 0] = 0.0
    return effects


def _same(rng: np.random.Generator, n: int, arms: int = ARMS) -> Floats:
    effects = _decision(rng.uniform(-1.0, 0.0, (n, arms)))
    best = np.where(rng.random(n) < 0.7, 1, rng.integers(2, arms, n))
    effects[np.arange(n), best] = rng.uniform(0.7, 2.0, n)
    return effects


def _falling(rng: np.random.Generator, n: int, arms: int = ARMS) -> Floats:
    return _decision(-rng.exponential(0.5, (n, arms)))


def _families(rng: np.random.Generator, n: int, arms: int = ARMS) -> Floats:
    """Arm 2 is the best one on a third of the prefixes, arm 4 on another third, and the decision's own choice
    on the others.
    """
    effects = _falling(rng, n, arms)
    for place, arm in enumerate((2, 4)):
        effects[place : n * 2 // 3 : 2, arm] = rng.uniform(0.5, 1.5, effects[place : n * 2 // 3 : 2].shape[0])
    return effects


def _alike(rng: np.random.Generator, n: int, arms: int = ARMS) -> Floats:
    return _decision(rng.normal(-0.02, 0.05, (n, arms)))


def _some(others: Made, count: Callable[[int], int], low: float, high: float) -> Made:
    """Return a function that makes effects for n prefixes, as `others` does, with one change. On each of the
    first `count(n)` prefixes one arm, drawn at random, has an effect from `low` to `high`.
    """

    def drawn(rng: np.random.Generator, n: int, arms: int = ARMS, /) -> Floats:
        effects, size = others(rng, n, arms), count(n)
        worth = rng.uniform(low, high, size)
        effects[np.arange(size), rng.integers(1, arms, size)] = worth
        return effects

    return drawn


TUNING: Final[Mapping[str, Kind]] = {
    "same": Kind(_same, 40, _normal(0.4)),
    "half": Kind(_some(_right, lambda n: n // 2, 0.7, 2.0), 40, _normal(0.8)),
    "lone": Kind(_some(_right, lambda n: 1, 1.5, 1.5), 40, _normal(0.4)),
    "right": Kind(_right, 40, _normal(0.8)),
}
"""The kinds of prefixes on which the constants were chosen."""
SHOWN: Final[Mapping[str, Kind]] = {
    "families": Kind(_families, 36, _laplace),
    "eighth": Kind(_some(_falling, lambda n: n // 8, 0.5, 1.8), 48, _laplace),
    "one": Kind(_some(_falling, lambda n: 1, 1.2, 1.8), 30, _laplace),
    "falling": Kind(_falling, 30, _laplace),
    "alike": Kind(_alike, 30, _laplace),
}
"""The kinds of prefixes from which the reported figures come."""


def made(effects: Floats, kind: Kind, rng: np.random.Generator) -> list[list[Pool]]:
    """Make past visits for each arm of each prefix, from the arms' effects, shape (prefixes, ARMS), and the
    noise of `kind`.
    """
    pools = []
    for of_prefix in effects.tolist():
        level = rng.normal(0.0, 1.0)
        row = []
        for effect in of_prefix:
            noise = kind.noise(rng, DRAWS)
            values = level + effect + noise - noise.mean()
            row.append(Pool(values, np.full(DRAWS, 3.0), np.full(DRAWS, FLOWS)))
        pools.append(row)
    return pools


def paths(rng: np.random.Generator, effects: Floats, told: float) -> Floats:
    """Make the numbers that describe the prefixes' paths, shape (n, numbers), from the arms' effects, shape
    (n, ARMS). The numbers explain a share `told` of the variance of each arm's effect.

    The logarithms of the numbers are a random rotation of the effects and of noise. So no single number
    belongs to one arm.
    """
    numbers = len(Number)
    apart = effects[:, 1:] - effects[:, 1:].mean(axis=0)
    z = rng.normal(size=(len(effects), numbers))
    z[:, : ARMS - 1] = np.sqrt(told) * apart / apart.std(axis=0) + np.sqrt(1.0 - told) * z[:, : ARMS - 1]
    turned, _ = np.linalg.qr(rng.normal(size=(numbers, numbers)))
    found: Floats = _TYPICAL * np.exp(_DEVIATIONS * (z @ turned))
    found[rng.random(found.shape) < UNSEEN] = np.nan
    return found


@dataclass(frozen=True, slots=True)
class Result:
    """The result of all replays of a kind. Intervals are 95 % intervals from a bootstrap over prefixes.

    A prefix is off-model if an arm earns at least `OFF` more than the decision (the usual policy), in the
    logarithm of the reward.
    """

    closed: tuple[Interval | None, ...]
    """Mean gain of the learner over the decision, as a share of the best arm's gain, on off-model prefixes:
    in visits 31 to 100, and in visits 101 to 400.
    """
    kept: Interval | None
    """The learner's reward over the decision's, a mean over all visits to prefixes where no arm earns much
    more than the decision.
    """
    ledger: float
    """Share of the reward that trials cost in the worst replay, by the learner's own ledger."""
    worst_prefix: float
    """Share of its reward that trials cost the worst prefix of any replay, by the learner's own ledger."""
    lost: float
    """Share of the reward that trials cost, from the true means of the arms; a mean over replays."""
    alarms: float
    """Number of false alarms of a change in 1,000 visits."""


class _Alarmed(Learner):
    """A learner to which the self-check tells nothing but false alarms."""

    def __init__(self, seed: int, *, detects: bool) -> None:
        super().__init__(ARMS, detects=detects)
        self._lots = np.random.default_rng(seed)

    def observe(self, visits: Visits) -> Ints:
        """Learn from visits of different prefixes, each after its false alarms."""
        alarmed = (self._lots.random(len(visits.prefixes)) < FALSE) & (visits.arms == 0)
        self.surprise(visits.prefixes[alarmed], float(visits.ended_s[0]))
        return super().observe(visits)


def measure(
    kind: Kind,
    seeds: Sequence[int],
    *,
    detects: bool = True,
    told: float | None = None,
    alarmed: bool = False,
) -> Result:
    """Replay prefixes of one kind with these seeds.

    Args:
        kind: kind of all prefixes.
        seeds: seeds of the replays.
        detects: whether the learner looks for changes of paths.
        told: share of the variance of arms' effects that the numbers of paths explain. With None the learner
            gets no numbers.
        alarmed: whether the rule's self-check raises false alarms.
    """
    found: list[Replayed] = []
    off: list[Bools] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        effects = kind.effects(rng, kind.prefixes)
        learner = _Alarmed(seed, detects=detects) if alarmed else Learner(ARMS, detects=detects)
        pools, each = made(effects, kind, rng), [np.array([place]) for place in range(kind.prefixes)]
        if told is not None:
            learner.tell_paths(np.arange(kind.prefixes), paths(rng, effects, told))
        found.append(replay(pools, VISITS, learner, seed, each))
        off.append(effects.max(axis=1) >= OFF)
    windows = [prefix for one in found for prefix in one.parts]
    gains = np.array([[window.gain for window in prefix] for prefix in windows])
    best = np.array([prefix[0].best_gain for prefix in windows])
    costs = np.array([[window.cost for window in prefix] for prefix in windows])
    lengths = np.array([window.last - window.first + 1 for window in windows[0]])
    closed, kept = judged(gains, best, np.concatenate(off), (2, 3))
    return Result(
        closed,
        kept,
        max(one.ledger for one in found),
        max(one.worst_prefix for one in found),
        float((costs @ lengths).mean() / lengths.sum()),
        sum(one.changes for one in found) / (len(found) * kind.prefixes * VISITS) * 1000,
    )


def judged(
    gains: Floats, best: Floats, off: Bools, shown: Sequence[int]
) -> tuple[tuple[Interval | None, ...], Interval | None]:
    """Judge the gains on n prefixes. The module defines off-model.

    Args:
        gains: gains over the decision, shape (n, windows). The windows are the first ones of `WINDOWS`.
        best: gain of the best arm, shape (n,).
        off: whether a prefix is off-model, shape (n,).
        shown: indices of the windows for which the share is wanted.

    Returns:
        Two results: the gain on off-model prefixes as a share of the best arm's gain, in each of these
        windows; the reward relative to the decision on all other prefixes, in all windows. A result is None
        if there is no such prefix.
    """
    rng = np.random.default_rng(0)
    closed = tuple(_ratio(gains[off, place], best[off], rng) for place in shown)
    lengths = np.array([last - first + 1 for first, last in WINDOWS[: gains.shape[1]]])
    over = _ratio((gains @ lengths / lengths.sum())[~off], np.ones(int((~off).sum())), rng)
    if over is None:
        return closed, None
    return closed, factor(over)


def mean_of(of_prefixes: Floats) -> Interval:
    """The mean of values of n prefixes, shape (n,). Its interval comes from a bootstrap over prefixes."""
    drawn = np.random.default_rng(0).integers(0, of_prefixes.size, (_BOOTSTRAPS, of_prefixes.size))
    low, high = np.percentile(of_prefixes[drawn].mean(axis=1), (2.5, 97.5)).tolist()
    return float(of_prefixes.mean()), low, high


def factor(logs: Interval) -> Interval:
    """Turn an interval of a log reward into the interval of the factor on the reward."""
    middle, low, high = np.exp(logs).tolist()
    return middle, low, high


def _ratio(above: Floats, below: Floats, rng: np.random.Generator) -> Interval | None:
    """The ratio of the sums over prefixes, with its interval; None if there is no prefix."""
    if not above.size:
        return None
    drawn = rng.integers(0, above.size, (_BOOTSTRAPS, above.size))
    low, high = np.percentile(above[drawn].sum(axis=1) / below[drawn].sum(axis=1), (2.5, 97.5)).tolist()
    return float(above.sum() / below.sum()), low, high


def newcomers(
    kind: Kind, seeds: Sequence[int], told: float | None
) -> tuple[tuple[Interval | None, ...], Interval | None]:
    """Let new prefixes of a kind come to a learner. It knows equally many other prefixes, by `VISITS` visits
    each.

    Args:
        kind: kind of all prefixes.
        seeds: seeds of the replays.
        told: share of the variance of arms' effects that the numbers of paths explain. With None the learner
            gets no numbers.

    Returns:
        Two results for the new prefixes: the gain on off-model ones as a share of the best arm's gain, in
        visits 1 to 10, 11 to 30 and 31 to 100; the reward relative to the decision on all others, in all
        these visits.
    """
    gains, best, off = [], [], []
    for seed in seeds:
        rng, learner = np.random.default_rng(seed), Learner(ARMS)
        known, new = kind.effects(rng, kind.prefixes), kind.effects(rng, kind.prefixes)
        pools = made(known, kind, rng), made(new, kind, rng)
        if told is not None:
            both = np.concatenate([known, new])
            learner.tell_paths(np.arange(len(both)), paths(rng, both, told))
        replay(pools[0], VISITS, learner, seed)
        each = [np.array([place]) for place in range(kind.prefixes)]
        found = replay(pools[1], NEW_VISITS, learner, seed, each, kind.prefixes).parts
        gains += [[window.gain for window in prefix] for prefix in found]
        best += [prefix[0].best_gain for prefix in found]
        off.append(new.max(axis=1) >= OFF)
    return judged(np.array(gains), np.array(best), np.concatenate(off), range(len(found[0])))


def detected(fold: float, flows: int, prefixes: int, seed: int) -> tuple[Ints, Ints]:
    """Let the decision's reward on each prefix fall by a factor after `STEADY` visits.

    As on a running server, the learner sees values relative to the moving mean of their prefix.

    Args:
        fold: factor by which the reward falls.
        flows: number of flows in a visit.
        prefixes: number n of prefixes. Each has noise of its own scale.
        seed: seed of the noise.

    Returns:
        The false alarms of each prefix before the fall, shape (n,), and the visits until the learner found
        the fall, shape (n,). The second is `STEADY` + 1 if the learner did not find it.
    """
    rng = np.random.default_rng(seed)
    known, learner, each = KnownPrefixes(), Learner(ARMS), np.arange(prefixes)
    known.grow(prefixes)
    scales = np.exp(rng.uniform(np.log(0.15), np.log(0.6), prefixes))
    false, after = np.zeros(prefixes, np.int64), np.full(prefixes, STEADY + 1)
    of_flow, many = np.repeat(each, flows), np.full(prefixes, float(flows))
    for number in range(2 * STEADY):
        level = -np.log(fold) if number >= STEADY else 0.0
        # Flows of a visit share its noise, and have noise of their own.
        noise = np.repeat(rng.laplace(0.0, scales), flows) + rng.normal(0.0, 0.3, of_flow.size)
        values = known.lines.take(of_flow, np.ones_like(of_flow), level + noise)
        mean = values.reshape(prefixes, flows).mean(axis=1)
        found = learner.observe(
            Visits(each, np.zeros_like(each), mean, many, many, np.full(prefixes, number * GAP_S))
        )
        if number < STEADY:
            false[found] += 1
        else:
            after[found] = np.minimum(after[found], number - STEADY + 1)
    return false, after


def left(prefixes: int, seed: int, *, detects: bool) -> tuple[Floats, Ints]:
    """Let the best arm of each prefix become its worst one after `STEADY` visits.

    Args:
        prefixes: number of prefixes.
        seed: seed of the noise and of the draws.
        detects: whether the learner looks for changes.

    Returns:
        Two results for the n prefixes on which the learner ran the best arm before the change. The first is
        the mean log reward after the change, less the log reward of the decision's own choice, shape (n,).
        The second is the number of visits until the learner left the arm, at most `STEADY`, shape (n,).
    """
    return _lived(prefixes, seed, 1, 1.2, -1.2, detects=detects, shows=0.0)


def fell(prefixes: int, seed: int, fold: float, *, detects: bool, shows: float) -> tuple[Floats, Ints]:
    """Let the decision, whose choice is the best arm of each prefix, lose a part of its reward after `STEADY`
    visits.

    The rewards of all other arms stay the same.

    Args:
        prefixes: number of prefixes.
        seed: seed of the noise and of the draws.
        fold: factor by which the decision's reward falls.
        detects: whether the learner looks for changes.
        shows: probability that the rule's self-check raises an alarm in a visit of the decision, if another
            arm earns twice as much. Otherwise the probability is `FALSE`. With `shows` 0 there are no alarms
            at all.

    Returns:
        Two results for the n prefixes on which the learner ran the decision's own choice before the change.
        The first is the mean log reward after the change, less the log reward of the decision's own choice,
        shape (n,). The second is the number of visits until the learner left this choice, at most `STEADY`,
        shape (n,).
    """
    return _lived(prefixes, seed, 0, 0.0, -float(np.log(fold)), detects=detects, shows=shows)


def _lived(
    prefixes: int, seed: int, arm: int, before: float, after: float, *, detects: bool, shows: float
) -> tuple[Floats, Ints]:
    """Let the value of one arm change from `before` to `after` on each prefix, after `STEADY` visits.

    Returns:
        Two results for the n prefixes on which the arm was the incumbent (the prefix's usual arm) before the
        change. The first is the mean log reward after the change, less the log reward of the decision's own
        choice, shape (n,). The second is the number of visits until the arm was no longer the incumbent, at
        most `STEADY`, shape (n,).
    """
    rng = np.random.default_rng(seed)
    learner, each = Learner(ARMS, detects=detects), np.arange(prefixes)
    worth = np.zeros((prefixes, ARMS))
    worth[:, 1:] = rng.uniform(-1.0, -0.3, (prefixes, ARMS - 1))
    worth[:, arm] = before
    level, many = rng.normal(0.0, 1.0, prefixes), np.full(prefixes, FLOWS)
    was, gain, stayed = np.zeros(prefixes, np.bool_), np.zeros(prefixes), np.zeros(prefixes, np.int64)
    gone, lots = np.zeros(prefixes, np.bool_), np.random.default_rng(seed)
    for number in range(2 * STEADY):
        plan = learner.plan(each, np.zeros(prefixes), number * GAP_S)
        if number == STEADY:
            was = plan.incumbents == arm
            worth[:, arm] = after
        tries = rng.random(prefixes) < plan.chances
        arms = np.where(tries, plan.trials, plan.incumbents)
        ran = worth[each, arms]
        if shows:
            lacks = worth[:, 1:].max(axis=1) - worth[:, 0] >= HALF
            starves = lots.random(prefixes) < np.where(lacks, shows, FALSE)
            learner.surprise(each[starves & (arms == 0)], number * GAP_S)
        values = level + ran + rng.laplace(0.0, 0.25, prefixes)
        learner.observe(Visits(each, arms, values, many, many, np.full(prefixes, number * GAP_S)))
        if number >= STEADY:
            gain += (ran - worth[:, 0]) / STEADY
            gone |= plan.incumbents != arm
            stayed += ~gone
    return gain[was], stayed[was]


def _print_changes(seeds: Sequence[int]) -> None:
    """Print how soon changes are found, and the reward that the learner has after them."""
    print("fall      flows  false alarms in 1,000 visits  found  visits: median  90 %")
    for fold in (2.0, 10.0):
        for flows in (1, 2, 5, 20):
            each = [detected(fold, flows, 100, seed) for seed in seeds]
            false = np.concatenate([one[0] for one in each])
            after = np.concatenate([one[1] for one in each])
            middle, late = np.percentile(after, (50, 90)).tolist()
            print(
                f"{fold:>2.0f}-fold  {flows:>7}  {false.mean() / STEADY * 1000:>28.2f}  "
                f"{(after <= STEADY).mean():>5.0%}  {middle:>14.0f}  {late:>4.0f}"
            )
    print(
        f"{'the best arm becomes the worst':<38}  prefixes  visits until it is left: median  90 %  log reward"
    )
    for detects in (False, True):
        name = "with detectors" if detects else "without"
        _print_left(name, [left(30, seed, detects=detects) for seed in seeds])
    for fold in (2.0, 4.0, 10.0):
        print(f"the decision's reward falls {fold:.0f}-fold")
        for detects, shows in ((False, 0.0), (True, 0.0), (False, SHOWS), (True, SHOWS)):
            name = f"{'with' if detects else 'without'} detectors, {'with' if shows else 'without'} surprise"
            _print_left(name, [fell(30, seed, fold, detects=detects, shows=shows) for seed in seeds])


def _print_left(name: str, each: Sequence[tuple[Floats, Ints]]) -> None:
    gain, stayed = (np.concatenate(parts) for parts in zip(*each, strict=True))
    middle, late = np.percentile(stayed, (50, 90)).tolist()
    mean = text(_ratio(gain, np.ones_like(gain), np.random.default_rng(0)), 3)
    print(f"{name:<38}  {gain.size:>8}  {middle:>31.0f}  {late:>4.0f}  {mean}")


def _print_newcomers(kinds: Mapping[str, Kind], seeds: Sequence[int]) -> None:
    """Print the gain on new prefixes from the numbers of their paths."""
    print(
        "kind      paths tell  closed, visits 1-10     11-30                   31-100                  "
        "on-model reward"
    )
    for name, kind in kinds.items():
        for told in TOLD:
            closed, kept = newcomers(kind, seeds, told)
            print(
                f"{name:<8}  {'none' if told is None else format(told, '.0%'):<10}  "
                f"{'  '.join(f'{text(of, 2):<22}' for of in closed)}  {text(kept, 3)}"
            )


def text(of: Interval | None, digits: int) -> str:
    if of is None:
        return "-".center(3 * digits + 13)
    value, low, high = (f"{part:.{digits}f}" for part in of)
    return f"{value} ({low} to {high})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    prog = "python -m ltp_switcher.daemon.service.bench.learner"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--kinds", choices=("shown", "tuning"), default="shown")
    parser.add_argument("--seeds", type=int, default=5, help="replays of each kind")
    parser.add_argument("--changes", action="store_true", help="how soon changes of paths are found, instead")
    parser.add_argument("--no-detectors", action="store_true", help="replay without looking for changes")
    parser.add_argument("--alarmed", action="store_true", help="with false alarms of the self-check")
    parser.add_argument("--new", action="store_true", help="new prefixes beside known ones, instead")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds must be 1 or more")
    if options.changes:
        _print_changes(range(1, options.seeds + 1))
        return 0
    kinds = SHOWN if options.kinds == "shown" else TUNING
    if options.new:
        _print_newcomers(kinds, range(1, options.seeds + 1))
        return 0
    print(
        "kind      closed, visits 31-100  101-400                on-model reward         "
        "ledger  prefix   lost  alarms"
    )
    for name, kind in kinds.items():
        found = measure(
            kind, range(1, options.seeds + 1), detects=not options.no_detectors, alarmed=options.alarmed
        )
        early, late = (text(of, 2) for of in found.closed)
        print(
            f"{name:<8}  {early:<21}  {late:<21}  {text(found.kept, 3):<22}  "
            f"{found.ledger:>6.2%}  {found.worst_prefix:>6.2%}  {found.lost:>5.2%}  {found.alarms:>6.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
