# SPDX-License-Identifier: Apache-2.0
"""Traffic of a server: its flows by arithmetic, the split of its paths, the figures, and a run."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.gain import outcomes
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.lab.run import RunFiles
from ltp_switcher.eval.lab.script import Place
from ltp_switcher.eval.lab.traffic import arrivals, path_rates_mbps, places, plan
from ltp_switcher.eval.report import traffic_results as report
from ltp_switcher.eval.report.traffic_flows import flows_csv
from ltp_switcher.eval.report.traffic_tables import draw_traffic, tables
from ltp_switcher.eval.run import results
from ltp_switcher.eval.run.completion_times import Completions
from ltp_switcher.eval.run.results import Job, run_job
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario
from ltp_switcher.eval.run.traffic import Traffic, mean_bytes, sizes_bytes
from ltp_switcher.eval.run.traffic import draw_traffic as drawn_traffic
from ltp_switcher.eval.suite import kinds, paths
from ltp_switcher.eval.suite import traffic_sets as suite

TWO = """
name = "two"
duration_s = 60
[[path]]
name = "near"
rate_mbps = 2.9
rtt_ms = 40.0
buffer_pkts = 200
[[path]]
name = "far"
rate_mbps = 2.0
rtt_ms = 60.0
buffer_pkts = 200
[requests]
kind = "traffic"
scheme = "mutant:cubic"
flows = 24
load = 0.15
"""


def scenario(text: str = TWO, **changes: object) -> Scenario:
    document = tomllib.loads(text)
    document["requests"] |= changes
    return parse_scenario(document)


def test_the_mean_size_is_that_of_the_straight_lines() -> None:
    """The sum of share times middle over the eleven lines, by hand, in units of 1000 bytes."""
    lines = (
        0.15 * 5 + 0.05 * 15 + 0.1 * 25 + 0.1 * 40 + 0.13 * 65 + 0.07 * 140 + 0.1 * 600 + 0.1 * 1500
        + 0.1 * 3500 + 0.07 * 7500 + 0.03 * 20000
    )  # fmt: skip
    assert mean_bytes() == pytest.approx(lines * 1000)
    # Up to 100 KB there are 0.53 + 0.07 / 6 of the flows.
    part = 0.53 + 0.07 / 6
    below = 0.15 * 5 + 0.05 * 15 + 0.1 * 25 + 0.1 * 40 + 0.13 * 65 + 0.07 / 6 * 90
    assert mean_bytes(100_000) == pytest.approx(below * 1000 / part)
    assert sizes_bytes([0.0, 0.53, 0.95, 1.0]).tolist() == pytest.approx([0, 80_000, 60e6 / 7, 30e6])
    assert sizes_bytes(1.0, 100_000) == pytest.approx(100_000)


def test_gaps_and_sizes_have_the_asked_means() -> None:
    flows = drawn_traffic(Traffic(1000, 0.25), [10.0, 2.9], seed=5)
    fast, slow = ([one for one in flows if one.path == path] for path in (0, 1))
    assert len(fast) == len(slow) == 1000
    assert max(one.size_bytes for one in slow) <= 100_000
    assert 10e6 < max(one.size_bytes for one in fast) <= 30e6
    for of, rate_mbps, most in ((fast, 10.0, 30_000_000), (slow, 2.9, 100_000)):
        sizes = np.array([one.size_bytes for one in of])
        assert sizes.mean() == pytest.approx(mean_bytes(most), rel=4 * sizes.std() / sizes.mean() / 1000**0.5)
        # 1000 exponential gaps: their mean has a relative error of 1000^-1/2.
        gap_s = mean_bytes(most) * 8 / 0.25 / rate_mbps / 1e6
        assert of[-1].at_us / 1e6 / 1000 == pytest.approx(gap_s, rel=4 / 1000**0.5)
        gaps = np.diff([0, *(one.at_us for one in of)]) / 1e6
        # Exponential: as spread as it is long, and 1 - 1/e of the gaps are below the mean.
        assert gaps.std() == pytest.approx(gap_s, rel=0.2)
        assert (gaps < gap_s).mean() == pytest.approx(1 - np.exp(-1), abs=0.06)


@given(
    st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 0.9), st.lists(st.floats(0.2, 200.0), min_size=1),
    st.integers(0, 2**31 - 1),
)  # fmt: skip
def test_fewer_flows_and_fewer_paths_are_the_beginning_of_more(
    few: int, more: int, load: float, rates: list[float], seed: int
) -> None:
    all_flows = drawn_traffic(Traffic(few + more, load), rates, seed)
    assert [one.at_us for one in all_flows] == sorted(one.at_us for one in all_flows)
    of_first = [one for one in all_flows if one.path == 0]
    assert drawn_traffic(Traffic(few, load), rates[:1], seed) == of_first[:few]
    assert all(one.size_bytes >= 1 for one in all_flows)


def test_every_scheme_meets_the_same_flows_and_every_seed_others() -> None:
    cubic, switcher = scenario(), scenario(scheme="switcher")
    assert plan(arrivals(cubic, 1)) == plan(arrivals(switcher, 1)) != plan(arrivals(cubic, 2))


def test_a_flow_goes_to_its_own_path_from_a_port_of_its_own() -> None:
    flows = arrivals(scenario(), 3)
    lines = [list(map(int, line.split())) for line in plan(flows).decode().splitlines()]
    assert [at for at, *_ in lines] == [one.at_us for one in flows]
    # 10.2.<path>.x
    assert [address >> 8 for _, address, _, _ in lines] == [(10 << 16) + (2 << 8) + one.path for one in flows]
    assert all(1 <= address % 256 <= 254 for _, address, _, _ in lines)
    assert len({port for _, _, port, _ in lines}) == len(flows)
    assert [size for *_, size in lines] == [one.size_bytes for one in flows]


def test_a_policers_rate_is_the_paths() -> None:
    text = TWO.replace('name = "near"', 'name = "near"\npolice_mbps = 1.5')
    assert path_rates_mbps(scenario(text)) == [1.5, 2.0]


@pytest.mark.parametrize(
    ("text", "changes", "told"),
    [
        (TWO, {"per_s": 1.0}, "requests.per_s: 1.0 .* no such key with the kind traffic"),
        (TWO, {"flows": 0}, "requests.flows: 0 .* a whole number from 1 to 1000"),
        (TWO, {"load": 1.0}, "requests.load: 1.0 .* a number from 0.01 to 0.9"),
        (TWO + '[[flow]]\nscheme = "cubic"\n', {}, "requests.kind: 'traffic' .* no .*flow.* beside them"),
        (TWO, {"kind": "pages", "flows": 3}, "requests.flows: 3 .* no such key with the kind pages"),
    ],
)
def test_a_bad_value_is_explained(text: str, changes: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scenario(text, **changes)


def test_results_of_older_requests_keep_their_names() -> None:
    document = tomllib.loads(TWO)
    document["link"] = {"rate_mbps": 10.0, "rtt_ms": 40.0}
    del document["path"]
    document["requests"] = {"kind": "downloads", "scheme": "cubic", "per_s": 1.0}
    assert "traffic" not in parse_scenario(document).canonical()


def test_the_paths_are_twelve_that_fit_at_once_and_the_kinds_are_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LTP_TRACES", str(tmp_path))
    for trace in paths.TRACES:
        # A packet of 1500 bytes each 2 ms: 6 Mbit/s.
        (tmp_path / trace).write_text("".join(f"{ms}\n" for ms in range(2, 1001, 2)))
    for name in suite.SETS:
        chosen = suite.paths_of(name)
        assert len(chosen) == len({path.name for path in chosen}) == 12
        uses = {kinds.use_of(path.name) for path in chosen}
        assert "" in uses
        assert {paths.is_held_out(use) for use in uses - {""}} == {paths.is_held_out(name)}
        made = suite.scenario_of(name, chosen, Traffic(5, 0.5), "switcher", 1)
        assert sum(path.link.rate_mbps or 6.0 for path in made.paths) <= 200.0
        assert all(path.link.queue == "drop-tail" for path in made.paths)
    tuning, held_out = ({path.link for path in suite.paths_of(name)} for name in suite.SETS)
    assert not tuning & held_out
    of_test = {scenario.link for scenario in paths.load("test").values()}
    assert not tuning & of_test


def test_paths_are_taken_by_number_or_by_name() -> None:
    known = suite.paths_of("tuning")
    assert suite.chosen("tuning", ["3"]) == known[:3]
    assert suite.chosen("tuning", [known[4].name, known[1].name]) == [known[1], known[4]]
    with pytest.raises(ConfigError, match=r"--paths: '13' .* a number up to 12"):
        suite.chosen("tuning", ["13"])


SPEEDS: Mapping[str, Sequence[float]] = {"switcher": (1.0, 1.0), "bbr": (2.0, 0.5), "cubic": (0.5, 2.0)}
"""How fast each scheme is on either path."""
RTT_MS = 50.0


def made(scheme: str, seed: int, of: Scenario | None = None) -> report.Made:
    """A run whose flows have about 1 Mbit/s times the scheme's speed, and are busy all the time."""
    of = of or scenario(scheme="switcher")
    flows = arrivals(of, seed)
    at_s = np.array([one.at_us for one in flows]) / 1e6
    speed = np.array([SPEEDS[scheme][one.path] for one in flows])
    sizes = np.array([one.size_bytes for one in flows])
    took_s = sizes * 8e-6 / speed / np.random.default_rng(seed).uniform(0.9, 1.1, len(flows))
    rows = np.zeros(len(flows), outcomes.ROW_DTYPE)
    told = rows["outcome"]
    rows["time_s"] = 1e9 + at_s + took_s
    told["age_ns"], told["busy_us"] = took_s * 1e9, took_s * 1e6
    told["acked_bytes"] = sizes
    told["delivered"], told["retrans"] = 100, 2
    told["rtt_samples"], told["rtt_us_sum"] = 10, 10 * RTT_MS * 1e3
    told["cookie"] = np.arange(len(flows))
    told["dport"] = 2000 + np.arange(len(flows))
    told["family"] = 2
    told["daddr"][:, :4] = [(10, 2, one.path, 9) for one in flows]
    return report.Made(scheme, seed, of, Completions(at_s, sizes / 1e3, took_s), rows)


