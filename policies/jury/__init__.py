# SPDX-License-Identifier: Apache-2.0
"""Jury (Tian et al., EuroSys 2025), re-implemented from the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ltp_switcher.policies.jury.signals import JurySignals
from ltp_switcher.policies.runtime.arm import Arm, NetworkArm
from ltp_switcher.policies.runtime.export import load

WEIGHTS: Final = Path(__file__).with_name("jury.npz")
"""The committed weights."""


def make_arm(*, weights: Path = WEIGHTS, seed: int = 0) -> Arm:
    """Jury with the committed or the given weights; `seed` draws its exploration.

    Raises:
        ArtifactError: the weights are missing or corrupt.
    """
    networks, _ = load(weights)
    return NetworkArm(JurySignals(seed), networks["actor"])


__all__ = ["make_arm"]
