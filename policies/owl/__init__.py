# SPDX-License-Identifier: Apache-2.0
"""Owl: a deep Q-network changes the window by up to ten packets a step, with or without reports from the
network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ltp_switcher.policies.owl.arm import OwlArm
from ltp_switcher.policies.owl.signals import OwlSignals
from ltp_switcher.policies.runtime.declaration import Variant, declaration

ARM: Final = declaration(Path(__file__).parent)


def make_arm(variant: Variant = ARM.variants[0]) -> OwlArm:
    """Make the arm Owl or Owl-Loss. Raises `ArtifactError` if the weights are missing or corrupt."""
    return OwlArm(OwlSignals(), variant.networks()["q"])
