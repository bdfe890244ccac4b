# SPDX-License-Identifier: Apache-2.0
"""Stacks of layers of every kind, by name."""

from __future__ import annotations

from ltp_switcher.policies.runtime.inference import Layer

STACKS = {
    "mlp": (Layer("dense", 128, "relu"), Layer("dense", 128, "relu"), Layer("dense", 2, "tanh")),
    "gru": (
        Layer("dense", 128, "relu"),
        Layer("gru", 128),
        Layer("dense", 128, "relu"),
        Layer("dense", 1, "tanh"),
    ),
    "lstm": (Layer("lstm", 64), Layer("dense", 4)),
    "deep": (Layer("gru", 24), Layer("lstm", 16), Layer("dense", 3)),
}
