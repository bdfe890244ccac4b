# SPDX-License-Identifier: Apache-2.0
"""The suite: its two sets are apart, its plan is complete, its scores follow their formulas."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.schedule import link_trace
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.run.summary import FlowSummary, Summary
from ltp_switcher.eval.suite import paths
from ltp_switcher.eval.suite.over_time import Recovery, recoveries, segment_oracle
from ltp_switcher.eval.suite.page import Origin, Results, html
from ltp_switcher.eval.suite.plan import Run, judged, lasting, plan
from ltp_switcher.eval.suite.score import gap_closed, geometric_mean, means, over_arms, score
from ltp_switcher.eval.suite.siblings import player_reward

TUNING, TEST = (list(paths.load(set_name).values()) for set_name in ("tuning", "test"))


def values(scenarios: list[Scenario], name: str) -> set[float]:
    """Every value that a property of a link takes, over all paths and steps."""
    return {
        value
        for scenario in scenarios
        for part in (scenario.link, *scenario.link.steps)
        if (value := getattr(part, name, None)) not in (None, 0.0)
    }


@pytest.mark.parametrize("set_name", ["tuning", "test"])
def test_the_files_are_those_that_the_generator_draws(set_name: str) -> None:
    files = {path.stem: path.read_text() for path in (paths.FOLDER / set_name).glob("*.toml")}
    assert files == paths.draw({"tuning": 1, "test": 4}[set_name]), (
        "run: python -m ltp_switcher.eval.suite.paths"
    )


@pytest.mark.parametrize("name", ["rate_mbps", "rtt_ms", "loss", "police_mbps", "offset_s", "jitter_ms"])
def test_the_sets_share_no_parameter(name: str) -> None:
    ours, theirs = values(TUNING, name), values(TEST, name)
    assert ours
    assert theirs
    assert not ours & theirs


def test_the_sets_share_no_second_of_a_trace_and_no_seed() -> None:
    assert spans(TUNING).keys() == spans(TEST).keys()
    assert_apart(TUNING)
    assert not set(paths.SEEDS["tuning"]) & set(paths.SEEDS["test"])


def test_the_examples_with_jitter_on_which_constants_were_chosen_are_apart_from_the_test_set() -> None:
    """The lab notes ran them with `--quick`, for half of their time."""
    folder = REPOSITORY / "docs" / "examples" / "jitter"
    examples = [one.faster(2.0) for one in paths.load(str(folder)).values()]
    assert len(examples) == 11
    assert not values(examples, "jitter_ms") & values(TEST, "jitter_ms")
    assert spans(examples)
    assert_apart(examples)


def spans(scenarios: list[Scenario]) -> dict[str, tuple[float, float]]:
    """Begin and end of the part of each trace that the scenarios use, s."""
    return {
        s.link.trace: (s.link.offset_s, s.link.offset_s + s.duration_s) for s in scenarios if s.link.trace
    }


def assert_apart(scenarios: list[Scenario]) -> None:
    """They use no second of a trace that the test set uses."""
    theirs = spans(TEST)
    for trace, (begin_s, end_s) in spans(scenarios).items():
        other_begin_s, other_end_s = theirs[trace]
        assert end_s <= other_begin_s or other_end_s <= begin_s


def test_the_sets_have_the_same_families_and_enough_paths() -> None:
    assert [s.name for s in TUNING] == [s.name for s in TEST]
    single = [s.name for s in TEST if len(s.flows) == 1]
    assert len(single) >= 24
    kinds = {s.name: paths.kind(s) for s in TEST}
    assert set(kinds.values()) == {"static", "changing", "trace", "several", "web"}
    for name, kind in {"fixed-1": "static", "step-1": "changing", "trace-2": "trace", "two-1": "several",
                       "short-2": "web"}.items():  # fmt: skip
        assert kinds[name] == kind
    assert [paths.family(name) for name in ("rtt-steps-2", "my-path", "7")] == ["rtt-steps", "my-path", "7"]


def test_a_plan_has_every_run_once() -> None:
    runs = plan("test", {"rule": 3, "bbr": 1}, "6.1", quick=False)
    assert len({run.job for run in runs}) == len(runs) == 4 * len(TEST)
    assert {run.job.seed for run in runs} == {101, 102, 103}
    eight = next(run for run in runs if (run.path, run.scheme) == ("eight-1", "bbr"))
    assert [flow.scheme for flow in eight.job.scenario.flows] == ["bbr"] * 8
    beside = next(run for run in runs if (run.path, run.scheme) == ("beside-cubic-1", "rule"))
    assert [flow.scheme for flow in beside.job.scenario.flows] == ["rule", "cubic"]


def test_an_unknown_scheme_is_told_with_all_that_a_suite_knows() -> None:
    with pytest.raises(ConfigError, match=r"--schemes.*'vegan'.*bbr.*known.*rule:no-swing") as told:
        plan("test", {"bbr": 1, "vegan": 1}, "6.1", quick=False)
    assert str(told.value).count("bpftune") == 1


def test_a_quick_plan_is_short() -> None:
    runs = plan("test", {"bbr": 1}, "6.1", quick=True)
    assert {run.job.scenario.duration_s for run in runs} == {30.0}
    whole = {s.name: s for s in TEST}
    for run in runs:
        shorter, longer = run.job.scenario.link.steps, whole[run.path].link.steps
        assert [s.at_s for s in shorter] == pytest.approx([s.at_s / 2 for s in longer])
        assert [replace(s, at_s=0.0) for s in shorter] == [replace(s, at_s=0.0) for s in longer]


@pytest.mark.parametrize(
    ("scheme", "before", "runs"),
    [
        ("known", "switcher", "switcher"), ("bpftune", "bpftune", "bpftune"),
        ("vegas-later", "switcher", "vegas"), ("bbr-later", "switcher", "bbr"),
    ],
)  # fmt: skip
def test_a_known_path_is_the_same_path_later(scheme: str, before: str, runs: str) -> None:
    """The judged flow meets the link as a flow alone does: the same steps, the same part of a trace."""
    whole = {s.name: s for s in TEST}
    for name in ("rate-steps-1", "trace-2"):
        (run,) = (r for r in plan("test", {scheme: 1, "bbr": 1}, "6.1", quick=False, names=(name,))
                  if r.scheme == scheme)  # fmt: skip
        made, alone = run.job.scenario, whole[name]
        *earlier, last = made.flows
        assert len(earlier) == 10
        assert all(one.stop_s < other.start_s for one, other in pairwise(made.flows))
        assert {flow.scheme for flow in earlier} == {before}
        assert last.scheme == runs
        lead_s = last.start_s
        assert lead_s == 30.0
        assert last.stop_s == made.duration_s == lead_s + alone.duration_s
        assert [step.at_s - lead_s for step in made.link.steps] == pytest.approx(
            [step.at_s for step in alone.link.steps]
        )
        if alone.link.trace:
            there = replace(alone.link, offset_s=made.link.offset_s + lead_s)
            met = link_trace(replace(alone, link=there))
            expected = link_trace(alone)
            assert met is not None
            assert expected is not None
            np.testing.assert_array_equal(met, expected)
        seen = judged(run, summary(runs, *[1.0] * 10, 7.0))
        assert [(flow.scheme, flow.reward) for flow in seen.flows] == [(scheme, 1e9)]


def test_a_known_path_has_one_flow() -> None:
    names = ("eight-1", "pages-1", "fixed-1")
    runs = plan("test", {"known": 1, "bpftune": 1, "bbr": 1}, "6.1", quick=False, names=names)
    assert {(run.path, run.scheme) for run in runs} == {
        *((name, "bbr") for name in names), ("fixed-1", "known"), ("fixed-1", "bpftune")
    }  # fmt: skip


def run_of(path: str, scheme: str) -> Run:
    scenario = next((one for one in TEST if one.name == path), TEST[0])
    return Run(path, paths.kind(scenario), scheme, Job(scenario, 101, "6.1"))


def scored_runs(shares: dict[str, dict[str, float]]) -> list[tuple[Run, Summary]]:
    return [
        (run_of(path, scheme), summary(scheme, reward))
        for path, of in shares.items()
        for scheme, reward in of.items()
    ]


def test_the_best_arm_in_hindsight_is_an_arm_alone() -> None:
    scored = score(scored_runs({"p": {"bbr": 1.0, "bpftune": 9.0}}))
    assert scored[0].best_arm == "bbr"


def test_the_time_to_recover() -> None:
    """At 20 s the rate doubles. The flow is at half of the best arm's rate until 23 s."""
    scenario = parse_scenario(
        {
            "name": "x", "duration_s": 40, "flow": [{"scheme": "rule"}],
            "link": {"rate_mbps": 10, "rtt_ms": 50, "step": [{"at_s": 20, "rate_mbps": 20}]},
        }
    )  # fmt: skip

    def series(goodput_mbps: np.ndarray) -> FlowSeries:
        n, one = goodput_mbps.size, np.ones(goodput_mbps.size)
        return FlowSeries(
            0,
            "rule",
            np.arange(n) * 0.1,
            goodput_mbps,
            50 * one,
            *[one] * 4,
            0 * one,
            *[one] * 4,
            ("bbr",) * n,
        )

    best = np.where(np.arange(400) < 200, 10.0, 20.0)
    late = np.where(np.arange(400) < 230, 10.0, 20.0)
    (found,) = recoveries("x", scenario, series(late), {"bbr": [series(best)], "ltp": [series(best / 2)]})
    # From 22.9 s on, nine tenths of a second are good: (0.1 + 0.9 * 4) / 4 is above 0.9.
    assert (found.at_s, found.took_s, found.allowed_s) == (20.0, 2.9, 2.0)
    (never,) = recoveries("x", scenario, series(best / 2), {"bbr": [series(best)]})
    assert never.took_s == 20.0
    # No arm settles before the next change where the rate hops each second; a handover is a change as well.
    hops = [{"at_s": at_s, "rate_mbps": 10 + at_s % 2} for at_s in range(1, 40)]
    restless = replace(scenario, link=parse_scenario(hopping(hops)).link)
    assert recoveries("x", restless, series(late), {"bbr": [series(best)]}) == []
    handover = hopping([]) | {
        "link": {"rate_mbps": 10, "rtt_ms": 50, "handover": [{"at_s": 20, "rate_mbps": 20}]}
    }
    (found,) = recoveries("x", parse_scenario(handover), series(late), {"bbr": [series(best)]})
    assert (found.at_s, found.took_s) == (20.0, 2.9)


