# SPDX-License-Identifier: Apache-2.0
"""Requests to a web server: scenario, draw, script, summary, and the suite's scores."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ltp_switcher.errors import ArtifactError, ConfigError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.lab import run as lab_run
from ltp_switcher.eval.lab import web
from ltp_switcher.eval.lab.script import daemon_of, request_plan, script
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.completion_times import Completions, read_completions, summarise_requests
from ltp_switcher.eval.run.requests import Requests, draw_requests
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Flow, Scenario, parse_scenario
from ltp_switcher.eval.suite import paths
from ltp_switcher.eval.suite.page import Results, html
from ltp_switcher.eval.suite.plan import plan
from ltp_switcher.eval.suite.web import WebCell, WebPath

TEXT = """
name = "pages"
duration_s = 10
[link]
rate_mbps = 20.0
rtt_ms = 40.0
[requests]
kind = "pages"
scheme = "rule"
per_s = 2.5
"""


def scenario(**changes: object) -> Scenario:
    document = tomllib.loads(TEXT)
    document["requests"] |= changes
    return parse_scenario(document)


def test_a_table_has_the_defaults_of_its_kind() -> None:
    assert scenario().requests == Requests("pages", "rule", 2.5, 5.0, 200.0, 10.0)
    assert scenario(kind="downloads").requests == Requests("downloads", "rule", 2.5, 10.0, 10_000.0, 10.0)
    assert scenario(smallest_kb=7, largest_kb=9, stop_s=4).requests == Requests(
        "pages", "rule", 2.5, 7.0, 9.0, 4.0
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": "videos"}, "requests.kind: 'videos' .* one of downloads, pages, kept, video"),
        ({"scheme": "cubik"}, "requests.scheme: 'cubik'"),
        ({"per_s": 0}, "requests.per_s: 0 is not valid; allowed: a number from 0.01 to 100"),
        ({"smallest_kb": 300}, r"requests.largest_kb: 200.0 .* allowed: at least smallest_kb \(300\)"),
        ({"largest_kb": 0.5}, "requests.largest_kb: 0.5"),
        ({"stop_s": 11}, "requests.stop_s: 11 is not valid; allowed: a number from 0 to 10"),
        ({"per_sec": 1}, r"requests.per_sec: 1 .*\(did you mean per_s\?\)"),
    ],
)  # fmt: skip
def test_an_error_names_field_value_and_what_is_allowed(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scenario(**changes)


def test_a_scenario_needs_flows_or_requests() -> None:
    document = tomllib.loads(TEXT)
    del document["requests"]
    with pytest.raises(ConfigError, match="flow: 0"):
        parse_scenario(document)


def test_the_manual_s_example_is_one() -> None:
    (block,) = [
        part.partition("```")[0]
        for part in (SCENARIOS.parent / "requests.md").read_text().split("```toml\n")[1:]
        if "[requests]" in part.partition("```")[0]
    ]
    document = tomllib.loads(TEXT) | tomllib.loads(block) | {"duration_s": 25}
    assert parse_scenario(document).need_requests().kind == "downloads"


def test_the_server_s_scheme_is_replaced_and_the_flows_only_with_it() -> None:
    beside = replace(scenario(), flows=(Flow("rule", 0.0, 10.0),))
    changed = beside.with_scheme("bbr")
    assert (changed.scheme, [flow.scheme for flow in changed.flows]) == ("bbr", ["rule"])
    changed = beside.with_scheme("bbr", every_flow=True)
    assert (changed.scheme, [flow.scheme for flow in changed.flows]) == ("bbr", ["bbr"])
    assert beside.alone(0).requests is None
    assert beside.faster(2.0).need_requests().stop_s == 5.0


def test_results_of_scenarios_without_requests_are_known_by_the_same_text_as_before() -> None:
    document = tomllib.loads(TEXT)
    del document["requests"]
    document["flow"] = [{"scheme": "rule"}]
    assert "requests" not in json.loads(parse_scenario(document).canonical())
    assert scenario().canonical() != scenario(per_s=2.6).canonical()


def test_requests_come_at_random_with_the_sizes_that_the_scenario_says() -> None:
    many = replace(scenario(kind="downloads").need_requests(), per_s=4.0, stop_s=1000.0)
    drawn = draw_requests(many, seed=3)
    at_s = np.array([one.at_us for one in drawn]) / 1e6
    assert abs(len(drawn) - 4000) < 4 * math.sqrt(4000)
    assert at_s.max() < 1000.0
    assert stats.kstest(np.diff(at_s), "expon", args=(0, 0.25)).pvalue > 0.01
    sizes = np.log([one.sizes_bytes[0] for one in drawn])
    low, high = math.log(10e3), math.log(10e6)
    assert stats.kstest(sizes, "uniform", args=(low, high - low)).pvalue > 0.01
    assert {len(one.sizes_bytes) for one in drawn} == {1}
    assert draw_requests(many, seed=3) == drawn
    assert draw_requests(many, seed=4) != drawn


def test_a_page_is_a_document_and_twelve_objects() -> None:
    drawn = draw_requests(scenario().need_requests(), seed=1)
    assert {len(one.sizes_bytes) for one in drawn} == {13}
    first = request_plan(scenario().need_requests(), 1).decode().splitlines()[0].split()
    assert [int(word) for word in first] == [drawn[0].at_us, *drawn[0].sizes_bytes]


def test_the_server_runs_the_scheme_and_the_client_waits_for_it() -> None:
    lines = script(scenario(), daemon_of(scenario())).splitlines()
    assert "serve 200001 mutant" in lines
    words = ("start_daemon", "serve", "browse 6 ", "/lab/bin/traffic", 'wait "$browser"')
    order = [next(n for n, line in enumerate(lines) if line.startswith(word)) for word in words]
    assert order == sorted(order)
    learned = scenario(scheme="ltp", kind="downloads")
    lines = script(learned, daemon_of(learned)).splitlines()
    assert {"serve 10000001 mutant ltp"} < set(lines)
    assert any(line.startswith("browse 1 ") for line in lines)
    assert "modprobe tcp_vegas" in script(scenario(scheme="vegas"), None).splitlines()


@pytest.mark.parametrize(
    ("served", "beside"),
    [("ltp", "jury"), ("mutant:bbr", "mutant:vegas"), ("fixed:3", "bbr"), ("bbr", "fixed:3")],
)
def test_flows_that_would_change_the_server_s_arm_are_refused(served: str, beside: str) -> None:
    mixed = replace(scenario(scheme=served), flows=(Flow(beside, 0.0, 5.0),))
    with pytest.raises(ConfigError, match="scheme"):
        web._check_arms(mixed, mixed.need_requests())


CSV = """at_us,bytes,first_us,done_us
1000000,99999,1100000,1200000
2000000,100000,2100000,2400000
3000000,999999,3500000,4000000
4000000,2000000,0,0
"""
RAW = {
    "server": {"delivered_pkts": 980, "dropped_pkts": 15, "lost_pkts": 5},
    "offered_mbit": 40.0,
    "flows": [
        {
            "scheme": "cubic", "bytes_received": 2_500_000, "lost_pkts": 0, "delivered_pkts": 9,
            "rtt_histogram": {"upper_ms": [10.0, 20.0, 30.0], "count": [0, 4, 0]},
        }
    ],
}  # fmt: skip


def test_a_summary_has_classes_and_what_never_came_takes_for_ever() -> None:
    beside = replace(scenario(kind="downloads"), flows=(Flow("cubic", 0.0, 10.0),))
    summary, utilisation = summarise_requests(beside, CSV, json.dumps(RAW))
    found = {name: (of.count, of.p50_s, of.p95_s) for name, of in summary.completion.items()}
    assert found == {
        "all": (4, 0.4, math.inf),
        "below 100 KB": (1, 0.2, 0.2),
        "100 KB to 1 MB": (2, 0.4, 1.0),
        "from 1 MB": (1, math.inf, math.inf),
    }
    assert (summary.unfinished, summary.loss) == (1, pytest.approx(0.02))
    assert summary.megabytes == pytest.approx(1.199998)
    (flow,) = summary.beside
    assert (flow.scheme, flow.throughput_mbps, flow.rtt_p50_ms) == ("cubic", 2.0, 15.0)
    assert utilisation == pytest.approx((20.0 + 1.199998 * 8) / 40.0)


@pytest.mark.parametrize("text", ["at_us,bytes\n1,2\n", CSV + "1,x,3,4\n"])
def test_results_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ArtifactError):
        read_completions(text)


def completions(*took_s: float) -> Completions:
    times = np.array(took_s)
    return Completions(np.zeros(times.size), np.full(times.size, 50.0), times)


def cell(*runs: Completions) -> WebCell:
    return WebCell(dict(enumerate(runs)), 0.0, math.nan, math.nan)


def test_the_best_arm_is_that_of_both_quantiles_and_seeds_count_together() -> None:
    path = WebPath(
        "short-1",
        {
            "rule": cell(completions(1.0, 4.0, 9.0), completions(2.0)),
            "bbr": cell(completions(1.0, 1.0, 8.0), completions(1.0)),
            "ltp": cell(completions(2.0, 2.0, 3.0), completions(2.0)),
            "cubic": cell(completions(2.0, 8.0, 9.0), completions(math.inf)),
        },
    )
    # sqrt(1 * 8) of BBR against sqrt(2 * 3) of LTP.
    assert path.best_arm == "ltp"
    assert path.ratio("rule", "ltp", "p50_s") == 1.0
    assert path.ratio("rule", "ltp", "p95_s") == 3.0
    assert path.paired("rule", "ltp") == pytest.approx((0.5 * 2.0 * 3.0 * 1.0) ** 0.25)
    # A request that never came cannot be compared.
    assert path.paired("cubic", "ltp") == pytest.approx((1.0 * 4.0 * 3.0) ** (1 / 3))
    results = Results(set_name="test", kernel="6.1", quick=False, wall_s=1.0, web=[path])
    page = html(results, {})
    assert "short-1" in page
    assert "ltp*" in page
    document = results.to_dict()
    assert document["web"][0]["best_arm"] == "ltp"  # type: ignore[index]


def test_schemes_are_compared_over_the_seeds_that_both_ran() -> None:
    """The second seed draws larger files, and Cubic has not run it."""
    path = WebPath(
        "short-1",
        {
            "rule": cell(completions(2.0, 2.0), completions(30.0, 30.0)),
            "bbr": cell(completions(1.0, 3.0), completions(20.0, 60.0)),
            "cubic": cell(completions(4.0, 4.0)),
        },
    )
    assert path.ratio("rule", "cubic", "p95_s") == 0.5
    assert path.ratio("rule", "bbr", "p95_s") == 0.5
    # Over both seeds BBR would seem the worse one by far.
    assert path.best_arm == "bbr"
    assert math.isnan(WebPath("", {"rule": cell(), "bbr": cell()}).ratio("rule", "bbr", "p50_s"))


def test_the_suite_s_paths_ask_for_part_of_the_link() -> None:
    for set_name in ("tuning", "test"):
        found = [s for s in paths.load(set_name).values() if s.requests is not None]
        assert [s.name for s in found] == ["pages-1", "pages-2", "short-1", "short-2"]
        for one in found:
            requests = one.need_requests()
            many = replace(requests, stop_s=4000.0)
            demand_mbps = sum(sum(r.sizes_bytes) for r in draw_requests(many, 1)) * 8e-6 / 4000.0
            assert one.link.rate_mbps is not None
            assert 0.2 < demand_mbps / one.link.rate_mbps < 0.6
    runs = plan("test", {"rule": 1, "bbr": 1, "known": 1}, "6.1", quick=False, names=("short-2", "pages-2"))
    schemes = {(r.path, r.scheme): [f.scheme for f in r.job.scenario.flows] for r in runs}
    assert schemes == {
        ("short-2", "rule"): ["rule"], ("short-2", "bbr"): ["bbr"],
        ("pages-2", "rule"): ["cubic"], ("pages-2", "bbr"): ["cubic"],
    }  # fmt: skip
    assert {run.job.scheme for run in runs} == {"rule", "bbr"}


def test_other_commands_refuse_a_scenario_with_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages.toml").write_text(TEXT)
    assert cli.main(["compare", str(tmp_path / "pages.toml"), "--schemes", "bbr", "--seeds", "1"]) != 0
    assert "without [requests]" in capsys.readouterr().err


@pytest.mark.lab
def test_pages_of_nginx_under_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page needs its bytes' time on the link and four round trips; its connections run arms of `mutant`."""

    def watched(of: Scenario, daemon: object) -> str:
        # Soon, because later connections leave BBR's start out where it overfilled the buffer.
        look = "(for second in 1 2 3; do sleep 1; ss -Htin sport = :80 >>/run/lab/arms; done) &"
        check = "grep -q m/bbr /run/lab/arms || { cat /run/lab/arms; exit 9; }"
        return script(of, daemon_of(of)).replace("/lab/bin/traffic", f"{look}\n/lab/bin/traffic") + check

    monkeypatch.setattr(lab_run, "script", watched)
    asked = scenario(stop_s=4)
    job = Job(replace(asked, duration_s=5.0, flows=(Flow("cubic", 0.0, 5.0),)), seed=2)
    files = web.run_requests(job.scenario, seed=job.seed, kernel=job.kernel)
    done = read_completions(files.files["requests.csv"].decode())
    drawn = draw_requests(asked.need_requests(), job.seed)
    assert done.kilobytes.tolist() == [sum(one.sizes_bytes) / 1000 for one in drawn]
    assert np.isfinite(done.took_s).all()
    assert (done.took_s > 4 * 0.04 + 0.5 * done.kilobytes * 8e-3 / 20.0).all()
    summary, utilisation = summarise_requests(
        job.scenario, files.files["requests.csv"].decode(), files.files["requests.json"].decode()
    )
    assert 1.0 < summary.beside[0].throughput_mbps < 20.0
    assert 0.6 < utilisation < 1.0
