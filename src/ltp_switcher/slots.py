# SPDX-License-Identifier: Apache-2.0
"""Memory of flows: arrays with one row for each slot.

A flow has a slot, a small number, from its first step to its end. Another flow may get the slot later. A
class that remembers something of its flows declares each column once:

    class Decisions(SlotArrays):
        made = column(np.int64)
        _start_ns = column(np.int64, "depth")

Its methods take arrays of distinct slots and work on the rows of all flows at once:
`self.made[slots] += 1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, cast

import numpy as np

from ltp_switcher.arrays import Slots

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
Part = TypeVar("Part", bound="SlotArrays")


@dataclass(frozen=True)
class _Column:
    dtype: np.dtype[np.generic]
    shape: tuple[int | str, ...]
    initial: ArrayLike

    def without_rows(self, owner: object) -> NDArray[np.generic]:
        shape = (getattr(owner, size) if isinstance(size, str) else size for size in self.shape)
        return np.empty((0, *shape), self.dtype)


def column(
    dtype: type[Scalar] | np.dtype[Scalar], *shape: int | str, initial: ArrayLike = 0
) -> NDArray[Scalar]:
    """Declare a column in the body of a `SlotArrays` class.

    Args:
        dtype: type of the values.
        shape: shape of one slot's values. A text is the name of an attribute of the instance, which has the
            size.
        initial: value of a slot that nobody has written to, broadcast to the shape.

    Returns:
        In an instance, the array of the column, shape (capacity, *shape). When slots are added, a new array
        replaces it.
    """
    # As with `dataclasses.field`, the declared type is the type that the attribute has in an instance.
    return cast("NDArray[Scalar]", _Column(np.dtype(dtype), shape, initial))


def put_first(past: NDArray[np.float64], slots: Slots, seen: NDArray[np.float64]) -> None:
    """Put the new values `seen` of these slots, shape (n,), first in the rows of the column `past`.

    The older values move on by one place, and the oldest is dropped.
    """
    rows = past[slots]
    rows[:, 1:] = rows[:, :-1]
    rows[:, 0] = seen
    past[slots] = rows


class SlotArrays:
    """An object with columns: arrays with one row for each slot. The columns of the object's parts grow along
    with its own.

    A class may shape its columns by attributes. It sets these attributes before it calls
    `super().__init__()`.
    """

    _columns: ClassVar[Mapping[str, _Column]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Column)}
        cls._columns = {**cls._columns, **own}

    def __init__(self) -> None:
        self._capacity = 0
        self._parts: list[SlotArrays] = []
        for name, declared in self._columns.items():
            setattr(self, name, declared.without_rows(self))

    @property
    def capacity(self) -> int:
        """Number of slots that the columns hold; slots are numbered 0 to `capacity` - 1."""
        return self._capacity

    def part(self, part: Part) -> Part:
        """Make another object a part of this one: its columns have the same slots, and grow and are reset
        along with this object's.
        """
        part.grow(self._capacity)
        self._parts.append(part)
        return part

    def grow(self, capacity: int) -> None:
        """Make room for at least `capacity` slots. Old slots keep their values, and new slots get the initial
        values.
        """
        old = self._capacity
        if capacity <= old:
            return
        # Doubling copies a slot twice on average, in whatever order slots come.
        self._capacity = max(capacity, 2 * old)
        for name, declared in self._columns.items():
            before = getattr(self, name)
            # The system reserves memory of zeros only when it is written to, so free slots take none.
            rows = np.zeros((self._capacity, *before.shape[1:]), before.dtype)
            rows[:old] = before
            if np.any(declared.initial):
                rows[old:] = declared.initial
            setattr(self, name, rows)
        for part in self._parts:
            part.grow(self._capacity)

    def reset(self, slots: Slots) -> None:
        """Give these slots the initial values, and make room for them if needed."""
        if slots.size:
            self.grow(int(slots.max()) + 1)
        for name, declared in self._columns.items():
            getattr(self, name)[slots] = declared.initial
        for part in self._parts:
            part.reset(slots)

    def copy(self, slots: Slots, source: Self) -> None:
        """Copy the values of these slots from `source`, an object of the same class that has room for the
        slots.
        """
        for name in self._columns:
            getattr(self, name)[slots] = getattr(source, name)[slots]
