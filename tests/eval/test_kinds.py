# SPDX-License-Identifier: Apache-2.0
"""Kinds of path: some are for tuning, and no choice is made on the two sets that are held out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.house import House

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.suite import kinds, paths
from ltp_switcher.eval.suite.page import _paths_table
from ltp_switcher.eval.suite.plan import plan
from ltp_switcher.eval.suite.wide import KINDS as WIDE_KINDS

HELD_OUT_SETS = ("held-out", "held-out-2", "held-out-3")
TUNING, FIRST, SECOND, THIRD = (paths.load(name) for name in ("tuning-kinds", *HELD_OUT_SETS))
HELD_OUT = {**FIRST, **SECOND, **THIRD}
FILES = sorted(House.at(REPOSITORY).files)
MAY_NAME = re.compile(
    r"eval/suite/(held-out(-[23])?/|(kinds|traffic)\.toml$|(kinds|traffic_sets|paths)\.py$)"
    r"|eval/README\.md$|docs/lab-notes/held-out\.md$"
    r"|tests/eval/test_kinds\.py$|CHANGELOG\.md$"
)
"""Files that name paths or the sets that are held out. The lab note tells of each look at them."""


def of_use(use: str) -> set[str]:
    return {name for name, kind in kinds.kinds().items() if kind.use == use}


def unseen() -> set[str]:
    return set().union(*map(of_use, HELD_OUT_SETS))


def test_most_of_the_kinds_are_held_out_each_with_a_reason() -> None:
    assert [len(of_use(use)) for use in ("tuning", *HELD_OUT_SETS)] == [17, 11, 10, 10]
    assert kinds.DRAWN.keys() == kinds.kinds().keys()
    for kind in kinds.kinds().values():
        assert len(kind.tells) > 10
        assert len(kind.why) > 10


def test_a_use_that_is_none_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kinds.toml").write_text('[narrow]\nuse = "test"\ntells = "slow"\nwhy = "new"\n')
    monkeypatch.setattr(kinds, "LIST", tmp_path / "kinds.toml")
    with pytest.raises(
        ConfigError, match=r"narrow.use: 'test' .* tuning or held-out or held-out-2 or held-out-3"
    ):
        kinds.kinds.__wrapped__()


@pytest.mark.parametrize("set_name", ["tuning-kinds", *HELD_OUT_SETS])
def test_the_files_are_those_that_the_generator_draws(set_name: str) -> None:
    files = {path.stem: path.read_text() for path in (paths.FOLDER / set_name).glob("*.toml")}
    assert files == kinds.draw_kinds(set_name), "run: python -m ltp_switcher.eval.suite.kinds"


def test_each_set_has_two_paths_of_40_s_of_each_of_its_kinds_alone() -> None:
    for scenarios, use in zip((TUNING, FIRST, SECOND, THIRD), ("tuning", *HELD_OUT_SETS), strict=True):
        assert len(scenarios) == 2 * len(of_use(use))
        assert {scenario.duration_s for scenario in scenarios.values()} == {40.0}
        assert {paths.family(name) for name in scenarios} == of_use(use)
        assert {kinds.use_of(name) for name in scenarios} == {use}
    assert kinds.use_of("fixed-1") == ""


def test_both_sets_and_all_their_paths_are_held_out() -> None:
    ours = (*paths.SETS, *paths.KIND_SETS, *paths.APPLICATIONS)
    assert [name for name in ours if paths.is_held_out(name)] == [*HELD_OUT_SETS]
    assert all(map(kinds.holds_out, HELD_OUT))
    assert not any(map(kinds.holds_out, (*TUNING, *paths.load("tuning"), *paths.load("test"))))


def values(scenarios: Iterable[Scenario], name: str) -> set[float]:
    """Every value that a property of a link takes, over all paths, steps and handovers."""
    return {
        value
        for scenario in scenarios
        for part in (scenario.link, *scenario.link.steps, *scenario.link.road.handovers)
        if (value := getattr(part, name, None)) not in (None, 0.0)
    }


@pytest.mark.parametrize("held_out", [FIRST, SECOND, THIRD], ids=["first", "second", "third"])
def test_the_sets_share_no_rate_no_loss_and_no_way_back(held_out: dict[str, Scenario]) -> None:
    assert values(held_out.values(), "rate_mbps")
    for name in ("rate_mbps", "loss"):
        assert not values(TUNING.values(), name) & values(held_out.values(), name)
    backs = [{s.link.road.back for s in of.values()} - {None} for of in (TUNING, held_out)]
    assert all(backs)
    assert not backs[0] & backs[1]


@pytest.mark.parametrize(
    ("set_name", "seeds"), [("held-out", {301, 302}), ("held-out-2", {501, 502}), ("held-out-3", {601, 602})]
)
def test_a_set_that_is_held_out_has_seeds_of_its_own(set_name: str, seeds: set[int]) -> None:
    others = (set(of) for name, of in paths.SEEDS.items() if name != set_name)
    assert not set(paths.SEEDS[set_name]) & set(paths.OTHER_SEEDS).union(*others)
    assert {run.job.seed for run in plan(set_name, {"cubic": 2}, "6.1", quick=False)} == seeds


def named(texts: dict[str, str]) -> list[str]:
    """The files that name a held-out set, or one of its paths."""
    sets = r"suite/held-out|--set[ =]held-out|[\"']held-out(-[23])?[\"']"
    pattern = re.compile(rf"\b({'|'.join(sorted(unseen()))})-[1-9]\d*\b|{sets}")
    return [name for name, text in texts.items() if pattern.search(text)]


def test_nothing_that_chooses_names_a_path_that_is_held_out() -> None:
    suffixes = (".py", ".toml", ".md", ".yaml", ".yml", ".json", ".sh", ".cfg", "Makefile")
    texts = {
        name: (REPOSITORY / name).read_text(errors="replace")
        for name in FILES
        if not MAY_NAME.match(name) and name.endswith(suffixes)
    }
    assert len(texts) > 300
    assert named(texts) == []


def test_a_file_that_names_one_is_found() -> None:
    assert named({"a": "ltp-eval suite --set held-out", "b": "narrow-1", "c": 'load("held-out")'}) == [*"abc"]
    assert named({"a": "eval/suite/held-out-2/", "b": "storms-2", "c": 'load("held-out-2")'}) == [*"abc"]
    assert named({"a": "a narrow path", "b": "--set tuning-kinds", "c": "a set that is held out"}) == []


def test_no_set_on_which_constants_are_chosen_has_a_kind_that_is_held_out() -> None:
    """Neither the older sets, nor wide draws, examples and the scenarios that the package has."""
    files = [name for name in FILES if name.endswith(".toml") and not MAY_NAME.match(name)]
    assert len(files) > 100
    assert not {paths.family(Path(name).stem) for name in files} & unseen()
    assert not WIDE_KINDS.keys() & unseen()
    assert not {*TUNING} & {*HELD_OUT}
    assert len(HELD_OUT) == len(FIRST) + len(SECOND) + len(THIRD)


def test_no_path_for_tuning_does_what_only_held_out_kinds_do() -> None:
    """The lists hold apart by name; these are habits that give such a path away under any name."""
    chosen = [*TUNING.values(), *paths.load("tuning").values(), *paths.load("test").values()]
    assert not [s.name for s in chosen if any(_held_out_habits(s))]
    assert sum(any(_held_out_habits(s)) for s in FIRST.values()) >= 12
    assert [name for name, s in {**SECOND, **THIRD}.items() if not any(_held_out_habits(s))] == []


def _held_out_habits(scenario: Scenario) -> tuple[bool, ...]:
    link, others = scenario.link, scenario.flows[1:]
    back, handovers, steps = link.road.back, link.road.handovers, link.steps
    rates = [step.rate_mbps for step in steps if step.rate_mbps is not None]
    return (
        link.queue == "pie",
        (link.rate_mbps or 1.0) < 1.0,
        back is not None and back.thin,
        any(one.silence_ms > 100.0 for one in handovers),
        link.road.burst_loss is not None and link.road.burst_loss.to_good > 0.1,
        link.road.walk is not None and link.road.walk.range_ms > 50.0,
        # From here on they are habits of the second set.
        link.police_burst_pkts > 1000,
        back is not None and link.road.walk is not None,
        link.road.burst_loss is not None and bool(handovers),
        link.rtt_ms > 200.0 and bool(rates),
        link.queue != "drop-tail" and bool(rates),
        any(flow.scheme == "cubic" and flow.stop_s < scenario.duration_s for flow in others),
        any(flow.stop_s - flow.start_s < 1.0 for flow in others),
        sum(step.rtt_ms is not None for step in steps) > 4,
        len(rates) > 20 and rates == sorted(rates, reverse=True),
        # From here on they are habits of the third set.
        len(rates) > 20 and rates == sorted(rates),
        any(flow.scheme == "bbr" and flow.stop_s < scenario.duration_s for flow in others),
        link.rtt_ms > 300.0 and (link.rate_mbps or 99.0) < 6.0,
        link.jitter_ms > 8.0 and bool(rates),
        (link.buffer_pkts or 99) < 30 and bool(rates),
        link.queue == "codel" and bool(others),
        link.road.burst_loss is not None and bool(rates),
        link.jitter_ms > 0.0 and link.road.burst_loss is not None,
        back is not None and bool(handovers),
    )


def test_the_report_says_of_each_path_whether_it_is_held_out() -> None:
    names = ("narrow-1", "storms-2", "mmwave-2", "fixed-1")
    of = [SimpleNamespace(name=n, best_arm="bbr", cells={"bbr": 1}, share=lambda _: 1.0) for n in names]
    report = SimpleNamespace(schemes=("bbr",), oracles={}, paths=of)
    table = _paths_table(report)  # type: ignore[arg-type]
    assert "<th>path<th>use<th>best arm" in table
    uses = ("held-out", "held-out-2", "tuning", "")
    for name, use in zip(names, uses, strict=True):
        assert f"<td class=text>{name}<td class=text>{use}<td class=text>bbr" in table
