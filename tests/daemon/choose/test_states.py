# SPDX-License-Identifier: Apache-2.0
"""The rule's states follow each other as its table says, whatever a path does."""

from __future__ import annotations

import ast
import inspect

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rule_flows import BBR, LTP, VEGAS, run

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.rule import states
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.choose.rule.states import NEXT, State
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.settings.rule_policy import RuleSection


class Told(RuleChooser):
    """Tells each change of the first player's state."""

    def __init__(self) -> None:
        super().__init__([BBR, LTP, VEGAS], RuleSection())
        self.changes: set[tuple[State, State]] = set()

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        before = State(self._players.state[0])
        draw = super().step(slots, records, given)
        after = State(self._players.state[0])
        if after != before:
            self.changes.add((before, after))
        return draw


worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "rtt_ms": st.floats(2.0, 80.0),
        "sd": st.sampled_from([0.0, 0.05, 0.6]),
        "starving": st.sampled_from([0, LTP, VEGAS]),
        "lost": st.sampled_from([0.0, 0.0, 0.02]),
        "every_s": st.sampled_from([3.0, 8.0]),
    }
)


@settings(max_examples=8, deadline=None)
@given(worlds)
def test_states_follow_each_other_as_the_table_says(world: dict[str, float]) -> None:
    """Rate, RTT, losses and arms of the path change every few seconds."""
    rng = np.random.default_rng(int(world["seed"]))
    rates, floors, queues = rng.uniform(0.1, 1.0, 20), rng.uniform(0.5, 2.5, 20), rng.uniform(0.0, 3.0, 20)
    noise = rng.normal(0.0, world["sd"], 4000)

    def under(t: float, arm: int) -> tuple[float, float]:
        era = int(t / world["every_s"])
        share = 0.1 if arm == world["starving"] else 1.0
        rate = rates[era] * share * np.exp(noise[int(t / 0.3)])
        return world["rtt_ms"] * (floors[era] + queues[era] * (t % 1.0 > 0.5)), float(rate)

    chooser = Told()
    run(under=under, duration_s=20.0, chooser=chooser, lost=lambda t: world["lost"] * (t > 10.0))
    assert chooser.changes
    for before, after in chooser.changes:
        assert after in NEXT[before], f"{before.name} -> {after.name}"


def test_each_state_is_documented_and_has_a_way_out_and_a_way_in() -> None:
    body = ast.parse(inspect.getsource(states.State)).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = [node for node in body.body if isinstance(node, ast.Expr)]
    assert len(texts) == 1 + len(State)
    assert set(NEXT) == set(State)
    reached = set().union(*NEXT.values())
    assert reached == set(State)
