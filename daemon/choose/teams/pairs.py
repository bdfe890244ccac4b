# SPDX-License-Identifier: Apache-2.0
"""The automatic team selection, the search for a path's best arms: a short paired tournament on the live
flows of each prefix.

The incumbent is the arm of the policy. A pair compares another arm with it, in three parts on the same flows:
first the incumbent, then the other arm, then the incumbent again (`Pair.half` 0 to 2). Each part waits until
its arm has run for `settle_rtts` and the earlier arm's queue has drained. Then it measures the reward, Mutant
Eq. 1, over `measure_rtts`. The value of a pair is the logarithm of the arm's reward over the geometric mean
of the incumbent's two rewards. A steady drift of the path cancels in this value. If the arm earns far less
than the incumbent, its part ends early, and the pair weighs less. `mpts.tournament` judges the values.

All flows of a prefix that move data change their arm together. Their reward takes the sum of their goodput
and the mean of their RTTs. A pair ends without a value if a flow comes or goes, or if the policy wants to
probe the path. So does a pair whose incumbent empties the queue that the other arm should find. The prefix
still pays for the time that its flows were away from the incumbent.

The price of a pair is the time away from the incumbent times the share of the reward that was lost. A prefix
saves up for pairs while its flows could take part. In the first minute it saves `share` of the time, and
later half of that.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import exp, isfinite, log
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Ints, Slots
from ltp_switcher.daemon.choose.path.looks import APP_LIMITED, DRAINING, LOOK_NS, LOOK_RTTS
from ltp_switcher.daemon.choose.teams.terms import STALLED_NS, Eq1, Found, Outcome, Progress, Terms
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.datapath.performance import performance
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.mpts import PairedTournament
from ltp_switcher.slots import SlotArrays, column

logger = logging.getLogger(__name__)

FIRST_NS: Final = 60_000_000_000
"""Time in ns from the beginning of a prefix's tournament, in which comparisons of arms may cost twice as much
as later.
"""
ABORT_RTTS: Final = 3.0
ABORT_RATIO: Final = 4.0
"""The trial of an arm ends after `ABORT_RTTS` round trips if the incumbent, the arm of the policy, has earned
more by this factor.
"""
LEAST_LOSS: Final = 0.1
"""Least share of the reward that a comparison of two arms is taken to cost, because its switches cost reward,
too.
"""
PAIRS_MAX: Final = 16
"""Largest number of comparisons of two arms that run at a time, over all prefixes."""
LOOKED: Final = 8
"""Number of tournaments that each step checks, to begin their next comparisons of two arms."""
AWAY_NS: Final = 10_000_000_000
"""Time in ns. If this time or more passes between two checks of a tournament, its prefix saves up nothing for
comparisons of arms in between.
"""
KEPT_MAX: Final = 4096
"""Largest number of unfinished tournaments that are kept for prefixes without open flows. The tournament that
has waited longest is forgotten first.
"""

_FIELDS: Final = Columns("delivered", "lost", "rtt_stat.sum", "rtt_samples", "mss", "srtt_us", "round_trips")


@dataclass(slots=True)
class Pair:
    """A comparison under way of one arm with the incumbent, the arm of the policy, on all flows of a prefix.
    Its three parts run the incumbent, the arm, and the incumbent again.
    """

    arm: int
    slots: Slots
    srtt_ns: float
    """Smoothed RTT of the slowest flow when the pair began. The pair's times are multiples of this RTT, so a
    bad arm that lengthens the RTT does not lengthen its own part.
    """
    half: int = 0
    """Number of the present part, from 0. The arm runs in part 1, and the incumbent in parts 0 and 2."""
    since_ns: int = 0
    """Start of the present part, CLOCK_MONOTONIC."""
    away_ns: int = 0
    """Time at which the flows left the incumbent, CLOCK_MONOTONIC; 0 if they are still on it."""
    lasts_ns: float = 0.0
    """Length of the present part's measurement; 0 before the measurement begins."""
    marks: Floats = field(default_factory=lambda: np.zeros((0, 5)))
    """The totals of each flow at the start of the measurement, shape (flows, 5): bytes delivered, packets
    delivered, packets lost, sum of the RTT samples in µs, number of RTT samples.
    """
    marked_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Time of each flow's latest record at the start of the measurement, CLOCK_MONOTONIC, shape (flows,)."""
    rewards: list[float] = field(default_factory=list)
    """Rewards of the parts that have ended."""
    weight: float = 1.0
    """Weight of the pair's value. It is less than 1 if the arm's part ended early."""


