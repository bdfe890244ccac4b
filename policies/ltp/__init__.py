# SPDX-License-Identifier: Apache-2.0
"""Learn-to-Probe (LTP, Tian et al., EuroSys 2026): a policy trained to keep the network's state knowable."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ltp_switcher.policies.ltp.signals import LtpSignals
from ltp_switcher.policies.runtime.arm import Arm, NetworkArm
from ltp_switcher.policies.runtime.export import load

WEIGHTS: Final = Path(__file__).with_name("ltp.npz")

__all__ = ["WEIGHTS", "make_arm"]


def make_arm() -> Arm:
    """Load the trained policy.

    Raises:
        ArtifactError: the weights are missing or corrupt.
    """
    networks, _ = load(WEIGHTS)
    return NetworkArm(LtpSignals(), networks["actor"])
