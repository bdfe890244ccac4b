# SPDX-License-Identifier: Apache-2.0
"""The gain from aborting trials within seconds: `python -m ltp_switcher.daemon.service.bench.aborts`.

A visit is a group of flows to a prefix that began near each other on one arm. In a trial the visit runs
another arm than the incumbent, which is the prefix's usual arm. This is a model of trials that end early, on
the simulated prefixes of `bench.learner`. The daemon itself does not abort trials in this way.

A trial is aborted if it seems to earn less than half of the incumbent's reward after some time. From then on
all flows of the visit run the incumbent. A flow loses only the extra time of its part on the trial's arm.
Durations of flows and the noise of their values come from the first runs of docs/lab-notes/traffic.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.purse import WORST, Purse
from ltp_switcher.daemon.choose.visits.replay import WINDOWS, replay
from ltp_switcher.daemon.service.bench import learner as bench

_SHARES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
_TOOK_S: Final = (0.04, 0.062, 0.172, 0.473, 2.6, 11.5, 24.2, 60.0)
"""Durations of flows under the switcher in seconds, at the quantiles `_SHARES`."""
NOISE: Final = (0.34, 0.64, 1.33, 1.67, 1.83, 1.99)
"""Standard deviations of a flow's log reward within its prefix and size class under the switcher, on six
paths.
"""
CLEAR: Final = 1.64
"""Distance in standard deviations by which clear evidence lies below half of the incumbent's reward. Of the
trials that earn just half, one in twenty is taken for clearly worse.
"""
TRIED: Final = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 1.0), (2.0, 1.0))
"""Pairs to try. The first number is the time until an abort in seconds, 0 for no abort. The second one is the
noise of the evidence, as a multiple of `NOISE`.
"""


class _Ledger(Purse):
    """A purse (the budget of trials) that enters aborted trials with the cost that they had
    until their end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[int, float] = {}
        """Log reward of the trial, as it ended, less the incumbent's, by prefix."""

    def settle(self, prefixes: Ints, flows: Floats, effects: Floats) -> None:
        """Enter trials in the ledger."""
        known = zip(prefixes.tolist(), effects.tolist(), strict=True)
        super().settle(prefixes, flows, np.array([self.ended.get(at, effect) for at, effect in known]))


class Aborting(Learner):
    """A learner whose trials end early if their arms seem to earn less than half of the incumbent's reward.

    Args:
        means: mean log reward of each arm on each prefix, shape (prefixes, arms).
        after_s: time until an abort, in seconds.
        noise: noise of the evidence, as a multiple of `NOISE`.
        clear: whether only clear evidence aborts; see `CLEAR`.
        seed: seed of flows and noise.
    """

    def __init__(self, means: Floats, after_s: float, noise: float, *, clear: bool, seed: int) -> None:
        super().__init__(bench.ARMS)
        self.purse = self._ledger = _Ledger()
        self._means, self._after_s = means, after_s
        self._rng = np.random.default_rng(seed)
        self._noise = noise * self._rng.choice(NOISE, len(means))
        self._least = bench.HALF + CLEAR * self._noise * clear
        self.saved: list[Floats] = []
        """Savings by aborts in each visit, as logs of the reward; each array has the shape (prefixes,)."""

    def observe(self, visits: Visits) -> Ints:
        """Learn from one visit of each prefix, after the trials among these visits were aborted where they
        seem to earn too little.
        """
        at, rng = visits.prefixes, self._rng
        incumbents = self._incumbents[at]
        lack = self.expected(at, float(visits.ended_s[0]), incumbents) - visits.values
        tried = visits.arms != incumbents
        seems = lack + self._noise * rng.normal(size=at.size)
        aborted = tried & (seems > self._least)
        effect = self._means[at, visits.arms] - self._means[at, incumbents]
        cut, most = self._cut(effect)
        self.saved.append(np.where(aborted, cut - effect, 0.0))
        # The noise of the visit belongs to the path, and stays. Noise in the trial's favour pays in no more
        # than `most`.
        ended = np.where(aborted, lack + effect - cut, lack)
        bounded = aborted | (tried & (seems < -self._least))
        self._ledger.ended = {
            int(one): -float(np.clip(ended[one], -most[one], most[one])) for one in np.flatnonzero(bounded)
        }
        # An aborted visit tells only what its beginning told.
        values = np.where(aborted, visits.values - (seems - lack), visits.values)
        told = 0.25 / np.maximum(self._noise**2 - 0.09, 0.25 / 3.0)
        information = np.where(aborted, told, visits.information)
        return super().observe(
            Visits(at, visits.arms, values, information, visits.flows, visits.ended_s, incumbents)
        )

    def _cut(self, effect: Floats) -> tuple[Floats, Floats]:
        """The effects of trials that are aborted, and the most that such a trial can lose, as logs of the
        reward: shape (n,) each.
        """
        took_s = np.exp(np.interp(self._rng.random((effect.size, 2)), _SHARES, np.log(_TOOK_S)))
        # The second flow of a visit begins up to a second after the first flow's end.
        late_s = self._rng.random(effect.size) * (took_s[:, 0] + 1.0)
        on_s = np.maximum(self._after_s - np.stack([np.zeros_like(late_s), late_s], axis=1), 0.0)
        rate = np.exp(effect / 2.0)[:, None]
        whole = took_s <= on_s * rate
        # The rest of the flow takes its usual time.
        rest = -2.0 * np.log1p(np.maximum(on_s * (1.0 - rate) / took_s, -0.999))
        left = np.where(whole, effect[:, None], rest).mean(axis=1)
        most = np.minimum(2.0 * np.log1p(on_s / took_s), WORST).mean(axis=1)
        return left, most


