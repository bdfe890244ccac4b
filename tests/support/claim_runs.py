# SPDX-License-Identifier: Apache-2.0
"""Runs of claims in a lab that answers at once: the same for every scenario, better for learned arms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from rich.console import Console

from ltp_switcher.eval.report.claims import runner
from ltp_switcher.eval.report.claims.claim import Claim
from ltp_switcher.eval.report.claims.runner import Reached, run_claims
from ltp_switcher.eval.run.executor import Here
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.schemes import LEARNED_ARMS, resolve

FLOW = {"throughput_mbps": 50.0, "rtt_mean_ms": 36.0, "base_rtt_ms": 30.0}


def outcome(job: Job) -> RunResult:
    """A finished run in which the second flow gets half, and learned arms do as well as they must."""
    flows = [
        SimpleNamespace(
            **{**FLOW, "throughput_mbps": 50.0 / (i + 1)},
            arm_share={resolve(flow.scheme).arm or "cubic": 1.0},
        )
        for i, flow in enumerate(job.scenario.flows)
    ]
    good = job.scheme not in ("cubic", "bbr", "vegas")
    totals = [SimpleNamespace(delivered_pkts=10_000, lost_pkts=10)] * len(flows)
    summary = SimpleNamespace(utilisation=0.95 if good else 0.1, jain=0.97, flows=flows)
    bins = np.full(40, 1.0)
    counted = {
        "goodput_mbps": 10 * bins,
        "delivered_pkts": 400 * bins,
        "lost_pkts": 0 * bins,
        "rtt_ms": 36 * bins,
        "queue_pkts": 50 * bins,
    }
    series = [SimpleNamespace(t_s=bins.cumsum() / 10, capacity_mbps=100 * bins, **counted)] * len(flows)
    arms = {name: {"controls": 20} for name in LEARNED_ARMS}
    guest = {"busy_instructions": 6e9 if good else 5e9, "fallbacks": 0, "learned": arms}
    told = {"guest": lambda: guest, "totals": lambda: totals, "series": series}
    return cast(RunResult, SimpleNamespace(job=job, summary=summary, **told))


def answer(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Replace the lab: every scheme can run, and every run is as `outcome` says. Returns the jobs to come."""
    made: list[Job] = []

    def run_batch(jobs: list[Job], *_: object, **__: object) -> list[RunResult]:
        made.extend(jobs)
        return [outcome(job) for job in jobs]

    monkeypatch.setattr(runner, "run_batch", run_batch)
    monkeypatch.setattr(runner, "missing_weights", lambda *_: None)
    return made


def reach(*claims: Claim, quick: bool = True, baselines: bool = True) -> list[Reached]:
    return run_claims(
        claims,
        Console(quiet=True),
        quick=quick,
        baselines=baselines,
        kernel="6.1",
        use_cache=True,
        executor=Here(1),
    )
