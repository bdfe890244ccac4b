# SPDX-License-Identifier: Apache-2.0
"""The words that all kinds of team selection share: its terms, its progress, its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.datapath.performance import Performance
from ltp_switcher.measures import BYTES_TO_MBIT, reward

Method = Literal["tournament", "budget"]
"""How teams are found: `tournament` plays pairs beside the incumbent, `budget` is Algorithm 2 (`pulls`)."""
METHODS: Final[tuple[Method, ...]] = ("tournament", "budget")
STALLED_NS: Final = 2_000_000_000
"""A flow that shows nothing for this long takes no part."""


class Terms(NamedTuple):
    """The arms to pick a team from, and its size."""

    candidates: tuple[int, ...]
    k: int

    @classmethod
    def of(cls, candidates: Sequence[int], k: int) -> Terms:
        """The terms for a wanted size: no team is larger than there are candidates."""
        return cls(tuple(candidates), min(k, len(candidates)))

    @property
    def open(self) -> bool:
        """Whether there is anything to pick."""
        return self.k < len(self.candidates)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a selection is. By arm: `means` as in `Outcome`, None before its first pull."""

    method: Method
    k: int
    pulls: int
    budget: int
    means: Mapping[int, float | None]
    half_widths: Mapping[int, float | None]
    """Half widths of the intervals around the means; None where there is no interval yet."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A team, best first, and the measurements behind it, by arm. Those of an earlier daemon may be gone."""

    team: tuple[int, ...]
    method: Method = "budget"
    means: Mapping[int, float] | None = None
    """Mean log ratio of the reward to the incumbent's, its own being 0 (tournament), or mean of Eq. 1
    (budget)."""
    half_widths: Mapping[int, float] | None = None
    """Half widths of a tournament's intervals around the means; an arm that was not judged has none."""


Found = Callable[[str, Outcome, list[int]], None]
"""Takes the prefix, the outcome, and the slots of the flows that took part."""


class Eq1:
    """The reward (Mutant Eq. 1) without a normaliser, which would move between pulls."""

    def __init__(self, zeta: float, kappa: float) -> None:
        self._zeta, self._kappa = zeta, kappa

    def __call__(self, seen: Performance) -> Floats:
        """The rewards in Mbit/s to the power of kappa, per ms; of the shape of `seen`."""
        return reward(
            seen.throughput_Bps * BYTES_TO_MBIT, seen.loss_rate, seen.rtt_us * 1e-3,
            zeta=self._zeta, kappa=self._kappa,
        )  # fmt: skip


def gaps(team: tuple[int, ...], means: Mapping[int, float]) -> dict[int, float]:
    """The distance by which each arm is in the team or out of it (Eq. 5); empty where all arms are in."""
    others = [mean for arm, mean in means.items() if arm not in team]
    if not others:
        return {}
    worst = min(means[arm] for arm in team)
    return {arm: mean - max(others) if arm in team else worst - mean for arm, mean in means.items()}
