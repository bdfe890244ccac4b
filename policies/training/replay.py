# SPDX-License-Identifier: Apache-2.0
"""Replay of short sequences with the actor's state at their start (R2D2, Kapturowski et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Sequences:
    """A batch of sequences of T transitions, with T + 1 frames each; arrays have the shape (batch, T + 1, …).

    Frame k holds the view at time k: `observations`, and the `actions` and `rewards` of the step that led to
    them. So transition k is observations[k], actions[k + 1], rewards[k + 1], observations[k + 1]. `states`,
    shape (batch, state_size), has the actor's state before it saw frame 0.

    The burn-in is the beginning of a sequence that only warms up states. Where `starts`, shape (batch,), is
    true, the frames of the burn-in are empty. The first frame after them is a flow's first frame, at which
    the actor has no memory.
    """

    observations: Array
    actions: Array
    rewards: Array
    states: Array
    starts: NDArray[np.bool_]


@dataclass(frozen=True)
class Frame:
    """The data of n slots at one time, arrays of shape (n, …); see `Sequences`.

    `active` says whether the slot's flow was sending.
    """

    observations: Array
    actions: Array
    rewards: Array
    states: Array
    active: NDArray[np.bool_]


class Replay:
    """Stores the last `capacity` sequences. All are equally likely to be drawn."""

    def __init__(self, capacity: int, steps: int, observation: int, action: int, state: int) -> None:
        frames = steps + 1
        self._arrays: dict[str, NDArray[Any]] = {
            "observations": np.zeros((capacity, frames, observation), np.float32),
            "actions": np.zeros((capacity, frames, action), np.float32),
            "rewards": np.zeros((capacity, frames), np.float32),
            "states": np.zeros((capacity, state), np.float32),
            "starts": np.zeros(capacity, np.bool_),
        }
        self._capacity = capacity
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sequences: Sequences) -> None:
        """Add a batch of sequences. It replaces the oldest sequences if the replay is full."""
        n = len(sequences.states)
        slots = (self._next + np.arange(n)) % self._capacity
        for name, array in self._arrays.items():
            array[slots] = getattr(sequences, name)
        self._next = int((self._next + n) % self._capacity)
        self._count = min(self._capacity, self._count + n)

    def sample(self, n: int, rng: np.random.Generator) -> Sequences:
        """Draw a batch of n sequences at random. A sequence may be drawn more than once."""
        slots = rng.integers(0, self._count, n)
        return Sequences(**{name: array[slots] for name, array in self._arrays.items()})

    def dump(self) -> dict[str, NDArray[np.generic]]:
        """Return all contents, for a checkpoint."""
        counts = np.array([self._next, self._count])
        return {"counts": counts, **{name: array[: self._count] for name, array in self._arrays.items()}}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore the contents that `dump` returned."""
        self._next, self._count = (int(value) for value in arrays["counts"])
        for name, array in self._arrays.items():
            array[: self._count] = arrays[name]


class Recorder:
    """Cuts the frames of n slots into sequences of `steps` transitions. A sequence begins every `stride`
    frames.

    A sequence is left out unless the slot's flow was active throughout. So no sequence crosses the start of a
    flow or of an episode.

    Args:
        replay: the replay that takes the sequences.
        steps: number of transitions of a sequence, including the burn-in's.
        stride: number of frames from the beginning of one sequence to the beginning of the next.
        burn_in: number of first transitions that only warm up states. If it is above 0, each flow's first
            frames also make a sequence whose burn-in is empty. Otherwise a flow's first decisions would
            always be burn-in, and never be learned from.
    """

    def __init__(self, replay: Replay, steps: int, stride: int, burn_in: int = 0) -> None:
        self._replay = replay
        self._frames = steps + 1
        self._stride = stride
        self._burn_in = burn_in
        self._kept: list[Frame] = []
        self._seen = 0
        self._age: NDArray[np.int64] = np.zeros(0, np.int64)

    def begin(self) -> None:
        """Begin a new episode, and forget the frames of the last episode."""
        self._kept.clear()
        self._seen = 0
        self._age = np.zeros(0, np.int64)

    def add(self, frame: Frame) -> None:
        """Add the next frame, the data of all slots at one time. If the frame completes sequences, they go
        into the replay.
        """
        self._kept.append(frame)
        self._seen += 1
        if len(self._kept) > self._frames:
            self._kept.pop(0)
        if self._burn_in:
            self._add_starts(frame)
        if len(self._kept) < self._frames or (self._seen - self._frames) % self._stride:
            return
        whole = np.flatnonzero(np.all([frame.active for frame in self._kept], axis=0))
        if whole.size:
            self._replay.add(_sequences(self._kept, whole))

    def _add_starts(self, frame: Frame) -> None:
        """Add a sequence for each flow that has just enough frames to fill the part after the burn-in."""
        before = self._age if self._age.size else np.zeros(frame.active.shape, np.int64)
        self._age = np.where(frame.active, before + 1, 0)
        learned = self._frames - self._burn_in
        first = np.flatnonzero(self._age == learned)
        if first.size:
            kept = self._kept[-learned:]
            nothing = Frame(*(np.zeros_like(getattr(frame, field.name)) for field in fields(Frame)))
            made = _sequences([nothing] * self._burn_in + kept, first)
            self._replay.add(replace(made, starts=np.ones(first.size, np.bool_)))


def _sequences(frames: Sequence[Frame], slots: NDArray[np.intp]) -> Sequences:
    """Return the frames of these slots as sequences."""
    return Sequences(
        observations=np.stack([frame.observations[slots] for frame in frames], axis=1),
        actions=np.stack([frame.actions[slots] for frame in frames], axis=1),
        rewards=np.stack([frame.rewards[slots] for frame in frames], axis=1),
        states=frames[0].states[slots],
        starts=np.zeros(slots.size, np.bool_),
    )