def compared(seeds: Sequence[int]) -> report.Figures:
    traffics = report.gathered([made(scheme, seed) for scheme in SPEEDS for seed in seeds])
    return report.figures(traffics, reference="switcher", arms=["bbr", "cubic"], seeds=seeds)


def test_the_figures_are_those_of_made_results() -> None:
    found = compared([1, 2])
    assert (found.chosen, found.scored) == ((1,), (2,))
    assert found.oracle == {"near": "bbr", "far": "cubic"}
    flows = len(arrivals(scenario(), 2))
    for name, over, reward in (("switcher", 1.0, 1.0), ("bbr", 1.0, 1.0), ("oracle", 0.5, 4.0)):
        one = found.schemes[name]
        assert (one.flows, one.unfinished, one.untold) == (flows, 0, 0)
        assert one.times["all"] is not None
        assert one.reward is not None
        assert one.times["all"].value == pytest.approx(over)
        # Twice the goodput is four times the reward.
        assert one.reward.value == pytest.approx(reward, rel=1e-3)
        assert one.retransmits == pytest.approx(0.02)
        assert one.rtt_ms == pytest.approx(RTT_MS)
    # On its better path BBR has four times the reward, on the other a quarter.
    assert list(found.schemes["bbr"].value.values()) == pytest.approx([np.log(4), -np.log(4)], rel=1e-3)
    sizes = np.array([one.size_bytes for one in arrivals(scenario(), 2)])
    classes = {"< 30 KB": (0, 30_000), "< 300 KB": (30_000, 300_000), "all": (0, 1e9)}
    for name, (low, high) in classes.items():
        number = int(((sizes >= low) & (sizes < high)).sum())
        assert found.schemes["oracle"].completion[name].count == number
    assert "< 3 MB" not in found.schemes["oracle"].completion