def measure(
    kind: bench.Kind, seeds: Sequence[int], after_s: float, noise: float, *, clear: bool
) -> tuple[bench.Interval | None, bench.Interval | None, float, float]:
    """Replay prefixes of one kind with these seeds. `bench.learner` defines off-model.

    Returns:
        Four results: the gain on off-model prefixes as a share of the best arm's gain, in visits 31 to 100;
        the reward relative to the decision's, on all other prefixes, in all visits; the share of the reward
        that trials cost in the worst replay; the same share for the worst prefix. The first two have
        intervals.
    """
    gains, best, off, ledgers, worst = [], [], [], [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        effects = kind.effects(rng, kind.prefixes)
        pools = bench.made(effects, kind, rng)
        means = np.array([[pool.values.mean() for pool in of_prefix] for of_prefix in pools])
        aborting = Aborting(means, after_s, noise, clear=clear, seed=seed)
        learner = aborting if after_s else Learner(bench.ARMS)
        each = [np.array([place]) for place in range(kind.prefixes)]
        found = replay(pools, bench.VISITS, learner, seed, each)
        saved = np.array(aborting.saved or np.zeros((bench.VISITS, kind.prefixes)))
        gain = np.array([[window.gain for window in prefix] for prefix in found.parts])
        gains.append(gain + np.array([saved[first - 1 : last].mean(axis=0) for first, last in WINDOWS]).T)
        best.append([prefix[0].best_gain for prefix in found.parts])
        off.append(effects.max(axis=1) >= bench.OFF)
        ledgers.append(found.ledger)
        worst.append(found.worst_prefix)
    (closed,), kept = bench.judged(np.concatenate(gains), np.concatenate(best), np.concatenate(off), (2,))
    return closed, kept, max(ledgers), max(worst)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    prog = "python -m ltp_switcher.daemon.service.bench.aborts"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--kinds", choices=("shown", "tuning"), default="shown")
    parser.add_argument("--kind", choices=[*bench.SHOWN, *bench.TUNING], help="this one alone")
    parser.add_argument("--seeds", type=int, default=3, help="replays of each kind")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds must be 1 or more")
    kinds = bench.SHOWN if options.kinds == "shown" else bench.TUNING
    if options.kind is not None:
        kinds = {options.kind: {**bench.SHOWN, **bench.TUNING}[options.kind]}
    print("abort after, evidence     kind      closed, visits 31-100  on-model reward         ledger  prefix")
    for after_s, noise in TRIED:
        for clear in (False, True) if noise else (False,):
            how = "as noisy as flows" if noise else "exact"
            name = f"{after_s:g} s, {'clear' if clear else how}" if after_s else "no abort"
            for kind_name, kind in kinds.items():
                closed, kept, ledger, prefix = measure(
                    kind, range(1, options.seeds + 1), after_s, noise, clear=clear
                )
                print(
                    f"{name:<24}  {kind_name:<8}  {bench.text(closed, 2):<21}  {bench.text(kept, 3):<22}  "
                    f"{ledger:>6.2%}  {prefix:>6.2%}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
