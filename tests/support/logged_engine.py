# SPDX-License-Identifier: Apache-2.0
"""An engine with a decision log in memory, over flows each to a network of its own."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.choose.lab.baselines import RandomChooser
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.datapath.protocol import FlowFlags
from ltp_switcher.daemon.gain.log import DecisionWriter
from ltp_switcher.daemon.gain.trial import Trial
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.daemon.steer import LearnedArms
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.spans import Spans
from support.fake_kernel import Kernel
from support.records import flow, record

NAMES = {arm: f"arm{arm}" for arm in range(12)}
STEERED = int(FlowFlags.STEERED)


class Log(DecisionWriter):
    """A log in memory."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []

    def append(self, rows: np.ndarray) -> None:
        self.parts.append(rows)

    def close(self) -> None:
        pass

    @property
    def rows(self) -> np.ndarray:
        return np.concatenate(self.parts)


def make(
    kernel: Kernel, log: Log, trial: Trial | None = None, *, mode: str = "active", explore: float = 0.0,
    chooser: Chooser | None = None, teams_of: type[Teams] = Teams,
) -> Engine:  # fmt: skip
    chooser = chooser or RandomChooser([5], dwells=(1_000_000,))
    teams = teams_of(MptsSection(enabled=False), [5], 1, chooser.set_pool, names=NAMES, zeta=5.0, kappa=2.0)
    spans = Spans(log, trial or Trial(), explore=explore, pool=[5, 6, 7, 8])
    learned = LearnedArms(0.010, lambda _: pytest.fail("no learned arm here"))
    decisions = DecisionLog(NAMES, 1000.0, mode)
    return Engine(
        kernel, kernel, FlowTable(), chooser, teams, decisions, learned, mode=mode, spans=spans,
        clock=time.monotonic_ns,
    )  # fmt: skip


def seen(*cookies: int, **fields: int) -> np.ndarray:
    told = {"want_arm": 1, "arm": 1, "samples": 1, "flags": STEERED, **fields}
    return np.concatenate([record(cookie, **told) for cookie in cookies])


def towards(n: int) -> Kernel:
    """A kernel with n flows, each to a network of its own."""
    return Kernel(*(flow(i + 1, f"10.{i // 250}.{i % 250}.1") for i in range(n)), steps=[])
