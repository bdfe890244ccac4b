# SPDX-License-Identifier: Apache-2.0
"""Spine (Tian et al., CoNEXT 2022) and Spine-Cubic, re-implemented from the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ltp_switcher.policies.runtime.arm import Arm, Law, NetworkArm
from ltp_switcher.policies.runtime.declaration import Variant, declaration
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.spine.actor import HierarchicalNetwork
from ltp_switcher.policies.spine.signals import SpineSignals

INTERVAL_S: Final = 0.200
"""Monitor interval in seconds (Spine, Section 7.2)."""
HOLD_S: Final = 1.0
"""Least time in seconds for which a sub-policy stays, an addition to the paper. A sub-policy that is replaced
at once never shows its effect. If that happens repeatedly, Spine's window stands still while the window of a
Cubic flow beside it grows.
"""
ARM: Final = declaration(Path(__file__).parent)


def make_arm(variant: Variant = ARM.variants[0], *, interval_s: float = INTERVAL_S) -> Arm:
    """Make the arm Spine or Spine-Cubic (Spine, Section 7.5.2).

    Raises:
        ArtifactError: the weights are missing or corrupt.
        InvalidValueError: Spine cannot set the law of the variant, or the interval is out of range.
    """
    return arm_of(variant.networks(), variant.law, interval_s)


def arm_of(networks: Mapping[str, Network], law: Law, interval_s: float) -> Arm:
    """Make the arm from networks that are already loaded; otherwise like `make_arm`.

    Raises:
        ArtifactError: the networks are not Spine's.
        InvalidValueError: Spine cannot set the law, or the interval is out of range.
    """
    signals = SpineSignals(law, interval_s)
    return NetworkArm(signals, HierarchicalNetwork(networks, hold=math.ceil(HOLD_S / interval_s)))


__all__ = ["ARM", "INTERVAL_S", "arm_of", "make_arm"]
