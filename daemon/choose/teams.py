# SPDX-License-Identifier: Apache-2.0
"""Team selection on live flows: which k arms are worth choosing among on each path (Mutant §5.2).

A path is a destination prefix. Its pulls take turns among the prefix's flows, so that no flow bears all of
them. A pull gives its flow the arm and waits `settle_rtts` round trips, in which the previous arm's packets
and queue drain. Then it measures Eq. 1 over `measure_rtts`.

Between pulls all flows follow the policy, so that pulls take at most `share` of a flow's time. The paper
selects its team before the transfer; a server has no such time. A found team stays for the prefix's later
flows.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Floats, Ints, Slots
from ltp_switcher.daemon.datapath import RecordArray, protocol
from ltp_switcher.daemon.datapath.measurements import COUNTS, RTT_SAMPLES, performance, step_counts
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.errors import ArtifactError, ConfigError
from ltp_switcher.measures import BYTES_TO_MBIT, reward
from ltp_switcher.mpts import SuccessiveAcceptsRejects
from ltp_switcher.slots import SlotArrays, column

log = logging.getLogger(__name__)

TEAMS_MAX: Final = 4096
"""Prefixes remembered; the one unused for longest makes room."""
STALLED_NS: Final = 2_000_000_000
"""A pull whose flow shows nothing for this long goes to another flow."""

_PULL_DTYPE: Final = np.dtype(
    [
        ("arm", "u1"),  # 0: the flow is not pulling.
        ("seen_ns", "i8"),
        ("count_from_ns", "i8"),  # 0: the arm does not run yet.
        ("until_ns", "i8"),
        ("counts", "f8", (COUNTS,)),  # See `measurements`.
    ]
)


class _Pulls(SlotArrays):
    """The pull of each flow."""

    row = column(_PULL_DTYPE)


SetPool = Callable[[Sequence[int], "Ints | None"], None]
"""`Chooser.set_pool`."""


class Terms(NamedTuple):
    """The arms to pick a team from, and its size."""

    candidates: tuple[int, ...]
    k: int


def _bounded(k: int, candidates: Sequence[int]) -> int:
    return min(k, len(candidates))


@dataclass(slots=True)
class Search:
    """A selection under way on a prefix. `arms[i]` is the id of the search's arm i."""

    arms: tuple[int, ...]
    bandit: SuccessiveAcceptsRejects
    started_ns: int
    members: list[int] = field(default_factory=list)
    slot: int | None = None
    assigned_ns: int = 0
    rest_until_ns: int = 0