def hopping(steps: list[dict[str, float]]) -> dict[str, object]:
    """A scenario's document with these steps of its link."""
    link = {"rate_mbps": 10, "rtt_ms": 50, "step": steps}
    return {"name": "x", "duration_s": 40, "flow": [{"scheme": "rule"}], "link": link}


@pytest.mark.parametrize(
    ("schemes", "names"), [({"rule": 1}, ()), ({"bbrr": 1, "bbr": 1}, ()), ({"bbr": 1}, ("fixed-9",))]
)
def test_a_plan_without_sense_is_refused(schemes: dict[str, int], names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        plan("test", schemes, "6.1", quick=False, names=names)


def summary(scheme: str, *rewards: float) -> Summary:
    flows = tuple(
        FlowSummary(scheme, 10.0, 40.0, 50.0, 30.0, 0.01, 3, reward, 2, {"bbr": 0.25, "ltp": 0.75})
        for reward in rewards
    )
    other = replace(flows[0], scheme="reno", reward=1e9)
    return Summary("x", scheme, 1, "6.1", 60.0, 0.9, 0.8, 1.0, (*flows, other))


def test_the_best_arm_is_that_of_the_means_and_other_flows_do_not_count() -> None:
    rewards = [("rule", (4.0,)), ("rule", (8.0,)), ("bbr", (1.0,)), ("bbr", (9.0,)), ("ltp", (6.0, 10.0)),
               ("ltp", (8.0,))]  # fmt: skip
    (path,) = score((run_of("fixed-1", scheme), summary(scheme, *of)) for scheme, of in rewards)
    assert path.best_arm == "ltp"
    assert path.cells["ltp"].rewards == (8.0, 8.0)
    assert path.share("rule") == pytest.approx(6.0 / 8.0)
    assert path.share("bbr") == pytest.approx(5.0 / 8.0)
    assert path.cells["rule"].arm_share == {"bbr": 0.25, "ltp": 0.75}


@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=40))
def test_a_geometric_mean_lies_in_its_interval(shares: list[float]) -> None:
    mean = geometric_mean(shares)
    assert mean.value == pytest.approx(math.prod(shares) ** (1 / len(shares)))
    assert min(shares) * 0.999 <= mean.low <= mean.high <= max(shares) * 1.001
    assert mean.low <= mean.value * 1.001
    assert mean.value <= mean.high * 1.001


