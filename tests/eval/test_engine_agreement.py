# SPDX-License-Identifier: Apache-2.0
"""The lab beside mahimahi: means, intervals, the table and the files. The runs are made up."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.report import engine_agreement as agreement
from ltp_switcher.eval.report.engine_agreement import Agreement
from ltp_switcher.eval.run.bundled import find_scenario
from ltp_switcher.eval.run.executor import Here
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.summary import FlowSummary, Summary
from ltp_switcher.figures import Estimate


def test_an_interval_is_students() -> None:
    """Of 1, 2 and 3 the mean is 2 and its standard error 1 / sqrt(3); Student's t with 2 degrees is 4.303."""
    found = Estimate.of([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.303 / math.sqrt(3))
    assert math.isnan(Estimate.of([5.0]).half)
    assert Estimate.of([1.0, 3.0] * 10).half == pytest.approx(1.96 * math.sqrt(20 / 19) / math.sqrt(20))


@pytest.mark.parametrize(
    ("lab", "mahimahi", "overlap"),
    [
        ((10.0, 1.0), (12.5, 1.6), True),
        ((10.0, 1.0), (12.5, 1.4), False),
        ((10.0, math.nan), (9.0, 1.1), True),
    ],
)
def test_engines_agree_where_their_intervals_meet(
    lab: tuple[float, float], mahimahi: tuple[float, float], *, overlap: bool
) -> None:
    row = Agreement("fixed", "cubic", "reward", Estimate(9.9, 0.0), Estimate(*lab), Estimate(*mahimahi))
    assert row.overlap == overlap
    assert row.ratio_ms == mahimahi[0] / lab[0]
    assert row.ratio == mahimahi[0] / 9.9


@dataclass(frozen=True)
class Outcome:
    summary: Summary


def goodput_mbps(job: Job) -> float:
    """Of a made-up run: 40 and the seed in the lab, 2 more through mahimahi; BBR 1, whole ms 3 less."""
    whole_ms = job.scenario.link.trace is not None
    return 40.0 + job.seed + 2.0 * (job.engine == "mahimahi") - (job.scheme == "bbr") - 3.0 * whole_ms


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Job], int]]:
    made: list[tuple[list[Job], int]] = []

    def run_batch(jobs: Sequence[Job], *_: object, executor: Here, **__: object) -> list[Outcome]:
        made.append((list(jobs), executor.parallel))
        outcomes = []
        for job in jobs:
            flow = FlowSummary(job.scheme, goodput_mbps(job), 50.0, 60.0, 40.0, 0.01, 9, 30.0, 0, {})
            outcomes.append(Outcome(Summary("", "", job.seed, "", 60.0, 0.9, 1.0, 1.0, (flow,))))
        return outcomes

    def as_emulated(scenario: Scenario) -> Scenario:
        return scenario

    monkeypatch.setattr(agreement, "run_batch", run_batch)
    monkeypatch.setattr(agreement, "as_emulated", as_emulated)
    return made


def test_the_command_pairs_runs_and_writes_table_and_picture(
    batches: list[tuple[list[Job], int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["agree", "fixed", "lossy", "--seeds", "7", "--repeats", "3", "--out", str(tmp_path)]
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == json.loads((tmp_path / "agree.json").read_text())
    assert (tmp_path / "agree.png").stat().st_size > 5_000
    (lab, _), (whole_ms, _), (mahimahi, at_once) = batches
    assert at_once == 1, "one run in real time disturbs the other"
    assert [job.seed for job in lab] == [7] * 4
    assert [job.seed for job in whole_ms] == [7] * 4
    assert [job.seed for job in mahimahi] == [1, 2, 3] * 4
    assert {job.engine for job in lab + whole_ms} == {"lab"}
    assert {job.engine for job in mahimahi} == {"mahimahi"}
    assert len(rows) == 2 * 2 * len(agreement.MEASURES)
    wanted = {"scenario": "lossy", "scheme": "bbr", "measure": "throughput_mbps"}
    (row,) = (row for row in rows if row.items() >= wanted.items())
    assert row["lab"] == {"mean": 46.0, "half": None}
    assert row["lab_ms"] == {"mean": 43.0, "half": None}
    assert row["mahimahi"]["mean"] == 43.0
    assert row["ratio"] == pytest.approx(43 / 46, abs=1e-6)
    assert row["overlap"] is True
    assert main(arguments) == 0
    cells = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["lossy", "bbr", "lab", "46.0", "50.0", "60.0", "1.00", "30.0"] in cells
    assert ["lab,", "ms", "43.0", "50.0", "60.0", "1.00", "30.0"] in cells
    assert ["mahimahi", "43.0±2.5", "50.0±0.0", "60.0±0.0", "1.00±0.00", "30.0±0.0"] in cells


def test_a_rate_becomes_mahimahis_trace_in_the_lab(tmp_path: Path) -> None:
    step = find_scenario("step")
    made = agreement.at_whole_ms(step, tmp_path)
    assert made.link.rate_mbps is None
    assert made.link.steps == ()
    lines = Path(made.link.trace or "").read_text().split()
    assert lines[-1] == "60000"
    assert Counter(lines)["1000"] == 2, "24 Mbit/s"
    assert Counter(lines)["15000"] == 4, "48 Mbit/s"
    cellular = find_scenario("cellular-tmobile-lte")
    assert agreement.at_whole_ms(cellular, tmp_path) == cellular


def test_the_first_seconds_of_a_scenario() -> None:
    short = agreement.shortened(find_scenario("step"), 25.0)
    assert short.duration_s == 25.0
    assert [step.at_s for step in short.link.steps] == [10.0, 20.0]
    assert [flow.stop_s for flow in short.flows] == [25.0]
    late = replace(short, flows=(replace(short.flows[0], start_s=20.0),))
    with pytest.raises(ConfigError, match=r"--seconds: 20\.0 .* start of a flow of step"):
        agreement.shortened(late, 20.0)