def test_one_seed_has_no_oracle_and_what_never_ended_counts_as_infinite() -> None:
    run = made("bbr", 1)
    run.completions.took_s[:5] = np.inf
    traffics = report.gathered([made("switcher", 1), report.Made(*_without(run, 5))])
    found = report.figures(traffics, reference="switcher", arms=["bbr"], seeds=[1])
    assert found.oracle == {}
    assert found.schemes.keys() == {"switcher", "bbr"}
    assert (found.schemes["bbr"].unfinished, found.schemes["bbr"].untold) == (5, 0)
    assert found.schemes["bbr"].completion["all"].p99_s == np.inf


def _without(run: report.Made, first: int) -> tuple[str, int, Scenario, Completions, outcomes.OutcomeRows]:
    return run.scheme, run.seed, run.scenario, run.completions, run.rows[first:]


def test_a_scheme_without_outcomes_has_times_alone(tmp_path: Path) -> None:
    tuned = made("cubic", 1)
    nothing = report.Made("bpftune", 1, tuned.scenario, tuned.completions, tuned.rows[:0])
    traffics = report.gathered([made("switcher", 1), nothing])
    found = report.figures(traffics, reference="switcher", arms=[], seeds=[1])
    one = found.schemes["bpftune"]
    assert one.reward is None
    assert one.times["all"] is not None
    assert one.untold == one.flows
    assert len(list(tables(found))) == 2
    assert json.dumps(found.to_dict()).count("bpftune") == 1
    draw_traffic(tmp_path / "traffic.png", found)
    assert (tmp_path / "traffic.png").stat().st_size > 10_000
    lines = flows_csv(traffics).splitlines()
    assert len(lines) == 1 + len(traffics.flows)
    assert lines[0].startswith("scheme,seed,path,at_s,asked_bytes,took_s")
    assert lines[1].startswith("switcher,1,")