def test_the_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    covered = [
        (mean := geometric_mean(np.exp(rng.normal(-0.2, 0.3, 30)).tolist())).low
        <= math.exp(-0.2)
        <= mean.high
        for _ in range(200)
    ]
    assert 0.88 <= np.mean(covered) <= 0.99


def test_means_by_kind_and_the_gap_that_is_closed() -> None:
    of = scored_runs(
        {
            "fixed-1": {"rule": 9.0, "bbr": 10.0, "ltp": 5.0},
            "slow-1": {"rule": 8.0, "bbr": 2.5, "ltp": 10.0},
            "trace-1": {"rule": 10.0, "bbr": 10.0, "ltp": 1.0},
        }
    )
    paths_scored = score(of)
    found = means(paths_scored, "rule")
    assert found["static"].value == pytest.approx(math.sqrt(0.9 * 0.8))
    assert found["trace"].value == pytest.approx(1.0)
    assert found["all"].paths == 3
    single, closed = gap_closed(paths_scored, "rule")
    assert single == "bbr"
    assert closed == pytest.approx(1 - math.log(0.9 * 0.8) / math.log(0.25))


def test_over_an_arm_the_paths_are_paired_and_a_family_is_drawn_whole() -> None:
    rewards = {f"fixed-{n}": {"rule": 2.0, "bbr": 1.0, "ltp": 4.0} for n in range(1, 9)}
    rewards |= {f"slow-{n}": {"rule": 1.0, "bbr": 1.0} for n in range(1, 9)}
    bbr, ltp = over_arms(score(scored_runs(rewards)), "rule")
    assert (bbr.arm, bbr.by_path.paths, ltp.arm, ltp.by_path.paths) == ("bbr", 16, "ltp", 8)
    assert bbr.by_path.value == bbr.by_family.value == pytest.approx(math.sqrt(2.0))
    # With two families a quarter of all draws has the one alone, and a quarter the other.
    assert (bbr.by_family.low, bbr.by_family.high) == pytest.approx((1.0, 2.0))
    assert 1.1 < bbr.by_path.low < bbr.by_path.high < 1.9
    assert (ltp.by_path.low, ltp.by_family.high) == pytest.approx((0.5, 0.5))