@dataclass(slots=True)
class Tournament:
    """The tournament under way on a prefix: its candidates, its flows, and the results so far. It compares
    arms in pairs with the incumbent, the arm of the policy.
    """

    prefix: str
    terms: Terms
    started_ns: int = 0
    members: dict[int, None] = field(default_factory=dict)
    """The slots of the flows that take part, in the order in which they came."""
    order: tuple[int, ...] = ()
    """Ids of the arms, in the order in which `judge` counts them. The incumbent comes first."""
    judge: PairedTournament | None = None
    pair: Pair | None = None
    """The pair under way; None between pairs."""
    saved_ns: float = 0.0
    """Time in ns that the prefix has saved up, less the price of its pairs; below 0 after a costly pair."""
    looked_ns: int = 0
    """Time of the last check, CLOCK_MONOTONIC; 0 before the first one."""

    @property
    def progress(self) -> Progress:
        """The number of pairs so far, and the mean logarithm of each arm's reward over the incumbent's."""
        judge = self.judge
        if judge is None:
            nothing = dict.fromkeys(self.terms.candidates)
            return Progress("tournament", self.terms.k, 0, 0, nothing, nothing)
        known = zip(self.order, judge.means.tolist(), judge.half_widths.tolist(), strict=True)
        means: dict[int, float | None] = {}
        halves: dict[int, float | None] = {}
        for at, (arm, mean, half) in enumerate(known):
            means[arm] = mean if at == 0 or judge.pulls[at] else None
            halves[arm] = half if isfinite(half) else None
        return Progress("tournament", judge.k, int(judge.pulls.sum()), judge.budget, means, halves)


