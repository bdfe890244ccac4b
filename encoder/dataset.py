# SPDX-License-Identifier: Apache-2.0
"""The encoder's training data: one sequence of steps for each path, in three splits by path.

`ltp_switcher.daemon.choose.bandit.replay` writes the files from the lab's recordings.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Float32s
from ltp_switcher.errors import ArtifactError

DATA: Final = Path(".cache/encoder-data")
SPLITS: Final = ("train", "validation", "test")


@dataclass(frozen=True)
class Sequence:
    """The sequence of steps of one path.

    Attributes:
        inputs: the encoder's inputs, float32, shape (steps, inputs).
        arm: id of the arm that was chosen, uint8, shape (steps,).
        reward: normalised reward of this choice, float32, shape (steps,); NaN if unknown.
        fresh: True at steps at which an arm was chosen anew, bool, shape (steps,).
        split: name of the path's split, one of `SPLITS`.
    """

    inputs: Float32s
    arm: ArmIds
    reward: Float32s
    fresh: Bools
    split: str


def save_sequence(path: Path, sequence: Sequence) -> None:
    """Write one sequence as an .npz file."""
    np.savez(
        path,
        inputs=sequence.inputs,
        arm=sequence.arm,
        reward=sequence.reward,
        fresh=sequence.fresh,
        split=np.array(sequence.split),
    )


def load_sequences(folder: Path) -> dict[str, list[Sequence]]:
    """Read every sequence of a folder, by split.

    Raises:
        ArtifactError: a file cannot be read, or a split has no path.
    """
    found: dict[str, list[Sequence]] = {split: [] for split in SPLITS}
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                sequence = Sequence(
                    file["inputs"], file["arm"], file["reward"], file["fresh"], str(file["split"])
                )
            found[sequence.split].append(sequence)
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise ArtifactError(f"{path} is not a sequence of the data set: {error!r}") from error
    empty = [split for split, members in found.items() if not members]
    if empty:
        raise ArtifactError(
            f"{folder} has no path of the split {', '.join(empty)}: collect them with `make collect-dataset`"
        )
    return found


def digest(sequences: dict[str, list[Sequence]]) -> str:
    """SHA-256 over all data that training sees."""
    running = hashlib.sha256()
    for split in SPLITS:
        for sequence in sequences[split]:
            for array in (sequence.inputs, sequence.arm, sequence.reward, sequence.fresh):
                running.update(np.ascontiguousarray(array).tobytes())
    return running.hexdigest()


def weights(sequence: Sequence, near: int = 4) -> Float32s:
    """Return the weight of each step's reward in training, shape (steps,); 0 where the reward is unknown.

    The bandit asks about arms that a flow could change to as often as about the arm that runs. But only the
    first `near` steps after a choice show a change. These steps get half of the weight of each path, and all
    other steps the other half. A path's weight is its number of choices, not of steps, because the rewards
    after one choice overlap.
    """
    known = np.isfinite(sequence.reward)
    since = np.arange(len(known)) - np.maximum.accumulate(np.where(sequence.fresh, np.arange(len(known)), 0))
    changing, staying = known & (since < near), known & (since >= near)
    choices = max(float(sequence.fresh.sum()), 1.0)
    out = np.zeros(len(known), np.float32)
    for members in (changing, staying):
        if members.any():
            out[members] = 0.5 * choices / members.sum()
    return out
