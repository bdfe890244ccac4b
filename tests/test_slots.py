# SPDX-License-Identifier: Apache-2.0
"""`SlotArrays` against dictionaries: whatever is written, reset and grown, each slot holds its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ltp_switcher.slots import SlotArrays, column, put_first

SLOTS = st.lists(st.integers(0, 70), unique=True, max_size=8).map(lambda slots: np.array(slots, np.int64))
VALUES = st.integers(-1000, 1000)
PAIR = np.dtype([("a", "=u4"), ("b", "=f8")])


class Inner(SlotArrays):
    names = column(np.int64, initial=5)


class Base(SlotArrays):
    level = column(np.float64, initial=np.inf)


class Outer(Base):
    ring = column(np.int64, "depth", 2, initial=-1)
    pattern = column(np.float32, 3, initial=(1.0, 2.0, 3.0))
    told = column(PAIR)
    here = column(np.bool_, initial=True)

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__()
        self.inner = self.part(Inner())


class AgainstDicts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.made = Outer(4)
        self.written: dict[int, int] = {}
        self.asked = 0

    @rule(slots=SLOTS)
    def reset(self, slots: np.ndarray) -> None:
        self.made.reset(slots)
        self.asked = max(self.asked, int(slots.max(initial=-1)) + 1)
        for slot in slots.tolist():
            self.written.pop(slot, None)

    @rule(capacity=st.integers(0, 90))
    def grow(self, capacity: int) -> None:
        self.made.grow(capacity)
        self.asked = max(self.asked, capacity)

    @rule(slots=SLOTS, value=VALUES)
    def write(self, slots: np.ndarray, value: int) -> None:
        slots = slots[slots < self.made.capacity]
        self.made.level[slots] = value
        self.made.ring[slots] = value
        self.made.pattern[slots] = value
        self.made.told["b"][slots] = value
        self.made.here[slots] = False
        self.made.inner.names[slots] = value
        self.written |= dict.fromkeys(slots.tolist(), value)

    @invariant()
    def every_slot_holds_what_was_written_or_the_initial_value(self) -> None:
        made = self.made
        assert self.asked <= made.capacity <= max(2 * self.asked, 1)
        assert made.inner.capacity == made.capacity
        for slot in range(made.capacity):
            value = self.written.get(slot)
            known = value is not None
            assert made.level[slot] == (value if known else np.inf)
            assert made.ring[slot].tolist() == [[value if known else -1] * 2] * 4
            assert made.pattern[slot].tolist() == ([value] * 3 if known else [1.0, 2.0, 3.0])
            assert made.told[slot].item() == (0, value if known else 0.0)
            assert made.here[slot] == (not known)
            assert made.inner.names[slot] == (value if known else 5)


AgainstDicts.TestCase.settings = settings(max_examples=40, stateful_step_count=15)
TestAgainstDicts = AgainstDicts.TestCase


def test_types_and_shapes_are_as_declared() -> None:
    made = Outer(7)
    made.grow(3)
    assert (made.level.dtype, made.level.shape) == (np.float64, (3,))
    assert (made.ring.dtype, made.ring.shape) == (np.int64, (3, 7, 2))
    assert (made.pattern.dtype, made.pattern.shape) == (np.float32, (3, 3))
    assert (made.told.dtype, made.told.shape) == (PAIR, (3,))
    assert made.here.dtype == np.bool_


@given(st.integers(1, 500))
def test_slots_that_come_one_by_one_are_seldom_copied(slots: int) -> None:
    made, arrays = Base(), []
    for slot in range(slots):
        made.reset(np.array([slot]))
        if not arrays or arrays[-1] is not made.level:
            arrays.append(made.level)
    assert len(arrays) <= 1 + np.log2(2 * slots)


def test_instances_and_subclasses_do_not_share() -> None:
    one, other, base = Outer(1), Outer(2), Base()
    one.grow(1)
    one.level[0] = 3.0
    other.grow(1)
    assert other.level[0] == np.inf
    assert not hasattr(base, "ring")


def test_a_part_that_joins_late_has_room() -> None:
    made = Base()
    made.grow(9)
    assert made.part(Inner()).capacity >= 9


def test_a_size_that_is_not_set_before_is_told() -> None:
    class Early(SlotArrays):
        rows = column(np.float64, "size")

    with pytest.raises(AttributeError, match="size"):
        Early()


def test_the_newest_is_first_and_the_oldest_is_forgotten() -> None:
    past = np.array([[3.0, 2.0, 1.0], [0.0, 0.0, 0.0], [6.0, 5.0, 4.0]])
    put_first(past, np.array([2, 0]), np.array([7.0, 8.0]))
    np.testing.assert_array_equal(past, [[8.0, 3.0, 2.0], [0.0, 0.0, 0.0], [7.0, 6.0, 5.0]])


@given(SLOTS, st.integers(0, 10**6))
def test_a_copy_gives_these_slots_all_values_of_another_and_leaves_the_others(
    copied: np.ndarray, seed: int
) -> None:
    made, source = Outer(4), Outer(4)
    rng = np.random.default_rng(seed)
    for table in (made, source):
        table.grow(71)
        table.level[:] = rng.normal(size=table.capacity)
        table.ring[:] = rng.integers(0, 99, table.ring.shape)
        table.told["b"] = rng.normal(size=table.capacity)
    before = made.level.copy(), made.ring.copy(), made.told.copy()
    made.copy(copied, source)
    others = np.setdiff1d(np.arange(71), copied)
    for values, was, other in zip(
        (made.level, made.ring, made.told), before, (source.level, source.ring, source.told), strict=True
    ):
        np.testing.assert_array_equal(values[copied], other[copied])
        np.testing.assert_array_equal(values[others], was[others])
