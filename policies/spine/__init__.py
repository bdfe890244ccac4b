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
"""Monitor interval in seconds (Spine §7.2)."""
HOLD_S: Final = 1.0
"""Least time in seconds for which a sub-policy stays, an addition to the paper. A sub-policy that is replaced
at once never shows its effect. If that happens repeatedly, the window stands still while Cubic's grows."""
ARM: Final = declaration(Path(__file__).parent)


def make_arm(variant: Variant = ARM.variants[0], *, interval_s: float = INTERVAL_S) -> Arm:
    """Make the arm Spine or Spine-Cubic (§7.5.2).

    Raises:
        ArtifactError: the weights are missing or corrupt.
        InvalidValueError: there is no Spine over the variant's law, or the interval is out of range.
    """
    return arm_of(variant.networks(), variant.law, interval_s)


def arm_of(networks: Mapping[str, Network], law: Law, interval_s: float) -> Arm:
    """Make the arm, as `make_arm` does, from networks that are already loaded.

    Raises:
        ArtifactError: the networks are not Spine's.
        InvalidValueError: as `make_arm`.
    """
    signals = SpineSignals(law, interval_s)
    return NetworkArm(signals, HierarchicalNetwork(networks, hold=math.ceil(HOLD_S / interval_s)))


__all__ = ["ARM", "INTERVAL_S", "arm_of", "make_arm"]
