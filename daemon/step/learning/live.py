# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow on a running server: outcomes of flows (sums over their lives) come in, and
plans go to the module's table.

A visit is a group of flows to a prefix that began near each other on one arm. Once a second the outcomes of
flows become visits (`tally`), and visits that have ended teach the learner (`choose.visits.learner`). Then a
tenth of the known prefixes gets a plan. It has an incumbent, the arm that seems best, and mostly a trial, an
arm to test. The plan is an entry of the table (`lots`), and the module draws one of the two for each visit.
If the drawn lot is an arm, the visit's flows stay on this arm (`held`). If the lot is the decision's own
choice, the decision treats the flows like any others.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Ints, Slots
from ltp_switcher.daemon.choose.choice import Cause, Causes, Choice
from ltp_switcher.daemon.choose.chooser import Told
from ltp_switcher.daemon.choose.teams.visits import CHANCE, VisitPulls
from ltp_switcher.daemon.choose.visits.learner import BOUND, Learner, Visits
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.daemon.choose.visits.purse import costs
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.datapath.protocol import StartCause
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.outcomes import OutcomeRows, born_s
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.daemon.step.flow_table import UNKNOWN, FlowTable
from ltp_switcher.daemon.step.learning import lots
from ltp_switcher.daemon.step.learning.held import HeldFlows, Lot, starved
from ltp_switcher.daemon.step.learning.lots import DECISION
from ltp_switcher.daemon.step.learning.places import Places
from ltp_switcher.daemon.step.learning.prefixes import KnownPrefixes
from ltp_switcher.daemon.step.learning.tally import QUIET_S, Tally
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.errors import ArtifactError
from ltp_switcher.slots import SlotArrays, column

PLAN_TURNS: Final = 10
"""Number of seconds in which every known prefix gets one new plan. Each second is the turn of another part of
the prefixes.
"""
LIFETIME_S: Final = 3600
"""Time without traffic after which a prefix loses its entry in the module's table, in seconds."""
PATHS_MAX: Final = 256
"""Largest number of open flows that tell the learner about their paths at a time. The flows take turns."""
NEWS_MAX: Final = 4096
"""Largest number of the chooser's starting arms that wait until the learner knows their prefixes. The learner
knows a prefix from its first outcome on.
"""
FORMAT: Final = 1
_COUNTED: Final = np.isin(np.arange(256), (StartCause.DEFAULT, StartCause.TABLE))
"""True for causes of a flow's first arm after which the flow teaches the learner, by the causes' numbers."""
_FOREIGN: Final = ~np.isin(np.arange(256), (Cause.NONE, Cause.POLICY, Cause.VISIT))
"""True for causes after which a flow teaches nothing about the arms of visits, by the causes' numbers."""

Free = Callable[[Sequence[str]], Bools]
"""A function of n prefixes. Its result, shape (n,), is true where neither an operator nor an experiment gives
the prefix's flows their arms.
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of an arm on a prefix, with a lower and an upper bound. It is the log of the ratio of the
    arm's reward to the reward of the decision's own choice, and comes from the prefix's visits.
    """

    arm: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class PrefixState:
    """The knowledge of a prefix, and its plan. A visit (a group of flows that began near each other) draws
    one of two arms: the incumbent, which seems best, or the trial. Arm 0 stands for the decision's own
    choice.
    """

    prefix: str
    incumbent: int
    trial: int
    chance: float
    """Probability that a visit draws the trial."""
    visits: int
    flows: float
    spent: float
    """Reward that the trials have cost so far. The unit is the reward of one flow."""
    path_changes: int
    """Number of times since the daemon's start that visits have shown a change of the path."""
    surprises: int
    """Number of times since the daemon's start that the prefix was explored anew because a flow starved on
    the arm that the decision chose.
    """
    ruled: bool
    """Whether an operator or an experiment gives the prefix's flows their arms."""
    effects: tuple[Effect, ...]


