# SPDX-License-Identifier: Apache-2.0
"""Team selection (the search for a path's best arms) by Mutant's Algorithm 2 on live flows, with its exact
budget: `ltp-switcher mpts start`.

A pull is one trial of an arm. The flows of a prefix take turns with its pulls, so that no flow bears all of
them. A pull gives its flow the arm, and waits for `settle_rtts` round trips. In this time the packets and the
queue of the earlier arm drain. Then it measures the reward, Mutant Eq. 1, over `measure_rtts`. Between pulls
all flows follow the policy, so that pulls take at most `share` of a flow's time. Mutant selects its team
before the transfer; a server has no such time.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Ints, Slots
from ltp_switcher.daemon.choose.teams.terms import STALLED_NS, Budgeted, Eq1, Found, Outcome, Progress, Terms
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.performance import COUNTS, RTT_SAMPLES, performance, step_counts
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.mpts import SuccessiveAcceptsRejects
from ltp_switcher.slots import SlotArrays, column

log = logging.getLogger(__name__)

_PULL_DTYPE: Final = np.dtype(
    [
        ("arm", "u1"),  # 0 if the flow is not pulling.
        ("seen_ns", "i8"),
        ("count_from_ns", "i8"),  # 0 if the arm does not run yet.
        ("until_ns", "i8"),
        ("counts", "f8", (COUNTS,)),  # `TIME_NS` to `RTT_SAMPLES` of `datapath.performance`.
    ]
)


@dataclass(slots=True)
class Search(Budgeted):
    """A selection under way on a prefix. A pull is one trial of an arm. Arm i of `bandit` has the id
    `arms[i]`.
    """

    started_ns: int
    members: list[int] = field(default_factory=list)
    """Slots of the flows that take part. The flow whose turn comes last is at the end."""
    slot: int | None = None
    """Slot of the flow that runs the pull; None between pulls."""
    assigned_ns: int = 0
    """Time at which the latest pull was given to a flow, CLOCK_MONOTONIC."""
    rest_until_ns: int = 0
    """Time before which no further pull begins, CLOCK_MONOTONIC."""

    @property
    def progress(self) -> Progress:
        """The number of pulls so far, and the mean reward of each arm."""
        return self.told("budget")


class Pulls(SlotArrays):
    """The selections under way, and the pull of each flow. A pull is one trial of an arm on a flow.

    Args:
        settings: the settings of team selection. Each new selection and each pull reads them.
        names: names of the arms, by id.
        worth: function that makes rewards from measurements.
        found: callback for each team that a selection finds.
        seed: seed of the order in which arms are pulled.
    """

    _row = column(_PULL_DTYPE)

    def __init__(
        self, settings: MptsSection, names: Mapping[int, str], worth: Eq1, found: Found, seed: int
    ) -> None:
        super().__init__()
        self.settings = settings
        self.searches: dict[str, Search] = {}
        self._names, self._worth, self._found, self._seed = names, worth, found, seed
        self._prefix: dict[int, str] = {}
        """Destination prefix of each flow that takes part, by slot."""
        self._pulling = 0
        self._now_ns = 0
        self._look_at_ns = 0

    def join(self, prefix: str, terms: Terms, slot: int) -> None:
        """Let a flow take part in its prefix's selection. If there is none yet, the selection starts."""
        search = self.searches.get(prefix) or self._start(prefix, terms)
        search.members.append(slot)
        self._prefix[slot] = prefix

    def leave(self, prefix: str, slot: int) -> None:
        """Take an ended flow out of the selection. Another flow takes over its pull. With the last flow the
        selection ends.
        """
        search = self.searches.get(prefix)
        if search is None or slot not in search.members:
            return
        search.members.remove(slot)
        self._prefix.pop(slot)
        if search.slot == slot:
            self._release(search)
        if not search.members:
            # The pulls so far belong to a path that nobody uses now.
            self.stop(prefix)

    def stop(self, prefix: str) -> None:
        """End the selection for a prefix, if there is one."""
        search = self.searches.pop(prefix, None)
        if search is not None:
            self._release(search)
            for slot in search.members:
                self._prefix.pop(slot)

    def pulled(self, slots: Slots) -> ArmIds:
        """The arms that flows run as pulls, shape (n,); 0 where a flow has no pull."""
        return self._row["arm"][slots]

    def step(self, slots: Slots, records: RecordArray) -> None:
        """Measure the pulls (trials of arms on live flows) of a step, and begin those that are due.

        `slots` has the flows, shape (n,), and `records` their measurements, `RECORD_DTYPE`, shape (n,).
        """
        now_ns = int(records["time_ns"].max())
        self._now_ns = now_ns
        self._row["seen_ns"][slots] = now_ns
        if now_ns >= self._look_at_ns:
            self._look_at_ns = now_ns + STALLED_NS // 8
            for search in self.searches.values():
                if search.slot is None:
                    if now_ns >= search.rest_until_ns:
                        self._assign(search)
                    else:
                        self._look_at_ns = min(self._look_at_ns, search.rest_until_ns)
                elif now_ns - int(self._row["seen_ns"][search.slot]) > STALLED_NS:
                    self._assign(search)
        if self._pulling:
            self._measure(slots, records)

    def _start(self, prefix: str, terms: Terms) -> Search:
        rng = np.random.default_rng([self._seed, zlib.crc32(prefix.encode())])
        candidates, k = terms
        bandit = SuccessiveAcceptsRejects(len(candidates), k, self.settings.budget, rng)
        search = self.searches[prefix] = Search(terms, bandit, self._now_ns)
        self._look_at_ns = 0
        log.info(
            "team selection started for %s: %d pulls among %d arms, k=%d",
            prefix, self.settings.budget, len(candidates), k,
        )  # fmt: skip
        return search

    def _release(self, search: Search) -> None:
        if search.slot is not None:
            self._row["arm"][search.slot] = 0
            self._pulling -= 1
            search.slot = None

    def _assign(self, search: Search) -> None:
        """Give the pull that is due to the member whose turn it is."""
        self._release(search)
        arm = search.bandit.next_arm()
        if arm is None:
            return
        live = [s for s in search.members if self._now_ns - int(self._row["seen_ns"][s]) <= STALLED_NS]
        if not live:
            return
        slot = live[0]
        search.members.remove(slot)
        search.members.append(slot)
        seen_ns = self._row["seen_ns"][slot]
        self._row[slot] = 0
        self._row["seen_ns"][slot] = seen_ns
        self._row["arm"][slot] = search.arms[arm]
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
        at = np.flatnonzero(self._row["arm"][slots])
        slots, records = slots[at], records[at]
        pull = self._row[slots]
        now_ns: Ints = records["time_ns"].astype(np.int64)
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
        self._row[slots] = pull
        done = counts & (now_ns >= pull["until_ns"]) & (pull["counts"][:, RTT_SAMPLES] > 0)
        rewards = self._worth(
            performance(pull["counts"][done], records["mss"][done], records["srtt_us"][done])
        )
        for slot, value in zip(slots[done].tolist(), rewards.tolist(), strict=True):
            self._finish(slot, value)

    def _finish(self, slot: int, value: float) -> None:
        prefix = self._prefix[slot]
        search = self.searches[prefix]
        arm = self._row["arm"][slot]
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
        members = list(search.members)
        self.stop(prefix)
        by_arm = dict(zip(search.arms, means.tolist(), strict=True))
        self._found(prefix, Outcome(team, "budget", by_arm, {}), members)
