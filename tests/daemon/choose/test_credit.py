# SPDX-License-Identifier: Apache-2.0
"""Credit with every place taken: all decisions of the ring, all epochs of a record."""

import numpy as np
import pytest
from support.records import record

from ltp_switcher.daemon.choose.bandit.credit import Decisions

RTT_US, MS = 40_000, 1_000_000
SLOT = np.array([0])
EPOCHS = 4
"""Epochs that the module can credit in a record."""


def decided(depth: int, arms: list[int], every_ms: int = 10) -> Decisions:
    """A flow's decisions, one each `every_ms`; the context of each is its number."""
    made = Decisions(1, "sent", depth)
    made.reset(SLOT)
    for n, arm in enumerate(arms):
        made.make(SLOT, np.array([arm]), np.array([[float(n)]]), np.array([n * every_ms * MS]))
    return made


def credited(at_ms: int, delivered: dict[int, int]) -> np.ndarray:
    """A record whose epochs were sent by these arms, with so many packets of each."""
    made = record(1, time_ns=at_ms * MS, srtt_us=RTT_US)
    for epoch, (arm, packets) in enumerate(delivered.items()):
        credit = made["credit"][0, epoch]
        credit["arm"], credit["time_ns"], credit["delivered"] = arm, MS, packets
        made["credit"][0, epoch] = credit
    return made


def harvest(made: Decisions, at_ms: int) -> dict[float, tuple[int, float]]:
    """Arm and packets of each decision that is ripe, by its context."""
    found = {}
    for _ in range(made.depth):
        earned = made.ripe(SLOT, np.array([at_ms * MS]), np.array([float(RTT_US)]))
        for arm, z, counts in zip(earned.arms, earned.z, earned.counts, strict=True):
            found[float(z[0])] = int(arm), float(counts[1])
    return found


def test_all_epochs_of_a_record_reach_the_decisions_that_sent_them() -> None:
    made = decided(EPOCHS + 1, [2, 3, 5, 7, 9])
    sent = {2: 11, 3: 13, 5: 17, 7: 19}
    made.fold(SLOT, credited(85, sent), np.array([85 * MS]))
    assert harvest(made, 200) == {0.0: (2, 11.0), 1.0: (3, 13.0), 2.0: (5, 17.0), 3.0: (7, 19.0)}


def test_a_full_ring_forgets_its_oldest_decision_and_credits_no_other_with_its_data() -> None:
    made = decided(EPOCHS, [2, 3, 5, 7, 9])
    made.fold(SLOT, credited(85, {2: 11, 3: 13, 5: 17, 7: 19}), np.array([85 * MS]))
    # The decision in force took the forgotten one's place. It earns too, but is not over.
    made.fold(SLOT, credited(95, {9: 23}), np.array([95 * MS]))
    assert harvest(made, 200) == {1.0: (3, 13.0), 2.0: (5, 17.0), 3.0: (7, 19.0)}


@pytest.mark.parametrize(("at_ms", "earns"), [(59, 0.0), (61, 2.0)])
def test_of_two_decisions_for_an_arm_the_newest_that_had_begun_earns(at_ms: int, earns: float) -> None:
    """The arm is chosen at 0 and at 20 ms; data that comes back at 61 ms left at 21 ms."""
    made = decided(EPOCHS, [2, 3, 2, 5])
    made.fold(SLOT, credited(at_ms, {2: 11}), np.array([at_ms * MS]))
    assert harvest(made, 200) == {earns: (2, 11.0)}


def test_data_of_an_arm_that_nobody_chose_is_credited_to_nobody() -> None:
    made = decided(EPOCHS, [2, 3, 5, 7])
    made.fold(SLOT, credited(85, {4: 11}), np.array([85 * MS]))
    assert harvest(made, 200) == {}
