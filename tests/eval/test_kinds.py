# SPDX-License-Identifier: Apache-2.0
"""Kinds of path: half are for tuning, and no choice is made on the half that is held out."""

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

TUNING, HELD_OUT = (paths.load(set_name) for set_name in ("tuning-kinds", "held-out"))
FILES = sorted(House.at(REPOSITORY).files)
MAY_NAME = re.compile(
    r"eval/suite/(held-out/|(kinds|traffic)\.toml$|(kinds|traffic_sets|paths)\.py$)"
    r"|eval/README\.md$|docs/lab-notes/held-out\.md$"
    r"|tests/eval/test_kinds\.py$|CHANGELOG\.md$"
)
"""Files that name paths or the set that are held out. The lab note tells of each look at them."""


def of_use(use: str) -> set[str]:
    return {name for name, kind in kinds.kinds().items() if kind.use == use}


def test_half_of_the_kinds_are_held_out_each_with_a_reason() -> None:
    assert len(of_use("tuning")) == len(of_use("held-out")) == 12
    assert kinds.DRAWN.keys() == kinds.kinds().keys()
    for kind in kinds.kinds().values():
        assert len(kind.tells) > 10
        assert len(kind.why) > 10


def test_a_use_that_is_none_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kinds.toml").write_text('[narrow]\nuse = "test"\ntells = "slow"\nwhy = "new"\n')
    monkeypatch.setattr(kinds, "LIST", tmp_path / "kinds.toml")
    with pytest.raises(ConfigError, match=r"narrow.use: 'test' .* tuning or held-out"):
        kinds.kinds.__wrapped__()


@pytest.mark.parametrize("set_name", ["tuning-kinds", "held-out"])
def test_the_files_are_those_that_the_generator_draws(set_name: str) -> None:
    files = {path.stem: path.read_text() for path in (paths.FOLDER / set_name).glob("*.toml")}
    assert files == kinds.draw_kinds(set_name), "run: python -m ltp_switcher.eval.suite.kinds"


def test_each_set_has_24_paths_of_40_s_of_its_kinds_alone() -> None:
    for scenarios, use in ((TUNING, "tuning"), (HELD_OUT, "held-out")):
        assert len(scenarios) == 24
        assert {scenario.duration_s for scenario in scenarios.values()} == {40.0}
        assert {paths.family(name) for name in scenarios} == of_use(use)
        assert {kinds.use_of(name) for name in scenarios} == {use}
    assert kinds.use_of("fixed-1") == ""


def values(scenarios: Iterable[Scenario], name: str) -> set[float]:
    """Every value that a property of a link takes, over all paths, steps and handovers."""
    return {
        value
        for scenario in scenarios
        for part in (scenario.link, *scenario.link.steps, *scenario.link.road.handovers)
        if (value := getattr(part, name, None)) not in (None, 0.0)
    }


def test_the_sets_share_no_rate_no_loss_no_way_back_and_no_seed() -> None:
    for name in ("rate_mbps", "loss"):
        assert not values(TUNING.values(), name) & values(HELD_OUT.values(), name)
    backs = [{s.link.road.back for s in of.values()} - {None} for of in (TUNING, HELD_OUT)]
    assert all(backs)
    assert not backs[0] & backs[1]
    seeds = [set(of) for of in paths.SEEDS.values()]
    assert not set(paths.SEEDS["held-out"]) & set().union(*(s for s in seeds if s != seeds[-1]))
    assert {run.job.seed for run in plan("held-out", {"cubic": 2}, "6.1", quick=False)} == {301, 302}


def named(texts: dict[str, str]) -> list[str]:
    """The files that name the held-out set, or one of its paths."""
    unseen = "|".join(sorted(of_use("held-out")))
    pattern = re.compile(rf"\b({unseen})-[1-9]\d*\b|suite/held-out|--set[ =]held-out|[\"']held-out[\"']")
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
    assert named({"a": "a narrow path", "b": "--set tuning-kinds", "c": "a set that is held out"}) == []


def test_no_set_on_which_constants_are_chosen_has_a_kind_that_is_held_out() -> None:
    """Neither the older sets, nor wide draws, examples and the scenarios that the package has."""
    unseen = of_use("held-out")
    files = [name for name in FILES if name.endswith(".toml") and not MAY_NAME.match(name)]
    assert len(files) > 100
    assert not {paths.family(Path(name).stem) for name in files} & unseen
    assert not WIDE_KINDS.keys() & unseen
    assert not {*TUNING} & {*HELD_OUT}


def test_no_path_for_tuning_does_what_only_held_out_kinds_do() -> None:
    """The lists hold apart by name; these are habits that give such a path away under any name."""
    chosen = [*TUNING.values(), *paths.load("tuning").values(), *paths.load("test").values()]
    assert not [s.name for s in chosen if any(_held_out_habits(s))]
    assert sum(any(_held_out_habits(s)) for s in HELD_OUT.values()) >= 12


def _held_out_habits(scenario: Scenario) -> tuple[bool, ...]:
    link = scenario.link
    back, handovers = link.road.back, link.road.handovers
    return (
        link.queue == "pie",
        (link.rate_mbps or 1.0) < 1.0,
        back is not None and (back.thin or back.rate_mbps < 1.0),
        any(one.silence_ms > 100.0 for one in handovers),
        link.road.burst_loss is not None and link.road.burst_loss.to_good > 0.1,
        link.road.walk is not None and link.road.walk.range_ms > 50.0,
    )


def test_the_report_says_of_each_path_whether_it_is_held_out() -> None:
    names = ("narrow-1", "mmwave-2", "fixed-1")
    of = [SimpleNamespace(name=n, best_arm="bbr", cells={"bbr": 1}, share=lambda _: 1.0) for n in names]
    report = SimpleNamespace(schemes=("bbr",), oracles={}, paths=of)
    table = _paths_table(report)  # type: ignore[arg-type]
    assert "<th>path<th>use<th>best arm" in table
    for name, use in (("narrow-1", "held-out"), ("mmwave-2", "tuning"), ("fixed-1", "")):
        assert f"<td class=text>{name}<td class=text>{use}<td class=text>bbr" in table
