# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval suite` over a lab that answers at once."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from ltp_switcher.errors import LabError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.run import kept, results
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.suite import paths

Made = list[tuple[str, str, int]]
LINK = "[link]\nrate_mbps = 12.0\nrtt_ms = 40.0\nbuffer_bdp = 1.0\n"
FLOW = "[[flow]]\nscheme = 'switcher'\n"


@pytest.fixture
def keeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


def suite(*options: str, out: Path) -> int:
    return cli.main(["suite", "--seeds", "1", "--jobs", "1", "--out", str(out), *options])


def test_harm_is_measured_against_the_flow_alone(made: Made, keeping: Path, tmp_path: Path) -> None:
    assert not keeping.exists()
    assert suite("--schemes", "rule,cubic,bbr", "--paths", "beside-cubic-1,fixed-1", out=tmp_path) == 0
    assert sorted(made) == sorted(
        [
            *(
                (path, scheme, 101)
                for path in ("beside-cubic-1", "fixed-1")
                for scheme in ("rule", "cubic", "bbr")
            ),
            ("beside-cubic-1/alone", "cubic", 101),
        ]
    )
    harms = json.loads((tmp_path / "results.json").read_text())["harms"]
    assert [(one["path"], one["scheme"]) for one in harms] == [
        ("beside-cubic-1", scheme) for scheme in ("rule", "cubic", "bbr")
    ]
    # Each of two flows gets half of what one has alone.
    assert all(one["throughput"] == pytest.approx(0.5, abs=0.02) for one in harms)
    assert all(one["own"] == harms[1]["throughput"] for one in harms)
    page = (tmp_path / "report.html").read_text()
    for title in ("Mutant Fig. 4", "Mutant Fig. 10", "Harm to the flow beside"):
        assert title in page
    assert "Mutant Fig. 9" not in page


