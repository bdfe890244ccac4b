# SPDX-License-Identifier: Apache-2.0
"""Spine (Tian et al., CoNEXT 2022) and Spine-Cubic, re-implemented from the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ltp_switcher.policies.runtime.arm import Arm, Law, NetworkArm
from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.spine.actor import HierarchicalNetwork
from ltp_switcher.policies.spine.signals import SpineSignals

INTERVAL_S: Final = 0.200
"""The monitor interval of §7.2."""
HOLD_S: Final = 1.0
"""Least time that a sub-policy stays (beyond the paper). One that is replaced at once never shows its effect,
and in a row of such the window stands still while Cubic's grows."""
WEIGHTS: Final = {
    Law.AIMD: Path(__file__).with_name("spine.npz"),
    Law.CUBIC: Path(__file__).with_name("spine-cubic.npz"),
}
"""The committed weights of Spine and of Spine-Cubic."""


def make_arm(law: Law = Law.AIMD, *, interval_s: float = INTERVAL_S, weights: Path | None = None) -> Arm:
    """Spine, or with `Law.CUBIC` Spine-Cubic (§7.5.2), with the committed weights or those given.

    Raises:
        ArtifactError: the weights are missing or corrupt.
        InvalidValueError: there is no Spine over this law, or the interval is out of range.
    """
    return arm_of(load(WEIGHTS[law] if weights is None else weights)[0], law, interval_s)


def arm_of(networks: Mapping[str, Network], law: Law, interval_s: float) -> Arm:
    """`make_arm` of networks that are at hand.

    Raises:
        ArtifactError: they are not Spine's.
        InvalidValueError: as `make_arm`.
    """
    signals = SpineSignals(law, interval_s)
    return NetworkArm(signals, HierarchicalNetwork(networks, hold=math.ceil(HOLD_S / interval_s)))


__all__ = ["INTERVAL_S", "arm_of", "make_arm"]