class Teams:
    """Selections under way, and the teams found.

    `candidates` are the arms to pick from, `set_pool` is the chooser's. With `mpts.enabled` a selection
    starts with the first flow of a prefix, unless the chooser does not learn (`learns`). Raises
    `ConfigError` where the budget cannot pull every candidate.
    """

    def __init__(
        self,
        settings: MptsSection,
        candidates: Sequence[int],
        k: int,
        set_pool: SetPool,
        *,
        names: Mapping[int, str],
        zeta: float,
        kappa: float,
        learns: bool = True,
        seed: int = 1,
    ) -> None:
        self._set_pool = set_pool
        self._names = names
        self._zeta, self._kappa, self._seed = zeta, kappa, seed
        self._pulls = _Pulls()
        self._prefix: dict[int, str] = {}
        self._pulling = 0
        self._now_ns = 0
        self._look_at_ns = 0
        self._learns = learns
        self.active = True
        """Whether flows may be given arms; false while the daemon only advises."""
        self.searches: dict[str, Search] = {}
        self.known: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.means: dict[str, dict[int, float]] = {}
        """Mean reward of each arm, by prefix whose team was found."""
        self.settings, self.candidates = settings, tuple(candidates)
        self.k = _bounded(k, candidates)
        """Size of a team: as set, and no more than there are candidates."""
        self.special: Mapping[str, Terms] = {}
        """Terms of prefixes that have others than the general ones."""
        self.check(settings, k, self.candidates)

    @property
    def automatic(self) -> bool:
        """Whether a selection starts with the first flow of a prefix."""
        return self.settings.enabled and self._learns

    @property
    def prefixes(self) -> set[str]:
        """The prefixes of open flows."""
        return set(self._prefix.values())

    def terms(self, prefix: str) -> Terms:
        """The terms of a selection for a prefix."""
        return self.special.get(prefix) or Terms(self.candidates, self.k)

    @staticmethod
    def check(settings: MptsSection, k: int, candidates: Sequence[int]) -> None:
        """Raise `ConfigError` where the budget cannot pull every candidate."""
        if k < len(candidates) and settings.budget < len(candidates):
            raise ConfigError(
                "mpts.budget", settings.budget, f"{len(candidates)} or more: every arm is pulled once"
            )

    def configure(self, settings: MptsSection, k: int, candidates: Sequence[int]) -> None:
        """Take other settings, from the next selection on.

        Another k or other candidates end all teams and selections. If selection is automatic, it starts
        anew for the open flows. Raises `ConfigError` and changes nothing where the budget cannot pull every
        candidate.
        """
        candidates, k = tuple(candidates), _bounded(k, candidates)
        self.check(settings, k, candidates)
        other = (k, candidates) != (self.k, self.candidates)
        self.settings, self.k, self.candidates = settings, k, candidates
        if other:
            self._forget(None)
            self._set_pool(candidates, None)
            if self.automatic:
                self._search(self._prefix)

    def restart(self, prefix: str | None = None) -> None:
        """Forget the team of a prefix, or of all, and pick it anew among the candidates."""
        self._forget(prefix)
        slots = {slot: of for slot, of in self._prefix.items() if prefix in (None, of)}
        for slot, of in slots.items():
            self._set_pool(self.terms(of).candidates, np.array([slot], np.int64))
        self._search(slots)

    def cancel(self, prefix: str | None = None) -> int:
        """End the selection for a prefix, or all; the flows go on with all candidates. Returns how many."""
        ended = [name for name in self.searches if prefix in (None, name)]
        for name in ended:
            self._stop(name)
        return len(ended)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """New flows: they get the team of their prefix, or take part in the search for it."""
        self._pulls.reset(slots)
        for slot, prefix in zip(slots.tolist(), prefixes, strict=True):
            self._prefix[slot] = prefix
            if prefix in self.special:
                self._set_pool(self.special[prefix].candidates, np.array([slot], np.int64))
            team = self.known.get(prefix)
            if team is not None:
                self.known.move_to_end(prefix)
                self._set_pool(team, np.array([slot], np.int64))
            elif self.automatic or prefix in self.searches:
                self._search({slot: prefix})

    def close(self, slots: Slots) -> None:
        """Flows that ended; another flow takes over the pull of one."""
        for slot in slots.tolist():
            prefix = self._prefix.pop(slot, "")
            search = self.searches.get(prefix)
            if search is None:
                continue
            search.members.remove(slot)
            if search.slot == slot:
                self._release(search)
            if not search.members:
                # What was pulled so far belongs to a path that nobody uses now.
                self._stop(prefix)

    def step(self, slots: Slots, records: RecordArray, arms: ArmIds) -> ArmIds:
        """The policy's `arms`, with the pulling flows' arms in their places. All of shape (n,)."""
        if not self.searches or not self.active:
            return arms
        now_ns = int(records["time_ns"].max())
        self._now_ns = now_ns
        self._pulls.row["seen_ns"][slots] = now_ns
        if now_ns >= self._look_at_ns:
            self._look_at_ns = now_ns + STALLED_NS // 8
            for search in self.searches.values():
                if search.slot is None:
                    if now_ns >= search.rest_until_ns:
                        self._assign(search)
                    else:
                        self._look_at_ns = min(self._look_at_ns, search.rest_until_ns)
                elif now_ns - int(self._pulls.row["seen_ns"][search.slot]) > STALLED_NS:
                    self._assign(search)
        if self._pulling:
            self._measure(slots, records)
            pulled = self._pulls.row["arm"][slots]
            arms = np.where(pulled != 0, pulled, arms)
        return arms

    def state(self) -> dict[str, np.ndarray]:
        """The teams found, for `restore`."""
        teams = np.zeros((len(self.known), protocol.ARMS_MAX), np.uint8)
        means = np.full((len(self.known), protocol.ARMS_MAX + 1), np.nan)
        for row, mean, (prefix, team) in zip(teams, means, self.known.items(), strict=True):
            row[: len(team)] = team
            for arm, value in self.means.get(prefix, {}).items():
                mean[arm] = value
        return {
            "prefixes": np.array(list(self.known), np.str_),
            "teams": teams,
            "means": means,
            "candidates": np.array(self.candidates, np.uint8),
            "k": np.array(self.k),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up the teams of `state`, if they were picked from the same arms with the same k."""
        try:
            same = tuple(arrays["candidates"].tolist()) == self.candidates and int(arrays["k"]) == self.k
            pairs = list(zip(arrays["prefixes"].tolist(), arrays["teams"].tolist(), strict=True))
            # Earlier states have none.
            means = arrays.get("means", np.zeros((len(pairs), 0))).astype(np.float64).tolist()
            by_prefix = {
                str(prefix): {arm: mean for arm, mean in enumerate(row) if not isnan(mean)}
                for (prefix, _), row in zip(pairs, means, strict=True)
            }
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"saved teams cannot be read: {error!r}") from error
        if same:
            teams = ((str(prefix), tuple(arm for arm in team if arm)) for prefix, team in pairs)
            # An arm that was loaded for a policy may be absent now.
            self.known = OrderedDict(
                (prefix, team) for prefix, team in teams if self._names.keys() >= {*team}
            )
            self.means = {
                prefix: by_prefix[prefix]
                for prefix, team in self.known.items()
                if self._names.keys() >= by_prefix[prefix].keys() >= {*team}
            }

    def _search(self, prefixes: Mapping[int, str]) -> None:
        """Let flows, by slot, take part in the selections for their prefixes."""
        for slot, prefix in prefixes.items():
            terms = self.terms(prefix)
            if terms.k < len(terms.candidates):
                search = self.searches.get(prefix) or self._start(prefix)
                search.members.append(slot)

    def _start(self, prefix: str) -> Search:
        rng = np.random.default_rng([self._seed, zlib.crc32(prefix.encode())])
        candidates, k = self.terms(prefix)
        bandit = SuccessiveAcceptsRejects(len(candidates), k, self.settings.budget, rng)
        search = Search(candidates, bandit, self._now_ns)
        self.searches[prefix] = search
        self._look_at_ns = 0
        log.info(
            "team selection started for %s: %d pulls among %d arms, k=%d",
            prefix, self.settings.budget, len(candidates), k,
        )  # fmt: skip
        return search

    def _forget(self, prefix: str | None) -> None:
        for name in [*self.known, *self.searches] if prefix is None else [prefix]:
            self.known.pop(name, None)
            self.means.pop(name, None)
            self._stop(name)

    def _stop(self, prefix: str) -> None:
        search = self.searches.pop(prefix, None)
        if search is not None:
            self._release(search)

    def _release(self, search: Search) -> None:
        if search.slot is not None:
            self._pulls.row["arm"][search.slot] = 0
            self._pulling -= 1
            search.slot = None

    def _assign(self, search: Search) -> None:
        """Give the pull that is due to the member whose turn it is."""
        self._release(search)
        arm = search.bandit.next_arm()
        if arm is None:
            return
        live = [s for s in search.members if self._now_ns - int(self._pulls.row["seen_ns"][s]) <= STALLED_NS]
        if not live:
            return
        slot = live[0]
        search.members.remove(slot)
        search.members.append(slot)
        seen_ns = self._pulls.row["seen_ns"][slot]
        self._pulls.row[slot] = 0
        self._pulls.row["seen_ns"][slot] = seen_ns
        self._pulls.row["arm"][slot] = search.arms[arm]
        search.slot = slot
        search.assigned_ns = self._now_ns
        self._pulling += 1

    def _rest(self, search: Search) -> None:
        """Let the flows follow the policy until the next pull is due."""
        took_ns = self._now_ns - search.assigned_ns
        rest_ns = int(took_ns * (1.0 / (self.settings.share * len(search.members)) - 1.0))
        if rest_ns <= 0:
            self._assign(search)
            return
        self._release(search)
        search.rest_until_ns = self._now_ns + rest_ns
        self._look_at_ns = min(self._look_at_ns, search.rest_until_ns)

    def _measure(self, slots: Slots, records: RecordArray) -> None:
        at = np.flatnonzero(self._pulls.row["arm"][slots])
        slots, records = slots[at], records[at]
        pull = self._pulls.row[slots]
        now_ns = records["time_ns"].astype(np.int64)
        begins = (pull["count_from_ns"] == 0) & (records["arm"] == pull["arm"])
        if begins.any():
            rtt_ns = records["srtt_us"] * 1000.0
            from_ns = now_ns + (self.settings.settle_rtts * rtt_ns).astype(np.int64)
            lasts_ns = np.maximum(self.settings.measure_rtts * rtt_ns, self.settings.measure_ms * 1e6)
            pull["count_from_ns"] = np.where(begins, from_ns, pull["count_from_ns"])
            pull["until_ns"] = np.where(begins, from_ns + lasts_ns.astype(np.int64), pull["until_ns"])
        interval_ns = records["interval_ns"].astype(np.int64)
        counts = (pull["count_from_ns"] > 0) & (now_ns - interval_ns >= pull["count_from_ns"])
        pull["counts"] += step_counts(records) * counts[:, None]
        self._pulls.row[slots] = pull
        done = counts & (now_ns >= pull["until_ns"]) & (pull["counts"][:, RTT_SAMPLES] > 0)
        rewards = self._rewards(pull["counts"][done], records[done])
        for slot, value in zip(slots[done].tolist(), rewards.tolist(), strict=True):
            self._finish(slot, value)

    def _rewards(self, counts: Floats, records: RecordArray) -> Floats:
        """Eq. 1 over each pull, un-normalised: ADWIN's normaliser moves between pulls."""
        seen = performance(counts, records["mss"], records["srtt_us"])
        throughput_mbps, rtt_ms = seen.throughput_Bps * BYTES_TO_MBIT, seen.rtt_us * 1e-3
        return reward(throughput_mbps, seen.loss_rate, rtt_ms, zeta=self._zeta, kappa=self._kappa)

    def _finish(self, slot: int, value: float) -> None:
        prefix = self._prefix[slot]
        search = self.searches[prefix]
        arm = self._pulls.row["arm"][slot]
        log.debug("pull of %s for %s: reward %.4g", self._names[int(arm)], prefix, value)
        search.bandit.observe(value)
        result = search.bandit.result
        if result is None:
            self._rest(search)
            return
        team = tuple(search.arms[arm] for arm in result)
        means = search.bandit.means
        ranked = sorted(range(len(search.arms)), key=lambda arm: -means[arm])
        log.info(
            "team for %s after %d pulls in %.1f s: %s (mean reward of all: %s)",
            prefix, search.bandit.budget, (self._now_ns - search.started_ns) * 1e-9,
            ", ".join(self._names[arm] for arm in team),
            ", ".join(f"{self._names[search.arms[arm]]} {means[arm]:.3g}" for arm in ranked),
        )  # fmt: skip
        members = np.array(search.members, np.int64)
        self._stop(prefix)
        self.known[prefix] = team
        self.means[prefix] = dict(zip(search.arms, means.tolist(), strict=True))
        if len(self.known) > TEAMS_MAX:
            self.means.pop(self.known.popitem(last=False)[0], None)
        self._set_pool(team, members)
