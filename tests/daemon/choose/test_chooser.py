# SPDX-License-Identifier: Apache-2.0
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.choose.lab.baselines import DWELLS, KeepChooser, RandomChooser
from ltp_switcher.daemon.datapath.commands import commands_for
from ltp_switcher.daemon.datapath.protocol import FlowFlags


@given(
    st.lists(st.tuples(st.integers(1, 11), st.integers(1, 11), st.integers(0, 15)), min_size=1, max_size=20)
)
def test_commands_go_where_they_are_needed_and_nowhere_else(flows: list[tuple[int, int, int]]) -> None:
    records = np.concatenate(
        [record(i + 1, want_arm=want, flags=flags) for i, (want, _, flags) in enumerate(flows)]
    )
    arms = np.array([arm for _, arm, _ in flows], np.uint8)
    commands = commands_for(records, arms)
    told = dict(zip(commands["cookie"].tolist(), commands["arm"].tolist(), strict=True))
    for i, (want, arm, flags) in enumerate(flows):
        waits = not flags & FlowFlags.STEERED or bool(flags & FlowFlags.FALLEN_BACK)
        needed = (arm != want or waits) and not flags & FlowFlags.PINNED
        assert told.get(i + 1) == (arm if needed else None)
    assert not commands["reserved"].any()


def test_chance_is_fair_and_repeats_with_its_seed() -> None:
    def draw(seed: int) -> np.ndarray:
        policy = RandomChooser([1, 4, 9], seed=seed)
        slots = np.arange(100)
        policy.open(slots, [""] * 100)
        records = np.concatenate([record(i + 1) for i in range(100)])
        return np.stack([policy.step(slots, records).arms for _ in range(100)])

    arms = draw(1)
    share = np.bincount(arms.ravel(), minlength=10)[[1, 4, 9]] / arms.size
    assert np.all(np.abs(share - 1 / 3) < 0.03)
    np.testing.assert_array_equal(arms, draw(1))
    assert (arms != draw(2)).any()


def test_dwells_hold_an_arm_for_exactly_as_long() -> None:
    policy = RandomChooser(range(1, 12), dwells=DWELLS, seed=3)
    slot = np.array([70])
    policy.open(slot, [""])
    drawn = [policy.step(slot, record(1)) for _ in range(5000)]
    starts = np.flatnonzero([bool(one.exploring[0]) for one in drawn])
    assert starts[0] == 0
    assert set(np.diff(starts).tolist()) == set(DWELLS)


def test_pools_of_single_flows() -> None:
    policy = RandomChooser([1, 2, 3])
    slots = np.array([0, 1])
    policy.open(slots, ["", ""])
    policy.set_pool([9], np.array([1]))
    records = np.concatenate([record(1), record(2)])
    arms = np.stack([policy.step(slots, records).arms for _ in range(50)])
    assert set(arms[:, 1]) == {9}
    assert set(arms[:, 0]) == {1, 2, 3}
    policy.close(np.array([1]))
    policy.open(np.array([1]), [""])
    assert {int(policy.step(slots, records).arms[1]) for _ in range(50)} == {1, 2, 3}
    policy.set_pool([5])
    assert policy.step(slots, records).arms.tolist() == [5, 5]


def test_keep_leaves_each_flow_with_the_arm_it_began_with() -> None:
    policy = KeepChooser([1, 2])
    slots = np.array([0, 70])

    def step(*want: int, flags: int = 0) -> list[int]:
        records = np.concatenate([record(i + 1, want_arm=arm) for i, arm in enumerate(want)])
        records["flags"][1] = flags
        return policy.step(slots, records).arms.tolist()

    policy.open(slots, ["a", "b"])
    assert step(12, 3) == [12, 3]
    # The second fell back and is to return; pinned, it is left alone.
    assert step(12, 1) == [12, 3]
    assert step(12, 5, flags=FlowFlags.PINNED) == [12, 5]
    policy.close(slots[1:])
    policy.open(slots[1:], ["b"])
    assert step(12, 7) == [12, 7]
