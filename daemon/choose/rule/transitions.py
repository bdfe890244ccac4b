# SPDX-License-Identifier: Apache-2.0
"""The moves of players from state to state.

A look is the time over which a player's measurements are summed up. When it ends, its signs come first: they
call for another path, a test, a comparison, or another arm. The path is judged, and the player gets a role,
where the probing arm has shown enough, or where a settled arm shows no sign. `states.NEXT` lists the moves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints, Slots
from ltp_switcher.daemon.choose.chooser import Verdict
from ltp_switcher.daemon.choose.path.looks import ROUND_TRIPS, TIME_NS, Looks
from ltp_switcher.daemon.choose.path.model import BEHIND_QUEUE, PathModel
from ltp_switcher.daemon.choose.path.pauses import Pauses
from ltp_switcher.daemon.choose.players.siblings import Siblings
from ltp_switcher.daemon.choose.rule import reasons as why
from ltp_switcher.daemon.choose.rule.drain import AFTER, EMPTY, Drain, Outcome, Outcomes
from ltp_switcher.daemon.choose.rule.roles import CAREFUL, FILLING, PROBING, STEADY
from ltp_switcher.daemon.choose.rule.states import AS_BEST, ROLE, State, States
from ltp_switcher.daemon.choose.rule.surprise import NEARLY, Found, Surprise
from ltp_switcher.daemon.choose.rule.trials import STEADY_US, Trials
from ltp_switcher.daemon.choose.rule.way_back import LONGEST_S, TRIAL_S, WayBack
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.slots import SlotArrays, column

RENO_PKTS: Final = 1.22
"""Reno's mean window, in packets, times the square root of the loss rate: sqrt(3/2) (Mathis et al., 1997)."""
QUEUE_RISES: Final = 2.0
"""A high RTT calls for a test of the queue after this multiple of the time that shows a longer path."""
COMPARE_RTTS: Final = 16
"""Number of round trips in which the probing arm fills a path and shows its rate."""
FULL_AT: Final = 2.0
"""If the RTT is this multiple of the floor, the path is full, and the probing arm has nothing to fill."""
FULL_RESTS: Final = 4.0
"""The filling arm stays for this multiple of the time beside a rival. Then the probing arm is asked anew. The
next stay is twice as long.
"""
HOLD_MAX: Final = 5
"""Largest hold of the probing arm while the rate grows, as a multiple of the usual hold."""
PAUSES: Final = 0.25
"""Least share of the time in which the application pauses with which BBR stays."""
STUCK_S: Final = 5.0
"""Longest time that the careful arm's queue may need to empty, at one packet in each round trip, in seconds.
An arm with a longer queue is stuck.
"""
NOTHING: Final = -1
"""The number that stands for no role, because the player prefers none."""


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
    acks_wait: Bools
    """ACKs wait on the way back under the probing arm, and a trial of the filling arm is due."""
    freed: Bools
    """The probing arm earns less than twice as much as an arm that it replaced. A choice is due at once."""

    @property
    def any(self) -> Bools:
        """True where a player has a sign."""
        found: Bools = self.changed | self.asked | self.starves | self.compared | self.stuck | self.acks_wait
        return found

    @property
    def compared(self) -> Bools:
        """True where the probing arm has to show what the path has."""
        found: Bools = self.fell | self.alone | self.losing
        return found