def test_the_file_of_flows_tells_first_arms_and_lots() -> None:
    run = made("switcher", 1)
    for at, (arm, trial) in enumerate(((2, 0), (3, 3))):
        told = run.rows["outcome"][at : at + 1]
        told["arm"], told["visit"], told["generation"] = arm, 4, 1 << 10 | trial << 5
        told["weight"], told["weights"] = (90, 10)[at], 100
    lines = list(csv.DictReader(io.StringIO(flows_csv(report.gathered([run])))))
    found = [(line["began"], line["lot"], line["chance"]) for line in lines if line["chance"] != "1"]
    assert sorted(found) == [("bbr", "decision", "0.9"), ("vegas", "vegas", "0.1")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--schemes", "mutant"], "--schemes: 'mutant' .* with --set"),
        (["--schemes", "cubik"], "--schemes: 'cubik'"),
        (["--paths", "99"], "--paths: '99' .* a number up to 12"),
        (["--load", "1"], "--load: 1.0 .* a number from 0.01 to 0.9"),
    ],
)
def test_a_bad_option_is_explained(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["traffic", *options]) == 1
    assert re.search(told, capsys.readouterr().err)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Scenario]:
    """Replace the lab by made results; return the list of the scenarios that it was asked to run."""
    asked: list[Scenario] = []

    def inputs(of: Scenario, *, seed: int, **_: object) -> SimpleNamespace:
        hashed = hashlib.sha256(f"{of.canonical()} {seed}".encode()).hexdigest()[:32]
        return SimpleNamespace(fingerprint=lambda: hashed)

    def run_traffic(of: Scenario, *, seed: int, **_: object) -> RunFiles:
        asked.append(of)
        run = made("switcher" if "switcher" in of.scheme else "bbr", seed, of)
        lines = [
            f"{at_s * 1e6:.0f},{kb * 1e3:.0f},{(at_s + took_s) * 1e6:.0f},{(at_s + took_s) * 1e6:.0f}\n"
            for at_s, kb, took_s in zip(
                run.completions.at_s, run.completions.kilobytes, run.completions.took_s, strict=True
            )
        ]
        rows = io.BytesIO()
        np.save(rows, run.rows)
        link = {"lost_pkts": 0, "dropped_pkts": 0, "delivered_pkts": 9}
        files = {
            "requests.csv": ("at_us,bytes,first_us,done_us\n" + "".join(lines)).encode(),
            "requests.json": json.dumps({"server": link, "flows": [], "offered_mbit": 1e3}).encode(),
            "outcomes.npy": rows.getvalue(),
        }
        return RunFiles(files, "6.1.0-test", 1.0, 1.0)

    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(results, "run_traffic", run_traffic)
    monkeypatch.setattr(results, "traffic_inputs", inputs)
    return asked


