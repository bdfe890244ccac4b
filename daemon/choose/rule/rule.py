# SPDX-License-Identifier: Apache-2.0
"""The rule: it chooses among three arms, by the RTT and the swing of the rate. It learns nothing.

A new flow runs the probing arm, BBR, for `start_s`. BBR runs longer while the rate grows, and shorter if the
path turns out to hold fewer packets than BBR's least window.

After the start, the careful arm, Vegas, runs where the rate of the path varies, as on cellular links.
Elsewhere the steady arm, LTP, runs. The rate varies if the highest RTT exceeds `rtt_ratio` times the lowest
one, or if the rate swings by more than `rate_swing` from look to look. A look is the time over which the rule
sums up measurements. There are five exceptions:

- A path that loses packets without a queue gets the steady arm, because Vegas would starve.
- BBR stays where the rate varies behind a short buffer: it loses packets, but adds little delay.
- BBR stays while the path shows no queue, because the other two arms gain by a shorter queue.
- BBR stays while the application pauses for much of the time: the other two begin slowly after each pause.
- The rule tries Vegas where LTP's queue is longer than the queue that Vegas would keep, or where LTP
  overfills a shorter buffer (`trials`).

When the RTT of the path has risen, the flow runs the probing arm again for `change_s`. When the RTT has
fallen, the data in flight become a queue, which BBR would keep. So the steady arm begins anew and empties the
queue; the careful arm adapts by itself. If the rate has fallen, too, BBR probes for `start_s`.

A choice counts for the destination prefix, too. After the careful arm, new flows to the prefix begin with the
careful arm for `prefix_s`. These flows do not extend that time, so the prefix is probed again. After the
steady arm, new flows probe: a flow that begins behind a standing queue cannot see that the steady arm would
starve there. If the probing arm's start overfilled the buffer, later flows start on the kernel's arm
(`starts`). This memory of prefixes outlives the daemon (`prefixes`).

The RTT of the path has changed when its floor, the lowest RTT, has moved. If the RTT stays high, the path may
be longer, or a queue stands: the steady arm's own, for example after a fall of the rate or with siblings, or
another flow's. One experiment tells (`drain`): the steady arm begins anew and empties the queue, or the
probing arm runs for a while. If the rate rises by much under the probing arm, another flow fills the queue,
and the probing arm stays, because the other two arms would starve. If the careful arm keeps a queue of its
own, the steady arm empties this queue.

With `self_check`, an arm has to earn about as much as other arms have shown on the path. An arm that starves
beside them gives way to the best of them. An arm that falls below its own earlier reward is compared with the
probing arm (`surprise`), and so is an arm to which losses leave less than half of its reward. Now and then a
pulse shows whether the careful arm's path has more rate (`pulses`).

The rule decides for players. A player is one or more flows that share a bottleneck (`siblings`). A young flow
probes for itself if its siblings have nothing to share (`newcomers`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Indices, Ints, Slots
from ltp_switcher.daemon.choose.chooser import Chooser, Draw, Reasons, Told
from ltp_switcher.daemon.choose.path.looks import APP_LIMITED, INTERVAL_NS, ROUND_TRIPS, TIME_NS, Looks, read
from ltp_switcher.daemon.choose.path.model import BEHIND_QUEUE, PathModel
from ltp_switcher.daemon.choose.path.pauses import Pauses
from ltp_switcher.daemon.choose.players.newcomers import Newcomers
from ltp_switcher.daemon.choose.players.siblings import Siblings
from ltp_switcher.daemon.choose.rule import reasons as why
from ltp_switcher.daemon.choose.rule.drain import AFTER, EMPTY, Drain, Outcome, Outcomes
from ltp_switcher.daemon.choose.rule.prefixes import Prefixes
from ltp_switcher.daemon.choose.rule.pulses import Pulses
from ltp_switcher.daemon.choose.rule.roles import CAREFUL, PROBING, ROLES, STEADY, roles_of
from ltp_switcher.daemon.choose.rule.starts import Starts
from ltp_switcher.daemon.choose.rule.states import AS_BEST, ROLE, State, States
from ltp_switcher.daemon.choose.rule.surprise import Surprise
from ltp_switcher.daemon.choose.rule.trials import STEADY_US, Trials
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.slots import SlotArrays, column

RENO_PKTS: Final = 1.22
"""Reno's mean window, in packets, times the square root of the loss rate: sqrt(3/2) (Mathis et al., 1997)."""
QUEUE_RISES: Final = 2.0
"""A high RTT calls for a test of the queue after this multiple of the time that shows a longer path."""
DRAIN_RTTS: Final = 3
"""Number of round trips in which a queue is emptied."""
COMPARE_RTTS: Final = 16
"""Number of round trips in which the probing arm fills a path and shows its rate."""
HOLD_MAX: Final = 5
"""Largest hold of the probing arm while the rate grows, as a multiple of the usual hold."""
PAUSES: Final = 0.25
"""Least share of the time in which the application pauses with which BBR stays."""
STUCK_S: Final = 5.0
"""Longest time that the careful arm's queue may need to empty, at one packet in each round trip, in seconds.
An arm with a longer queue is stuck.
"""


