# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval traffic-compare`: pairs of flows, the oracle's choice, and folders that do not fit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.errors import RefusedError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.report import traffic_pairs as pairs
from ltp_switcher.eval.report.traffic_flows import FLOW_DTYPE, FlowSet, FlowTable, flows_csv, read_flows

PATHS = ("near", "far")
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
"""One of each class; the flows of a run ask for them in turn."""
FLOWS = 8

Speeds = Mapping[tuple[str, int], Sequence[float]]
"""Goodput in Mbit/s on each path, by scheme and seed."""


def table(
    speeds: Speeds,
    *,
    paths: Sequence[str] = PATHS,
    flows: int = FLOWS,
    later_s: float = 0.0,
    sent: float = 0.0,
) -> FlowSet:
    """Runs whose flows have exactly these speeds, an RTT of 50 ms, and 100 packets each."""
    schemes = tuple(dict.fromkeys(scheme for scheme, _ in speeds))
    parts = []
    for (scheme, seed), of_path in speeds.items():
        for number, mbps in enumerate(of_path):
            run = np.zeros(flows, FLOW_DTYPE)
            run["scheme"], run["seed"], run["path"] = schemes.index(scheme), seed, number
            run["at_s"] = seed + np.arange(flows) + later_s
            run["asked_bytes"] = [SIZES[flow % 4] for flow in range(flows)]
            run["took_s"] = run["asked_bytes"] * 8e-6 / mbps
            run["retransmits"], run["delivered"], run["rtt_ms"] = sent, 100, 50.0
            # Of their own folder: a comparison must not take them for raw values.
            run["value"], run["information"] = 0.5, 0.5
            parts.append(run)
    return FlowSet(schemes, tuple(paths), np.concatenate(parts))


def write(folder: Path, made: FlowSet) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "flows.csv").write_text(flows_csv(made))
    return str(folder)


