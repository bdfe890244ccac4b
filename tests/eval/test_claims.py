# SPDX-License-Identifier: Apache-2.0
"""Claims: what they run, how they judge, what is printed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from rich.console import Console

from ltp_switcher.eval import cli
from ltp_switcher.eval.claims import runner
from ltp_switcher.eval.claims.claim import Claim, Figure, Results, Target
from ltp_switcher.eval.claims.paths import bundled, swept
from ltp_switcher.eval.claims.report import claims_table, draw_sweep
from ltp_switcher.eval.claims.runner import Reached, run_claims
from ltp_switcher.eval.claims.table import CLAIMS
from ltp_switcher.eval.results import Job, Outcome

FLOW = {"throughput_mbps": 50.0, "rtt_mean_ms": 36.0, "base_rtt_ms": 30.0}


def outcome(job: Job) -> Outcome:
    """A finished run in which the second flow gets half, and learned arms do as well as they must."""
    flows = [
        SimpleNamespace(**{**FLOW, "throughput_mbps": 50.0 / (i + 1)}) for i in range(len(job.scenario.flows))
    ]
    good = job.scheme not in ("cubic", "bbr", "vegas")
    totals = [SimpleNamespace(delivered_pkts=10_000, lost_pkts=10)] * len(flows)
    summary = SimpleNamespace(utilisation=0.95 if good else 0.1, jain=0.97, flows=flows)
    bins = np.full(40, 1.0)
    counted = {
        "delivered_pkts": 400 * bins,
        "lost_pkts": 0 * bins,
        "rtt_ms": 36 * bins,
        "queue_pkts": 50 * bins,
    }
    series = [SimpleNamespace(t_s=bins.cumsum() / 10, capacity_mbps=100 * bins, **counted)] * len(flows)
    guest = {"busy_instructions": 6e9 if good else 5e9, "learned": {"spine": {"controls": 20}}}
    told = {"guest": lambda: guest, "totals": lambda: totals, "series": lambda: series}
    return cast(Outcome, SimpleNamespace(job=job, summary=summary, **told))


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Every scheme can run, and every run is as `outcome` says."""
    made: list[Job] = []

    def run_batch(jobs: list[Job], *_: object, **__: object) -> list[Outcome]:
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
        parallel=1,
    )


def test_a_target_is_met_at_its_ends_and_never_by_nothing() -> None:
    assert Target(low=0.92).met(0.92)
    assert not Target(0.5, 2.0).met(float("nan"))
    assert [str(Target(low=0.92)), str(Target(high=3)), str(Target(0.5, 2))] == ["≥ 0.92", "≤ 3", "0.5 to 2"]


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
@pytest.mark.parametrize("quick", [True, False])
def test_every_claim_is_judged_by_its_own_runs(claim: Claim, quick: bool, lab: list[Job]) -> None:
    (reached,) = reach(claim, quick=quick)
    assert len(lab) == len(set(lab))
    judged = {figure.scheme for figure in reached.figures if figure.target is not None}
    assert judged
    assert judged <= set(claim.schemes)
    assert {job.seed for job in lab} == ({claim.seeds[0]} if quick else set(claim.seeds))


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
def test_the_baselines_can_be_left_out(claim: Claim, lab: list[Job]) -> None:
    (reached,) = reach(claim, baselines=False)
    assert {job.scheme for job in lab} == {*claim.schemes, *claim.against}
    assert all(figure.scheme in (*claim.schemes, *claim.against) for figure in reached.figures)


def test_what_cannot_run_is_told_with_its_reason(lab: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"jury": "no weights of jury"}
    monkeypatch.setattr(runner, "missing_weights", lambda name, _: reasons.get(name))
    satellite = next(claim for claim in CLAIMS if claim.name == "satellite")
    fairness = next(claim for claim in CLAIMS if claim.name == "jury-fairness")
    both, none = reach(satellite, fairness)
    assert {job.scheme for job in lab} == {"ltp", "cubic", "bbr", "vegas"}
    assert none.figures == ()
    assert both.missing == reasons
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(claims_table([both, none]))
    text = console.export_text()
    assert text.count("no weights of jury") == 2
    assert "≥ 0.75" in text
    assert "0.95  met" in text
    assert "cubic 0.1, bbr 0.1, vegas 0.1" in text


def test_a_shorter_run_keeps_its_shape() -> None:
    whole, short = bundled("three-flows"), bundled("three-flows", duration_s=100.0)
    assert [flow.start_s for flow in short.flows] == [0.0, 20.0, 40.0]
    assert short.flows[0].stop_s == pytest.approx(whole.flows[0].stop_s / 3)
    wave = bundled("square-wave", duration_s=20.0)
    assert [step.at_s for step in wave.link.steps] == [5.0, 10.0, 15.0]


def test_a_sweep_changes_one_thing_at_a_time_and_is_drawn(lab: list[Job], tmp_path: Path) -> None:
    base = bundled("one-flow")
    paths = swept(base, {"loss": (0.0, 0.01), "rtt_ms": (15.0,)})
    assert list(paths) == ["loss 0", "loss 0.01", "rtt_ms 15"]
    assert paths["rtt_ms 15"].link.loss == base.link.loss
    sweeps = next(claim for claim in CLAIMS if claim.name == "ltp-sweeps")
    (reached,) = reach(sweeps)
    draw_sweep(tmp_path / "sweep.png", reached)
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_writes_what_it_prints(
    lab: list[Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["claims", "ltp-one-flow", "spine-interval", "--quick", "--json", "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "claims.json").read_text())
    first: Mapping[str, object] = printed[0]["figures"][0]
    assert first == {"scheme": "ltp", "what": "utilisation", "value": 0.95, "target": "≥ 0.92", "met": True}
    page = (out / "claims.md").read_text()
    assert "`ltp-eval claims --quick`, Linux 6.1, revision " in page
    assert "| ltp | utilisation | ≥ 0.92 | 0.95 | met |" in page
    assert (out / "spine-interval.png").is_file()
    assert cli.main(["claims", "ltp-one-flo"]) == 1
    assert "ltp-one-flow" in capsys.readouterr().err


def test_figures_without_a_target_say_so() -> None:
    assert Figure("cubic", "Jain", 0.5).to_dict()["met"] is None
    assert Results({}).paths == ()
