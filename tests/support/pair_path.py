# SPDX-License-Identifier: Apache-2.0
"""A path on which flows take part in team selection, with arms of known worth."""

from collections.abc import Sequence

import numpy as np
import pytest

from ltp_switcher.daemon.choose.choice import of_policy
from ltp_switcher.daemon.choose.teams.pairs import Tournament
from ltp_switcher.daemon.choose.teams.teams import Preferring, Teams
from ltp_switcher.daemon.settings.schema import MptsSection

from .records import record

STEP_NS = 10_000_000
RTT_US = 30_000
BBR, VEGAS, LTP = 2, 3, 12
NAMES = {BBR: "bbr", VEGAS: "vegas", LTP: "ltp"}
SETTINGS = MptsSection(share=1.0, settle_rtts=2.0, measure_rtts=5.0, measure_ms=20.0)
PREFIX = "192.0.2.0/24"
WORTH = {LTP: 1.0, BBR: 0.6, VEGAS: 0.25}


class Path:
    """Flows on one path of 30 ms under a policy that runs one arm; arms deliver so many packets a step.

    `binds` says whether the policy learns, so that flows choose among the team alone. Otherwise they prefer
    its arm.
    """

    def __init__(
        self,
        k: int = 1,
        settings: MptsSection = SETTINGS,
        worth: dict[int, float] = WORTH,
        noise: float = 0.02,
        *,
        binds: bool = True,
    ) -> None:
        self.pools: dict[int, tuple[int, ...]] = {}
        self.preferred: dict[int, int] = {}
        self.teams = Teams(
            settings, tuple(NAMES), k, self.set_pool, names=NAMES, zeta=5.0, kappa=2.0, learns=binds,
            free=lambda slots: np.full(slots.shape, self.free),
            preferring=None if binds else Preferring(tuple, self.prefer),
        )  # fmt: skip
        self.worth, self.noise, self.free = worth, noise, True
        self.policy, self.flags = LTP, 0
        self.drift = 0.0
        self.slower = dict.fromkeys((*NAMES, 7), 1)
        self.now_ns = 1_000_000_000
        self.runs: dict[int, int] = {}
        self.since_ns: dict[int, int] = {}
        self.away_ns = 0
        self.given: dict[int, int] = {}
        self.rng = np.random.default_rng(1)

    def set_pool(self, arms: Sequence[int], slots: np.ndarray | None) -> None:
        of = list(self.runs) if slots is None else slots.tolist()
        self.pools |= dict.fromkeys(of, tuple(arms))

    def prefer(self, slots: np.ndarray, arm: int) -> None:
        self.preferred |= dict.fromkeys(slots.tolist(), arm)

    def open(self, *slots: int) -> None:
        self.runs |= dict.fromkeys(slots, self.policy)
        self.since_ns |= dict.fromkeys(slots, 0)
        self.teams.open(np.array(slots), [PREFIX] * len(slots))

    def close(self, *slots: int) -> None:
        for slot in slots:
            del self.runs[slot]
        self.teams.close(np.array(slots))

    def step(self, *silent: int) -> None:
        self.now_ns += STEP_NS
        slots = np.array([slot for slot in self.runs if slot not in silent])
        records = np.concatenate([record(int(slot) + 1) for slot in slots])
        runs = np.array([self.runs[int(slot)] for slot in slots])
        since = np.array([self.since_ns[int(slot)] for slot in slots])
        rate = np.array([self.worth[int(arm)] for arm in runs]) * 1000 / len(slots)
        self.drift += 0.001
        records["arm"] = runs
        records["time_ns"] = self.now_ns
        rtt_us = RTT_US * np.array([self.slower[int(arm)] for arm in runs])
        records["srtt_us"] = rtt_us
        records["round_trips"] = (self.now_ns - since) // (rtt_us * 1000)
        records["delivered"] = np.exp(self.rng.normal(self.drift, self.noise)) * rate
        records["mss"] = 1000
        records["rtt_samples"] = 1
        records["rtt_stat"]["sum"] = rtt_us
        records["flags"] = self.flags
        policy = of_policy(np.full(len(slots), self.policy, np.uint8))
        given = self.teams.step(slots, records, policy).arms
        self.given = dict(zip(slots.tolist(), given.tolist(), strict=True))
        self.away_ns += STEP_NS * any(arm != self.policy for arm in self.given.values())
        for slot, arm in self.given.items():
            if arm != self.runs[slot]:
                self.runs[slot], self.since_ns[slot] = arm, self.now_ns

    def run(self, steps: int = 6000) -> int:
        for taken in range(steps):
            self.step()
            if not self.searching:
                return taken + 1
        return steps

    @property
    def search(self) -> Tournament:
        search = self.teams.searches[PREFIX]
        assert isinstance(search, Tournament)
        return search

    @property
    def comparison(self) -> Tournament:
        """The tournament that finds a preference, even before its first pair."""
        return self.teams._comparisons.searches[PREFIX]

    @property
    def searching(self) -> bool:
        """Whether any selection or comparison is under way."""
        return bool(self.teams.searches or self.teams._comparisons.searches)

    def run_to_pull(self, steps: int = 1000) -> None:
        for _ in range(steps):
            self.step()
            if any(arm != self.policy for arm in self.given.values()):
                return
        pytest.fail("no pull")
