# SPDX-License-Identifier: Apache-2.0
"""Policies on 100 held-out paths of a training region: the mean normalised reward of LTP, Section 7.2.

The reward of LTP, Eq. 15, is divided by its largest value, 1: the value on a full link without queue and
loss. There the performance reward is 1, and the probe reward counts with its average, 0. The divisor is the
same for all policies, whether trained with the probe reward or without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s
from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies.ltp.task import FLOWS, REGIONS, ROSTER, LtpTask
from ltp_switcher.policies.ltp.variants import VARIANTS, Variant
from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.simulator.tasks import Environment

PATHS: Final = 100
DURATION_S: Final = 30.0
SEED: Final = 3_000_017
"""Seed of the held-out paths. Training and the choice of weights use different seeds."""


@dataclass(frozen=True)
class Rewards:
    """Mean rewards over the intervals of all flows on all paths. A mean over no interval is 0."""

    reward: float
    """Mean reward (LTP, Eq. 15)."""
    performance: float
    """Mean of the performance reward alone (R_perf)."""
    alone: float
    """Mean reward while a flow has the link to itself."""
    among_themselves: float
    """Mean reward beside other flows of the same policy, without Cubic."""
    beside_cubic: float
    """Mean reward beside Cubic flows."""


@dataclass(frozen=True)
class Policy:
    """LTP or one of its variants, trained."""

    name: str
    variant: Variant
    network: Network

    @classmethod
    def read(cls, path: Path) -> Policy:
        """Read a weight file of `train.py`.

        Raises:
            ArtifactError: the file is missing, corrupt, or of an unknown variant.
        """
        networks, card = load(path)
        name = str(card["policy"])
        if name not in VARIANTS or "actor" not in networks:
            raise ArtifactError(f"{path} holds {name!r}; allowed: {', '.join(VARIANTS)}")
        return cls(name, VARIANTS[name], networks["actor"])


def judge(
    policy: Policy, region: str, *, particles: int, on_step: Callable[[], None] = lambda: None
) -> Rewards:
    """Run a policy on the held-out paths of a region of `REGIONS`, and return its mean rewards."""
    task = LtpTask(policy.variant.signals(), ROSTER.window, particles=particles, bounded=False)
    drawn = replace(REGIONS[region], flows=FLOWS)
    environment = Environment(task, drawn, ROSTER, environments=PATHS, duration_s=DURATION_S)
    seen = environment.reset(SEED)
    state = policy.network.initial_state(environment.slots)
    totals, counts = np.zeros(5), np.zeros(5, np.int64)
    while not seen.over:
        inputs: Float32s = seen.observations[:, : policy.network.input_size]
        state, actions = policy.network.step(state, inputs)
        state *= seen.active[:, None]
        seen = environment.step(np.asarray(actions, np.float32))
        at = seen.active
        cubic = at & task.beside_cubic.reshape(-1)
        alone = at & ~cubic & np.tile(task.alone, task.agents)
        over = (at, alone, at & ~cubic & ~alone, cubic)
        whole, *parts = (seen.rewards[rows].sum() for rows in over)
        totals += whole, task.performance.reshape(-1)[at].sum(), *parts
        counts += [np.count_nonzero(rows) for rows in (at, *over)]
        on_step()
    return Rewards(*(totals / np.maximum(1, counts)).tolist())
