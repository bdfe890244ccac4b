# SPDX-License-Identifier: Apache-2.0
"""A lesson: the knowledge of one host about the arms on a prefix, as one packed value.

A lesson has the effect of each arm, which is the log of the arm's reward over the reward of the decision's
own choice. It is cumulative, because it comes from all visits (groups of flows) of that host alone. So the
newest lesson of a host replaces all earlier ones, and writing it twice changes nothing. All lessons of one
read become one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.choose.visits.site import EFFECT_MAX, FADES_PER_S, VARIANCE_MAX, VARIANCE_MIN
from ltp_switcher.daemon.datapath.protocol import ArmId

VERSION: Final = 1
ARMS: Final = 16
"""Number of places for arms in a lesson. An arm's place is its fixed id."""
AHEAD_S: Final = 3600.0
"""Largest time in seconds by which the time in a lesson may be ahead of this host's clock."""
DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("version", "<u2"),
        ("arms", "<u2"),  # Number of places for arms, `ARMS`.
        ("model", "<u4"),  # Number of the decision whose own choice the effects refer to; see `Lessons`.
        ("time_s", "<u4"),  # Unix time at which the lesson was written.
        ("visits", "<u4"),
        ("mean", "<f4", (ARMS,)),
        ("variance", "<f4", (ARMS,)),  # 0 where no visit tells of the arm.
    ]
)
Lessons = npt.NDArray[np.void]
"""An array of lessons, `DTYPE`, shape (n,). The field `model` numbers the decision and its settings; only
lessons with the same number can be compared.
"""
PLACES: Final = {arm.name.lower(): int(arm) for arm in ArmId if arm != ArmId.NONE}
"""The place of each arm in a lesson, by the arm's name. An arm that an operator loaded by name has
no place.
"""


class Verdict(IntEnum):
    """The judgement on a value from the store, which should be a lesson."""

    USABLE = 0
    DAMAGED = 1
    """The value is not a lesson."""
    OTHER_VERSION = 2
    OTHER_MODEL = 3
    """The lesson is about another decision or other settings than this host's, so its effects mean something
    else.
    """
    STALE = 4
    """The lesson is too old, or its time lies in the future."""
    IMPOSSIBLE = 5
    """A number in the lesson lies outside the range that rewards can give."""


REFUSED: Final = (Verdict.DAMAGED, Verdict.IMPOSSIBLE)
"""The verdicts on values that a sound host never writes."""


def pack(model: int, time_s: float, visits: int, mean: Floats, variance: Floats) -> bytes:
    """Pack a lesson into bytes for the store.

    Args:
        model: number of the decision and its settings.
        time_s: Unix time at which the lesson is written.
        visits: number of visits from which the lesson was learned.
        mean: effects (logarithms of ratios of rewards) by place, shape (ARMS,).
        variance: variances of the effects, shape (ARMS,); infinite for an arm without visits.
    """
    made = np.zeros(1, DTYPE)
    known = np.isfinite(variance)
    made["version"], made["arms"], made["model"] = VERSION, ARMS, model
    made["time_s"], made["visits"] = int(time_s), min(visits, 2**32 - 1)
    # `unpack` refuses a lesson with a number outside of these ranges.
    made["mean"] = np.where(known, np.clip(mean, -EFFECT_MAX, EFFECT_MAX), 0.0)
    made["variance"] = np.where(known, np.clip(variance, VARIANCE_MIN, VARIANCE_MAX), 0.0)
    made["mean"][:, 0] = made["variance"][:, 0] = 0.0
    return made.tobytes()


def unpack(
    values: Sequence[bytes], model: int, now_s: float, age_s: float
) -> tuple[Lessons, npt.NDArray[np.uint8]]:
    """Unpack values from the store into lessons, shape (n,), with a `Verdict` on each, shape (n,).

    If a value is not usable, all numbers of its lesson are 0.

    Args:
        values: values from the store, of any content.
        model: number of this host's decision and its settings.
        now_s: Unix time.
        age_s: greatest age of a lesson that counts, in seconds.
    """
    sizes = np.array([len(value) for value in values], np.int64)
    whole = sizes == DTYPE.itemsize
    blank = bytes(DTYPE.itemsize)
    joined = b"".join(value if fits else blank for value, fits in zip(values, whole.tolist(), strict=True))
    found = np.frombuffer(joined, DTYPE).copy()
    versions = np.array([int.from_bytes(value[:2], "little") for value in values], np.int64)
    mean, variance = found["mean"], found["variance"]
    with np.errstate(invalid="ignore"):
        known = variance > 0
        can_be = (np.abs(mean) <= EFFECT_MAX) & (variance >= VARIANCE_MIN) & (variance <= VARIANCE_MAX)
        # NaN is neither known nor unknown.
        absent = (variance == 0) & (mean == 0)
    possible = np.where(known, can_be, absent).all(axis=1) & absent[:, 0]
    possible &= (found["arms"] == ARMS) & (~known.any(axis=1) | (found["visits"] > 0))
    age = now_s - found["time_s"].astype(np.float64)
    verdicts = np.select(
        [
            ~whole & ((sizes < 4) | (versions == VERSION) | (versions == 0)),
            ~whole | (versions != VERSION),
            ~possible,
            found["model"] != model,
            (age > age_s) | (age < -AHEAD_S),
        ],
        [Verdict.DAMAGED, Verdict.OTHER_VERSION, Verdict.IMPOSSIBLE, Verdict.OTHER_MODEL, Verdict.STALE],
        Verdict.USABLE,
    ).astype(np.uint8)
    found[verdicts != Verdict.USABLE] = np.zeros((), DTYPE)
    return found, verdicts


def effects(lessons: Lessons, now_s: float) -> tuple[Floats, Floats]:
    """Return the means and the variances of the effects in lessons, each with the shape (n, ARMS).

    The variance is infinite for an unknown effect. It grows with the age of a lesson. So the lesson of a
    silent host counts less and less, even for a host that reads it for the first time.

    Args:
        lessons: lessons from `unpack`, shape (n,).
        now_s: Unix time.
    """
    variance = lessons["variance"].astype(np.float64)
    # A clock that is ahead makes no lesson more certain than its host said.
    age_s = np.maximum(now_s - lessons["time_s"].astype(np.float64), 0.0)[:, None]
    faded = np.where(variance > 0, variance + FADES_PER_S * age_s, np.inf)
    return lessons["mean"].astype(np.float64), faded
