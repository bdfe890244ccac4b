# SPDX-License-Identifier: Apache-2.0
"""Learn-to-Probe (LTP, Tian et al., EuroSys 2026): a policy trained to keep the network's state knowable."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ltp_switcher.policies.ltp.pulses import PulsedSignals
from ltp_switcher.policies.runtime.arm import Arm, WindowArm
from ltp_switcher.policies.runtime.declaration import Variant, declaration

ARM: Final = declaration(Path(__file__).parent)

__all__ = ["ARM", "make_arm"]


def make_arm(variant: Variant = ARM.variants[0]) -> Arm:
    """Load the trained policy.

    Raises:
        ArtifactError: the weights are missing or corrupt.
    """
    return WindowArm(PulsedSignals(), variant.networks()["actor"])
