# SPDX-License-Identifier: Apache-2.0
"""Schemes with one part changed or left out, and the studies that compare them with the whole."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.eval.run.daemon_settings import Settings
from ltp_switcher.eval.run.schemes import KERNEL_ARMS

_MIXED: Final = ("vegas", "bbr", "cubic", "westwood", "illinois", "highspeed", "hybla")
"""Arms of every kind: delay-based, loss-based, hybrid and specialised ones (Mutant §6.3)."""
_RANDOM: Final = tuple(sorted(np.random.default_rng(9).choice(KERNEL_ARMS, 6, replace=False).tolist()))

SWITCH_S: Final = 11.0
TRANSITIONS: Final[Mapping[str, tuple[str, str]]] = {
    f"{before}-to-{after}": (before, after)
    for before, after in itertools.permutations(("bbr", "vegas", "ltp"), 2)
}
"""Schemes that change their arm once, after `SWITCH_S` seconds: the arm before and the arm after."""

CHANGED: Final[Mapping[str, tuple[str, Settings]]] = {
    "rule:ltp-first": ("rule", (("rule.start_s", 0.0),)),
    "rule:no-swing": ("rule", (("rule.rate_swing", 10.0),)),
    "rule:no-changes": ("rule", (("rule.rtt_step", 100.0),)),
    "rule:as-is": ("rule", (("kernel.handover", "as-is"), ("kernel.restore", "as-is"))),
    "bandit:no-mpts": ("bandit", (("mpts.enabled", False),)),
    "paper-preset:30ms": ("paper-preset", (("daemon.step_ms", 30.0),)),
    "paper-preset:100ms": ("paper-preset", (("daemon.step_ms", 100.0),)),
    "paper-preset:300ms": ("paper-preset", (("daemon.step_ms", 300.0),)),
    "paper-preset:random-team": ("paper-preset", (("mpts.enabled", False), ("pool.arms", _RANDOM))),
    "paper-preset:mixed-team": (
        "paper-preset",
        (("mpts.enabled", False), ("pool.arms", _MIXED), ("pool.k", 7)),
    ),
    **{
        name: (f"schedule:{before}@0,{after}@{SWITCH_S:g}", ())
        for name, (before, after) in TRANSITIONS.items()
    },
}
"""Schemes that change settings of another scheme: the other scheme, and the settings, by name."""


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison of schemes, and the question that it answers."""

    title: str
    schemes: tuple[str, ...]
    paths: tuple[str, ...]


_SIX: Final = ("low-capacity-1", "lossy-1", "slow-1", "step-1", "trace-1", "trace-4")
"""Paths of six network environments, as in the paper. They are slow, because the lab runs slow paths fast."""
_ARMS: Final = ("bbr", "vegas", "cubic")
STUDIES: Final[Mapping[str, Study]] = {
    "ablations": Study(
        "Ablations: what each part of the decision is worth",
        (
            "rule", "rule:ltp-first", "rule:no-swing", "rule:no-changes", "rule:as-is",
            "bandit", "bandit:no-mpts", "learnt", "linucb", *_ARMS, "ltp",
        ),
        ("lossy-1", "slow-1", "rate-steps-1", "rtt-steps-1", "trace-1", "trace-4"),
    ),
    "steps": Study(
        "The length of a step, δ (Mutant Fig. 12)",
        ("paper-preset", "paper-preset:30ms", "paper-preset:100ms", "paper-preset:300ms", *_ARMS),
        _SIX,
    ),
    "teams": Study(
        "How the team is selected (Mutant Fig. 9)",
        ("paper-preset", "paper-preset:random-team", "paper-preset:mixed-team", *_ARMS),
        _SIX,
    ),
    "transitions": Study(
        "What a switch costs",
        ("bbr", "vegas", "ltp", *TRANSITIONS),
        ("fixed-1", "low-capacity-1", "lossy-1", "mixed-1", "shallow-1", "slow-1", "trace-1", "trace-4"),
    ),
}  # fmt: skip
