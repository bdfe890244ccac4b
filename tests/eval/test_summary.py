# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from support.raw_results import raw_files

from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.report.compare import fold, harm
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.scenario import LinkStep, Scenario, load_scenario, parse_scenario
from ltp_switcher.eval.run.series import read_series
from ltp_switcher.eval.run.summary import Summary, read_totals, summarise


def summary_of(scenario: Scenario, *, seed: int = 1, goodput_share: float = 0.9) -> Summary:
    files = raw_files(scenario, seed=seed, goodput_share=goodput_share)
    series = read_series(files["timeseries.csv"].decode())
    totals = read_totals(files["flows.json"].decode())
    return summarise(scenario, series, totals, seed=seed, kernel="6.1", wall_s=1.5)


def bundled(name: str) -> Scenario:
    return load_scenario(SCENARIOS / f"{name}.toml")


def test_summary_has_the_documented_fields_in_order() -> None:
    document = json.loads(summary_of(bundled("step")).to_json())
    assert list(document) == [
        "scenario", "scheme", "seed", "kernel", "duration_s", "utilisation", "jain", "wall_s", "flows",
    ]  # fmt: skip
    assert list(document["flows"][0]) == [
        "scheme", "throughput_mbps", "rtt_mean_ms", "rtt_p95_ms", "base_rtt_ms", "loss", "retransmits",
        "reward", "switches", "arm_share",
    ]  # fmt: skip


def test_values_of_a_flow_on_a_changing_link() -> None:
    fixed = bundled("fixed").with_scheme("cubic")
    steps = (LinkStep(15.0, rate_mbps=96.0), LinkStep(30.0, rtt_ms=80.0))
    summary = summary_of(replace(fixed, link=replace(fixed.link, steps=steps)))
    (flow,) = summary.flows
    assert flow.throughput_mbps == pytest.approx(0.9 * (15 * 48 + 45 * 96) / 60, rel=1e-6)
    assert summary.utilisation == pytest.approx(0.9)
    assert flow.base_rtt_ms == 60.0
    assert 60.0 < flow.rtt_mean_ms < flow.rtt_p95_ms
    assert flow.arm_share == {"cubic": 1.0}
    assert summary.jain == 1.0


def test_flows_that_come_and_go_are_weighed_over_their_own_lives() -> None:
    summary = summary_of(bundled("multi-flow"))
    assert [flow.throughput_mbps for flow in summary.flows] == pytest.approx([0.9 * 12] * 4)
    assert [flow.base_rtt_ms for flow in summary.flows] == [40.0, 40.0, 20.0, 80.0]
    assert summary.jain == pytest.approx(1.0)
    # From 0 to 5 s one of four flows is there and takes a quarter of its share, and so on.
    assert summary.utilisation == pytest.approx(0.9 * (5 * 1 + 5 * 2 + 5 * 3 + 45 * 4) / 4 / 60)


def test_jain_without_a_common_time_is_over_the_lives() -> None:
    scenario = bundled("friendliness")
    first, second = scenario.flows
    apart = replace(
        scenario, flows=(replace(first, start_s=0.0, stop_s=20.0), replace(second, start_s=30.0, stop_s=60.0))
    )
    assert summary_of(apart).jain == pytest.approx(1.0)


def test_equal_results_give_equal_bytes() -> None:
    assert summary_of(bundled("multi-flow")).to_json() == summary_of(bundled("multi-flow")).to_json()


def test_a_flow_that_never_got_a_packet_through() -> None:
    scenario = bundled("smoke")
    files = raw_files(scenario)
    header = files["timeseries.csv"].decode().splitlines()[0]
    rows = [f"{n / 10},0,switcher,0,,,,10,0,0,0,0,,12,0" for n in range(50)]
    totals = json.loads(files["flows.json"])
    totals["flows"][0].update(bytes_received=0, lost_pkts=0, delivered_pkts=0)
    totals["flows"][0]["rtt_histogram"]["count"] = [0] * 300
    summary = summarise(
        scenario, read_series("\n".join([header, *rows])), read_totals(json.dumps(totals)),
        seed=1, kernel="6.1", wall_s=1.0,
    )  # fmt: skip
    document = json.loads(summary.to_json())
    assert document["flows"][0]["rtt_mean_ms"] is None
    assert document["flows"][0]["reward"] == document["utilisation"] == 0.0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"flows": [{}]}'])
def test_foreign_files_are_refused(text: str) -> None:
    with pytest.raises(ArtifactError):
        read_totals(text)


def test_foreign_time_series_are_refused(tmp_path: Path) -> None:
    good = raw_files(bundled("smoke"))["timeseries.csv"].decode()
    for text in ("", "a,b\n1,2\n", good.replace("12.0", "twelve")):
        with pytest.raises(ArtifactError):
            read_series(text)


def test_fewer_flows_than_the_scenario_has_is_an_error() -> None:
    files = raw_files(bundled("smoke"))
    with pytest.raises(ArtifactError, match="4 flows, but 1"):
        summarise(
            bundled("multi-flow"), read_series(files["timeseries.csv"].decode()),
            read_totals(files["flows.json"].decode()), seed=1, kernel="6.1", wall_s=1.0,
        )  # fmt: skip


def test_fold_groups_over_seeds() -> None:
    scenario = bundled("fixed")
    runs = [
        summary_of(scenario.with_scheme(scheme), seed=seed, goodput_share=share)
        for scheme, share in (("bbr", 0.9), ("vegas", 0.5))
        for seed in (1, 2, 3)
    ]
    bbr, vegas = fold(runs)
    assert (bbr.scheme, bbr.seeds) == ("bbr", (1, 2, 3))
    assert bbr.throughput_mbps.mean == pytest.approx(43.2)
    assert bbr.rtt_mean_ms.sd > 0
    assert fold(runs[:1])[0].rtt_mean_ms.sd == 0.0
    assert vegas.reward.mean < bbr.reward.mean


def test_harm_is_of_the_time_in_which_a_flow_has_company() -> None:
    """A flow that comes after two thirds of the other's life and takes nearly all, harms it by 0.9."""
    scenario = parse_scenario(
        {
            "name": "late", "duration_s": 6.0, "link": {"rate_mbps": 10.0, "rtt_ms": 20.0},
            "flow": [{"scheme": "bbr", "start_s": 4.0}, {"scheme": "cubic"}],
        }
    )  # fmt: skip
    files = raw_files(scenario)
    came, stayed = read_series(files["timeseries.csv"].decode())
    alone = replace(stayed, goodput_mbps=np.full(60, 8.0), rtt_ms=np.full(60, 20.0))
    late = alone.t_s >= 4.0 - 1e-9
    starved = replace(alone, goodput_mbps=np.where(late, 0.8, 8.0), rtt_ms=np.where(late, 80.0, 20.0))
    job = Job(scenario)
    shared = cast(RunResult, SimpleNamespace(job=job, series=[came, starved]))
    solo = cast(RunResult, SimpleNamespace(job=Job(scenario.alone(1)), series=[alone]))
    assert harm(shared, [solo]) == pytest.approx((0.9, 0.75))
    assert harm(solo, []) is None
