# SPDX-License-Identifier: Apache-2.0
"""The rule: it chooses among four arms, by the RTT and the swing of the rate. It learns nothing.

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
pulse shows whether the careful arm's path has more rate (`pulses`). Where ACKs wait on the way back under the
probing arm, the filling arm, Cubic, shows whether the path has more (`way_back`).

An arm that has won a tournament on the path (`teams`) is a preference: it runs in place of the steady arm or
of another choice. The preference ends where the path changes, or where the arm earns less than the arm before
it had.

The rule decides for players. A player is one or more flows that share a bottleneck (`siblings`). A player has
a state, which moves by the signs of its looks (`transitions`). This file gives the flows of each player their
arms. A young flow probes for itself if its siblings have nothing to share (`newcomers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Indices, PulseKinds, Slots
from ltp_switcher.daemon.choose.chooser import Chooser, Draw, Reasons, Told, Verdict, Verdicts
from ltp_switcher.daemon.choose.clocks import clocks
from ltp_switcher.daemon.choose.path.looks import APP_LIMITED, INTERVAL_NS, TIME_NS, read
from ltp_switcher.daemon.choose.path.pauses import Pauses
from ltp_switcher.daemon.choose.players.newcomers import Newcomers
from ltp_switcher.daemon.choose.players.siblings import Siblings
from ltp_switcher.daemon.choose.rule import reasons as why
from ltp_switcher.daemon.choose.rule.prefixes import Prefixes
from ltp_switcher.daemon.choose.rule.pulses import Pulses
from ltp_switcher.daemon.choose.rule.roles import (
    CAREFUL,
    FILLING,
    FILLS,
    PROBING,
    ROLE_COUNT,
    ROLES,
    STEADY,
    roles_of,
)
from ltp_switcher.daemon.choose.rule.starts import Starts
from ltp_switcher.daemon.choose.rule.states import ROLE, State
from ltp_switcher.daemon.choose.rule.transitions import NOTHING, Transitions
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.slots import SlotArrays, column

DRAIN_RTTS: Final = 3
"""Number of round trips in which a queue is emptied."""


class _Flows(SlotArrays):
    """The values that each flow has of its own."""

    of_role = column(np.uint8, ROLE_COUNT)
    """The arm of each role."""
    role = column(np.intp)
    """Role of the flow: its player's, except while it is young."""
    asks = column(np.uint8)
    """The pulse (`PulseKind`) that the flow should get."""
    starting = column(np.bool_, initial=True)
    """Whether the flow is in its start: the probing arm's turn, but for flows that begin gently."""
    overfilled = column(np.float64, initial=np.nan)
    """Share of the packets that the start of an earlier flow to the prefix lost; NaN for a usual start."""
    gentle = column(np.uint8)
    """The arm of a gentle start for a flow that the kernel began on the probing arm."""


