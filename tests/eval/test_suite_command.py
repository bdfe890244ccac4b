# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval suite` over a lab that answers at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.run import kept, results
from ltp_switcher.eval.run.scenario import Scenario

Made = list[tuple[str, str, int]]


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
    settings = [scenario.settings for scenario in ran if scenario.scheme == "paper"]
    assert settings[:4] == [(), *((("daemon.step_ms", ms),) for ms in (30.0, 100.0, 300.0))]
    document = json.loads((tmp_path / "results.json").read_text())
    assert set(document["summary"]) == {
        "paper", "paper:30ms", "paper:100ms", "paper:300ms", "bbr", "vegas", "cubic",
    }  # fmt: skip
    assert document["paths"][0]["best_arm"] in {"bbr", "vegas", "cubic"}
    page = (tmp_path / "report.html").read_text()
    assert "The length of a step, δ (Mutant Fig. 12)" in page
    assert "<code>paper:30ms</code> is <code>paper</code> with <code>daemon.step_ms = 30.0</code>" in page


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