@pytest.mark.parametrize(("schemes", "looks"), [("mutant,bbr", True), ("bbr,cubic", False)])
def test_a_look_at_held_out_paths_is_told(
    lab: list[Scenario], tmp_path: Path, capsys: pytest.CaptureFixture[str], schemes: str, looks: bool
) -> None:
    (kinds,) = filter(paths.is_held_out, suite.SETS)
    command = ["traffic", "--kinds", kinds, "--paths", "1", "--flows", "9", "--jobs", "1"]
    options = ["--schemes", schemes, "--set", "visits.learn=on", "--out", str(tmp_path)]
    assert cli.main([*command, *options]) == 0
    assert ("look at paths that are held out" in capsys.readouterr().err) == looks
    assert lab


def test_the_command_runs_each_scheme_once_and_writes_its_files(
    lab: list[Scenario], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "traffic", "--paths", "low-capacity-1,ack-turns-1", "--flows", "9", "--seeds", "4-5", "--jobs", "1",
        "--schemes", "switcher,bbr,mutant", "--set", "visits.learn=on",
        "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    assert cli.main(command) == 0
    told = capsys.readouterr().out
    for word in ("low-capacity-1", "ack-turns-1", "oracle", "unfinished"):
        assert word in told
    assert [of.scheme for of in lab] == ["switcher"] * 2 + ["mutant:bbr"] * 2 + ["switcher"] * 2
    # The settings belong to `mutant` alone.
    assert [of.settings for of in lab] == [()] * 4 + [(("visits.learn", "on"),)] * 2
    assert {len(arrivals(of, seed)) for of, seed in zip(lab, (4, 5) * 3, strict=True)} == {18}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "traffic.json", "flows.csv", "traffic.png"
    }  # fmt: skip
    # A second time nothing is run, and JSON has the same figures.
    assert cli.main([*command, "--json"]) == 0
    assert len(lab) == 6
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "out" / "traffic.json").read_text())
    assert document["schemes"]["mutant"]["reward"]["value"] == 1.0
    assert document["seeds"] == {"scored": [5], "oracle": [4]}


HEADER_BYTES = 260
"""Of nginx's answer, about."""


@pytest.mark.lab
@pytest.mark.parametrize("place", ["beside", pytest.param("inside", marks=pytest.mark.long)])
def test_completion_times_on_a_kernel_agree_with_arithmetic(place: Place) -> None:
    """The first window fills either path. So a flow alone takes two round trips and its bytes' time."""
    of = scenario()
    result = run_job(Job(of, daemon=place), use_cache=False)
    run = report.made_of("cubic", result)
    flows = report.gathered([run]).flows
    assert len(flows) == 48
    ends_s = flows["at_s"] + flows["took_s"]
    for path, (rate_mbps, rtt_s) in enumerate(((2.9, 0.040), (2.0, 0.060))):
        mine = flows["path"] == path
        at_s, end_s, size = flows["at_s"][mine], ends_s[mine], flows["asked_bytes"][mine]
        busy_until_s = np.concatenate([[0.0], np.maximum.accumulate(end_s)[:-1]])
        next_s = np.append(at_s[1:], np.inf)
        alone = (at_s > busy_until_s + rtt_s) & (end_s < next_s)
        assert alone.sum() >= 8
        packets = np.ceil((size + HEADER_BYTES) / 1448)
        expected_s = 2 * rtt_s + (size + HEADER_BYTES + 52 * packets) * 8 / rate_mbps / 1e6
        assert flows["took_s"][mine][alone] == pytest.approx(expected_s[alone], abs=0.010)
    # Nothing was lost; the last packet may be sent twice (a tail loss probe).
    assert flows["retransmits"].sum() <= 2
    assert (flows["rtt_ms"] >= np.where(flows["path"] == 0, 40.0, 60.0)).all()
    acked = run.rows["outcome"]["acked_bytes"][np.argsort(places(run.rows))]
    assert acked - flows["asked_bytes"] == pytest.approx(HEADER_BYTES, abs=30)