class RuleChooser(Chooser):
    """The rule for all flows of a step at once. Its roles are the probing arm (BBR), the steady arm (LTP),
    the careful arm (Vegas) and the filling arm (Cubic).

    Args:
        pool: ids of the arms that the rule may choose. If a role's own arm is not in the pool, another arm
            takes the role.
        settings: the rule's thresholds.
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward.
        default_arm: id of the module's arm for new flows.
    """

    def __init__(
        self,
        pool: Sequence[int],
        settings: RuleSection,
        *,
        zeta: float = 5.0,
        kappa: float = 2.0,
        default_arm: int = ArmId.CUBIC,
    ) -> None:
        self._settings = settings
        self._flows = _Flows()
        self._pulses = self._flows.part(Pulses())
        self._pauses = self._flows.part(Pauses())
        self._starts = self._flows.part(Starts(zeta=zeta, kappa=kappa))
        self._siblings = Siblings()
        self._players = Transitions(settings, self._siblings, self._pauses, zeta=zeta, kappa=kappa)
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

    keeps_arms = learns_from_teams = True
    needed_step_s = 0.05
    """Longest step that serves the rule, in seconds. A new flow waits one step for its first arm."""

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms that a new flow may run."""
        return self._pool

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Give the roles to these arms, for the flows `slots`; for None, to all open and future flows. Their
        preferences end.
        """
        self._players.preferred[slice(None) if slots is None else self._siblings.player[slots]] = NOTHING
        if slots is None:
            self._pool = tuple(arms)
            self._give_pool(arms, np.arange(self._flows.capacity))
            self._players.may_fill[:] = self._may_fill(arms)
        else:
            self._give_pool(arms, slots)
            self._players.may_fill[self._siblings.player[slots]] = self._may_fill(arms)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. Each flow joins the player of the open flows to its prefix."""
        self._flows.reset(slots)
        self._newcomers.reset(slots)
        self._give_pool(self._pool, slots)
        known = (self._overfilled.value(prefix, self._now_ns) for prefix in prefixes)
        self._flows.overfilled[slots] = [np.nan if share is None else share for share in known]
        self._open_players(self._siblings.open(slots, prefixes))
        self._flows.role[slots] = self._players.role(self._siblings.player[slots])

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
        self._players.looks.correct(self._siblings.player[slots], seen, self._settings.rtt_step)
        self._newcomers.step(slots, self._siblings.player[slots], began_ns, now_ns, fills)
        of_flows = seen
        players, seen, idle, draining = self._siblings.fold(slots, seen, idle, draining)
        self._players.looks.mix(self._siblings.mixed())
        over = self._players.take(players, seen, idle, draining)
        self._now_ns = int(seen[TIME_NS].max(initial=self._now_ns))
        if over.any():
            ended, ended_ns = players[over], seen[TIME_NS, over]
            self._learn(self._players.look(ended, seen[:, over], self._now_ns))
            self._open_players(self._siblings.look(slots, ended, ended_ns))
        of = self._siblings.player[slots]
        role = self._players.role(of)
        young = (role == STEADY) & self._newcomers.young(slots, now_ns)
        young &= ~self._players.few(of)
        self._flows.role[slots] = np.where(young, PROBING, role)
        arms = self._flows.of_role[slots, self._flows.role[slots]]
        arms = self._start(slots, young, of_flows, records["arm"], arms)
        # The arm of a pinned flow is not ours to choose.
        arms = np.where(flags & PINNED, records["want_arm"], arms)
        may = (records["arm"] == arms) & self._siblings.leads(slots) & ((flags & APP_LIMITED) == 0)
        careful, filling = (may & (self._flows.role[slots] == role) for role in (CAREFUL, FILLING))
        waits = self._players.acks_wait(of)
        self._flows.asks[slots] = self._pulses.step(slots, records, careful, filling, waits)
        share = self._players.looks.share[of] * self._siblings.jain(of)
        return Draw(arms, share, np.zeros(slots.shape, np.bool_))

    def together(self, slots: Slots) -> Indices | None:
        """The player of each flow, shape (n,); None if each flow is a player of its own."""
        return self._siblings.player[slots] if self._siblings.several else None

    def free(self, slots: Slots) -> Bools:
        """True where the rule neither probes nor tests, so that another arm may run, shape (n,)."""
        return np.asarray((self._flows.role[slots] != PROBING) & (self._flows.role[slots] != FILLING))

    def drains(self, slots: Slots, records: RecordArray) -> Bools:
        """True where the steady arm has to empty a queue, shape (n,): in a test, or in its first round trips
        on a changed path.
        """
        of = self._siblings.player[slots]
        early = (records["round_trips"] < DRAIN_RTTS) & self._players.drained[of]
        least_us = records["rtt_stat"]["min"].astype(np.float64)
        empties = self._players.drain.empties(of, least_us, self._now_ns)
        found: Bools = (early | empties) & (self._flows.role[slots] == STEADY)
        return found

    def asks(self, slots: Slots) -> PulseKinds:
        """The pulses that flows should get after the last step, shape (n,)."""
        found: PulseKinds = self._flows.asks[slots]
        return found

    def whole(self, slots: Slots) -> Bools:
        """True for flows that take their whole windows to the filling arm, shape (n,)."""
        found: Bools = self._flows.role[slots] == FILLING
        return found

    def begins_anew(self, slots: Slots) -> Bools:
        """True where a test of the queue has begun since the last call, shape (n,). The learned arm begins
        anew then.
        """
        return self._players.drain.begun(self._siblings.player[slots])

    def starved(self, slots: Slots) -> Bools:
        """True where the self-check barred an arm of the flow's player since the last call, shape (n,)."""
        players = self._siblings.player[slots]
        found: Bools = self._players.starved[players]
        self._players.starved[players] = False
        return found

    def preferable(self, arms: Sequence[int]) -> tuple[int, ...]:
        """The arms of the roles that run where nothing is tested. The filling arm has no such role."""
        roles = roles_of(arms)[: len(ROLES)].tolist()
        return tuple(arm for arm in arms if arm in roles)

    def prefer(self, slots: Slots, arm: int) -> None:
        """Let the players of these flows run this arm while nothing speaks against it."""
        given = self._flows.of_role[slots, : len(ROLES)] == arm
        roles = np.where(given.any(axis=1), given.argmax(axis=1), NOTHING)
        self._players.prefer(self._siblings.player[slots], roles)

    def verdicts(self, slots: Slots) -> Verdicts | None:
        """The news since the last call that end a preference, shape (n,); None if there are none."""
        players = self._siblings.player[slots]
        found: Verdicts = self._players.verdict[players]
        if not found.any():
            return None
        self._players.verdict[players] = Verdict.NONE
        return found

    def starts(self) -> dict[str, int]:
        """The arms of the prefixes that were probed since the last call."""
        news, self._news = self._news, {}
        return news

    def reason(self, slots: Slots) -> Reasons:
        """The measurement behind the role of each flow's player. A young flow's reason is its own start."""
        of, share = self._siblings.player[slots], self._flows.overfilled[slots]
        young = self._flows.role[slots] != self._players.role(of)
        own = np.where(np.isnan(share), why.NEW, why.GENTLE)
        return Reasons(
            np.where(young, own, self._players.code[of]),
            np.where(young, 100 * share, self._players.value[of]),
        )

    def path(self, slots: Slots) -> Told:
        """The known numbers of the path of each flow's player."""
        return self._players.path.numbers(self._siblings.player[slots], self._now_ns)

    def state(self) -> dict[str, np.ndarray]:
        """The memories of prefixes, as arrays by name. They contain nothing about single flows."""
        now_ns, ahead_ns = clocks()
        return {name: memory.state(now_ns, ahead_ns) for name, memory in self._memories.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `state`. A state of another policy or an earlier release lacks some arrays.

        Raises `ArtifactError` if it does not fit.
        """
        now_ns, ahead_ns = clocks()
        for name, memory in self._memories.items():
            if name in arrays:
                memory.restore(arrays[name], now_ns, ahead_ns)
        self._now_ns = max(self._now_ns, now_ns)

    def _open_players(self, players: Slots) -> None:
        """Let new players probe, or begin with the careful arm where their prefix is known for it."""
        self._players.reset(players)
        self._players.may_fill[players] = self._may_fill(self._pool)
        self._newcomers.found(players)
        for player in players.tolist():
            first = self._siblings.oldest(player)
            if self._roles.value(self._siblings.prefix(player), self._now_ns) == CAREFUL:
                self._players.begin(player, State.FOLLOWS, why.KNOWN)
            elif self._flows.starting[first] and not np.isnan(self._flows.overfilled[first]):
                self._players.begin(player, State.PROBES, why.GENTLE, 100 * self._flows.overfilled[first])

    def set_default_arm(self, arm: int) -> None:
        """Take note that the module begins new flows on another arm from now on; `arm` is its id. Open flows
        keep the arms of their starts.
        """
        self._default_arm = arm

    def _give_pool(self, arms: Sequence[int], slots: Slots) -> None:
        """Let these flows choose among these arms."""
        roles = roles_of(arms)
        self._flows.of_role[slots] = roles
        self._flows.gentle[slots] = self._default_arm if self._usable(arms) else roles[PROBING]

    def _usable(self, arms: Sequence[int]) -> bool:
        """Return whether flows with these arms may run the module's arm for new flows. It is nobody's choice,
        but a flow with arms of its own stays among them.
        """
        return self._default_arm in arms or tuple(arms) == self._pool

    def _may_fill(self, arms: Sequence[int]) -> bool:
        """Return whether flows with these arms may run the filling arm."""
        return FILLS in arms or (self._default_arm == FILLS and self._usable(arms))

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
        first = self._players.state[self._siblings.player[slots]] == State.PROBES
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

    def _learn(self, slots: Slots) -> None:
        """Remember the roles of these players for their prefixes."""
        for slot in slots.tolist():
            role = int(ROLE[self._players.state[slot]])
            arm = int(self._flows.of_role[self._siblings.oldest(slot), role])
            prefix = self._siblings.prefix(slot)
            self._roles.learn(prefix, role, self._now_ns)
            if self._overfilled.value(prefix, self._now_ns) is None:
                self._news[prefix] = arm
