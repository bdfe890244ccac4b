# SPDX-License-Identifier: Apache-2.0
"""Lots as entries of the module's table, and as outcomes tell them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.told import outcome

from ltp_switcher.daemon.datapath.protocol import ArmId, ControlLaw
from ltp_switcher.daemon.gain.outcomes import prefix_keys
from ltp_switcher.daemon.step.learning import lots, places

ARMS = st.integers(0, 20)


@given(ARMS, ARMS, st.floats(0.0, 0.25), st.integers(0, 2**40), st.booleans())
def test_an_outcome_tells_what_its_visit_drew(
    incumbent: int, trial: int, chance: float, number: int, tries: bool
) -> None:
    pair = np.array([[incumbent, trial]], np.uint8)
    weights = lots.trial_weights(np.array([chance]))
    (generation,) = lots.generations(pair[:, 0], pair[:, 1], number)
    tries &= chance > 0
    weight = weights[0] if tries else 65_535 - weights[0]
    told = outcome(visit=3, generation=int(generation), weight=int(weight), weights=65_535)
    assert lots.drawn(told).tolist() == [trial if tries else incumbent]
    assert lots.incumbents(told["generation"]).tolist() == [incumbent]
    assert generation != 0
    assert not lots.are_pulls(told["generation"], lots.drawn(told))[0]
    # The same plan for a team selection.
    pulls = lots.generations(pair[:, 0], pair[:, 1], number, np.array([True]))
    told["generation"] = pulls
    assert lots.drawn(told).tolist() == [trial if tries else incumbent]
    assert lots.incumbents(pulls).tolist() == [incumbent]
    assert lots.are_pulls(pulls, lots.drawn(told))[0] == (tries or trial == incumbent)
    assert lots.chance(told)[0] == pytest.approx(chance if tries else 1 - chance, abs=1.6e-5)


def test_a_flow_without_a_lot_is_the_decision_s() -> None:
    (generation,) = lots.generations(np.array([3], np.uint8), np.array([2], np.uint8), 7)
    told = np.concatenate(
        [
            # It found no entry.
            outcome(visit=0, generation=int(generation), weight=0, weights=0),
            # The entry was the chooser's.
            outcome(visit=9, generation=0, weight=1, weights=1),
        ]
    )
    assert lots.drawn(told).tolist() == [0, 0]
    assert lots.chance(told).tolist() == [1, 1]


def test_entries_carry_weights_generation_and_first_controls() -> None:
    told = np.concatenate([outcome("192.0.2.9"), outcome("2001:db8:7::9"), outcome("10.1.2.3")])
    keys = places.of_prefixes(prefix_keys(told))
    starts = np.array([[ArmId.LTP, ArmId.BBR], [ArmId.VEGAS, ArmId.LTP], [0, 0]], np.uint8)
    made = lots.entries(keys, starts, np.array([500, 0, 0]), np.array([9, 8, 7], np.uint32), 90)
    assert made["family"].tolist() == [2, 10, 2]
    assert made["bits"].tolist() == [24, 48, 24]
    assert made["addr"][0].tolist() == [192, 0, 2, *[0] * 13]
    assert made["addr"][1].tolist() == [0x20, 0x01, 0x0D, 0xB8, 0, 7, *[0] * 10]
    assert made["generation"].tolist() == [9, 8, 7]
    assert made["lifetime_s"].tolist() == [90] * 3
    choice = made["choice"]
    assert choice["arm"].tolist() == [[ArmId.LTP, ArmId.BBR, 0, 0], [ArmId.VEGAS, 0, 0, 0], [0] * 4]
    assert choice["weight"].tolist() == [[65_035, 500, 0, 0], [65_535, 0, 0, 0], [0] * 4]
    assert choice["law"].tolist() == [[ControlLaw.WINDOW, 0, 0, 0], [0] * 4, [0] * 4]
    assert choice["value"][0, 0].tolist() == [10, 0, 0, 0]
    assert not choice["value"][0, 1:].any()