class News(NamedTuple):
    """Counts of a prefix's path changes and surprises since the daemon's start; see `PrefixState`."""

    path_changes: int
    surprises: int


class _Plans(SlotArrays):
    """The plan of each prefix, by its number."""

    ruled = column(np.bool_)
    """Whether an operator or an experiment gives the prefix's flows their arms."""
    written = column(np.bool_)
    """Whether the table has an entry of ours."""
    lots = column(np.uint8, 2)
    """The incumbent and the trial: an arm each, or `DECISION`."""
    chance = column(np.float64)
    """Chance of the trial."""
    pull = column(np.uint8)
    """The trial that a team selection asks for: the id of its arm; 0 if none asks."""
    start = column(np.uint8)
    """The arm on which the chooser wants flows to begin; 0 if it wants none, so that they begin on the
    default arm.
    """
    start_until_s = column(np.float64)
    """Unix time until which `start` counts."""
    recent = column(np.float64)
    """Number of flows since the last plan."""
    rate = column(np.float64)
    """Number of flows that are expected until the next plan."""
    path_changes = column(np.int64)
    """Number of path changes that the prefix's visits have shown."""
    surprises = column(np.int64)
    """Number of times that the prefix was explored anew because a flow starved on the arm that the decision
    chose.
    """
    due = column(np.bool_)
    """Whether the next call of `plan` plans for the prefix, even if it is not the prefix's turn."""
    lesson = column(np.int64)
    """Number of the latest lesson about the prefix. The prefix's first outcome counts as a lesson, too. The
    number is -1 if only other servers have told of the prefix.
    """


