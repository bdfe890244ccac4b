# SPDX-License-Identifier: Apache-2.0
"""Who is held back, and when."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.gain.rollout import StageTrial
from ltp_switcher.daemon.gain.rows import Group
from ltp_switcher.daemon.gain.trial import Trial

PREFIXES = [f"10.{a}.{b}.0/24" for a in range(100) for b in range(100)]


def test_a_holdback_keeps_its_share_of_the_prefixes_and_the_seed_says_which() -> None:
    one, same, other = (Trial("holdback", share=0.1, seed=seed) for seed in (1, 1, 2))
    held = {p for p in PREFIXES if one.holds_back(p)}
    assert 900 < len(held) < 1100
    assert held == {p for p in PREFIXES if same.holds_back(p)}
    assert len(held & {p for p in PREFIXES if other.holds_back(p)}) < 200
    assert not any(one.pauses(block) for block in range(100))


def test_a_switchback_pauses_half_of_the_blocks() -> None:
    trial = Trial("switchback", block_s=600, washout_s=60)
    blocks = [trial.block(600.0 * n + 5) for n in range(1000)]
    assert len(set(blocks)) == 1000
    assert 440 < sum(map(trial.pauses, blocks)) < 560
    assert not trial.holds_back("10.0.0.0/24")


def test_rows_are_of_the_group_of_their_time() -> None:
    trial = Trial("switchback", block_s=600, washout_s=60)
    assert trial.group(6000 + 59, control=True) == Group.WASHOUT
    assert trial.group(6000 + 61, control=True) == Group.CONTROL
    assert trial.group(6000 + 61, control=False) == Group.TREATED
    assert Trial().group(0, control=False) == Group.NONE
    assert Trial("holdback").group(30, control=True) == Group.CONTROL


@given(
    st.sampled_from(
        [
            Trial("holdback", share=0.5),
            Trial("switchback", block_s=600, washout_s=60),
            StageTrial("rollout", block_s=600, washout_s=60, stage=2, first=3),
            StageTrial("rollout", block_s=600, washout_s=60, stage=2, first=3, by_prefix=True),
        ]
    ),
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 60_000)), max_size=30),
    st.floats(0, 60_000),
)
def test_flows_are_of_the_group_into_which_they_were_born(
    trial: Trial, born: list[tuple[int, float]], since_s: float
) -> None:
    """Each one by itself, whatever is born beside it; and in none that counts before the experiment."""
    numbers = np.array([number for number, _ in born], np.int64)
    born_s = np.array([at for _, at in born], np.float64)
    groups, blocks = trial.of_births(PREFIXES[:10], numbers, born_s, since_s)
    for (number, at), group, block in zip(born, groups.tolist(), blocks.tolist(), strict=True):
        assert block == trial.block(at)
        control = trial.holds_back(PREFIXES[number]) or trial.pauses(block)
        expected = Group.WASHOUT if at < since_s else trial.group(at, control=control)
        assert group == expected


def test_a_flow_stays_in_the_group_of_its_birth_however_long_it_lives() -> None:
    """Two flows that end at one moment: one was born in a paused block, one in the next that is not."""
    trial = Trial("switchback", block_s=600, washout_s=60)
    number = next(n for n in range(100) if trial.pauses(n) and not trial.pauses(n + 1))
    born_s = np.array([600.0 * number + 599, 600.0 * number + 661, 600.0 * number + 601])
    groups, blocks = trial.of_births(["10.0.0.0/24"], np.zeros(3, np.int64), born_s, 0.0)
    assert groups.tolist() == [Group.CONTROL, Group.TREATED, Group.WASHOUT]
    assert blocks.tolist() == [number, number + 1, number + 1]
