# SPDX-License-Identifier: Apache-2.0
"""Jury (Tian et al., EuroSys 2025), re-implemented from the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ltp_switcher.policies.jury.signals import JurySignals
from ltp_switcher.policies.runtime.arm import Arm, NetworkArm
from ltp_switcher.policies.runtime.declaration import Variant, declaration

ARM: Final = declaration(Path(__file__).parent)


def make_arm(variant: Variant = ARM.variants[0], *, seed: int = 0) -> Arm:
    """Make the arm Jury with the weights of its variant. `seed` seeds the exploration.

    Raises:
        ArtifactError: the weights are missing or corrupt.
    """
    return NetworkArm(JurySignals(seed), variant.networks()["actor"])


__all__ = ["ARM", "make_arm"]