class Tournaments(SlotArrays):
    """The tournaments of all prefixes. A pair compares an arm with the incumbent, the arm of the policy, on
    all flows of a prefix.

    Args:
        settings: the settings of team selection. Each new pair reads them.
        names: names of the arms, by id.
        worth: function that makes rewards from measurements.
        found: callback for each team that a tournament finds.
        free: returns true for flows whose paths the policy neither probes nor tests. Pairs use no other
            flows. It is None for a policy whose arm changes all the time.
    """

    _seen_ns = column(np.int64)
    """Time of the latest record, CLOCK_MONOTONIC; 0 before the first."""
    _totals = column(np.float64, 5)
    """Totals: bytes delivered, packets delivered, packets lost, sum of the RTT samples in µs, number of RTT
    samples.
    """
    _srtt_us = column(np.float64)
    _trips = column(np.float64)
    """Number of round trips since the flow's last switch to another arm."""
    _arm = column(np.uint8)
    """The arm that the flow runs."""
    _wanted = column(np.uint8)
    """The arm that the policy wants."""
    _barred = column(np.bool_)
    """Whether the flow is pinned, or its policy probes."""
    _drained_ns = column(np.int64)
    """Time at which the arm last held the flow back to empty the queue, CLOCK_MONOTONIC; 0 if it never
    did."""
    _idle = column(np.bool_)
    """Whether the application has too little to send."""
    _pulled = column(np.uint8)
    """The arm that a pair gives to the flow; 0 if no pair gives one."""

    def __init__(
        self,
        settings: MptsSection,
        names: Mapping[int, str],
        worth: Eq1,
        found: Found,
        free: Callable[[Slots], Bools] | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self._free = free
        self.searches: OrderedDict[str, Tournament] = OrderedDict()
        """Tournaments of prefixes with open flows; the one that was looked at last is at the end."""
        self._kept: OrderedDict[str, Tournament] = OrderedDict()
        self._paired: dict[str, Tournament] = {}
        self._names, self._worth, self._found = names, worth, found
        self._now_ns = 0

    def join(self, prefix: str, terms: Terms, slot: int) -> None:
        """Let a flow take part in its prefix's tournament. The tournament starts with this
        flow, or goes on.
        """
        search = self.searches.get(prefix) or self._kept.pop(prefix, None)
        if search is None or search.terms != terms:
            search = Tournament(prefix, terms)
        self.searches[prefix] = search
        self._void(search)
        search.members[slot] = None

    def leave(self, prefix: str, slot: int) -> None:
        """Take an ended flow out of the tournament. The prefix's next flow can continue the tournament."""
        search = self.searches.get(prefix)
        if search is None or slot not in search.members:
            return
        self._void(search)
        del search.members[slot]
        if not search.members:
            self._kept[prefix] = self.searches.pop(prefix)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)

    def stop(self, prefix: str) -> None:
        """Forget the tournament of a prefix, if there is one."""
        self._kept.pop(prefix, None)
        search = self.searches.pop(prefix, None)
        if search is not None:
            self._void(search)

    def begin_anew(self, prefix: str) -> None:
        """Forget what the prefix's tournament has found so far, because the path is another one."""
        self._kept.pop(prefix, None)
        search = self.searches.get(prefix)
        if search is not None:
            self._void(search)
            search.judge = None

    def forget(self) -> None:
        """Forget the tournaments of all prefixes, and let their flows follow the policy again."""
        for prefix in [*self.searches, *self._kept]:
            self.stop(prefix)

    def pulled(self, slots: Slots) -> ArmIds:
        """The arms that pairs give to flows, shape (n,); 0 where no pair gives one."""
        return self._pulled[slots]

    def step(self, slots: Slots, records: RecordArray, arms: ArmIds) -> None:
        """Take in a step's records and the policy's arms, each of shape (n,): advance the pairs, and begin
        new ones.
        """
        now_ns = self._now_ns = int(records["time_ns"].max())
        self._take(slots, records, arms)
        for search in list(self._paired.values()):
            self._advance(search)
        for _ in range(min(LOOKED, len(self.searches))):
            prefix = next(iter(self.searches))
            self.searches.move_to_end(prefix)
            search = self.searches[prefix]
            if search.pair is None:
                self._look(search)
            search.looked_ns = now_ns

    def _take(self, slots: Slots, records: RecordArray, arms: ArmIds) -> None:
        delivered, lost, rtt_us, samples, mss, srtt_us, trips = _FIELDS.read(records).T
        flags = records["flags"]
        self._seen_ns[slots] = records["time_ns"]
        self._totals[slots] += np.array((delivered * mss, delivered, lost, rtt_us, samples)).T
        self._srtt_us[slots], self._trips[slots] = srtt_us, trips
        self._arm[slots], self._wanted[slots] = records["arm"], arms
        barred = (flags & PINNED) != 0
        self._barred[slots] = barred if self._free is None else barred | ~self._free(slots)
        self._drained_ns[slots] = np.where(flags & DRAINING, records["time_ns"], self._drained_ns[slots])
        self._idle[slots] = (flags & APP_LIMITED) != 0

    def _look(self, search: Tournament) -> None:
        """Save up for the next pair, and begin it where it can be paid and its flows are ready."""
        slots = self._ready(search)
        if slots is None:
            return
        incumbent = int(self._wanted[slots[0]])
        if not search.started_ns:
            search.started_ns = self._now_ns
        if search.judge is None or (self._free is not None and incumbent != search.order[0]):
            others = tuple(arm for arm in search.terms.candidates if arm != incumbent)
            search.order = (incumbent, *others)
            search.judge = PairedTournament(len(search.order), search.terms.k)
        arm = search.judge.next_arm()
        if arm is None:
            self._end(search, search.judge)
        elif self._pays(search, search.judge, arm, slots) and len(self._paired) < PAIRS_MAX:
            srtt_ns = float(self._srtt_us[slots].max()) * 1e3
            search.pair = Pair(search.order[arm], slots, srtt_ns, since_ns=self._now_ns)
            self._paired[search.prefix] = search
            if self._free is None:
                # The policy's own arm would change meanwhile.
                self._pulled[slots] = search.order[0]

    def _ready(self, search: Tournament) -> Slots | None:
        """The flows that move data, if they could begin a pair now; else None."""
        members = np.array([*search.members], np.int64)
        slots = members[self._now_ns - self._seen_ns[members] <= STALLED_NS]
        if not slots.size or self._barred[slots].any() or self._drained(slots).any():
            return None
        if self._idle[slots].all() or not self._srtt_us[slots].all():
            return None
        wanted = self._wanted[slots]
        if (wanted != wanted[0]).any() or wanted[0] not in search.terms.candidates:
            return None
        if self._free is not None and (self._arm[slots] != wanted).any():
            return None
        return slots

    def _drained(self, slots: Slots) -> Bools:
        """True where the arm emptied the queue within a look, shape (n,), so the next arm would find none."""
        past_ns = self._now_ns - self._drained_ns[slots]
        return np.asarray(past_ns <= np.maximum(LOOK_NS, LOOK_RTTS * 1e3 * self._srtt_us[slots]))

    def _pays(self, search: Tournament, judge: PairedTournament, arm: int, slots: Slots) -> bool:
        share = self.settings.share
        if share >= 1.0:
            return True
        if self._now_ns - search.started_ns > FIRST_NS:
            share *= 0.5
        rtts = 2.0 * self.settings.settle_rtts + self.settings.measure_rtts
        lost = _lost(float(judge.means[arm])) if judge.pulls[arm] else 1.0
        price_ns = rtts * float(self._srtt_us[slots].max()) * 1e3 * lost
        past_ns = self._now_ns - search.looked_ns if search.looked_ns else 0
        if past_ns < AWAY_NS:
            search.saved_ns = min(search.saved_ns + share * past_ns, price_ns)
        return search.saved_ns >= price_ns

    def _advance(self, search: Tournament) -> None:
        """Take the pair of a prefix as far as the latest records let it go."""
        pair = search.pair
        if pair is None:
            return
        slots, incumbent, srtt_ns = pair.slots, search.order[0], pair.srtt_ns
        policy_moved = self._free is not None and pair.half == 0 and (self._wanted[slots] != incumbent).any()
        silent = (self._now_ns - self._seen_ns[slots] > STALLED_NS).any()
        emptied = pair.half == 0 and self._drained(slots).any()
        if policy_moved or silent or emptied or self._barred[slots].any() or self._idle[slots].all():
            self._void(search)
            return
        runs = bool((self._arm[slots] == (pair.arm if pair.half == 1 else incumbent)).all())
        if not pair.lasts_ns:
            settled = (self._trips[slots] >= self.settings.settle_rtts).all()
            settled &= not self._drained(slots).any()
            if pair.half == 1:
                settled |= self._now_ns - pair.since_ns >= 2.0 * self.settings.settle_rtts * srtt_ns
            if runs and settled:
                pair.lasts_ns = max(self.settings.measure_rtts * srtt_ns, self.settings.measure_ms * 1e6)
                pair.marks, pair.marked_ns = self._totals[slots].copy(), self._seen_ns[slots].copy()
            elif self._now_ns - pair.since_ns > STALLED_NS + 4.0 * self.settings.settle_rtts * srtt_ns:
                self._void(search)
            return
        if not runs:
            self._void(search)
            return
        took_ns = float((self._seen_ns[slots] - pair.marked_ns).mean())
        over = took_ns >= pair.lasts_ns
        if not over and not (pair.half == 1 and took_ns >= ABORT_RTTS * srtt_ns):
            return
        reward = self._reward(pair, took_ns)
        if over or reward * ABORT_RATIO < pair.rewards[0]:
            if pair.half == 1:
                pair.weight = min(took_ns / pair.lasts_ns, 1.0)
            pair.rewards.append(reward)
            self._next_half(search, pair)

    def _next_half(self, search: Tournament, pair: Pair) -> None:
        pair.half += 1
        pair.since_ns, pair.lasts_ns = self._now_ns, 0.0
        if pair.half == 1:
            pair.away_ns = self._now_ns
            self._pulled[pair.slots] = pair.arm
        elif pair.half == 2:
            self._pulled[pair.slots] = search.order[0]
        else:
            self._finish(search, pair)

    def _finish(self, search: Tournament, pair: Pair) -> None:
        """Hand the value of a whole pair to the statistics."""
        judge = search.judge
        value = log_ratio(*pair.rewards)
        if judge is None or value is None:
            self._void(search)
            return
        self._release(search, pair, _lost(value))
        judge.observe(search.order.index(pair.arm), value, pair.weight)
        logger.debug(
            "pair of %s beside %s for %s: log ratio %.3f, weight %.2f",
            self._names[pair.arm], self._names[search.order[0]], search.prefix, value, pair.weight,
        )  # fmt: skip
        if judge.next_arm() is None:
            self._end(search, judge)

    def _end(self, search: Tournament, judge: PairedTournament) -> None:
        means, halves = judge.means.tolist(), judge.half_widths.tolist()
        team = tuple(search.order[arm] for arm in judge.ranking()[: judge.k])
        known = range(len(means))
        logger.info(
            "team for %s after %d pairs in %.1f s: %s (%s; log ratio to %s: %s)",
            search.prefix, int(judge.pulls.sum()), (self._now_ns - search.started_ns) * 1e-9,
            ", ".join(self._names[arm] for arm in team),
            "the pairs decide" if judge.decided else "the pairs do not decide",
            self._names[search.order[0]],
            ", ".join(f"{self._names[search.order[at]]} {means[at]:.2f} ± {halves[at]:.2f}" for at in known),
        )  # fmt: skip
        outcome = Outcome(
            team, "tournament", dict(zip(search.order, means, strict=True)),
            {search.order[at]: halves[at] for at in known if isfinite(halves[at])}, found_ns=self._now_ns,
        )  # fmt: skip
        del self.searches[search.prefix]
        self._found(search.prefix, outcome, list(search.members))

    def _void(self, search: Tournament) -> None:
        """End the pair under way, if there is one, without a value. Its time away counts as lost in full."""
        if search.pair is not None:
            self._release(search, search.pair, 1.0)

    def _release(self, search: Tournament, pair: Pair, lost: float) -> None:
        """Give the flows back to the policy, and pay for the pair: `lost` is the share of the reward that was
        lost while they were away.
        """
        if pair.away_ns:
            returned = pair.half > 2 or (pair.half == 2 and pair.lasts_ns)
            back_ns = int(pair.marked_ns.max()) if returned else self._now_ns
            search.saved_ns -= lost * max(back_ns - pair.away_ns, 0)
        self._pulled[pair.slots] = 0
        search.pair = None
        self._paired.pop(search.prefix, None)

    def _reward(self, pair: Pair, took_ns: float) -> float:
        """The reward (Mutant Eq. 1) of the pair's flows together in the present part's measurement so far; 0
        without an RTT sample.
        """
        sent_bytes, *counts = (self._totals[pair.slots] - pair.marks).sum(axis=0).tolist()
        delivered, _, _, samples = counts
        if not samples:
            return 0.0
        mss = sent_bytes / max(delivered, 1.0)
        seen = performance(np.array([[took_ns, *counts]]), np.array([mss]), np.zeros(1))
        return float(self._worth(seen)[0])


def log_ratio(before: float, arm: float, after: float) -> float | None:
    """Return the logarithm of a reward over the geometric mean of two others; None if all are 0.

    `arm` is the reward of another arm. `before` and `after` are the rewards of the policy's arm before it and
    after it. A reward below a thousandth of the largest one counts as a thousandth of it.
    """
    least = 1e-3 * max(before, arm, after)
    if least <= 0.0:
        return None
    return log(max(arm, least)) - 0.5 * (log(max(before, least)) + log(max(after, least)))


def _lost(value: float) -> float:
    """The share of the incumbent's reward that an arm of this log ratio loses; `LEAST_LOSS` at least."""
    return max(1.0 - exp(min(value, 0.0)), LEAST_LOSS)