class _Flows(SlotArrays):
    """The values that each flow has of its own."""

    of_role = column(np.uint8, len(ROLES))
    """The arm of each role."""
    role = column(np.intp)
    """Role of the flow: its player's, except while it is young."""
    asks = column(np.bool_)
    """Whether the flow's path is to be asked for more."""
    starting = column(np.bool_, initial=True)
    """Whether the flow is in its start: the probing arm's turn, but for flows that begin gently."""
    overfilled = column(np.float64, initial=np.nan)
    """Share of the packets that the start of an earlier flow to the prefix lost; NaN for a usual start."""
    gentle = column(np.uint8)
    """The arm of a gentle start for a flow that the kernel began on the probing arm."""


class _Signs(NamedTuple):
    """The signs that a look of n players shows, each of shape (n,). A player has one at most."""

    judged: Bools
    """True where the look is the arm's own: the arm has settled, and empties no queue. This is no sign."""
    changed: Bools
    """The path is another one."""
    rose: Bools
    """The path became longer. This says something only where it has changed."""
    asked: Bools
    """A queue stands, and the probing arm has to show whose it is."""
    starves: Bools
    """The arm starves beside what another one has shown."""
    fell: Bools
    """The arm fell below its own level."""
    alone: Bools
    """No other arm has shown anything."""
    losing: Bools
    """Losses take more than half of the arm's reward."""
    stuck: Bools
    """The careful arm keeps a queue of its own."""
    freed: Bools
    """The probing arm earns less than twice as much as an arm that it replaced. A choice is due at once."""

    @property
    def any(self) -> Bools:
        """True where a player has a sign."""
        found: Bools = self.changed | self.asked | self.starves | self.compared | self.stuck
        return found

    @property
    def compared(self) -> Bools:
        """True where the probing arm has to show what the path has."""
        found: Bools = self.fell | self.alone | self.losing
        return found