class Transitions(SlotArrays):
    """The states of players, and the moves from one state to the next.

    The slots of its columns are numbers of players.

    Args:
        settings: the rule's thresholds.
        siblings: the flows of each player.
        pauses: how much of the time the application of each flow pauses.
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward.
    """

    state = column(np.intp)
    """The present `State` of the player."""
    code = column(np.intp)
    """The reason of the state."""
    value = column(np.float64, initial=np.nan)
    """The number that the reason's text contains."""
    drained = column(np.bool_)
    """Whether the steady arm begins with a small window: the RTT fell, or a test found no other flow."""
    may_fill = column(np.bool_)
    """Whether the filling arm is among the arms that the player's flows may run."""
    starved = column(np.bool_)
    """Whether the self-check has barred an arm; the reader sets it back."""
    preferred = column(np.intp, initial=NOTHING)
    """The role whose arm won a tournament on the path, and runs in place of the rule's choice; `NOTHING` if
    there is none.
    """
    verdict = column(np.uint8)
    """The last `Verdict` on the player's path; the reader sets it back."""
    _instead_of = column(np.intp)
    """The role that the rule had chosen when the preference began; the preferred role itself in a start."""
    _since_ns = column(np.int64)
    """Start of the flow, or of its present path; 0 before the first record."""
    _hold_ns = column(np.int64)
    """Time for which the probing arm runs from `_since_ns` on."""
    _was_steady = column(np.bool_)
    """Whether the comparison under way is between the steady arm and the probing arm."""
    _was_us = column(np.float64)
    """The RTT floor before it rose, while the probing arm shows whether the path is longer; else 0."""

    def __init__(
        self, settings: RuleSection, siblings: Siblings, pauses: Pauses, *, zeta: float, kappa: float
    ) -> None:
        super().__init__()
        self._settings = settings
        self._siblings = siblings
        self._pauses = pauses
        self.looks = self.part(Looks(zeta=zeta, kappa=kappa))
        self.path = self.part(PathModel())
        self.drain = self.part(Drain(settings))
        self._trials = self.part(Trials())
        self._way_back = self.part(WayBack())
        self._surprise = self.part(Surprise())
        self._shown_before = self.part(Surprise())
        self._now_ns = 0

    def begin(self, player: int, state: State, code: int, value: float = np.nan) -> None:
        """Begin a new player in this state, for this reason."""
        self.state[player], self.code[player], self.value[player] = state, code, value

    def take(self, players: Slots, seen: Floats, idle: Bools, draining: Bools) -> Bools:
        """Add a step's records to the looks of these players; see `looks.Looks.take` for the arguments.

        Returns:
            True where a look is over, shape (n,).
        """
        over = self.looks.take(players, seen, idle, draining)
        new = self._since_ns[players] == 0
        if new.any():
            self._since_ns[players[new]] = self.looks.began_ns[players[new]]
            self._hold_ns[players[new]] = max(1, int(self._settings.start_s * 1e9))
        return over

    def prefer(self, players: Slots, roles: Ints) -> None:
        """Let players run the arms of these roles while nothing speaks against them; both arrays have the
        shape (n,).
        """
        self.preferred[players] = roles
        # A flow in its start has not run the arm that the preferred one beat.
        starts = self.state[players] == State.PROBES
        self._instead_of[players] = np.where(starts, roles, self.role(players))

    def role(self, players: Slots) -> Ints:
        """The roles of these players, shape (n,)."""
        role: Ints = ROLE[self.state[players]]
        return role

    def acks_wait(self, slots: Slots) -> Bools:
        """True where ACKs waited on the way back in the last look, shape (n,)."""
        return self._way_back.waits(slots)

    def few(self, slots: Slots) -> Bools:
        """True where the path holds fewer packets than the probing arm's least window, shape (n,)."""
        return self._case("few-packets", self.looks.holds_few(slots))

    def _case(self, name: str, found: Bools) -> Bools:
        """True where a special case was found, unless the settings leave it out, of the same shape."""
        return np.zeros_like(found) if name in self._settings.without else found

    def look(self, slots: Slots, seen: Floats, now_ns: int) -> Slots:
        """End a look of these players: measure, go by signs, and give roles.

        Args:
            slots: players, shape (n,).
            seen: as `looks.read` gives it, shape (fields, n).
            now_ns: time of the step, by the clock of the records.

        Returns:
            The players whose paths have been judged, so that their roles are worth remembering.
        """
        self._now_ns = now_ns
        looks, ended_ns, role = self.looks, seen[TIME_NS], self.role(slots)
        self.path.look(slots, looks.measure(slots, seen), ended_ns)
        least_us = looks.least_us[slots]
        settled = seen[ROUND_TRIPS] >= self._settings.settle_rtts
        signs = self._signs(slots, seen, role, settled)
        self._end_preferences(slots, role, signs)
        # The drained steady arm shows the floor, which BBR's start or test did not show.
        kept = (role == PROBING) | (signs.judged & ~signs.changed)
        kept |= self.drained[slots] & (role == STEADY) & ~settled
        looks.lower(slots[kept], least_us[kept], self._settings.rtt_step)
        self._go_by(signs, slots, role, least_us, ended_ns)
        same = (self.state[slots] == State.PROBES) & (looks.floor_us[slots] < EMPTY * self._was_us[slots])
        chosen = [slots[signs.starves]]
        if same.any():
            chosen.append(self._return(slots[same]))
        ready = (role == PROBING) & ~signs.starves & ~same & (self._ready(slots, ended_ns) | signs.freed)
        if (self.role(slots) == FILLING).any():
            ready |= self._end_filling(slots, ended_ns)
            self._end_stay(slots, ended_ns)
        staying = signs.judged & ~signs.any
        self._trials.look(slots[staying], looks)
        # The filling arm keeps a queue on every path, and pulses move its rate.
        staying &= role != FILLING
        if (ready | staying).any():
            chosen.append(self._judge(slots, ready, staying))
        looks.begin(slots, seen)
        return np.concatenate(chosen)

    def _signs(self, slots: Slots, seen: Floats, role: Ints, settled: Bools) -> _Signs:
        """The findings of a look that call for another state. A test of the arm's own queue may begin or end.

        Args:
            slots: players, shape (n,).
            seen: as `looks.read` gives it, shape (fields, n).
            role: their roles, shape (n,).
            settled: True where the queue of the earlier arm has drained, shape (n,).
        """
        looks, settings, now_ns = self.looks, self._settings, seen[TIME_NS]
        probing, steady = role == PROBING, role == STEADY
        least_us = looks.least_us[slots]
        drains = self.state[slots] == State.DRAINS
        # While an arm empties the queue, the RTT is not the arm's own, and the next arm would find an empty
        # path.
        judged = ~probing & settled & ~looks.drained[slots] & ~drains
        own_us = np.where(steady, STEADY_US, 0.0)
        shorter, rose, high_s = self.drain.look(slots, looks, own_us, seen)
        others = self._end_drain(slots, now_ns)
        high = self._case("drain", judged & steady & (high_s >= settings.rise_s))
        judged &= ~self._begin_drain(slots, high, rose, now_ns)
        stands = judged & (high_s >= QUEUE_RISES * settings.rise_s)
        # The test does not come again at once, because the queue may be another flow's.
        again = now_ns - self._since_ns[slots] >= settings.change_s * 1e9
        asked = others | self._case("drain", stands & steady & again)
        # On a path whose rate varies, the lowest RTT falls whenever the queue does.
        moves = self.state[slots] == State.FOLLOWS
        # A path may become shorter while the earlier arm's queue drains. The window of the longer path would
        # fill the buffer, and so hide that for good.
        draining = looks.drained[slots] | self.drained[slots] | drains
        early = steady & ~settled & ~draining
        # The filling arm keeps a queue on every path.
        longer = rose & (role != FILLING)
        changed = self._case("drain", (judged & ((shorter & ~moves) | longer)) | (early & shorter))
        asked &= ~changed
        acks_wait = self._way_back.look(slots, looks, seen)
        found = self._check(slots, seen, role, judged)
        starves, fell, alone, losing, freed = (sign & ~changed & ~asked for sign in found)
        freed &= self.state[slots] == State.COMPARES
        stuck = stands & (role == CAREFUL) & self._siblings.alone(slots)
        stuck &= looks.backlog_pkts(slots) * least_us * 1e-6 > STUCK_S
        stuck &= ~(changed | asked | starves | fell | alone | losing)
        acks_wait &= self._may_try_filling(slots) & ~freed
        # If the filling arm has earned more before, its window has to grow anew.
        starves &= ~acks_wait
        return _Signs(judged, changed, rose, asked, starves, fell, alone, losing, stuck, acks_wait, freed)

    def _check(self, slots: Slots, seen: Floats, role: Ints, judged: Bools) -> Found:
        """The findings of the self-check; none if the settings leave it out.

        Args:
            slots: players, shape (n,).
            seen: as `looks.read` gives it, shape (fields, n).
            role: their roles, shape (n,).
            judged: true where the look is the arm's own, shape (n,).
        """
        looks, settings = self.looks, self._settings
        if not settings.self_check:
            return Found(*np.zeros((len(Found._fields), slots.size), np.bool_))
        # In a gentle start the probing arm does not run.
        shows = judged | ((role == PROBING) & (self.code[slots] != why.GENTLE))
        shows &= ~self._grows(slots)
        earned = np.where(shows, looks.earned[slots], np.nan)
        whole, floor_us, least_us = looks.whole[slots], looks.floor_us[slots], looks.least_us[slots]
        high_us = settings.rtt_step * floor_us
        # A queue on the way back does not tell that the link has no more.
        elsewhere = self._way_back.elsewhere(slots, looks, seen)
        stands = (least_us > high_us) & ~elsewhere
        stretch = np.log(np.where(stands, looks.mean_us[slots] / floor_us, 1.0))
        queued = (role == STEADY) & (least_us > high_us + STEADY_US)
        now_ns = seen[TIME_NS]
        return self._surprise.look(slots, role, earned, whole, floor_us, now_ns, queued, stretch, elsewhere)

    def _may_try_filling(self, slots: Slots) -> Bools:
        """True where the filling arm may have a trial behind a queue of ACKs, shape (n,)."""
        may: Bools = np.isin(self.state[slots], (State.PROBES, State.COMPARES, State.SHALLOW))
        may &= self.may_fill[slots] & self._siblings.alone(slots)
        may &= ~self._surprise.barred(slots, np.full(slots.shape, FILLING), self._now_ns)
        return self._case("way-back", may & self._settings.self_check)

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
        if signs.acks_wait.any():
            self._fill(slots[signs.acks_wait], now_ns[signs.acks_wait])

    def _ready(self, slots: Slots, now_ns: Floats) -> Bools:
        """True where the probing arm has shown what there is to know, shape (n,). Its tests end here."""
        looks, state = self.looks, self.state[slots]
        ratio = looks.rtt_ratio(slots)
        lasted = (now_ns - self._since_ns[slots]) / self._hold_ns[slots]
        # On a long path BBR is still in its start, which is faster than another arm's start.
        held = (lasted >= 1) & (looks.grown[slots] | (lasted >= HOLD_MAX))
        testing = np.isin(state, (State.ASKS, State.BESIDE_RIVAL))
        # Behind another flow's queue the RTT says nothing about the path, and a short buffer stays short.
        varies = self._case("varies", ratio > self._settings.rtt_ratio)
        few = self.few(slots)
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
        starts = (self.state[slots] == State.PROBES) & (self.code[slots] != why.GENTLE)
        starts &= self.looks.overfilled(slots) == 0
        # Another arm would gain by a shorter queue. BBR has no queue if the application asks for less than
        # the path has.
        empty = self._case("no-queue", starts & held & (ratio < BEHIND_QUEUE))
        self.code[slots[empty]] = why.EMPTY
        # Other arms begin slowly after a pause, and a queue is gone when the next request comes.
        at = slots[self._case("pauses", starts & shown & ~empty)]
        at = at[self._siblings.alone(at)]
        flows = np.array([self._siblings.oldest(player) for player in at.tolist()], np.intp)
        share = self._pauses.share(flows)
        at, share = at[share >= PAUSES], share[share >= PAUSES]
        self.code[at] = why.PAUSES
        self.value[at] = 100 * share
        return empty | np.isin(slots, at)

    def _begin_drain(self, slots: Slots, high: Bools, constant: Bools, now_ns: Floats) -> Bools:
        """The steady arm empties the queue where the RTT is high and the queue may be its own: shape (n,)."""
        looks = self.looks
        begin = high & self.drain.due(slots, looks, constant, ~self._siblings.alone(slots), now_ns)
        if begin.any():
            at, least_us = slots[begin], looks.least_us[slots[begin]]
            self.drain.empty(at, looks, constant[begin], looks.floor_us[at], least_us, now_ns[begin])
            self.drain.forget(at)
            self.state[at] = State.DRAINS
            self.code[at] = why.DRAINS
            self.value[at] = least_us * 1e-3
        return begin

    def _end_drain(self, slots: Slots, now_ns: Floats) -> Bools:
        """End the time of small windows; true where a queue still stands, which is another's, shape (n,)."""
        over = self.drain.over(slots, now_ns)
        others = np.zeros(slots.shape, np.bool_)
        if over.any():
            at = slots[over]
            floor_us = self.looks.floor_us[at]
            outcome = self.drain.emptied(at, floor_us)
            others[over] = outcome == Outcome.OPEN
            longer = outcome == Outcome.LONGER_PATH
            known = ~others[over]
            self.looks.forget(at[known], np.where(longer, self.drain.lowest_us(at), floor_us)[known])
            told = self.code[at] == why.DRAINS
            self.code[at[told]] = why.OF_OUTCOME[outcome[told]]
            self._go_on(at[known], self.state[at[known]], outcome[known])
        return others

    def _go_on(self, slots: Slots, before: States, outcome: Outcomes) -> None:
        """Bring players from the states before an outcome into those after it. All arrays have shape (n,)."""
        for (state, found), after in AFTER.items():
            self.state[slots[(before == state) & (outcome == found)]] = after

    def _follow(self, slots: Slots, rose: Bools, least_us: Floats, now_ns: Floats) -> None:
        """Another path: a longer one is probed; on a shorter one the steady arm begins without a queue."""
        self._was_us[slots] = np.where(rose, self.looks.floor_us[slots], 0.0)
        self._shown_before.copy(slots[rose], self._surprise)
        probed = rose | ~self.looks.keeps_rate(slots)
        hold_s = np.where(rose, self._settings.change_s, self._settings.start_s)
        self._probe(slots[probed], State.PROBES, now_ns[probed], hold_s[probed])
        self.drained[slots[probed & ~rose]] = True
        self.looks.forget(slots, least_us)
        self.path.forget(slots)
        self._surprise.forget(slots)
        fell, fell_us = slots[~probed], least_us[~probed]
        self.drain.forget(fell)
        self.drain.other_arm(fell)
        self._trials.reset(fell)
        steady = self.role(fell) != CAREFUL
        self.state[fell] = np.where(steady, State.DRAINS, State.CAREFUL)
        self.looks.grow_anew(fell[steady])
        constant = np.ones(np.count_nonzero(steady), np.bool_)
        fell, fell_us = fell[steady], fell_us[steady]
        self.drain.empty(fell, self.looks, constant, fell_us, fell_us, now_ns[~probed][steady])
        self.code[slots] = np.where(rose, why.ROSE, why.FELL)
        self.value[slots] = least_us * 1e-3

    def _judge(self, slots: Slots, ready: Bools, again: Bools) -> Slots:
        """Give roles where probing ends (`ready`), and other roles where the arm does not fit (`again`). The
        arrays have the shape (n,). Returns the players that got a role.
        """
        looks, settings = self.looks, self._settings
        ratio, swing, lost = looks.rtt_ratio(slots), looks.swing(slots), looks.quiet_loss(slots)
        # Vegas halves its window at a loss, as Reno does, so its window never exceeds this many packets.
        lossy = self._case("lossy", looks.bdp_pkts[slots] * np.sqrt(lost) > RENO_PKTS)
        # A comparison follows a fall. The queue of this fall is no sign of a rate that varies.
        compared = (self.state[slots] == State.COMPARES) & self._was_steady[slots]
        varies = self._case("varies", (ratio > settings.rtt_ratio) & ~compared)
        swings = self._case("swings", swing > settings.rate_swing)
        overfilled = looks.overfilled(slots)
        # The careful arm's own queue says nothing about the buffer, nor does a window above the path's.
        few = self.few(slots)
        filled = self._case("shallow", (overfilled > 0) & (self.role(slots) != CAREFUL) & ~few)
        tries = self._case("trials", again)
        trials = self._trials.findings(slots, self.state[slots], tries, ~lossy & ~swings)
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
        # The RTT's range contains the flow's start for ever, so only the rate and the losses can tell
        # something new.
        unfit = again & (role != self.role(slots)) & (lossy | swings)
        lacks = self._surprise.lacks(slots, role) & (ready | unfit)
        self._bar(slots[lacks], role[lacks])
        starved, more = self._surprise.barred(slots, role, self._now_ns), self._surprise.more(slots, role)
        # An arm that has never run cannot have starved, and the self-check leaves it as soon as it does.
        unseen = self._surprise.unseen(slots, STEADY, self._now_ns)
        instead = np.where(unseen, STEADY, self._surprise.instead(slots, self._now_ns))
        state = np.where(starved, AS_BEST[instead], state)
        role = ROLE[state]
        reason = np.where(starved, np.where(unseen, why.UNSEEN, why.STARVED), reason)
        # An arm that starves on this path is no reason to leave an arm that does not.
        unfit &= ~starved
        prefers = self._prefers(slots)
        state = np.where(prefers, AS_BEST[self.preferred[slots]], state)
        role = ROLE[state]
        reason = np.where(prefers, why.PREFERRED, reason)
        given = ready | (unfit & ~prefers) | np.isin(reason, why.TRIALS)
        # A preferred arm takes over at once, and leaves with its preference.
        given |= again & np.where(prefers, role != self.role(slots), self.code[slots] == why.PREFERRED)
        at: Slots = slots[given]
        self._other_arm(at, shorter[given])
        # The careful arm's losses may have made its rate swing.
        looks.forget_swing(slots[reason == why.EARNED])
        self.state[at] = state[given]
        self.code[at] = reason[given]
        self.value[at] = np.where(starved, more, np.select(where, shown, ratio))[given]
        full = at[state[given] == State.FULL]
        self._stay_full(full, np.full(full.shape, self._now_ns))
        probing = given & (role == PROBING)
        probed = slots[probing]
        self._probe(probed, state[probing], np.full(probed.shape, self._now_ns), settings.rival_s)
        return at

    def _prefers(self, slots: Slots) -> Bools:
        """True where the player prefers an arm that is not barred, shape (n,)."""
        role = self.preferred[slots]
        found: Bools = role != NOTHING
        if found.any():
            found = found & ~self._surprise.barred(slots, role, self._now_ns)
        return found

    def _end_preferences(self, slots: Slots, role: Ints, signs: _Signs) -> None:
        """End the preferences of paths that have changed, and of arms that earn less than the arm before
        them. `role` has the players' roles, shape (n,).
        """
        other = signs.changed | signs.fell | signs.starves
        self.verdict[slots[other]] = Verdict.OTHER_PATH
        self.preferred[slots[other]] = NOTHING
        runs = ~other & (signs.judged | (role == PROBING)) & (self.preferred[slots] == role)
        if runs.any():
            at = slots[runs]
            less = at[self._surprise.below(at, role[runs], self._instead_of[at])]
            self.verdict[less] = Verdict.EARNED_LESS
            self.preferred[less] = NOTHING

    def _compare(self, slots: Slots, fell: Bools, losing: Bools, steady: Bools, now_ns: Floats) -> None:
        """The probing arm shows what the path has, because the arm fell, loses most of its reward, or ran
        alone. All arrays have the shape (n,).
        """
        left, lost = self._surprise.left(slots), self._surprise.lost(slots)
        self.code[slots] = np.select((fell, losing), (why.SURPRISED, why.LOSING), why.ALONE)
        self.value[slots] = np.select((fell, losing), (left, lost), np.nan)
        self._was_steady[slots] = steady
        # BBR loses packets at a policer until it has seen the policer's rate, which takes as long again.
        rtts = np.where(losing, 2, 1) * COMPARE_RTTS
        # On a slow link a queue stretches a round trip to seconds, and the probing arm would keep it.
        rtt_us = np.minimum(self.looks.mean_us[slots], FULL_AT * self.looks.floor_us[slots])
        hold_s = np.maximum(self._settings.start_s / 2, rtts * rtt_us * 1e-6)
        self._probe(slots, State.COMPARES, now_ns, hold_s)

    def _fill(self, slots: Slots, now_ns: Floats) -> None:
        """The filling arm shows whether the path has more than arms take that go by the RTT or the rate."""
        self.code[slots] = why.ACKS_WAIT
        self.value[slots] = self._way_back.queue_us[slots] * 1e-3
        self._way_back.begin_trial(slots)
        self._other_arm(slots)
        self.drain.forget(slots)
        self.state[slots] = State.FILLS
        self._since_ns[slots] = now_ns
        self._hold_ns[slots] = int(TRIAL_S * 1e9)

    def _grows(self, slots: Slots) -> Bools:
        """True where the filling arm's window still grows behind the queue of ACKs, shape (n,). This costs
        reward, and says nothing yet about the arm.
        """
        way = self._way_back
        earns = way.gain(slots, self.looks.earned[slots]) > 0
        grows: Bools = (self.state[slots] == State.FILLS) & (way.waits(slots) | way.gains(slots)) & ~earns
        return grows

    def _end_filling(self, slots: Slots, now_ns: Floats) -> Bools:
        """End the trials of the filling arm that have lasted long enough, or that cost reward. The arm stays
        where it earned about as much as the probing arm, whose rate falls behind a queue of ACKs. True where
        another choice is due, shape (n,).
        """
        way = self._way_back
        costs = (way.costs(slots) & ~self._grows(slots)) | way.too_long(slots)
        fills = way.grows(slots) & (now_ns - self._since_ns[slots] < LONGEST_S * 1e9)
        lasted = self._lasted(slots, now_ns) & ~(fills | way.gains(slots))
        over = (self.state[slots] == State.FILLS) & (costs | lasted)
        gain = way.gain(slots, self._surprise.level(slots, FILLING))
        stays = over & ~costs & (gain > -NEARLY) & (self._surprise.instead(slots, self._now_ns) == FILLING)
        self._stay_full(slots[stays], now_ns[stays])
        self.code[slots[stays]] = why.FILLED
        self.value[slots[stays]] = np.exp(gain[stays])
        ended: Bools = over & ~stays
        worse = slots[ended]
        self._surprise.bar(worse, np.full(worse.shape, FILLING), self._now_ns)
        # The trial's RTTs say nothing about the path, and the next arm should not keep the trial's queue.
        self.looks.forget(worse, self.looks.floor_us[worse])
        self.drained[worse] = True
        return ended

    def _stay_full(self, slots: Slots, now_ns: Floats) -> None:
        """The filling arm stays for a while. `now_ns` has the shape (n,)."""
        self.state[slots] = State.FULL
        self._since_ns[slots] = now_ns
        self._hold_ns[slots] = (FULL_RESTS * self.drain.rest_s(slots) * 1e9).astype(np.int64)

    def _end_stay(self, slots: Slots, now_ns: Floats) -> None:
        """The probing arm shows whether the path still needs the filling arm, whose stay is over."""
        over = (self.state[slots] == State.FULL) & self._lasted(slots, now_ns)
        no = np.zeros(np.count_nonzero(over), np.bool_)
        self._compare(slots[over], no, no, no, now_ns[over])

    def _lasted(self, slots: Slots, now_ns: Floats) -> Bools:
        """True where the time is over for which the arm holds, shape (n,)."""
        over: Bools = now_ns - self._since_ns[slots] >= self._hold_ns[slots]
        return over

    def _return(self, slots: Slots) -> Slots:
        """The RTT is as low as before its rise: the path is the same, and all that was shown on it counts.

        The steady arm begins without that queue, unless it starves. Returns the players where it would.
        """
        self._surprise.copy(slots, self._shown_before)
        self._was_us[slots] = 0.0
        steady = np.full(slots.shape, STEADY)
        starves = self._surprise.barred(slots, steady, self._now_ns) | self._surprise.lacks(slots, steady)
        self._empty(slots[~starves], why.SAME, self.looks.floor_us[slots[~starves]])
        self._run_best(slots[starves], steady[starves])
        return slots[starves]

    def _leave(self, slots: Slots) -> None:
        """These players' arms starve beside what another one has shown, which takes over."""
        starving = self.role(slots)
        self._bar(slots, starving)
        self._run_best(slots, starving)

    def _run_best(self, slots: Slots, starving: Ints) -> None:
        """The arm takes over that has shown the most on the path. `starving` has the roles that would starve
        there, shape (n,).
        """
        self._was_steady[slots] = False
        state = AS_BEST[self._surprise.instead(slots, self._now_ns)]
        self.code[slots] = why.STARVED
        self.value[slots] = self._surprise.more(slots, starving)
        self._other_arm(slots)
        self.state[slots] = state
        full = slots[state == State.FULL]
        self._stay_full(full, np.full(full.shape, self._now_ns))
        again = slots[ROLE[state] == PROBING]
        self._probe(again, State.COMPARES, np.full(again.shape, self._now_ns), self._settings.rival_s)

    def _bar(self, slots: Slots, role: Ints) -> None:
        """Bar the roles of these players, which starve, shape (n,)."""
        self._surprise.bar(slots, role, self._now_ns)
        self.starved[slots] = True

    def _empty(self, slots: Slots, code: int, shown_us: Floats) -> None:
        """The queue of the arm before stands: the steady arm begins without it, for this reason."""
        self._other_arm(slots)
        self.drain.forget(slots)
        self.looks.grow_anew(slots)
        self.state[slots] = State.STEADY
        self.drained[slots] = True
        self.code[slots] = code
        self.value[slots] = shown_us * 1e-3

    def _other_arm(self, slots: Slots, tried: Bools | None = None) -> None:
        """These players change their arms: what the old one has shown lately is not the new one's.

        `tried`: where a trial of the careful arm begins, shape (n,); None for nowhere.
        """
        self._surprise.other_arm(slots)
        self.drain.other_arm(slots)
        self._way_back.forget(slots)
        self._trials.other_arm(slots, np.zeros(slots.shape, np.bool_) if tried is None else tried)

    def _probe(self, slots: Slots, state: States | State, now_ns: Floats, hold_s: Floats | float) -> None:
        """Give these players the probing arm for a time, in one of its states."""
        self.state[slots] = state
        self.drained[slots] = False
        self._since_ns[slots] = now_ns
        self._hold_ns[slots] = np.maximum(hold_s * 1e9, 1.0).astype(np.int64)
        self.drain.forget(slots)
        self._surprise.other_arm(slots)
        self.drain.other_arm(slots)
        self._way_back.forget(slots)
        self._trials.reset(slots)

    def _ask(self, slots: Slots, now_ns: Floats) -> None:
        """A queue stands that may be another flow's: the probing arm empties it, or shows whose it is."""
        self.drain.ask(slots, self.looks)
        self.code[slots] = why.QUEUED
        self.value[slots] = self.looks.least_us[slots] * 1e-3
        before = self.state[slots]
        self._probe(slots, before, now_ns, self._settings.start_s)
        self._go_on(slots, before, np.full(slots.shape, Outcome.OPEN))

    def _end_asking(self, slots: Slots, now_ns: Floats) -> Bools:
        """Keep the probing arm beside a rival or on a longer path; elsewhere a choice is due: shape (n,)."""
        asks = self.state[slots] == State.ASKS
        at, floor_us = slots[asks], self.looks.floor_us[slots[asks]]
        outcome = self.drain.asked(at, floor_us, self._siblings.alone(at))
        gain, rest_s, asked_ns = self.drain.gain(at), self.drain.rest_s(at), now_ns[asks]
        rival, longer = outcome == Outcome.RIVAL, outcome == Outcome.LONGER_PATH
        due = ~(rival | longer)
        before = self.state[at]
        if rival.any():
            self._probe(at[rival], before[rival], asked_ns[rival], rest_s[rival])
            self.code[at[rival]] = why.RIVAL
            self.value[at[rival]] = gain[rival]
        self.drained[at[~rival]] = True
        self.looks.forget(at[due], floor_us[due])
        if longer.any():
            self._follow(at[longer], longer[longer], self.drain.lowest_us(at[longer]), asked_ns[longer])
        self._go_on(at, before, outcome)
        ready: Bools = ~asks
        ready[asks] = due
        return ready