def test_a_study_changes_one_setting_and_has_its_figure(
    made: Made, keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not keeping.exists()
    ran: list[Scenario] = []
    answer = results.run_scenario

    def run_scenario(scenario: Scenario, **options: object) -> object:
        ran.append(scenario)
        return answer(scenario, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(results, "run_scenario", run_scenario)
    assert suite("--study", "steps", "--paths", "fixed-1,lossy-1", out=tmp_path) == 0
    assert len(ran) == len(made) == 2 * 7
    settings = [scenario.settings for scenario in ran if scenario.scheme == "paper-preset"]
    assert settings[:4] == [(), *((("daemon.step_ms", ms),) for ms in (30.0, 100.0, 300.0))]
    document = json.loads((tmp_path / "results.json").read_text())
    assert set(document["summary"]) == {
        "paper-preset", "paper-preset:30ms", "paper-preset:100ms", "paper-preset:300ms",
        "bbr", "vegas", "cubic",
    }  # fmt: skip
    assert document["paths"][0]["best_arm"] in {"bbr", "vegas", "cubic"}
    page = (tmp_path / "report.html").read_text()
    assert "The length of a step, δ (Mutant Fig. 12)" in page
    assert (
        "<code>paper-preset:30ms</code> is <code>paper-preset</code> with <code>daemon.step_ms = 30.0</code>"
        in page
    )


def test_kept_results_save_the_runs(
    made: Made, keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--schemes", "rule,bbr", "--paths", "fixed-1")
    assert suite(*options, "--keep", out=tmp_path / "first") == 0
    (file,) = keeping.rglob("*.zip")
    assert file.parent == keeping / "test" / "fixed-1"
    assert file.name.startswith("bbr-101-6.1.")
    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "another"))
    made.clear()
    assert suite(*options, out=tmp_path / "second") == 0
    assert made == [("fixed-1", "rule", 101)]
    first, second = (json.loads((tmp_path / n / "results.json").read_text()) for n in ("first", "second"))
    assert first["paths"] == second["paths"]


def test_a_user_s_own_paths_are_a_set(made: Made, keeping: Path, tmp_path: Path) -> None:
    """Their groups come from what is in the files, not from their names."""
    own = tmp_path / "own"
    own.mkdir()
    step = "[[link.step]]\nat_s = 2.0\nrate_mbps = 24.0\n"
    for name, body in {"home": LINK + FLOW, "train": LINK + step + FLOW, "office": LINK + 2 * FLOW}.items():
        (own / f"{name}.toml").write_text(f"name = '{name}'\nduration_s = 4\n{body}")
    assert suite("--set", str(own), "--schemes", "rule,bbr", out=tmp_path / "out") == 0
    assert {seed for _, _, seed in made} == {201}
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["set"] == "own"
    kinds = {path["name"]: (path["kind"], path["family"]) for path in document["paths"]}
    assert kinds == {
        "home": ("static", "home"), "train": ("changing", "train"), "office": ("several", "office")
    }  # fmt: skip
    page = (tmp_path / "out" / "report.html").read_text()
    assert "home: rule and single arms" in page
    assert not keeping.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "nowhere"), "nowhere"),
        (("--set", "OWN"), "a name that no other file"),
        (("--set", "OWN", "--keep"), "--keep"),
    ],
)
def test_a_set_that_cannot_run_is_refused(
    options: tuple[str, ...], said: str, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("a", "b"):
        (own / f"{name}.toml").write_text(f"name = 'same'\nduration_s = 4\n{LINK}{FLOW}")
    if "--keep" in options:
        (own / "b.toml").unlink()
    assert suite(*(str(own) if word == "OWN" else word for word in options), out=tmp_path / "out") == 1
    assert said in capsys.readouterr().err
    assert not made


def test_a_drawn_set_is_new_and_comes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, folder in ((7, "first"), (7, "again"), (9, "other")):
        assert cli.main(["draw", "--seed", str(seed), "--out", str(tmp_path / folder)]) == 0
    assert "ltp-eval suite --set" in capsys.readouterr().out
    assert cli.main(["draw", "--seed", "7", "--out", str(tmp_path / "first")]) == 0
    assert cli.main(["draw", "--seed", "8", "--out", str(tmp_path / "first")]) == 1
    assert "a folder without another" in capsys.readouterr().err
    first, again, other = (paths.load(str(tmp_path / name)) for name in ("first", "again", "other"))
    assert first == again
    assert first.keys() == other.keys() == paths.load("test").keys()
    links = [
        {one.link for one in of.values()} for of in (first, other, paths.load("tuning"), paths.load("test"))
    ]
    assert all(not a & b for a, b in combinations(links, 2))


def test_results_are_kept_while_others_run(
    made: Made, keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = results.run_scenario

    def run_scenario(scenario: Scenario, **options: object) -> object:
        if scenario.name == "lossy-1":
            raise LabError("planted")
        return answer(scenario, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(results, "run_scenario", run_scenario)
    assert suite("--schemes", "bbr", "--paths", "fixed-1,lossy-1", "--keep", out=tmp_path) == 1
    assert [file.parent.name for file in keeping.rglob("*.zip")] == ["fixed-1"]


def test_a_report_on_the_runs_that_are_made(
    made: Made, keeping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path counts when its arms have run: `lossy-1` lacks bbr, and `slow-1` everything."""
    assert not keeping.exists()
    assert suite("--schemes", "vegas,bbr", "--paths", "fixed-1", out=tmp_path) == 0
    assert suite("--schemes", "rule,vegas", "--paths", "lossy-1", out=tmp_path) == 0
    made.clear()
    planned = ("--schemes", "rule,bandit,vegas,bbr", "--paths", "fixed-1,lossy-1,slow-1", "--cached")
    assert suite(*planned, out=tmp_path / "report") == 0
    assert not made
    assert "2 of 12 planned runs" in capsys.readouterr().err
    document = json.loads((tmp_path / "report" / "results.json").read_text())
    assert {path["name"]: set(path["schemes"]) for path in document["paths"]} == {"fixed-1": {"vegas", "bbr"}}
    assert "--cached" in document["made_by"]["command"]
    assert suite(*planned[:2], "--paths", "slow-1", "--cached", out=tmp_path / "none") == 1
    assert capsys.readouterr().err == (
        "ltp-eval: --cached: no path has cached results of every arm (bbr, vegas); `ltp-eval suite "
        "--set test --kernel 6.1 --daemon inside --schemes rule,bandit,vegas,bbr --paths slow-1 "
        "--seeds 1` makes them\n"
    )
    assert not (tmp_path / "none").exists()