class LiveLearner:
    """Learning from flow to flow on a running server.

    A visit is a group of flows to a prefix that began near each other on one arm. The plan of a prefix has
    two lots: the incumbent, which seems best, and mostly a trial. A lot is an arm or the decision's own
    choice. The plan goes into the module's table of starting arms as an entry, from which each visit draws
    its lot.

    Args:
        arms: ids of the arms that visits may draw beside the decision's own choice.
        default_arm: id of the module's arm for new flows.
        starts: the module's table of starting arms.
        start_lasts_s: time for which a starting arm from the chooser counts, in seconds.
    """

    def __init__(
        self, arms: Sequence[int], default_arm: int, starts: StartingArms, start_lasts_s: float
    ) -> None:
        self.arms: ArmIds = np.array([DECISION, *arms], np.uint8)
        self._place: Ints = np.full(256, -1)
        self._place[self.arms] = np.arange(self.arms.size)
        self.set_default_arm(default_arm)
        self._starts = starts
        self._start_lasts_s = start_lasts_s
        self._news: dict[str, tuple[int, float]] = {}
        self.learner = Learner(self.arms.size)
        self.prefixes = KnownPrefixes()
        self._plans = self.prefixes.part(_Plans())
        self.tally = Tally()
        self.held = HeldFlows()
        self._spoiled: list[set[int]] = [set(), set()]
        self._turn = 0
        self._generation = 0
        self.pulls: VisitPulls | None = None
        """The team selections that ask for visits; None if there are never any."""
        self.holds = True
        """Whether the module's records tell lots (`lots.RECORDS`). Without that no flow stays on an arm, so
        all visits get the decision's own choice.
        """
        self.lesson = 0
        """Number of the latest lesson. Each time that visits teach something about a prefix is a lesson."""
        self.visits = 0
        """Number of visits that were observed since the daemon's start."""
        self.trials = 0
        """Number of observed visits that drew a trial."""
        self.aborted = 0
        """Number of flows that left the arms that their visits drew, because they starved."""
        self.path_changes = 0
        """Number of path changes that visits have shown since the daemon's start."""
        self.surprises = 0
        """Number of times since the daemon's start that a prefix was explored anew because a flow starved on
        the arm that the decision chose.
        """

    def set_default_arm(self, arm: int) -> None:
        """Let the decision's flows begin on another arm of the module; `arm` is its id. Each prefix's entry
        in the module's table follows with its next plan, within `PLAN_TURNS` seconds.
        """
        self._default_arm = np.uint8(arm)

    # Flows

    def open(self, slots: Slots, table: FlowTable, *, draws: bool = True) -> None:
        """Take in new flows, and the lots that their visits drew. A flow that has been switched already
        counts as one without a lot.

        `draws` tells whether flows draw lots at all, which they do only in mode active.
        """
        records = table.record[slots]
        drawn = lots.has_lot(records) & (records["switches"] == 0) & draws
        lot = np.where(drawn, lots.drawn(records), DECISION)
        chance = np.where(drawn, lots.chance(records), 1.0)
        self.held.open(slots, drawn, lot, chance, records["visit"])

    def end(self, slot: int, cookie: int) -> None:
        """Record that a flow has ended, before its last outcome comes. Call this while the slot still belongs
        to the flow.
        """
        if slot < self.held.capacity and self.held.foreign[slot]:
            self._spoiled[0].add(cookie)

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended."""
        self.held.close(slots)

    def caused(self, slots: Slots, causes: Causes) -> None:
        """Remember who chose the arms of flows, shape (n,). A flow that got an arm from neither its lot nor
        the decision teaches nothing about lots.
        """
        foreign = _FOREIGN[causes]
        if foreign.any():
            self.held.grow(int(slots.max()) + 1)
            self.held.foreign[slots[foreign]] = True

    def step(self, slots: Slots, choice: Choice) -> Choice:
        """Return the choice of arms, changed where flows stay on the arms that their visits drew."""
        return self.held.step(slots, choice)

    def given(self, slots: Slots, others: ArmIds | None) -> ArmIds | None:
        """Return the arms that came from another source than the chooser, shape (n,); 0 for a flow without
        one. They are the arm on which a flow stays for its visit or, without such an arm, the arm in
        `others`. None if there are none at all.
        """
        held = self.held.held(slots)
        if not held.any():
            return others
        return held if others is None else np.where(held != 0, held, others)

    def lot(self, slot: int) -> Lot | None:
        """The lot that an open flow's visit drew; None if it drew none."""
        return self.held.of(slot)

    # Once a second

    def take(self, rows: OutcomeRows, table: FlowTable, free: Free, now_s: float) -> None:
        """Learn from outcomes, and from the visits that have ended. Flows that starve leave the arms that
        their visits drew. `now_s` is Unix time.
        """
        spoiled = self._spoiled[0] | self._spoiled[1]
        self._spoiled = [set(), self._spoiled[0]]
        told = rows["outcome"]
        mine = (told["netns"] == 0) & _COUNTED[told["cause"]]
        if spoiled:
            mine &= ~np.isin(told["cookie"], np.fromiter(spoiled, np.uint64, len(spoiled)))
        rows, told = rows[mine], told[mine]
        if len(told):
            numbers = self._numbers(told, free, now_s)
            usable = ~self._plans.ruled[numbers]
            self._abort(told[usable], numbers[usable], table, now_s)
            self._count(rows[usable], numbers[usable], free)
        visits, generations = self.tally.ended(now_s)
        pulled = lots.are_pulls(generations, visits.arms)
        pulled &= self.prefixes.seen_s[visits.prefixes] > 0
        incumbents = lots.incumbents(generations)
        self._tell_pulls(visits.take(np.flatnonzero(pulled)), incumbents[pulled])
        self._observe(visits, incumbents, pulled)

    def walk(self, table: FlowTable, path: Callable[[Slots], Told | None]) -> None:
        """Take in measurements of the paths of open flows. `path` returns them for the flows in some slots,
        as `Chooser.path` does.
        """
        slots = np.array(table.slots(), np.int64)
        if not slots.size:
            return
        turns = -(-slots.size // PATHS_MAX)
        slots = slots[self._turn % turns :: turns]
        told = path(slots)
        if told is None:
            return
        numbers = self._of_flows(table, slots)
        known = numbers >= 0
        self.learner.tell_paths(numbers[known], told.value[known])

    def surprised(self, table: FlowTable, starved: Callable[[Slots], Bools | None], now_s: float) -> None:
        """Explore prefixes anew whose flows starved on the arms that the decision chose. `starved` tells
        which flows did, as `Chooser.starved` does.

        Only open flows count that have had all their arms from the decision or their lots.
        """
        slots = np.array(table.slots(), np.int64)
        told = starved(slots) if slots.size else None
        if told is None or not told.any():
            return
        self.held.grow(int(slots.max()) + 1)
        numbers = np.unique(self._of_flows(table, slots[told & ~self.held.foreign[slots]]))
        numbers = numbers[numbers >= 0]
        opened = self.learner.surprise(numbers[~self._plans.ruled[numbers]], now_s)
        self.surprises += opened.size
        self._plans.surprises[opened] += 1
        self._plans.due[opened] = True

    def plan(self, free: Free, now_s: float) -> None:
        """Make new plans for the prefixes whose turn it is, and write the plans into the module's table."""
        self._turn += 1
        self._generation = int(now_s)
        self._ask_for_pulls(free, now_s)
        numbers, plans = self.prefixes.numbers(), self._plans
        removed = [self.prefixes.gone()]
        due = (numbers % PLAN_TURNS == self._turn % PLAN_TURNS) & (
            now_s - self.prefixes.seen_s[numbers] < LIFETIME_S
        )
        numbers = numbers[due | plans.due[numbers]]
        if numbers.size:
            plans.ruled[numbers] = ~self._free(numbers, free)
            ruled = numbers[plans.ruled[numbers]]
            removed.append(self._take_out(ruled))
            numbers = numbers[~plans.ruled[numbers]]
        self._starts.put(_absent(np.concatenate(removed)))
        if numbers.size:
            self._write(numbers, now_s)

    def starts(self, news: Mapping[str, int], now_s: float) -> dict[str, int]:
        """Take in the arms on which the chooser wants flows to begin, by prefix. Returns the arms of the
        prefixes that have no entry of the learner in the table.
        """
        rest, until_s = {}, now_s + self._start_lasts_s
        for prefix, arm in news.items():
            number = self.prefixes.find(prefix)
            start = 0 if arm in LEARNED else arm
            if number is None:
                self._news.pop(prefix, None)
                self._news[prefix] = start, until_s
                if len(self._news) > NEWS_MAX:
                    del self._news[next(iter(self._news))]
            else:
                self._plans.start[number], self._plans.start_until_s[number] = start, until_s
                self._plans.due[number] = True
            if number is None or not self._plans.written[number]:
                rest[prefix] = arm
        return rest

    def release(self, free: Free) -> None:
        """Take prefixes out of the module's table whose flows now get their arms from an operator or an
        experiment.
        """
        numbers = self.prefixes.numbers()
        numbers = numbers[self._plans.written[numbers]]
        if numbers.size:
            gone = ~self._free(numbers, free)
            self._plans.ruled[numbers] = gone
            self._starts.put(_absent(self._take_out(numbers[gone])))

    def close_table(self) -> None:
        """Take all of the learner's entries out of the module's table."""
        numbers = self.prefixes.numbers()
        self._starts.put(_absent(self._take_out(numbers)))

    # Other hosts

    def lessons(self, since: int, now_s: float) -> tuple[Ints, Effects]:
        """The numbers of the prefixes with traffic that have learned something since the lesson with the
        number `since`, shape (n,). The second result has the effects of the arms on them, shape (n, arms).

        The effects come from the prefixes' own visits alone, so that no server gets its own knowledge back
        from others. Single hosts below the prefixes are left out.
        """
        numbers = self.prefixes.numbers()
        numbers = numbers[self.prefixes.parent[numbers] < 0]
        plans = self._plans
        is_live = now_s - self.prefixes.seen_s[numbers] < LIFETIME_S
        numbers = numbers[(plans.lesson[numbers] > since) & is_live & ~plans.ruled[numbers]]
        return numbers, self.learner.posteriors.known(numbers, now_s)

    def tell(self, keys: np.ndarray, effects: Effects, hosts: Ints, now_s: float) -> int:
        """Take over the knowledge of other servers about prefixes. The next call of `plan` makes plans for
        these prefixes.

        Args:
            keys: the prefixes, `PREFIX_KEY`, shape (n,), each once.
            effects: effects of the arms, shape (n, arms). The variance is infinite for an unknown effect.
            hosts: for each prefix, the number of servers that know something about it, shape (n,).
            now_s: Unix time.

        Returns:
            The number of prefixes for which there was no room.
        """
        numbers, new = self.prefixes.told(keys, now_s)
        self.learner.forget(numbers[new])
        self.tally.forget(numbers[new])
        self._take_news(numbers[new])
        # The knowledge of other servers is no lesson of this one.
        self._plans.lesson[numbers[new]] = -1
        room = numbers >= 0
        numbers = numbers[room]
        self.learner.tell(numbers, effects.take(room), hosts[room], now_s)
        self._plans.due[numbers] = True
        return int(np.count_nonzero(~room))

    def told(self, limit: int) -> Ints:
        """The numbers of at most `limit` prefixes about which other servers know something. The prefix with
        the most recent report comes first.
        """
        numbers, site = self.prefixes.numbers(), self.learner.site
        numbers = numbers[site.knows(numbers)]
        return numbers[np.argsort(-site.told_s[numbers], kind="stable")[:limit]]

    # Present knowledge

    def news_of(self, prefix: str) -> News:
        """The path changes and surprises of a prefix since the daemon's start."""
        number, plans = self.prefixes.find(prefix), self._plans
        if number is None:
            return News(0, 0)
        return News(int(plans.path_changes[number]), int(plans.surprises[number]))

    def of(self, numbers: Ints, now_s: float) -> list[PrefixState]:
        """The states of the prefixes with these numbers, in the same order. `now_s` is Unix time."""
        if not numbers.size:
            return []
        learner, plans = self.learner, self._plans
        effects = learner.effects(numbers, now_s)
        half = BOUND * np.sqrt(effects.variance)
        told = [(self.arms[1:], effects.mean[row, 1:], half[row, 1:]) for row in range(numbers.size)]
        return [
            PrefixState(
                prefix=self.prefixes.texts[number],
                incumbent=int(plans.lots[number, 0]),
                trial=int(plans.lots[number, 1]),
                chance=float(plans.chance[number]),
                visits=int(learner.posteriors.visits[number]),
                flows=float(learner.purse.flows[number]),
                spent=float(learner.purse.spent[number]),
                path_changes=int(plans.path_changes[number]),
                surprises=int(plans.surprises[number]),
                ruled=bool(plans.ruled[number]),
                effects=tuple(
                    Effect(int(arm), float(mean), float(mean - width), float(mean + width))
                    for arm, mean, width in zip(*told[row], strict=True)
                ),
            )
            for row, number in enumerate(numbers.tolist())
        ]

    def state(self) -> dict[str, np.ndarray]:
        """All knowledge, as arrays that the caller may keep. Of the plans, only the arms on which the chooser
        wants flows to begin are kept.
        """
        size = len(self.prefixes.texts)
        return {
            "format": np.array(FORMAT),
            "arms": self.arms.copy(),
            "start": self._plans.start[:size].copy(),
            "start_until_s": self._plans.start_until_s[:size].copy(),
            **self.prefixes.state(),
            **self.tally.state(),
            **self.learner.state(),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Take over the result of `state`. Returns false, and changes nothing, if the state is about other
        arms. Raises `ArtifactError` if the state is damaged or has another format.
        """
        try:
            if int(arrays["format"]) != FORMAT:
                raise ArtifactError(f"it has version {int(arrays['format'])}; this release reads {FORMAT}")
            if arrays["arms"].tolist() != self.arms.tolist():
                return False
            learner, prefixes, tally = Learner(self.arms.size), KnownPrefixes(), Tally()
            size = prefixes.restore(arrays)
            learner.restore(arrays)
            hosts = np.flatnonzero(prefixes.parent[:size] >= 0)
            learner.join(hosts, prefixes.parent[hosts])
            if len(learner.posteriors) != size:
                raise ArtifactError(f"{len(learner.posteriors)} posteriors of {size} prefixes")
            tally.restore(arrays, size)
            plans = prefixes.part(_Plans())
            # An earlier release did not save where the chooser wants flows to begin.
            if arrays.keys() & {"start", "start_until_s"}:
                plans.start[:size], plans.start_until_s[:size] = arrays["start"], arrays["start_until_s"]
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"it cannot be read: {error!r}") from error
        self.learner, self.prefixes, self.tally, self._plans = learner, prefixes, tally, plans
        return True

    # Parts

    def _numbers(self, told: OutcomeArray, free: Free, now_s: float) -> Ints:
        """Return the numbers of the flows' hosts or prefixes, shape (n,), and prepare the prefixes that are
        new.
        """
        numbers, new = self.prefixes.of(told, now_s)
        if new.size:
            self.learner.forget(new)
            self.tally.forget(new)
            self._plans.ruled[new] = ~self._free(new, free)
            self.lesson += 1
            self._plans.lesson[new] = self.lesson
            self._plans.due[new] = True
            self._take_news(new)
        return numbers

    def _free(self, numbers: Ints, free: Free) -> Bools:
        return free([self.prefixes.texts[number] for number in numbers.tolist()])

    def _of_flows(self, table: FlowTable, slots: Slots) -> Ints:
        """Return the numbers of open flows' hosts or, for hosts without a number, of their prefixes, shape
        (n,); -1 if neither is known.
        """
        return np.array([self._of_flow(table, slot) for slot in slots.tolist()], np.int64)

    def _of_flow(self, table: FlowTable, slot: int) -> int:
        number, flow = self.prefixes.find(table.prefix[slot]), table.info[slot]
        if number is None:
            return -1
        if not self.prefixes.hosts[number] or flow is None:
            return number
        host = self.prefixes.find(f"{flow.remote_address}/{32 if flow.family == socket.AF_INET else 128}")
        return number if host is None else host

    def place_of(self, table: FlowTable, slot: int) -> str:
        """The text of an open flow's prefix, or of its host if the host has knowledge of its own."""
        number = self._of_flow(table, slot)
        return table.prefix[slot] if number < 0 else self.prefixes.texts[number]

    def _take_news(self, numbers: Ints) -> None:
        """Take over the chooser's starting arms for prefixes that had no number before."""
        for number in numbers.tolist():
            arm, until_s = self._news.pop(self.prefixes.texts[number], (0, 0.0))
            self._plans.start[number], self._plans.start_until_s[number] = arm, until_s

    def _count(self, rows: OutcomeRows, numbers: Ints, free: Free) -> None:
        """Take outcomes into their visits, shape (n,)."""
        told, ended = rows["outcome"], rows["outcome"]["ended"] == 1
        visit = told["visit"].astype(np.int64)
        # Flows that found no entry have no number of a visit. Flows of this kind that were born within the
        # same minute form one visit, with a negative number.
        visit = np.where(visit > 0, visit, -1 - (born_s(rows) // 60).astype(np.int64))
        values = np.full(len(told), np.nan)
        final, drew = told[ended], lots.drawn(told)
        at = self._place[drew[ended]]
        gains = self.learner.posteriors.gains(numbers[ended], np.maximum(at, 0))
        # The lines leave out the flows of arms whose gains nobody learns.
        gains[at < 0] = np.nan
        values[ended] = self.prefixes.lines.take(
            numbers[ended], final["acked_bytes"].astype(np.int64), value.raw_values(final), gains
        )
        self.tally.take(
            numbers, drew, visit, told["generation"].astype(np.int64), rows["time_s"], ended,
            values, value.information(told),
        )  # fmt: skip
        np.add.at(self._plans.recent, numbers[ended], 1.0)
        hosts = self.prefixes.split(numbers[ended], final, visit[ended])
        if hosts.size:
            self.learner.forget(hosts)
            self.tally.forget(hosts)
            self.learner.join(hosts, self.prefixes.parent[hosts])
            self._plans.ruled[hosts] = ~self._free(hosts, free)
            self._plans.due[hosts] = True

    def _tell_pulls(self, visits: Visits, incumbents: ArmIds) -> None:
        """Tell the team selections of visits that were pulls, shape (m,), before these teach the learner."""
        if self.pulls is None or not visits.arms.size:
            return
        place = np.maximum(self._place[incumbents], 0)
        expected = self.learner.expected(visits.prefixes, float(visits.ended_s.max()), place)
        cost = costs(visits.flows, visits.values - expected)
        # A visit on the incumbent costs nothing, even if a selection has asked for it.
        cost[visits.arms == incumbents] = 0.0
        parents = self.prefixes.parent[visits.prefixes]
        whole = np.where(parents < 0, visits.prefixes, parents)
        for number, *told in zip(
            whole.tolist(), visits.arms.tolist(), visits.values.tolist(), cost.tolist(),
            visits.ended_s.tolist(), strict=True,
        ):  # fmt: skip
            self.pulls.take(self.prefixes.texts[number], *told)

    def _ask_for_pulls(self, free: Free, now_s: float) -> None:
        """Note the arms of which team selections want visits, and end the selections that cannot go on."""
        if self.pulls is None:
            return
        self.pulls.look(now_s)
        wanted = np.zeros_like(self._plans.pull)
        for prefix in list(self.pulls.searches):
            number = self.prefixes.find(prefix)
            if number is None:
                self.pulls.stop(prefix, "the daemon has forgotten the prefix, to make room for others")
            elif not self.holds:
                self.pulls.stop(prefix, "the loaded module does not tell which arms visits drew")
            elif not free([prefix])[0]:
                self.pulls.stop(prefix, "a policy or an experiment chooses the prefix's arms now")
            else:
                places = self.prefixes.and_hosts(number) if self.prefixes.hosts[number] else number
                wanted[places] = self.pulls.due(prefix)
        self._plans.due |= wanted != self._plans.pull
        self._plans.pull[:] = wanted

    def _observe(self, visits: Visits, incumbents: ArmIds, pulled: Bools) -> None:
        drew = visits.arms
        known = (self._place[drew] >= 0) & (self._place[incumbents] >= 0)
        known &= self.prefixes.seen_s[visits.prefixes] > 0
        self.trials += int(np.count_nonzero((drew != incumbents)[known]))
        self.visits += int(np.count_nonzero(known))
        if known.any():
            # The purse does not pay for the pulls of a team selection, so they are no trials to it.
            visits = Visits(
                visits.prefixes, self._place[drew], visits.values, visits.information, visits.flows,
                visits.ended_s, self._place[np.where(pulled, drew, incumbents)],
            )  # fmt: skip
            visits = visits.take(np.flatnonzero(known))
            changed = self.learner.observe(visits)
            self.path_changes += changed.size
            np.add.at(self._plans.path_changes, changed, 1)
            # A prefix whose path has changed may have another incumbent at once.
            self._plans.due[changed] = True
            self.lesson += 1
            self._plans.lesson[visits.prefixes] = self.lesson

    def _abort(self, told: OutcomeArray, numbers: Ints, table: FlowTable, now_s: float) -> None:
        """Let open flows that starve leave the arms that their visits drew. The flows' outcomes show who
        starves.
        """
        lasting = np.flatnonzero(told["ended"] == 0)
        slots = np.array([table.slot(cookie) for cookie in told["cookie"][lasting].tolist()], np.int64)
        # The latest of several outcomes of a flow counts, so that each slot appears once.
        slots, last = np.unique(slots[::-1], return_index=True)
        lasting = lasting[::-1][last]
        known = slots != UNKNOWN
        slots, lasting = slots[known], lasting[known]
        if not slots.size:
            return
        held = self.held.held(slots) != 0
        since = self.held.since(slots, told[lasting])
        slots, lasting, since = slots[held], lasting[held], since[held]
        if not slots.size:
            return
        at, sizes_bytes = numbers[lasting], told["acked_bytes"][lasting].astype(np.int64)
        expected = self.prefixes.lines.expected(at, sizes_bytes) + self.learner.expected(at, now_s)
        known = self.learner.posteriors.visits[at] > 0
        leave = slots[starved(since, np.where(known, expected, np.nan))]
        self.held.leave(leave)
        self.aborted += leave.size

    def _write(self, numbers: Ints, now_s: float) -> None:
        """Plan for these prefixes, and write their entries."""
        plans = self._plans
        plans.due[numbers] = False
        plans.rate[numbers] = (plans.rate[numbers] + plans.recent[numbers]) / 2
        plans.recent[numbers] = 0.0
        coming = plans.rate[numbers] * (QUIET_S / PLAN_TURNS)
        pull = plans.pull[numbers]
        asked = pull != 0
        plan = self.learner.plan(numbers, coming, now_s, self.tally.trying(), asked)
        weights = lots.trial_weights(np.where(asked, CHANCE, plan.chances)) * self.holds
        trials = np.where(asked, pull, self.arms[plan.trials])
        lot = np.stack([self.arms[plan.incumbents], trials], axis=1)
        if not self.holds:
            lot[:] = DECISION
        starts = self._starting(numbers, lot, now_s)
        generation = lots.generations(lot[:, 0], lot[:, 1], self._generation, asked)
        self._starts.put(lots.entries(self.prefixes.place[numbers], starts, weights, generation, LIFETIME_S))
        plans.lots[numbers] = lot
        plans.chance[numbers], plans.written[numbers] = weights / lots.WEIGHTS, True

    def _starting(self, numbers: Ints, lot: ArmIds, now_s: float) -> ArmIds:
        """Return the arms on which the flows of these lots begin, shape (n, 2). The two arms of a prefix may
        be the same.

        A lot that is an arm begins on this arm. The decision's lot begins on the arm that the chooser wants,
        or else on the default arm.
        """
        plans, parents = self._plans, self.prefixes.parent[numbers]
        at = np.where(parents < 0, numbers, parents)
        wanted = np.where(now_s < plans.start_until_s[at], plans.start[at], 0)
        own = np.where(wanted != 0, wanted, self._default_arm)
        return np.where(lot == DECISION, own[:, None], lot)

    def _take_out(self, numbers: Ints) -> Places:
        """Mark the entries of these prefixes and hosts as removed. Returns the places that had an entry of
        the learner.
        """
        numbers = numbers[self._plans.written[numbers]]
        self._plans.written[numbers] = False
        return self.prefixes.place[numbers]


def _absent(places: Places) -> np.ndarray:
    """Make entries that take these prefixes and hosts out of the module's table."""
    size = len(places)
    return lots.entries(
        places, np.zeros((size, 2), np.uint8), np.zeros(size, np.int64), np.zeros(size, np.uint32), 1
    )