def test_a_path_on_which_no_arm_earned_anything_is_no_success() -> None:
    of = scored_runs({"fixed-1": {"rule": 5.0, "bbr": 10.0}, "dead-1": {"rule": 3.0, "bbr": 0.0, "ltp": 0.0}})
    alive, dead = score(of)
    assert (alive.earned, dead.earned) == (True, False)
    assert segment_oracle([[np.zeros(100)], [np.zeros(100)]]) is None


def test_the_oracle_takes_the_best_arm_of_every_ten_seconds() -> None:
    """For 10 s one arm has 4 and the other 1, for 10 s they have 1 and 3, and for 5 s both have 2."""
    first = np.repeat([4.0, 1.0, 2.0], [100, 100, 50])
    second = np.repeat([1.0, 3.0, 2.0], [100, 100, 50])
    assert segment_oracle([[first], [second]]) == pytest.approx(80 / 60)
    # Over seeds an arm counts with its mean: 4 and 2 in the first segments.
    lucky = np.repeat([7.0, 1.0, 2.0], [100, 100, 50])
    assert segment_oracle([[first], [second, lucky]]) == pytest.approx((40 + 20 + 10) / 70)


def test_the_page_has_every_path_and_loads_nothing() -> None:
    paths_scored = score(scored_runs({p: {"rule": 1.0, "bbr": 2.0} for p in ("fixed-1", "trace-1")}))
    recoveries = {"rule": [Recovery("step-1", 10.0, took_s, 2.0) for took_s in (0.5, 1.5, 9.0)]}
    results = Results(
        set_name="test",
        kernel="6.1",
        quick=True,
        wall_s=1.0,
        paths=paths_scored,
        late=paths_scored,
        recoveries=recoveries,
        oracles={"fixed-1": 1.25, "trace-1": 1.0},
        origin=Origin("ltp-eval suite --quick", "abc1234", {"rule": [101, 102], "bbr": [101]}),
    )
    page = html(results, {"a <picture>": "QUJD"})
    for text in (
        "ltp-eval suite --quick",
        "revision abc1234",
        "rule 101, 102; bbr 101",
        "1.250 on static paths",
        "in 1.5 s (median of 3 changes), and 2 times",
        "fixed-1",
        "trace-1",
        "0.500",
        "a &lt;picture&gt;",
        "data:image/png;base64,QUJD",
    ):
        assert text in page
    assert "http" not in page
    assert "<script" not in page
    document = results.to_dict()
    made_by = {
        "command": "ltp-eval suite --quick",
        "revision": "abc1234",
        "seeds": {"rule": [101, 102], "bbr": [101]},
    }
    assert document["made_by"] == made_by
    assert [path["name"] for path in document["paths"]] == ["fixed-1", "trace-1"]  # type: ignore[attr-defined]


