# SPDX-License-Identifier: Apache-2.0
"""The command line over a lab that answers at once; test_lab_run has the real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ltp_switcher.errors import LabError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.report import demo, demo_picture
from ltp_switcher.eval.run import results
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.scenario import Scenario

Made = list[tuple[str, str, int]]


def test_run_writes_the_documented_files(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["run", "smoke", "--scheme", "bbr", "--seed", "3", "--out", str(out), "--json"]) == 0
    assert made == [("smoke", "bbr", 3)]
    printed = capsys.readouterr().out
    assert (out / "summary.json").read_text() == printed
    assert json.loads(printed)["scheme"] == "bbr"
    assert {path.name for path in out.iterdir()} == {
        "summary.json", "timeseries.csv", "flows.json", "guest.json", "timeline.png",
    }  # fmt: skip


def test_a_run_is_made_once_unless_told_otherwise(made: Made, tmp_path: Path) -> None:
    command = ["run", "smoke", "--out", str(tmp_path / "out")]
    for _ in range(2):
        assert cli.main(command) == 0
    assert len(made) == 1
    first = (tmp_path / "out" / "summary.json").read_bytes()
    assert cli.main([*command, "--no-cache"]) == 0
    assert len(made) == 2
    assert (tmp_path / "out" / "summary.json").read_bytes() == first
    assert cli.main([*command, "--seed", "2"]) == cli.main([*command, "--kernel", "6.12"]) == 0
    assert len(made) == 4
    assert len(list((tmp_path / "cache" / "results").iterdir())) == 3


def test_compare_runs_the_product_and_the_flows_alone(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["compare", "smoke", "friendliness", "--schemes", "switcher,bbr", "--seeds", "1,4-5"]
    assert cli.main([*command, "--out", str(out), "--json"]) == 0
    alone = sorted(run for run in made if run[0] == "friendliness/alone")
    assert alone == [("friendliness/alone", "cubic", seed) for seed in (1, 4, 5)]
    assert len(made) == 2 * 2 * 3 + 3
    cells = json.loads(capsys.readouterr().out)
    assert [(cell["scenario"], cell["scheme"]) for cell in cells] == [
        (scenario, scheme) for scenario in ("smoke", "friendliness") for scheme in ("switcher", "bbr")
    ]
    assert cells[0]["seeds"] == [1, 4, 5]
    assert cells[0]["harm_throughput"] is None
    assert 0 < cells[3]["harm_throughput"]["mean"] < 1
    assert len((out / "compare.csv").read_text().splitlines()) == 1 + 3 * (2 * 1 + 2 * 2)
    assert (out / "throughput-delay.png").stat().st_size > 10_000
    assert (out / "reward.png").stat().st_size > 5_000


def test_two_scenarios_of_one_name_are_not_thrown_together(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (SCENARIOS / "smoke.toml").read_text()
    other = tmp_path / "other.toml"
    other.write_text(text.replace("rtt_ms = ", "rtt_ms = 1"))
    out = ["--out", str(tmp_path / "out"), "--schemes", "cubic"]
    assert cli.main(["compare", "smoke", str(other), *out]) == 1
    assert "'smoke' is not valid; allowed: scenarios whose `name` differs" in capsys.readouterr().err
    assert cli.main(["compare", "smoke", "smoke", *out]) == 0
    assert made == [("smoke", "cubic", 1)]


def test_a_scenarios_name_is_no_markup(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text((SCENARIOS / "smoke.toml").read_text().replace('"smoke"', '"to [uplink] [bold]"'))
    out = ["--out", str(tmp_path / "out")]
    assert cli.main(["run", str(file), "--scheme", "cubic", *out]) == 0
    assert "to [uplink] [bold], seed 1" in capsys.readouterr().out
    assert cli.main(["compare", str(file), "--schemes", "cubic", *out]) == 0
    assert "to [uplink] [bold]" in capsys.readouterr().out


def test_demo_runs_each_scheme_on_each_network_and_writes_picture_and_report(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert cli.main(["demo", "--out", str(out)]) == 0
    networks = {"steady", "cellular", "wifi", "lossy", "rtt-step", "far"}
    schemes = {"switcher", "ltp", "bbr", "vegas", "cubic"}
    assert sorted(made) == sorted((network, scheme, 1) for network in networks for scheme in schemes)
    report = json.loads((out / "report.json").read_text())
    assert set(report["networks"]) == networks
    for network in report["networks"].values():
        shares = {scheme: of["share"] for scheme, of in network["schemes"].items()}
        assert set(shares) == schemes
        assert network["best_arm"] != "switcher"
        assert shares[network["best_arm"]] == 1.0 == max(shares[arm] for arm in schemes - {"switcher"})
        # The switcher of this lab gets 0.9 of each link, all others 0.5.
        assert shares["switcher"] == pytest.approx((0.9 / 0.5) ** 2, rel=0.02)
    assert report["overall"]["switcher"]["share"] == pytest.approx((0.9 / 0.5) ** 2, rel=0.02)
    # One seed tells nothing about chance.
    assert report["overall"]["switcher"]["interval"] is None
    assert report["made"]["wall_s"] > 0
    assert (out / "demo.png").stat().st_size > 60_000
    printed = capsys.readouterr()
    assert "30 runs: up to" in printed.err
    assert "The switcher is first: 3.2" in printed.out
    assert report["sha256"] in printed.out


def test_demo_of_the_same_results_is_the_same_but_for_how_it_was_made(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "NETWORKS", ("rtt-step",))
    monkeypatch.setattr(demo_picture, "draw_demo", lambda *_, **__: None)
    reports = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert cli.main(["demo", "--no-cache", "--out", str(folder)]) == 0
        reports.append(json.loads((folder / "report.json").read_text()))
        del reports[-1]["made"]
    assert len(made) == 10
    assert reports[0] == reports[1]
    assert cli.main(["demo", "--seeds", "2", "--out", str(tmp_path / "other")]) == 0
    assert json.loads((tmp_path / "other/report.json").read_text())["sha256"] != reports[0]["sha256"]


def test_demo_with_seeds_takes_their_means(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "NETWORKS", ("lossy", "rtt-step"))
    monkeypatch.setattr(demo_picture, "draw_demo", lambda *_, **__: None)
    assert cli.main(["demo", "--seeds", "3-4", "--out", str(tmp_path), "--json"]) == 0
    assert len(made) == 2 * 5 * 2
    report = json.loads(capsys.readouterr().out)
    lossy = report["networks"]["lossy"]
    assert [run["seed"] for run in lossy["schemes"]["ltp"]["runs"]] == [3, 4]
    rewards = [lossy["schemes"][one]["reward"] for one in ("switcher", lossy["best_arm"])]
    assert lossy["schemes"]["switcher"]["share"] == pytest.approx(rewards[0] / rewards[1], rel=1e-4)
    assert all(len(of["interval"]) == 2 for of in (*lossy["schemes"].values(), *report["overall"].values()))


def test_cost_is_per_acknowledged_packet(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", "--json"]) == 0
    cubic, bbr = json.loads(capsys.readouterr().out)
    kinds = ("", "measured:", "mutant:")
    assert [scheme for _, scheme, _ in sorted(made)] == sorted(
        k + arm for k in kinds for arm in ("bbr", "cubic")
    )
    assert (cubic["arm"], bbr["arm"]) == ("cubic", "bbr")
    assert cubic["unmeasured_overhead"] == cubic["measured_overhead"] == 0.0
    assert cubic["bare"] > 1000
    assert cli.main(["cost"]) == 0
    assert "+0.00%" in capsys.readouterr().out


def test_speed_is_never_from_the_cache(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert cli.main(["speed", "--json"]) == 0
    assert len(made) == 6
    assert json.loads(capsys.readouterr().out.split("\n]\n")[0] + "]")[0]["ratio"] == pytest.approx(22 / 1.25)


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    assert {"fixed", "low-capacity", "high-rtt", "large-queue", "mixed", "step"} <= set(names["scenarios"])
    assert {"switcher", "random", "cubic", "mutant:bbr"} <= set(names["schemes"])
    assert cli.main(["list"]) == 0
    assert "cellular-model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run", "nothing", "--out", "o"], ["scenario", "nothing", "fixed"]),
        (["compare", "smoke", "--schemes", "bbr,cubik"], ["--schemes", "cubik", "cubic"]),
        (["run", "smoke", "--every-flow", "--out", "o"], ["--every-flow", "--scheme"]),
        (["run", "smoke", "--out", "/proc/nothing/here"], ["/proc/nothing"]),
    ],
)
def test_errors_are_one_line_without_a_traceback(
    made: Made, command: list[str], words: list[str], capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    assert all(word in error for word in words)
    assert error.count("\n") == 1
    assert made == []


@pytest.mark.parametrize(
    "command",
    [
        [], ["fly"], ["run"], ["run", "smoke"], ["run", "smoke", "--out", "o", "--seed", "-1"],
        ["run", "smoke", "--out", "o", "--kernel", "5.10"], ["compare", "smoke", "--seeds", "5-1"],
        ["compare", "smoke", "--seeds", "0-2000000000"], ["compare", "smoke", "--jobs", "0"],
    ],
)  # fmt: skip
def test_wrong_usage_exits_with_2(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(command)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_lab_that_fails_leaves_nothing_behind(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = results.run_scenario

    def failing(scenario: Scenario, **arguments: object) -> object:
        if scenario.flows[0].scheme == "bbr":
            raise LabError("the guest died")
        return good(scenario, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(results, "run_scenario", failing)
    command = [
        "compare",
        "smoke",
        "--schemes",
        "cubic,bbr,vegas",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "o"),
    ]
    assert cli.main(command) == 1
    assert "the guest died" in capsys.readouterr().err
    kept = list((tmp_path / "cache" / "results").iterdir())
    assert [json.loads((folder / "run.json").read_text())["seed"] for folder in kept] == [1]


def test_an_interrupt_stops_what_is_under_way(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "run_scenario", interrupted)
    assert cli.main(["run", "smoke", "--out", str(tmp_path / "o")]) == cli.EXIT_INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    assert not any((tmp_path / "cache" / "results").glob("*"))
