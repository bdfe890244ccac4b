# SPDX-License-Identifier: Apache-2.0
"""Experiments on the operator's traffic. Some flows stay on the baseline arm, so that a comparison shows the
gain of the others.

Chance assigns prefixes to groups (holdback) or time blocks (switchback), but never single flows. Otherwise
flows of both groups would share bottlenecks, and one group would take from the other (Spang et al., IMC
2021).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.gain.rows import Group

Design = Literal["none", "holdback", "switchback", "rollout"]


@dataclass(frozen=True, slots=True)
class Trial:
    """The design of an experiment, and its random draws, which the seed determines. In a holdback, some
    prefixes stay on the baseline arm. In a switchback, all prefixes stay on it in some time blocks.

    Attributes:
        design: `none`, `holdback`, `switchback`, or `rollout` for `StageTrial`.
        share: share of the prefixes that stay on the baseline arm in a holdback.
        block_s: length of a time block in seconds.
        washout_s: length of the first part of a block in seconds. This part does not count.
        arm: id of the baseline arm.
        seed: seed of the draws.
    """

    design: Design = "none"
    share: float = 0.0
    block_s: float = 600.0
    washout_s: float = 60.0
    arm: int = 0
    seed: int = 1

    def block(self, time_s: float) -> int:
        """Number of the time block at a Unix time; -1 if the design has no blocks."""
        return int(time_s // self.block_s) if self.design == "switchback" else -1

    def holds_back(self, prefix: str) -> bool:
        """Return whether the flows to a prefix stay on the baseline arm for the whole of a holdback. In any
        other design, the answer is false.
        """
        return self.design == "holdback" and _lot(self.seed, prefix) < self.share

    def pauses(self, block: int) -> bool:
        """Whether all flows stay on the baseline arm in a time block."""
        return self.design == "switchback" and _lot(self.seed, str(block)) < 0.5

    def group(self, time_s: float, *, control: bool) -> Group:
        """The group of a row that begins at a Unix time. `control` tells whether the row's flow was kept on
        the baseline arm.
        """
        if self.design == "none":
            return Group.NONE
        if self.design == "switchback" and time_s % self.block_s < self.washout_s:
            return Group.WASHOUT
        return Group.CONTROL if control else Group.TREATED

    def of_births(
        self, prefixes: Sequence[str], numbers: Ints, born_s: Floats, since_s: float
    ) -> tuple[NDArray[np.uint8], Ints]:
        """The groups and time blocks in which flows were born. Each array has the shape (n,).

        A flow that lives longer than its block stays in the group of its birth. Otherwise a group would lose
        the flows that its arm makes slow.

        Args:
            prefixes: destination prefixes, each once.
            numbers: index of each flow's prefix in `prefixes`, shape (n,).
            born_s: Unix times of the births, shape (n,).
            since_s: Unix time at which the experiment began. The report leaves out flows that were born
                earlier.
        """
        held = [self.holds_back(prefix) for prefix in prefixes]
        blocks = np.array([self.block(at) for at in born_s.tolist()], np.int64)
        paused = {block: self.pauses(block) for block in set(blocks.tolist())}
        groups = [
            Group.WASHOUT if at < since_s else self.group(at, control=held[number] or paused[block])
            for at, number, block in zip(born_s.tolist(), numbers.tolist(), blocks.tolist(), strict=True)
        ]
        return np.array(groups, np.uint8), blocks


def _lot(seed: int, name: str) -> float:
    """A random number from 0 to below 1, which the seed and the name determine."""
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
