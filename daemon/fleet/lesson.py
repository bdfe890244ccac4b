# SPDX-License-Identifier: Apache-2.0
"""A lesson: the knowledge of one host about the arms on a prefix, as one packed value.

It is cumulative: the effects of the arms over the decision's own choice, by all visits of that host alone.
So the newest lesson of a host stands for all before it, and writing it twice changes nothing. All lessons of
a read become one array.
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
"""Places of arms in a lesson; an arm's place is its fixed id."""
AHEAD_S: Final = 3600.0
"""Most that another host's clock may be ahead."""
DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("version", "<u2"),
        ("arms", "<u2"),  # Places of arms.
        ("model", "<u4"),  # The decision over whose own choice the effects are; see `Lessons`.
        ("time_s", "<u4"),  # Unix time of the writing.
        ("visits", "<u4"),
        ("mean", "<f4", (ARMS,)),
        ("variance", "<f4", (ARMS,)),  # 0 where no visit tells of the arm.
    ]
)
Lessons = npt.NDArray[np.void]
"""`DTYPE`, shape (n,). Lessons of one model are about the same decision, with the same settings."""
PLACES: Final = {arm.name.lower(): int(arm) for arm in ArmId if arm != ArmId.NONE}
"""The places of arms by name. Others, which a host loaded by name, have no place."""


class Verdict(IntEnum):
    """The judgement about a value in the store."""

    USABLE = 0
    DAMAGED = 1
    """No lesson at all."""
    OTHER_VERSION = 2
    OTHER_MODEL = 3
    """About another decision: its host runs other settings."""
    STALE = 4
    """Older than what counts, or from the future."""
    IMPOSSIBLE = 5
    """A number in it is outside of what rewards can be."""


REFUSED: Final = (Verdict.DAMAGED, Verdict.IMPOSSIBLE)
"""Verdicts on values that no sound host writes."""


def pack(model: int, time_s: float, visits: int, mean: Floats, variance: Floats) -> bytes:
    """A lesson as a value of the store.

    Args:
        model: number of the decision.
        time_s: Unix time.
        visits: visits from which it was learned.
        mean: effects by place, shape (ARMS,).
        variance: shape (ARMS,), with infinity where no visit tells of the arm.
    """
    made = np.zeros(1, DTYPE)
    known = np.isfinite(variance)
    made["version"], made["arms"], made["model"] = VERSION, ARMS, model
    made["time_s"], made["visits"] = int(time_s), min(visits, 2**32 - 1)
    # What one host has seen for long is no more certain than a lesson may say.
    made["mean"] = np.where(known, np.clip(mean, -EFFECT_MAX, EFFECT_MAX), 0.0)
    made["variance"] = np.where(known, np.clip(variance, VARIANCE_MIN, VARIANCE_MAX), 0.0)
    made["mean"][:, 0] = made["variance"][:, 0] = 0.0
    return made.tobytes()


def unpack(
    values: Sequence[bytes], model: int, now_s: float, age_s: float
) -> tuple[Lessons, npt.NDArray[np.uint8]]:
    """The lessons of values, and a `Verdict` on each: shape (n,) both.

    Of a value that is not usable the lesson's numbers are 0.

    Args:
        values: values of the store, of any content.
        model: number of this host's decision.
        now_s: Unix time.
        age_s: age up to which a lesson counts.
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
    """Mean and variance of the effects, shape (n, ARMS), with infinity where nothing is known.

    The variance grows with the time since the writing, so that a lesson of a host that is silent counts less
    and less, for a host that reads it for the first time, too.

    Args:
        lessons: as `unpack` gives them.
        now_s: Unix time.
    """
    variance = lessons["variance"].astype(np.float64)
    # A clock that is ahead makes no lesson more certain than its host said.
    age_s = np.maximum(now_s - lessons["time_s"].astype(np.float64), 0.0)[:, None]
    faded = np.where(variance > 0, variance + FADES_PER_S * age_s, np.inf)
    return lessons["mean"].astype(np.float64), faded
