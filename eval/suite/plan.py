# SPDX-License-Identifier: Apache-2.0
"""Which schemes run on which paths with which seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.schemes import DAEMON_SCHEMES, check_scheme
from ltp_switcher.eval.suite import paths

ARMS: Final = ("bbr", "vegas", "ltp", "cubic")
FULL: Final[Mapping[str, int]] = {
    "rule": 5, "ltp": 5, "bbr": 5, "vegas": 2, "cubic": 2, "jury": 2, "spine": 2, "bandit": 2, "random": 2,
}  # fmt: skip
"""Schemes of `make eval`, and how many seeds each gets: most where the figures decide."""
QUICK: Final[Mapping[str, int]] = {"rule": 1, **dict.fromkeys(ARMS, 1)}
QUICK_PATHS: Final = (
    "fixed-1", "large-queue-1", "lossy-1", "slow-1", "rate-steps-1", "rtt-steps-1", "trace-1", "trace-4",
)  # fmt: skip
QUICK_FACTOR: Final = 2.0
"""By which times are shorter in a quick run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the plan: a scheme on the path of this name."""

    path: str
    scheme: str
    job: Job


def is_arm(scheme: str) -> bool:
    """Whether a scheme is an arm alone, which may be the best in hindsight."""
    return scheme not in DAEMON_SCHEMES


def plan(
    set_name: str, schemes: Mapping[str, int], kernel: str, *, quick: bool, names: Sequence[str] = ()
) -> list[Run]:
    """The runs of a set of paths, those of a path together.

    Args:
        set_name: `tuning` or `test`.
        schemes: number of seeds by scheme.
        kernel: series.
        quick: fewer and shorter paths.
        names: these paths only; none: all.

    Raises:
        ConfigError: there is no such path or scheme, or no arm among the schemes.
    """
    for scheme in schemes:
        check_scheme("--schemes", scheme)
    if not any(map(is_arm, schemes)):
        raise ConfigError("--schemes", list(schemes), "one arm at least, to compare with")
    known = {scenario.name: scenario for scenario in paths.load(set_name)}
    wanted = names or (QUICK_PATHS if quick else tuple(known))
    for name in wanted:
        if name not in known:
            raise ConfigError("--paths", name, f"one of {', '.join(known)}")
    seeds = paths.SEEDS[set_name]
    timed = {name: one.faster(QUICK_FACTOR) if quick else one for name, one in known.items()}
    return [
        Run(name, scheme, Job(_with(timed[name], scheme), seed, kernel))
        for name in wanted
        for scheme, count in schemes.items()
        for seed in seeds[:count]
    ]


def _with(scenario: Scenario, scheme: str) -> Scenario:
    """The scenario with the scheme on its first flow, and on all that the first flow's scheme has."""
    switched = {flow.scheme for flow in scenario.flows} == {scenario.flows[0].scheme}
    return scenario.with_scheme(scheme, every_flow=switched)
