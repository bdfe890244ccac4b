# SPDX-License-Identifier: Apache-2.0
"""The gain and the cost of separate knowledge for hosts: `python -m ltp_switcher.daemon.service.bench.hosts`.

The daemon learns which arm suits a destination prefix. Here each prefix has six hosts. Either all hosts are
on one path, or every second host is on another path. Effects of arms and noise come from the kinds of
prefixes in `bench.learner`. A visit is a group of flows, and an effect is an arm's gain in log reward. A
visit of a host counts for the prefix until the host gets knowledge of its own. For comparison, a learner that
knows no hosts gets the same draws. Constants were chosen on the kinds `TUNING`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.replay import GAP_S
from ltp_switcher.daemon.service.bench.learner import (
    ARMS,
    FLOWS,
    SHOWN,
    TUNING,
    Interval,
    Kind,
    factor,
    mean_of,
    text,
)
from ltp_switcher.daemon.step.learning.hosts import ENOUGH

PREFIXES: Final = 24
HOSTS: Final = 6
VISITS: Final = 150
"""Number of visits of each host."""
WIGGLE: Final = 0.05
"""Standard deviation of an arm's effect between hosts on one path."""
NEVER: Final = 1 << 30


def world(kind: Kind, rng: np.random.Generator, *, apart: bool) -> tuple[Floats, Floats]:
    """Make the effects of the arms on hosts, shape (PREFIXES, HOSTS, ARMS), and the log reward of the
    decision's own choice on each host, shape (PREFIXES, HOSTS).

    With `apart`, every second host of a prefix is on another path.
    """
    paths = 2 if apart else 1
    effects = np.stack([rng.permutation(kind.effects(rng, PREFIXES)) for _ in range(paths)], axis=1)
    of_host = np.arange(HOSTS) % paths
    levels = rng.normal(0.0, 1.0, (PREFIXES, paths))[:, of_host]
    wiggle = rng.normal(0.0, WIGGLE, (PREFIXES, HOSTS, ARMS))
    wiggle[:, :, 0] = 0.0
    return effects[:, of_host] + wiggle, levels


def replayed(
    kind: Kind, seed: int, *, apart: bool, enough: int = ENOUGH
) -> tuple[Floats, Floats, float, float]:
    """Let every host have its `VISITS` visits, one host of each prefix after the other.

    Args:
        kind: kind of the paths.
        seed: seed of effects, noise and draws.
        apart: whether every second host of a prefix is on another path.
        enough: number of visits after which a host gets knowledge of its own.

    Returns:
        Four results: the gain over the decision's own choice in each visit, shape (VISITS, PREFIXES, HOSTS);
        the best arm's gain, shape (PREFIXES, HOSTS); the share of all reward that trials cost; the largest
        such share of a prefix or host.
    """
    rng = np.random.default_rng(seed)
    effects, levels = world(kind, rng, apart=apart)
    noise = np.stack([kind.noise(rng, VISITS) for _ in range(PREFIXES * HOSTS)], axis=1)
    noise = noise.reshape(VISITS, PREFIXES, HOSTS)
    learner, prefixes = Learner(ARMS), np.arange(PREFIXES)
    gains = np.zeros((VISITS, PREFIXES, HOSTS))
    information, flows, none = np.full(PREFIXES, 3.0), np.full(PREFIXES, FLOWS), np.zeros(PREFIXES)
    for visit in range(VISITS):
        for host in range(HOSTS):
            now_s = (visit + host / HOSTS) * GAP_S
            numbers: Ints = prefixes
            if visit >= enough:
                numbers = PREFIXES + prefixes * HOSTS + host
                if visit == enough:
                    learner.join(numbers, prefixes)
            plan = learner.plan(numbers, none, now_s)
            arms = np.where(rng.random(PREFIXES) < plan.chances, plan.trials, plan.incumbents)
            gains[visit, :, host] = effects[prefixes, host, arms]
            values = levels[:, host] + gains[visit, :, host] + noise[visit, :, host]
            learner.observe(Visits(numbers, arms, values, information, flows, np.full(PREFIXES, now_s)))
    purse = learner.purse
    worst = float((purse.spent / np.maximum(purse.flows, 1.0)).max())
    return gains, effects.max(axis=2), purse.share, worst


def compared(kind: Kind, seeds: Sequence[int], *, apart: bool, enough: int) -> tuple[Interval, Interval, str]:
    """Compare the learner with one that knows no hosts.

    Returns:
        Three results: the reward relative to the other learner's over all visits; the same over the second
        half of the visits; the highest costs of trials in words. Intervals are 95 % intervals from a
        bootstrap over prefixes.
    """
    more, ledgers = [], []
    for seed in seeds:
        gains, _, share, worst = replayed(kind, seed, apart=apart, enough=enough)
        without, *_ = replayed(kind, seed, apart=apart, enough=NEVER)
        more.append((gains - without).mean(axis=2))
        ledgers.append((share, worst))
    by_prefix = np.concatenate(more, axis=1)
    share, worst = np.max(ledgers, axis=0).tolist()
    return (
        factor(mean_of(by_prefix.mean(axis=0))),
        factor(mean_of(by_prefix[VISITS // 2 :].mean(axis=0))),
        f"{share:.2%}, {worst:.2%}",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    prog = "python -m ltp_switcher.daemon.service.bench.hosts"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--kinds", choices=("shown", "tuning"), default="shown")
    parser.add_argument("--seeds", type=int, default=3, help="replays of each kind")
    parser.add_argument("--enough", type=int, nargs="+", default=[ENOUGH], help="visits of a host")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or min(options.enough) < 1:
        parser.error("--seeds and --enough must be 1 or more")
    print("hosts  kind      enough  reward over none's      second half             ledger, worst: all, one")
    for apart in (True, False):
        for name, kind in (SHOWN if options.kinds == "shown" else TUNING).items():
            for enough in options.enough:
                whole, late, ledger = compared(kind, range(1, options.seeds + 1), apart=apart, enough=enough)
                print(
                    f"{'apart' if apart else 'alike'}  {name:<8}  {enough:>6}  {text(whole, 3):<22}  "
                    f"{text(late, 3):<22}  {ledger}"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
