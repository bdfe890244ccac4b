# SPDX-License-Identifier: Apache-2.0
"""Owl: a window in steps of up to ten packets, chosen by a deep Q-network that may know the network."""

from __future__ import annotations

from pathlib import Path

from ltp_switcher.policies.owl.arm import OwlArm
from ltp_switcher.policies.owl.signals import OwlSignals
from ltp_switcher.policies.runtime.export import load


def make_arm(variant: str = "owl") -> OwlArm:
    """The arm of the committed weights of "owl" or "owl-loss". Raises `ArtifactError`."""
    networks, _ = load(Path(__file__).parent / f"{variant}.npz")
    return OwlArm(OwlSignals(), networks["q"])