class RuleChooser(Chooser, SlotArrays):
    """The rule for all flows of a step at once. Its roles are the probing arm (BBR), the steady arm (LTP) and
    the careful arm (Vegas).

    The slots of its columns are numbers of players (`siblings`). The methods of `Chooser` take the slots of
    flows.

    Args:
        pool: ids of the arms that the rule may choose. If a role's own arm is not in the pool, another arm
            takes the role.
        settings: the rule's thresholds.
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward.
        default_arm: id of the module's arm for new flows.
    """

    _state = column(np.intp)
    """The present `State` of the player."""
    _since_ns = column(np.int64)
    """Start of the flow, or of its present path; 0 before the first record."""
    _hold_ns = column(np.int64)
    """Time for which the probing arm runs from `_since_ns` on."""
    _drained = column(np.bool_)
    """Whether the steady arm begins with a small window: the RTT fell, or a test found no other flow."""
    _code = column(np.intp)
    """The reason of the state."""
    _value = column(np.float64, initial=np.nan)
    """The number that the reason's text contains."""
    _was_steady = column(np.bool_)
    """Whether the comparison under way is between the steady arm and the probing arm."""
    _starved = column(np.bool_)
    """Whether the self-check barred an arm since the last call of `starved`."""
    _was_us = column(np.float64)
    """The RTT floor before it rose, while the probing arm shows whether the path is longer; else 0."""

    def __init__(
        self,
        pool: Sequence[int],
        settings: RuleSection,
        *,
        zeta: float = 5.0,
        kappa: float = 2.0,
        default_arm: int = ArmId.CUBIC,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._looks = self.part(Looks(zeta=zeta, kappa=kappa))
        self._path = self.part(PathModel())
        self._drain = self.part(Drain(settings))
        self._trials = self.part(Trials())
        self._surprise = self.part(Surprise())
        self._shown_before = self.part(Surprise())
        self._flows = _Flows()
        self._pulses = self._flows.part(Pulses())
        self._pauses = self._flows.part(Pauses())
        self._starts = self._flows.part(Starts(zeta=zeta, kappa=kappa))
        self._siblings = Siblings()
        self._newcomers = Newcomers(settings.start_s)
        self._pool = tuple(pool)
        self._default_arm = default_arm
        self._roles = Prefixes(settings.prefix_s)
        self._overfilled = Prefixes(0.0 if "starts" in settings.without else settings.prefix_s)
        self._memories = {"rule_roles": self._roles, "rule_overfilled": self._overfilled}
        """The memories of prefixes, by the names that they have in the saved state."""
        self._news: dict[str, int] = {}
        self._now_ns = 0
        self.reasons: Sequence[str] = why.texts(settings)

    keeps_arms = True
    needed_step_s = 0.05
    """Longest step that serves the rule, in seconds. A new flow waits one step for its first arm."""

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms that a new flow may run."""
        return self._pool

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Give the roles to these arms, for the flows `slots`; for None, to all open and future flows."""
        if slots is None:
            self._pool = tuple(arms)
            self._give_pool(arms, np.arange(self._flows.capacity))
        else:
            self._give_pool(arms, slots)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. Each flow joins the player of the open flows to its prefix."""
        self._flows.reset(slots)
        self._newcomers.reset(slots)
        self._give_pool(self._pool, slots)
        known = (self._overfilled.value(prefix, self._now_ns) for prefix in prefixes)
        self._flows.overfilled[slots] = [np.nan if share is None else share for share in known]
        self._open_players(self._siblings.open(slots, prefixes))
        self._flows.role[slots] = self._role(self._siblings.player[slots])

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended. Their slots may be used again."""
        self._end_starts(slots[self._flows.starting[slots]])
        self._siblings.close(slots)

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Judge the players whose looks are over. The flows of all other players keep their arms.

        While a flow runs another arm for team selection, its records say nothing about the rule's arm.
        """
        seen, idle, draining = read(records)
        self._pauses.step(slots, records)
        flags, now_ns = records["flags"], seen[TIME_NS]
        if given is not None and given.any():
            idle, draining = idle | (given != 0), draining | (given != 0)
        fills = (self._flows.role[slots] == STEADY) & ~idle
        began_ns = now_ns - seen[INTERVAL_NS]
        self._looks.correct(self._siblings.player[slots], seen, self._settings.rtt_step)
        self._newcomers.step(slots, self._siblings.player[slots], began_ns, now_ns, fills)
        of_flows = seen
        players, seen, idle, draining = self._siblings.fold(slots, seen, idle, draining)
        self._looks.mix(self._siblings.mixed())
        over = self._looks.take(players, seen, idle, draining)
        self._now_ns = int(seen[TIME_NS].max(initial=self._now_ns))
        new = self._since_ns[players] == 0
        if new.any():
            self._since_ns[players[new]] = self._looks.began_ns[players[new]]
            self._hold_ns[players[new]] = max(1, int(self._settings.start_s * 1e9))
        if over.any():
            ended, ended_ns = players[over], seen[TIME_NS, over]
            self._look(ended, seen[:, over])
            self._open_players(self._siblings.look(slots, ended, ended_ns))
        of = self._siblings.player[slots]
        role = self._role(of)
        young = (role == STEADY) & self._newcomers.young(slots, now_ns)
        young &= ~self._case("few-packets", self._looks.holds_few(of))
        self._flows.role[slots] = np.where(young, PROBING, role)
        arms = self._flows.of_role[slots, self._flows.role[slots]]
        arms = self._start(slots, young, of_flows, records["arm"], arms)
        # The arm of a pinned flow is not ours to choose.
        arms = np.where(flags & PINNED, records["want_arm"], arms)
        may = (self._flows.role[slots] == CAREFUL) & (records["arm"] == arms) & self._siblings.leads(slots)
        self._flows.asks[slots] = self._pulses.step(slots, records, may & ((flags & APP_LIMITED) == 0))
        share = self._looks.share[of] * self._siblings.jain(of)
        return Draw(arms, share, np.zeros(slots.shape, np.bool_))

    def together(self, slots: Slots) -> Indices | None:
        """The player of each flow, shape (n,); None if each flow is a player of its own."""
        return self._siblings.player[slots] if self._siblings.several else None

    def free(self, slots: Slots) -> Bools:
        """True where the rule neither probes nor tests, so that another arm may run, shape (n,)."""
        return np.asarray(self._flows.role[slots] != PROBING)

    def drains(self, slots: Slots, records: RecordArray) -> Bools:
        """True where the steady arm has to empty a queue, shape (n,): in a test, or in its first round trips
        on a changed path.
        """
        of = self._siblings.player[slots]
        early = (records["round_trips"] < DRAIN_RTTS) & self._drained[of]
        least_us = records["rtt_stat"]["min"].astype(np.float64)
        empties = self._drain.empties(of, least_us, self._now_ns)
        found: Bools = (early | empties) & (self._flows.role[slots] == STEADY)
        return found

    def asks(self, slots: Slots) -> Bools:
        """True for flows whose paths should get a pulse after the last step, shape (n,)."""
        found: Bools = self._flows.asks[slots]
        return found

    def begins_anew(self, slots: Slots) -> Bools:
        """True where a test of the queue has begun since the last call, shape (n,). The learned arm begins
        anew then.
        """
        return self._drain.begun(self._siblings.player[slots])

    def starved(self, slots: Slots) -> Bools:
        """True where the self-check barred an arm of the flow's player since the last call, shape (n,)."""
        players = self._siblings.player[slots]
        found: Bools = self._starved[players]
        self._starved[players] = False
        return found

    def starts(self) -> dict[str, int]:
        """The arms of the prefixes that were probed since the last call."""
        news, self._news = self._news, {}
        return news

    def reason(self, slots: Slots) -> Reasons:
        """The measurement behind the role of each flow's player. A young flow's reason is its own start."""
        of, share = self._siblings.player[slots], self._flows.overfilled[slots]
        young = self._flows.role[slots] != self._role(of)
        own = np.where(np.isnan(share), why.NEW, why.GENTLE)
        return Reasons(np.where(young, own, self._code[of]), np.where(young, 100 * share, self._value[of]))

    def path(self, slots: Slots) -> Told:
        """The known numbers of the path of each flow's player."""
        return self._path.numbers(self._siblings.player[slots], self._now_ns)

    def state(self) -> dict[str, np.ndarray]:
        """The memories of prefixes, as arrays by name. They contain nothing about single flows."""
        now_ns, ahead_ns = _clocks()
        return {name: memory.state(now_ns, ahead_ns) for name, memory in self._memories.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `state`. A state of another policy or an earlier release lacks some arrays.

        Raises `ArtifactError` if it does not fit.
        """
        now_ns, ahead_ns = _clocks()
        for name, memory in self._memories.items():
            if name in arrays:
                memory.restore(arrays[name], now_ns, ahead_ns)
        self._now_ns = max(self._now_ns, now_ns)

    def _open_players(self, players: Slots) -> None:
        """Let new players probe, or begin with the careful arm where their prefix is known for it."""
        self.reset(players)
        self._newcomers.found(players)
        for player in players.tolist():
            first = self._siblings.oldest(player)
            if self._roles.value(self._siblings.prefix(player), self._now_ns) == CAREFUL:
                self._state[player] = State.FOLLOWS
                self._code[player] = why.KNOWN
            elif self._flows.starting[first] and not np.isnan(self._flows.overfilled[first]):
                self._code[player] = why.GENTLE
                self._value[player] = 100 * self._flows.overfilled[first]

    def set_default_arm(self, arm: int) -> None:
        """Take note that the module begins new flows on another arm from now on; `arm` is its id. Open flows
        keep the arms of their starts.
        """
        self._default_arm = arm

    def _give_pool(self, arms: Sequence[int], slots: Slots) -> None:
        """Let these flows choose among these arms."""
        roles = roles_of(arms)
        self._flows.of_role[slots] = roles
        # The module's arm for new flows is nobody's choice, but a flow with arms of its own stays among them.
        usable = self._default_arm in arms or tuple(arms) == self._pool
        self._flows.gentle[slots] = self._default_arm if usable else roles[PROBING]

    def _start(self, slots: Slots, young: Bools, seen: Floats, had: ArmIds, arms: ArmIds) -> ArmIds:
        """Measure the starts of flows, and return the flows' arms, shape (n,): gentle starts have their own.

        In a gentle start a flow keeps the arm on which the kernel began it. The kernel may have begun it on
        the probing arm, for example by an entry of the table of starting arms. Then it gets the module's arm
        for new flows.

        Args:
            slots: flows, shape (n,).
            young: true where a flow probes for itself, shape (n,).
            seen: fields from `looks.read`, shape (fields, n).
            had: the arms that the flows run, shape (n,).
            arms: the arms that the flows' roles call for, shape (n,).
        """
        flows = self._flows
        (at,) = flows.starting[slots].nonzero()
        if not at.size:
            return arms
        slots, had = slots[at], had[at]
        first = self._state[self._siblings.player[slots]] == State.PROBES
        starting = (flows.role[slots] == PROBING) & (first | young[at])
        gentle = ~np.isnan(flows.overfilled[slots])
        probing = had == flows.of_role[slots, PROBING]
        measured = starting & ~gentle & probing
        self._starts.take(slots[measured], seen[:, at[measured]])
        self._end_starts(slots[~starting])
        flows.starting[slots] = starting
        kept = np.where(probing, flows.gentle[slots], had)
        arms[at] = np.where(starting & gentle, kept, arms[at])
        return arms

    def _end_starts(self, slots: Slots) -> None:
        """End the starts of these flows: remember those that overfilled the buffer for their prefixes."""
        found, share = self._starts.shown(slots)
        for slot, lost in zip(slots[found].tolist(), share[found].tolist(), strict=True):
            prefix = self._siblings.prefix(self._siblings.player[slot])
            self._overfilled.learn(prefix, lost, self._now_ns)
            self._news[prefix] = int(self._flows.gentle[slot])

    def _look(self, slots: Slots, seen: Floats) -> None:
        """End a look of these players, shape (n,): measure, go by signs, and give roles."""
        looks, now_ns, role = self._looks, seen[TIME_NS], self._role(slots)
        self._path.look(slots, looks.measure(slots, seen), now_ns)
        least_us = looks.least_us[slots]
        settled = seen[ROUND_TRIPS] >= self._settings.settle_rtts
        signs = self._signs(slots, seen, role, settled)
        # The drained steady arm shows the floor, which BBR's start or test did not show.
        kept = (role == PROBING) | (signs.judged & ~signs.changed)
        kept |= self._drained[slots] & (role == STEADY) & ~settled
        looks.lower(slots[kept], least_us[kept], self._settings.rtt_step)
        self._go_by(signs, slots, role, least_us, now_ns)
        same = (self._state[slots] == State.PROBES) & (looks.floor_us[slots] < EMPTY * self._was_us[slots])
        if same.any():
            self._return(slots[same])
        ready = (role == PROBING) & ~signs.starves & ~same & (self._ready(slots, now_ns) | signs.freed)
        staying = signs.judged & ~signs.any
        self._trials.look(slots[staying], looks)
        if (ready | staying).any():
            self._judge(slots, ready, staying)
        looks.begin(slots, seen)

    def _signs(self, slots: Slots, seen: Floats, role: Ints, settled: Bools) -> _Signs:
        """The findings of a look that call for another state. A test of the arm's own queue may begin or end.

        Args:
            slots: players, shape (n,).
            seen: as `looks.read` gives it, shape (fields, n).
            role: their roles, shape (n,).
            settled: True where the queue of the earlier arm has drained, shape (n,).
        """
        looks, settings, now_ns = self._looks, self._settings, seen[TIME_NS]
        probing, steady = role == PROBING, role == STEADY
        least_us = looks.least_us[slots]
        drains = self._state[slots] == State.DRAINS
        # While an arm empties the queue, the RTT is not the arm's own, and the next arm would find an empty
        # path.
        judged = ~probing & settled & ~looks.drained[slots] & ~drains
        own_us = np.where(steady, STEADY_US, 0.0)
        shorter, rose, high_s = self._drain.look(slots, looks, own_us, seen)
        others = self._end_drain(slots, now_ns)
        high = self._case("drain", judged & steady & (high_s >= settings.rise_s))
        judged &= ~self._begin_drain(slots, high, rose, now_ns)
        stands = judged & (high_s >= QUEUE_RISES * settings.rise_s)
        # The test does not come again at once, because the queue may be another flow's.
        again = now_ns - self._since_ns[slots] >= settings.change_s * 1e9
        asked = others | self._case("drain", stands & steady & again)
        # On a path whose rate varies, the lowest RTT falls whenever the queue does.
        moves = self._state[slots] == State.FOLLOWS
        # A path may become shorter while the earlier arm's queue drains. The window of the longer path would
        # fill the buffer, and so hide that for good.
        draining = looks.drained[slots] | self._drained[slots] | drains
        early = steady & ~settled & ~draining
        changed = self._case("drain", (judged & ((shorter & ~moves) | rose)) | (early & shorter))
        asked &= ~changed
        starves = fell = alone = losing = freed = np.zeros(slots.shape, np.bool_)
        if settings.self_check:
            # In a gentle start the probing arm does not run.
            shows = judged | (probing & (self._code[slots] != why.GENTLE))
            earned = np.where(shows, looks.earned[slots], np.nan)
            queued_arm = steady & (least_us > settings.rtt_step * looks.floor_us[slots] + own_us)
            whole, floor_us = looks.whole[slots], looks.floor_us[slots]
            found = self._surprise.look(slots, role, earned, whole, floor_us, now_ns, queued_arm)
            starves, fell, alone, losing, freed = (surprised & ~changed & ~asked for surprised in found)
            freed &= self._state[slots] == State.COMPARES
        stuck = stands & (role == CAREFUL) & self._siblings.alone(slots)
        stuck &= looks.backlog_pkts(slots) * least_us * 1e-6 > STUCK_S
        stuck &= ~(changed | asked | starves | fell | alone | losing)
        return _Signs(judged, changed, rose, asked, starves, fell, alone, losing, stuck, freed)

    def _go_by(self, signs: _Signs, slots: Slots, role: Ints, least_us: Floats, now_ns: Floats) -> None:
        """Bring the players with a sign into the state that it calls for. All arrays have shape (n,)."""
        changed, asked, starves, stuck = signs.changed, signs.asked, signs.starves, signs.stuck
        if changed.any():
            self._follow(slots[changed], signs.rose[changed], least_us[changed], now_ns[changed])
        if asked.any():
            self._ask(slots[asked], now_ns[asked])
        compared = signs.compared
        if compared.any():
            fell, losing, steady = signs.fell[compared], signs.losing[compared], role[compared] == STEADY
            self._compare(slots[compared], fell, losing, steady, now_ns[compared])
        if starves.any():
            self._leave(slots[starves])
        if stuck.any():
            self._empty(slots[stuck], why.STUCK, least_us[stuck])

    def _case(self, name: str, found: Bools) -> Bools:
        """True where a special case was found, unless the settings leave it out, of the same shape."""
        return np.zeros_like(found) if name in self._settings.without else found

    def _ready(self, slots: Slots, now_ns: Floats) -> Bools:
        """True where the probing arm has shown what there is to know, shape (n,). Its tests end here."""
        looks, state = self._looks, self._state[slots]
        ratio = looks.rtt_ratio(slots)
        lasted = (now_ns - self._since_ns[slots]) / self._hold_ns[slots]
        # On a long path BBR is still in its start, which is faster than another arm's start.
        held = (lasted >= 1) & (looks.grown[slots] | (lasted >= HOLD_MAX))
        testing = np.isin(state, (State.ASKS, State.BESIDE_RIVAL))
        # Behind another flow's queue the RTT says nothing about the path, and a short buffer stays short.
        varies = self._case("varies", ratio > self._settings.rtt_ratio)
        few = self._case("few-packets", looks.holds_few(slots))
        stays = self._stays(slots, ratio, held, held | varies)
        held &= ~stays
        varies &= ~stays
        shows = ((varies & (state != State.SHALLOW)) | few) & ~testing & (state != State.COMPARES)
        ready: Bools = (ROLE[state] == PROBING) & ~looks.drained[slots] & (held | shows)
        ended = ready & testing
        if ended.any():
            ready[ended] = self._end_asking(slots[ended], now_ns[ended])
        return ready

    def _stays(self, slots: Slots, ratio: Floats, held: Bools, shown: Bools) -> Bools:
        """True where the probing arm stays after its start, because no other arm would gain anything.

        Args:
            slots: players, shape (n,).
            ratio: the highest RTT over the lowest one, shape (n,).
            held: true where the start has lasted long enough, shape (n,).
            shown: true where the start would end: it has lasted long enough, or the rate varies, shape (n,).
        """
        starts = (self._state[slots] == State.PROBES) & (self._code[slots] != why.GENTLE)
        starts &= self._looks.overfilled(slots) == 0
        # Another arm would gain by a shorter queue. BBR has no queue if the application asks for less than
        # the path has.
        empty = self._case("no-queue", starts & held & (ratio < BEHIND_QUEUE))
        self._code[slots[empty]] = why.EMPTY
        # Other arms begin slowly after a pause, and a queue is gone when the next request comes.
        at = slots[self._case("pauses", starts & shown & ~empty)]
        at = at[self._siblings.alone(at)]
        flows = np.array([self._siblings.oldest(player) for player in at.tolist()], np.intp)
        share = self._pauses.share(flows)
        at, share = at[share >= PAUSES], share[share >= PAUSES]
        self._code[at] = why.PAUSES
        self._value[at] = 100 * share
        return empty | np.isin(slots, at)

    def _begin_drain(self, slots: Slots, high: Bools, constant: Bools, now_ns: Floats) -> Bools:
        """The steady arm empties the queue where the RTT is high and the queue may be its own: shape (n,)."""
        looks = self._looks
        begin = high & self._drain.due(slots, looks, constant, ~self._siblings.alone(slots), now_ns)
        if begin.any():
            at, least_us = slots[begin], looks.least_us[slots[begin]]
            self._drain.empty(at, looks, constant[begin], looks.floor_us[at], least_us, now_ns[begin])
            self._drain.forget(at)
            self._state[at] = State.DRAINS
            self._code[at] = why.DRAINS
            self._value[at] = least_us * 1e-3
        return begin

    def _end_drain(self, slots: Slots, now_ns: Floats) -> Bools:
        """End the time of small windows; true where a queue still stands, which is another's, shape (n,)."""
        over = self._drain.over(slots, now_ns)
        others = np.zeros(slots.shape, np.bool_)
        if over.any():
            at = slots[over]
            floor_us = self._looks.floor_us[at]
            outcome = self._drain.emptied(at, floor_us)
            others[over] = outcome == Outcome.OPEN
            longer = outcome == Outcome.LONGER_PATH
            known = ~others[over]
            self._looks.forget(at[known], np.where(longer, self._drain.lowest_us(at), floor_us)[known])
            told = self._code[at] == why.DRAINS
            self._code[at[told]] = why.OF_OUTCOME[outcome[told]]
            self._go_on(at[known], self._state[at[known]], outcome[known])
        return others

    def _go_on(self, slots: Slots, before: States, outcome: Outcomes) -> None:
        """Bring players from the states before an outcome into those after it. All arrays have shape (n,)."""
        for (state, found), after in AFTER.items():
            self._state[slots[(before == state) & (outcome == found)]] = after

    def _follow(self, slots: Slots, rose: Bools, least_us: Floats, now_ns: Floats) -> None:
        """Another path: a longer one is probed; on a shorter one the steady arm begins without a queue."""
        self._was_us[slots] = np.where(rose, self._looks.floor_us[slots], 0.0)
        self._shown_before.copy(slots[rose], self._surprise)
        probed = rose | ~self._looks.keeps_rate(slots)
        hold_s = np.where(rose, self._settings.change_s, self._settings.start_s)
        self._probe(slots[probed], State.PROBES, now_ns[probed], hold_s[probed])
        self._drained[slots[probed & ~rose]] = True
        self._looks.forget(slots, least_us)
        self._path.forget(slots)
        self._surprise.forget(slots)
        fell, fell_us = slots[~probed], least_us[~probed]
        self._drain.forget(fell)
        self._drain.other_arm(fell)
        self._trials.reset(fell)
        steady = self._role(fell) == STEADY
        self._state[fell] = np.where(steady, State.DRAINS, State.CAREFUL)
        self._looks.grow_anew(fell[steady])
        constant = np.ones(np.count_nonzero(steady), np.bool_)
        fell, fell_us = fell[steady], fell_us[steady]
        self._drain.empty(fell, self._looks, constant, fell_us, fell_us, now_ns[~probed][steady])
        self._code[slots] = np.where(rose, why.ROSE, why.FELL)
        self._value[slots] = least_us * 1e-3

    def _judge(self, slots: Slots, ready: Bools, again: Bools) -> None:
        """Give roles where probing ends (`ready`), and other roles where the arm does not fit (`again`)."""
        looks, settings = self._looks, self._settings
        ratio, swing, lost = looks.rtt_ratio(slots), looks.swing(slots), looks.quiet_loss(slots)
        # Vegas halves its window at a loss, as Reno does, so its window never exceeds this many packets.
        lossy = self._case("lossy", looks.bdp_pkts[slots] * np.sqrt(lost) > RENO_PKTS)
        # A comparison follows a fall. The queue of this fall is no sign of a rate that varies.
        compared = (self._state[slots] == State.COMPARES) & self._was_steady[slots]
        varies = self._case("varies", (ratio > settings.rtt_ratio) & ~compared)
        swings = self._case("swings", swing > settings.rate_swing)
        overfilled = looks.overfilled(slots)
        # The careful arm's own queue says nothing about the buffer, nor does a window above the path's.
        few = self._case("few-packets", looks.holds_few(slots))
        filled = self._case("shallow", (overfilled > 0) & (self._role(slots) != CAREFUL) & ~few)
        calm = self._case("trials", again & ~lossy & ~swings)
        trials = self._trials.findings(slots, self._state[slots], calm)
        shorter = trials[why.SHORTER][0]
        shorter[shorter] = self._siblings.alone(slots[shorter])
        found = trials | {
            why.LOSSY: (lossy, 100 * lost),
            why.SHALLOW: ((swings | varies) & filled, 100 * overfilled),
            why.VARIES: (varies, ratio),
            why.SWINGS: (swings, 100 * swing),
        }
        where, shown = zip(*found.values(), strict=True)
        reason = np.select(where, list(found), why.IS_STEADY)
        state = why.STATE[reason - why.IS_STEADY]
        role = ROLE[state]
        lacks = self._surprise.lacks(slots, role) & ready
        self._bar(slots[lacks], role[lacks])
        starved = self._surprise.barred(slots, role, self._now_ns)
        # An arm that has never run cannot have starved, and the self-check leaves it as soon as it does.
        unseen = self._surprise.unseen(slots, STEADY, self._now_ns)
        instead = np.where(unseen, STEADY, self._surprise.instead(slots, self._now_ns))
        state = np.where(starved, AS_BEST[instead], state)
        role = ROLE[state]
        reason = np.where(starved, np.where(unseen, why.UNSEEN, why.STARVED), reason)
        # The RTT's range contains the flow's start for ever, so only the rate and the losses can tell
        # something new.
        # An arm that starves on this path is no reason to leave an arm that does not.
        unfit = again & (role != self._role(slots)) & (lossy | swings) & ~starved
        given = ready | unfit | np.isin(reason, why.TRIALS)
        at = slots[given]
        self._other_arm(at, shorter[given])
        self._state[at] = state[given]
        self._code[at] = reason[given]
        self._value[at] = np.where(starved, self._surprise.more(slots), np.select(where, shown, ratio))[given]
        probing = given & (role == PROBING)
        probed = slots[probing]
        self._probe(probed, state[probing], np.full(probed.shape, self._now_ns), settings.rival_s)
        self._learn(at)

    def _compare(self, slots: Slots, fell: Bools, losing: Bools, steady: Bools, now_ns: Floats) -> None:
        """The probing arm shows what the path has, because the arm fell, loses most of its reward, or ran
        alone. All arrays have the shape (n,).
        """
        left, lost = self._surprise.left(slots), self._surprise.lost(slots)
        self._code[slots] = np.select((fell, losing), (why.SURPRISED, why.LOSING), why.ALONE)
        self._value[slots] = np.select((fell, losing), (left, lost), np.nan)
        self._was_steady[slots] = steady
        # BBR loses packets at a policer until it has seen the policer's rate, which takes as long again.
        rtts = np.where(losing, 2, 1) * COMPARE_RTTS
        hold_s = np.maximum(self._settings.start_s / 2, rtts * self._looks.mean_us[slots] * 1e-6)
        self._probe(slots, State.COMPARES, now_ns, hold_s)

    def _return(self, slots: Slots) -> None:
        """The RTT is as low as before its rise: the path is the same, and all that was shown on it counts.

        The steady arm begins without that queue, unless it starves.
        """
        self._surprise.copy(slots, self._shown_before)
        self._was_us[slots] = 0.0
        steady = np.full(slots.shape, STEADY)
        starves = self._surprise.barred(slots, steady, self._now_ns) | self._surprise.lacks(slots, steady)
        self._empty(slots[~starves], why.SAME, self._looks.floor_us[slots[~starves]])
        self._run_best(slots[starves])

    def _leave(self, slots: Slots) -> None:
        """These players' arms starve beside what another one has shown, which takes over."""
        self._bar(slots, self._role(slots))
        self._run_best(slots)

    def _run_best(self, slots: Slots) -> None:
        """The arm takes over that has shown the most on the path."""
        self._was_steady[slots] = False
        state = AS_BEST[self._surprise.instead(slots, self._now_ns)]
        self._code[slots] = why.STARVED
        self._value[slots] = self._surprise.more(slots)
        self._other_arm(slots)
        self._state[slots] = state
        again = slots[ROLE[state] == PROBING]
        self._probe(again, State.COMPARES, np.full(again.shape, self._now_ns), self._settings.rival_s)
        self._learn(slots)

    def _bar(self, slots: Slots, role: Ints) -> None:
        """Bar the roles of these players, which starve, shape (n,)."""
        self._surprise.bar(slots, role, self._now_ns)
        self._starved[slots] = True

    def _empty(self, slots: Slots, code: int, shown_us: Floats) -> None:
        """The queue of the arm before stands: the steady arm begins without it, for this reason."""
        self._other_arm(slots)
        self._drain.forget(slots)
        self._looks.grow_anew(slots)
        self._state[slots] = State.STEADY
        self._drained[slots] = True
        self._code[slots] = code
        self._value[slots] = shown_us * 1e-3

    def _other_arm(self, slots: Slots, tried: Bools | None = None) -> None:
        """These players change their arms: what the old one has shown lately is not the new one's.

        `tried`: where a trial of the careful arm begins or has ended, shape (n,); None for nowhere.
        """
        self._surprise.other_arm(slots)
        self._drain.other_arm(slots)
        self._trials.other_arm(slots, np.zeros(slots.shape, np.bool_) if tried is None else tried)

    def _learn(self, slots: Slots) -> None:
        """Remember the roles of these players for their prefixes."""
        for slot in slots.tolist():
            role = int(ROLE[self._state[slot]])
            arm = int(self._flows.of_role[self._siblings.oldest(slot), role])
            prefix = self._siblings.prefix(slot)
            self._roles.learn(prefix, role, self._now_ns)
            if self._overfilled.value(prefix, self._now_ns) is None:
                self._news[prefix] = arm

    def _role(self, players: Slots) -> Ints:
        """The roles of these players, shape (n,)."""
        role: Ints = ROLE[self._state[players]]
        return role

    def _probe(self, slots: Slots, state: States | State, now_ns: Floats, hold_s: Floats | float) -> None:
        """Give these players the probing arm for a time, in one of its states."""
        self._state[slots] = state
        self._drained[slots] = False
        self._since_ns[slots] = now_ns
        self._hold_ns[slots] = np.maximum(hold_s * 1e9, 1.0).astype(np.int64)
        self._drain.forget(slots)
        self._surprise.other_arm(slots)
        self._drain.other_arm(slots)
        self._trials.reset(slots)

    def _ask(self, slots: Slots, now_ns: Floats) -> None:
        """A queue stands that may be another flow's: the probing arm empties it, or shows whose it is."""
        self._drain.ask(slots, self._looks)
        self._code[slots] = why.QUEUED
        self._value[slots] = self._looks.least_us[slots] * 1e-3
        before = self._state[slots]
        self._probe(slots, before, now_ns, self._settings.start_s)
        self._go_on(slots, before, np.full(slots.shape, Outcome.OPEN))

    def _end_asking(self, slots: Slots, now_ns: Floats) -> Bools:
        """Keep the probing arm beside a rival or on a longer path; elsewhere a choice is due: shape (n,)."""
        asks = self._state[slots] == State.ASKS
        at, floor_us = slots[asks], self._looks.floor_us[slots[asks]]
        outcome = self._drain.asked(at, floor_us, self._siblings.alone(at))
        gain, rest_s, asked_ns = self._drain.gain(at), self._drain.rest_s(at), now_ns[asks]
        rival, longer = outcome == Outcome.RIVAL, outcome == Outcome.LONGER_PATH
        due = ~(rival | longer)
        before = self._state[at]
        if rival.any():
            self._probe(at[rival], before[rival], asked_ns[rival], rest_s[rival])
            self._code[at[rival]] = why.RIVAL
            self._value[at[rival]] = gain[rival]
        self._drained[at[~rival]] = True
        self._looks.forget(at[due], floor_us[due])
        if longer.any():
            self._follow(at[longer], longer[longer], self._drain.lowest_us(at[longer]), asked_ns[longer])
        self._go_on(at, before, outcome)
        ready: Bools = ~asks
        ready[asks] = due
        return ready


def _clocks() -> tuple[int, int]:
    """CLOCK_MONOTONIC, by which records tell the time, and how far Unix time is ahead of it, both in ns."""
    now_ns = time.monotonic_ns()
    return now_ns, time.time_ns() - now_ns
