# SPDX-License-Identifier: Apache-2.0
"""The policy `mutant`: LinUCB over the rule, the default policy. The policy can learn to be better than the
rule. Its trials of other arms, a small share of the time, are the price for this.

The rule's arm runs until the rewards of flows to the same destination prefix prove that another arm is
better. Now and then another arm also runs as a trial, so that its reward becomes known (`bandit.guard`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Indices, PulseKinds, Slots
from ltp_switcher.daemon.choose.bandit import MutantAgent, StepResult
from ltp_switcher.daemon.choose.bandit.guard import Baseline
from ltp_switcher.daemon.choose.chooser import Chooser, Estimate, Reasons, Told, Verdicts
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray


class GuardedChooser(Chooser):
    """Chooses by the rule, the default policy, and by the bandit that may overrule it. Both see the same
    steps.
    """

    keeps_arms = learns_from_teams = True
    needed_step_s = RuleChooser.needed_step_s
    """The longest step that serves the rule, in seconds. With other steps the rule would measure at other
    times, and choose other arms.
    """

    def __init__(self, rule: RuleChooser, agent: MutantAgent) -> None:
        self._rule, self._agent, self.encoder = rule, agent, agent.encoder
        self._ruled = len(rule.reasons)
        self.reasons: Sequence[str] = (*rule.reasons, *agent.guarded_reasons)

    def free(self, slots: Slots) -> Bools:
        """True where the rule neither probes nor tests the path, shape (n,)."""
        return self._rule.free(slots)

    def drains(self, slots: Slots, records: RecordArray) -> Bools:
        """True where the rule wants the flow's queue emptied, shape (n,)."""
        return self._rule.drains(slots, records)

    def asks(self, slots: Slots) -> PulseKinds:
        """The pulses by which the rule wants to probe the paths of flows for more rate, shape (n,)."""
        return self._rule.asks(slots)

    def whole(self, slots: Slots) -> Bools:
        """True for flows that take their whole windows to the rule's filling arm, shape (n,)."""
        return self._rule.whole(slots)

    def starved(self, slots: Slots) -> Bools:
        """True where the rule has barred an arm since the last call, because the arm earned too little, shape
        (n,).
        """
        return self._rule.starved(slots)

    def preferable(self, arms: Sequence[int]) -> tuple[int, ...]:
        """The arms that the rule could prefer."""
        return self._rule.preferable(arms)

    def prefer(self, slots: Slots, arm: int) -> None:
        """Let the rule's arm be this one while nothing speaks against it."""
        self._rule.prefer(slots, arm)

    def verdicts(self, slots: Slots) -> Verdicts | None:
        """The news since the last call that end a preference, shape (n,); None if there are none."""
        return self._rule.verdicts(slots)

    def begins_anew(self, slots: Slots) -> Bools:
        """True where, since the last call, the rule has asked the learned arm, LTP, to forget the flow, shape
        (n,).
        """
        return self._rule.begins_anew(slots)

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms that a new flow may run."""
        return self._agent.pool

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Choose among these arms. Raises `InvalidValueError` if the pool is empty, or if this machine lacks
        an arm.
        """
        self._agent.set_pool(arms, slots)
        self._rule.set_pool(arms, slots)

    def set_default_arm(self, arm: int) -> None:
        """Take note that the module begins new flows on another arm from now on; `arm` is its id. Open flows
        keep the arms of their starts.
        """
        self._rule.set_default_arm(arm)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Begin new flows with the knowledge about their prefixes."""
        self._rule.open(slots, prefixes)
        self._agent.open(slots, prefixes)

    def close(self, slots: Slots) -> None:
        """End flows."""
        self._rule.close(slots)
        self._agent.close(slots)

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> StepResult:
        """Choose the arm of every flow of a step. Only the bandit learns from arms that flows try for team
        selection (the search for a path's best arms).
        """
        arms = self._rule.step(slots, records, given).arms
        return self._agent.step(slots, records, given, Baseline(arms, self._rule.free(slots)))

    def together(self, slots: Slots) -> Indices | None:
        """The player of each flow, shape (n,). Flows of one player share a bottleneck, as far as the rule can
        tell.
        """
        return self._rule.together(slots)

    def starts(self) -> dict[str, int]:
        """The arms on which new flows should begin, for each prefix that the rule has probed since the last
        call.
        """
        return self._rule.starts()

    def reason(self, slots: Slots) -> Reasons:
        """The rule's reason if the rule's arm runs, and the bandit's reason for other arms."""
        by_rule, learnt = self._rule.reason(slots), self._agent.guarded_reason(slots)
        rules = learnt.code < 0
        return Reasons(
            np.where(rules, by_rule.code, self._ruled + learnt.code),
            np.where(rules, by_rule.value, learnt.value),
        )

    def path(self, slots: Slots) -> Told | None:
        """The numbers that the rule has measured on the flows' paths."""
        return self._rule.path(slots)

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """Mean and bounds of the reward for every arm of the flow's pool."""
        return self._agent.estimates(slot)

    def state(self) -> dict[str, np.ndarray]:
        """The knowledge that is not about single flows, as arrays by name."""
        return {**self._rule.state(), **self._agent.state()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `state`. Raises `ArtifactError` if it does not fit."""
        self._agent.restore(arrays)
        self._rule.restore(arrays)