def answer(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, dict[str, dict[str, object]]]:
    assert cli.main(["traffic-compare", *command, "--json"]) == 0
    found: dict[str, dict[str, dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def side(flows: FlowTable, scheme: str = "switcher") -> pairs.Side:
    made = FlowSet((scheme,), PATHS, flows)
    return pairs.Side(scheme, pairs.runs_of(made, flows), {})


def test_two_revisions_are_compared_by_arithmetic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the speed is four times the reward and half of the time. Four packets of 104 cost more."""
    after = write(tmp_path / "after", table({("switcher", 1): (2.0, 3.0), ("ltp", 1): (9.0, 9.0)}, sent=4))
    before = write(tmp_path / "before", table({("switcher", 1): (1.0, 3.0)}))
    found = answer(capsys, after, "--against", before)
    loss = (1 - 5 * 4 / 104) ** 2
    near, far = found["paths"]["near"], found["paths"]["far"]
    assert near["sizes"] == {
        size: pytest.approx({"flows": n, "valued": n, "reward": 4 * loss, "time": 0.5}, abs=1e-5)
        for size, n in (("all", 8), ("< 30 KB", 2), ("< 300 KB", 2), ("< 3 MB", 2), ("more", 2))
    }
    assert isinstance(far["sizes"], dict)
    assert far["sizes"]["all"] == pytest.approx(
        {"flows": 8, "valued": 8, "reward": loss, "time": 1.0}, abs=1e-5
    )
    assert near["sent_again"] == [0.04, 0.0]
    # The mean of 4 and 1 is 2; the bounds of two paths are the paths.
    for size in ("all", "more"):
        assert found["reward"][size] == pytest.approx(
            {"value": 2 * loss, "low": loss, "high": 4 * loss, "paths": 2}, abs=1e-5
        )
        assert found["time"][size]["value"] == pytest.approx(0.5**0.5, abs=1e-5)
    assert found["sent_again_points"]["value"] == pytest.approx(4.0)
    assert found["seeds"] == [1]


SPEED = st.floats(0.5, 8.0)


@settings(max_examples=40)
@given(st.lists(st.tuples(SPEED, SPEED), min_size=2, max_size=2), st.integers(0, 15))
def test_changed_sides_turn_every_figure_over(speeds: list[tuple[float, float]], sent: int) -> None:
    first, second = (
        read_values(table({("switcher", seed): of for seed in (1, 2)}, sent=lost).flows)
        for of, lost in zip(speeds, (sent, 0), strict=True)
    )
    # The order of the lines does not matter.
    order = np.random.default_rng(sent).permutation(len(first))
    ahead = pairs.compare(side(first[order]), side(second), [])
    back = pairs.compare(side(second), side(first), [])
    for mean, other in ((ahead.reward, back.reward), (ahead.time, back.time)):
        for size, ours in mean.items():
            theirs = other[size]
            assert ours is not None
            assert theirs is not None
            assert ours.value * theirs.value == pytest.approx(1.0)
            assert ours.low * theirs.high == pytest.approx(1.0)
            assert ours.low <= ours.value * (1 + 1e-9)
    points, other_points = ahead.sent_again_points, back.sent_again_points
    assert points is not None
    assert other_points is not None
    assert points.value == pytest.approx(-other_points.value, abs=1e-9)
    assert points.value == pytest.approx(sent, abs=1e-9)
    for number, path in enumerate(PATHS):
        expected = speeds[1][number] / speeds[0][number]
        assert ahead.paths[path].sizes["all"].time == pytest.approx(expected)


def test_the_first_visits_may_be_left_out() -> None:
    """Pairs of flows come 100 s apart, and are a visit each. From the third visit on we are twice as fast."""
    ours, theirs = (table({("switcher", seed): (1.0, 1.0) for seed in (1, 2)}).flows for _ in range(2))
    for flows in (ours, theirs):
        flows["at_s"] = 100 * (np.arange(len(flows)) % FLOWS // 2) + np.arange(len(flows)) % 2
    ours["took_s"][ours["at_s"] >= 200] /= 2
    for visits, flows, time in ((0, 16, 0.5**0.5), (1, 12, 0.5 ** (2 / 3)), (2, 8, 0.5), (3, 4, 0.5)):
        found = pairs.compare(side(read_values(ours)), side(read_values(theirs)), [], visits)
        for path in PATHS:
            assert found.paths[path].sizes["all"].flows == flows
            assert found.paths[path].sizes["all"].time == pytest.approx(time)
    with pytest.raises(RefusedError, match="fewer visits"):
        pairs.compare(side(read_values(ours)), side(read_values(theirs)), [], 4)


def read_values(flows: FlowTable) -> FlowTable:
    """The flows with the raw values by hand: log of (rate (1 - 5 loss))^2 / RTT."""
    loss = flows["retransmits"] / (flows["retransmits"] + flows["delivered"])
    rate = flows["asked_bytes"] * 8e-6 / flows["took_s"] * np.maximum(1 - 5 * loss, 0)
    flows["value"] = np.log(rate**2 / flows["rtt_ms"])
    return flows


def test_a_file_is_read_as_it_was_written_with_raw_values(tmp_path: Path) -> None:
    made = table({("switcher", 1): (1.5, 3.0), ("bbr", 1): (2.0, 7.0)}, sent=3)
    made.flows["took_s"][3], made.flows["rtt_ms"][5] = np.inf, np.nan
    write(tmp_path, made)
    found = read_flows([tmp_path])
    assert (found.schemes, found.paths) == (made.schemes, made.paths)
    for name in ("scheme", "seed", "path", "at_s", "asked_bytes", "took_s", "retransmits", "rtt_ms"):
        np.testing.assert_allclose(found.flows[name], made.flows[name], rtol=1e-5)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found.flows["value"], read_values(made.flows)["value"], rtol=1e-4)


@pytest.mark.parametrize(
    ("ours", "theirs", "log"),
    [
        (1.0, 0.5, 0.5),
        (9.0, 0.0, 3.0),
        (-math.inf, 0.0, -3.0),
        (0.0, -math.inf, 3.0),
        (-math.inf, -math.inf, 0.0),
    ],
)
def test_a_flow_counts_a_factor_of_twenty_at_most(ours: float, theirs: float, log: float) -> None:
    assert pairs.log_rewards(np.array([ours]), np.array([theirs])).tolist() == [log]
    assert np.isnan(pairs.log_rewards(np.array([math.nan]), np.array([theirs]))).all()


def test_flows_without_an_end_or_a_report_are_counted_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after, before = table({("switcher", 1): (2.0, 2.0)}), table({("switcher", 1): (1.0, 1.0)})
    after.flows["took_s"][:3] = np.inf
    before.flows["took_s"][2] = np.inf
    before.flows["took_s"][8] = 1e-3
    before.flows["rtt_ms"][8] = np.nan
    folders = write(tmp_path / "a", after), write(tmp_path / "b", before)
    found = answer(capsys, folders[0], "--against", folders[1])["paths"]
    near, far = found["near"], found["far"]
    assert near["unfinished"] == [3, 1]
    assert isinstance(near["sizes"], dict)
    assert near["sizes"]["all"] == pytest.approx({"flows": 5, "valued": 5, "reward": 4.0, "time": 0.5})
    # The flow without a report has a time, but no reward.
    assert isinstance(far["sizes"], dict)
    assert far["sizes"]["all"]["flows"] == 8
    assert far["sizes"]["all"]["valued"] == 7
    assert far["sizes"]["all"]["reward"] == pytest.approx(4.0)


ARMS: Speeds = {
    # Near, LTP is best with the seeds 1 and 2 and worst with the third; far, the other way round.
    ("ltp", 1): (4.0, 1.0), ("ltp", 2): (4.0, 1.0), ("ltp", 3): (1.0, 9.0),
    ("bbr", 1): (2.0, 2.0), ("bbr", 2): (2.0, 2.0), ("bbr", 3): (2.0, 2.0),
}  # fmt: skip


def test_the_oracle_is_chosen_by_some_seeds_and_scored_on_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The switcher ran with the scored seed alone, and the arms are in folders of their own."""
    ltp = write(tmp_path / "ltp", table({run: of for run, of in ARMS.items() if run[0] == "ltp"}))
    bbr = write(tmp_path / "bbr", table({run: of for run, of in ARMS.items() if run[0] == "bbr"}))
    live = write(tmp_path / "live", table({("switcher", 3): (1.0, 1.0)}))
    command = [live, "--against", ltp, bbr, "--over", "oracle", "--choose", "1-2"]
    found = answer(capsys, *command)
    assert (found["seeds"], found["chosen"]) == ([3], [1, 2])
    assert {path: of["arms"] for path, of in found["paths"].items()} == {
        "near": [None, "ltp"], "far": [None, "bbr"]
    }  # fmt: skip
    # With seed 3 the chosen arms have 1 and 2 Mbit/s; the best ones in hindsight would have 2 and 9.
    for path, ratio in (("near", 1.0), ("far", 2.0)):
        sizes = found["paths"][path]["sizes"]
        assert isinstance(sizes, dict)
        assert sizes["all"]["time"] == pytest.approx(ratio, abs=1e-5)
    assert cli.main(["traffic-compare", *command]) == 0
    told = capsys.readouterr().out
    assert re.search(r"far +bbr +0.00% +0.00% +\+0.00 +0 +0", told)
    assert re.search(r"far +8 +0.250", told)
    # The other way round, and with one arm alone.
    found = answer(capsys, ltp, bbr, "--against", live, "--scheme", "oracle", "--over", "switcher",
                   "--choose", "1,2", "--arms", "bbr")  # fmt: skip
    assert {of["arms"][0] for of in found["paths"].values() if isinstance(of["arms"], list)} == {"bbr"}
    assert found["time"]["all"]["value"] == pytest.approx(0.5, abs=1e-5)


@given(st.lists(st.tuples(SPEED, SPEED, SPEED), min_size=3, max_size=3), st.permutations(range(3)))
@settings(max_examples=40)
def test_the_oracles_arm_has_the_largest_mean_over_the_seeds_of_choice(
    speeds: list[tuple[float, float, float]], order: list[int]
) -> None:
    """Three arms, two seeds of choice and a third one, on one path."""
    arms = ("ltp", "bbr", "cubic")
    runs = {(arm, seed): (of[seed - 1],) for arm, of in zip(arms, speeds, strict=True) for seed in (1, 2, 3)}
    made = table(
        {run: runs[run] for run in sorted(runs, key=lambda run: order[arms.index(run[0])])}, paths=["near"]
    )
    read_values(made.flows)
    means = {arm: math.log(of[0] * of[1]) for arm, of in zip(arms, speeds, strict=True)}
    best = max(means.values())
    found = pairs.side_of(made, "oracle", arms, [1, 2])
    assert means[found.arms["near"]] == pytest.approx(best, abs=1e-6)
    (run,) = found.runs.values()
    took_s = SIZES[0] * 8e-6 / speeds[arms.index(found.arms["near"])][2]
    assert run["took_s"][0] == pytest.approx(took_s)


def test_a_scheme_that_is_no_arm_has_no_part_in_the_choice() -> None:
    """A very slow third scheme would move the mean of the second flow so far that both arms are clipped."""
    logs = {"ltp": (0.0, 8.0), "bbr": (5.0, 0.0), "switcher": (2.5, -20.0)}
    runs = {(scheme, seed): (1.0,) for scheme in logs for seed in (1, 2)}
    made = table(runs, paths=["near"], flows=2)
    for number, of in enumerate(logs.values()):
        for flow, log in enumerate(of):
            chosen = (made.flows["scheme"] == number) & (made.flows["at_s"] == made.flows["seed"] + flow)
            made.flows["took_s"][chosen] /= math.exp(log / 2)
    read_values(made.flows)
    assert pairs.side_of(made, "oracle", ["ltp", "bbr"], [1]).arms == {"near": "ltp"}
    assert pairs.side_of(made, "oracle", list(logs), [1]).arms == {"near": "bbr"}


def test_the_order_of_the_folders_changes_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speeds = {"a": 1.0, "b": 1.5, "c": 2.5, "d": 7.0, "e": 1.1, "f": 0.7, "g": 3.3, "h": 1.9}
    folders = [
        write(tmp_path / path, table({("switcher", 1): (mbps,), ("ltp", 1): (1.0,)}, paths=[path]))
        for path, mbps in speeds.items()
    ]
    assert answer(capsys, *folders, "--over", "ltp") == answer(capsys, *folders[::-1], "--over", "ltp")


def test_paths_and_seeds_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = write(tmp_path / "a", table({("switcher", 1): (2.0, 2.0), ("switcher", 2): (4.0, 4.0)}))
    before = write(tmp_path / "b", table({("switcher", 1): (1.0,)}, paths=["near"]))
    found = answer(capsys, after, "--against", before, "--paths", "near", "--seeds", "1")
    assert found["paths"].keys() == {"near"}
    assert found["time"]["all"]["value"] == pytest.approx(0.5, abs=1e-5)
    assert found["time"]["all"]["paths"] == 1


BOTH: Speeds = {("switcher", 1): (1.0, 1.0), ("ltp", 1): (2.0, 2.0)}


@pytest.mark.parametrize(
    ("other", "options", "told"),
    [
        (table({("switcher", 2): (1.0, 1.0)}), [], "no flows of near, seed 2; far, seed 2; add a folder"),
        (table({("switcher", 1): (1.0,)}, paths=["near"]), [], "no flows of far, seed 1; add .* --paths"),
        (table(BOTH, flows=6), [], "near, seed 1: 8 flows .* 6 of .* with the same --flows"),
        (table(BOTH, later_s=0.5), [], "near, seed 1: .* at other times .* with the same --paths and --load"),
        (table(BOTH), ["--scheme", "bbr"], "--scheme, --over: 'bbr' .* one of switcher, ltp, oracle"),
        (table(BOTH), ["--paths", "nowhere"], "--paths: 'nowhere' .* some of near, far"),
        (table(BOTH), ["--seeds", "1-2"], "--seeds: 2 .* some of 1"),
        (table(BOTH), ["--over", "oracle"], "--choose: '' .* seeds 1, but not all.*--seeds makes more"),
        (table(BOTH), ["--over", "oracle", "--choose", "1"], "--choose: '1' .* but not all"),
        (table(BOTH), ["--over", "oracle", "--choose", "7"], "--choose: '7' .* ltp lacks 7 on near"),
        (table({("rule", 1): (1.0, 1.0)}), ["--over", "oracle", "--choose", "2"], "--arms: '' .* ran alone"),
        (table(BOTH), ["--over", "oracle", "--choose", "2", "--arms", "vegas"], "--arms: 'vegas'"),
    ],
)  # fmt: skip
def test_folders_that_do_not_fit_are_told_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: FlowSet, options: list[str], told: str
) -> None:
    ours, theirs = write(tmp_path / "a", table(BOTH)), write(tmp_path / "b", other)
    assert cli.main(["traffic-compare", ours, "--against", theirs, *options]) == 1
    assert re.search(told, capsys.readouterr().err)


def test_an_arm_without_a_seed_of_choice_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = {run: of for run, of in ARMS.items() if run != ("bbr", 2)} | {("switcher", 3): (1.0, 1.0)}
    folder = write(tmp_path, table(few))
    assert cli.main(["traffic-compare", folder, "--over", "oracle", "--choose", "1-2"]) == 1
    assert re.search(r"--choose: '1,2' .* bbr lacks 2 on near", capsys.readouterr().err)
    # A seed of the score that one arm lacks is named, too.
    few = {run: of for run, of in ARMS.items() if run != ("bbr", 3)} | {("switcher", 3): (1.0, 1.0)}
    write(tmp_path, table(few))
    assert cli.main(["traffic-compare", folder, "--over", "oracle", "--choose", "1-2"]) == 1
    assert "bbr has no flows of near, seed 3" in capsys.readouterr().err


def test_a_run_that_is_there_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = write(tmp_path / "a", table(BOTH)), write(tmp_path / "b", table(BOTH))
    assert cli.main(["traffic-compare", one, two, "--over", "ltp"]) == 1
    assert "switcher: near, seed 1 is there twice; name one folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "flows.csv: no such file; `ltp-eval traffic --out .*` makes it"),
        ("scheme,seed\nbbr,1\n", "flows.csv: not a table of flows .* makes it anew"),
        ("", "no flow; `ltp-eval traffic` makes flows.csv anew"),
        ("scheme,path\n", "no flow"),
    ],
)
def test_a_folder_without_flows_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / "flows.csv").write_text(text)
    assert cli.main(["traffic-compare", str(tmp_path), "--over", "ltp"]) == 1
    assert re.search(told, capsys.readouterr().err)


def test_nothing_is_compared_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["traffic-compare", write(tmp_path, table(BOTH))]) == 1
    assert re.search("--against: .* another revision, or --over", capsys.readouterr().err)