def test_no_two_paths_of_a_set_are_alike() -> None:
    for scenarios in (TUNING, TEST):
        assert all(one.link != other.link for one, other in combinations(scenarios, 2))


def series_of(flow: int, start_s: float, goodput_mbps: float, rtt_ms: float) -> FlowSeries:
    """A flow that gets so much from its start to 4 s, without loss."""
    t_s = np.arange(round(10 * start_s), 40) / 10
    one = {"goodput_mbps": goodput_mbps, "rtt_ms": rtt_ms, "delivered_pkts": 10.0}
    numbers = {
        name: np.full(t_s.size, one.get(name, 0.0))
        for name in FlowSeries.__dataclass_fields__
        if name not in {"flow", "scheme", "t_s", "arm"}
    }
    return FlowSeries(flow=flow, scheme="rule", t_s=t_s, arm=("ltp",) * t_s.size, **numbers)


def test_a_player_s_reward_is_that_of_the_sum_times_jain() -> None:
    """8 alone at 20 ms for 2 s: 64 / 20. Then 6 and 2, at 30 and 10 ms: 64 / 20 times 64 / (2 * 40)."""
    alone, fair = series_of(0, 0.0, 8.0, 20.0), series_of(0, 0.0, 4.0, 20.0)
    assert player_reward([alone]) == pytest.approx(3.2)
    assert player_reward([fair, replace(fair, flow=1)]) == pytest.approx(3.2)
    unfair = [series_of(0, 0.0, 6.0, 30.0), series_of(1, 2.0, 2.0, 10.0)]
    assert player_reward(unfair) == pytest.approx((36 / 30 + 3.2 * 0.8) / 2)


def test_only_runs_of_the_kernels_own_protocols_last() -> None:
    schemes = {"bbr": 1, "cubic": 1, "ltp": 1, "rule": 1}
    runs = plan(
        "test", schemes, "6.1", quick=False, names=["fixed-1", "beside-cubic-1", "eight-1", "pages-1"]
    )
    assert {run.scheme for run in runs if lasting(run.job.scenario)} == {"bbr", "cubic"}
    assert {run.scheme for run in runs if not lasting(run.job.scenario)} == {"ltp", "rule"}
    assert sum(lasting(run.job.scenario) for run in runs) == 8
