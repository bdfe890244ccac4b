# SPDX-License-Identifier: Apache-2.0
"""The record of claims and its page agree, they cover every claim, and a full run updates them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.claim_runs import answer, reach

from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.cli import claims as command
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.report.claims import record as record_module
from ltp_switcher.eval.report.claims.catalogue import CLAIMS, find_claims
from ltp_switcher.eval.report.claims.page import render
from ltp_switcher.eval.report.claims.record import Judged, NotRun, Record, Row, Terms, read_record
from ltp_switcher.figures import Target

DOCS = Path(__file__).resolve().parents[2] / "docs"


def judged(value: float | None, terms: Terms = Terms.PAPER) -> Judged:
    """A figure of the claim ltp-one-flow, which asks for a utilisation of 0.92."""
    return Judged(
        scheme="ltp", figure="utilisation", value=value, spread=None, seeds=None, ran_on=None,
        revision=None, shortened=None, target=Target(low=0.92), terms=terms,
    )  # fmt: skip


def record_of(*figures: Judged) -> Record:
    row = Row(
        claim="ltp-one-flow", text="LTP alone", paper="10 to 600 Mbit/s", here="100 Mbit/s",
        difference="one rate", command="ltp-eval claims ltp-one-flow", figures=figures, notes=(),
    )  # fmt: skip
    return Record(rows=(row,), constants=(), baselines=())


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of docs/ that the commands read and write."""
    shutil.copytree(DOCS, tmp_path / "docs")
    copy = tmp_path / "docs"
    monkeypatch.setattr(command, "RECORD", copy / "claims.json")
    monkeypatch.setattr(command, "PAGE", copy / "claims.md")
    monkeypatch.setattr(command, "PICTURES", copy / "img")
    monkeypatch.setattr(command, "read_record", lambda: read_record(copy / "claims.json"))
    return copy


def test_the_page_is_made_from_the_record() -> None:
    record = read_record(DOCS / "claims.json")
    page, text = ((DOCS / name).read_text(encoding="utf-8") for name in ("claims.md", "claims.json"))
    assert page == render(record), "run `ltp-eval claims-page`"
    below = page.partition("(img/claims-spine-interval.png)")[2]
    assert "\n- target ≤ 3: utilisation changes by, points\n" in below.partition("![")[0]
    assert text == record.to_json(), "run `ltp-eval claims-page`"


@pytest.mark.parametrize(
    ("value", "terms", "verdict"),
    [
        (0.95, Terms.PAPER, "met"),
        (0.95, Terms.NARROWER, "reached, narrower"),
        (0.95, Terms.OWN, "own target reached"),
        (0.91, Terms.PAPER, "missed"),
        (0.91, Terms.OWN, "missed"),
        (None, Terms.PAPER, "not known"),
    ],
)
def test_only_the_papers_own_definition_is_met(value: float | None, terms: Terms, verdict: str) -> None:
    (row,) = record_of(judged(value, terms)).rows
    assert row.figures[0].verdict == verdict


def test_the_page_says_what_is_not_known_and_shows_what_is_missed() -> None:
    page = render(record_of(judged(None), judged(0.5)))
    assert "| LTP alone | 10 to 600 Mbit/s | 100 Mbit/s | one rate | 1 **missed**; 1 not known |" in page
    unknown = "not known | not known | not known | not known"
    assert f"| ltp | utilisation | ≥ 0.92 | not known | {unknown} | not known |" in page
    assert f"| ltp | utilisation | ≥ 0.92 | 0.5 | {unknown} | **missed** |" in page


@pytest.mark.parametrize(
    ("command", "line"),
    [("ltp-eval claims x", "`ltp-eval claims x`"), ("a trial of `x`, A = 1", "a trial of `x`, A = 1")],
)
def test_code_of_a_command_is_marked_once(command: str, line: str) -> None:
    record = record_of(judged(0.95))
    row = record.rows[0].model_copy(update={"command": command})
    assert line in render(record.model_copy(update={"rows": (row,)})).splitlines()


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    record = read_record(DOCS / "claims.json")
    (tmp_path / "again.json").write_text(record.to_json(), encoding="utf-8")
    assert read_record(tmp_path / "again.json") == record


def test_every_claim_has_rows_and_every_row_is_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer(monkeypatch)
    for name in ("TMobile-LTE-short.down", "Verizon-LTE-short.down"):
        (tmp_path / name).touch()
    monkeypatch.setenv("LTP_TRACES", str(tmp_path))
    before = read_record(DOCS / "claims.json")
    after = before.updated(reach(*CLAIMS, quick=False), "6.1", "abc")
    for row in after.rows:
        figures = {figure.revision for figure in row.figures}
        assert figures == {"abc"} if row.claim else "abc" not in figures, row.text
    assert {row.claim for row in after.rows} - {None} == {claim.name for claim in CLAIMS}
    targets = [(row.claim, figure.key, figure.target) for row in before.rows for figure in row.figures]
    measured = "ltp-estimator"
    """Its targets are what CCmatic reaches on the same runs."""
    assert [at for at in targets if at[0] != measured] == [
        (row.claim, figure.key, figure.target)
        for row in after.rows
        for figure in row.figures
        if row.claim != measured
    ]


def test_the_page_says_first_how_much_stands_and_what_was_not_run() -> None:
    figures = (judged(0.95), judged(0.95, Terms.NARROWER), judged(0.95, Terms.OWN), judged(0.5))
    record = record_of(*figures).model_copy(
        update={"not_run": (NotRun(paper="LTP", experiments="real networks " * 20),)}
    )
    page = render(record)
    assert page.index("**1 of 4 figures are met in the papers' own terms**") < page.index("## Row by row")
    assert "- LTP alone: utilisation of ltp\n" in page
    assert "1 more are reached" in page
    assert "- LTP alone: 1\n" in page
    assert "- LTP: real networks" in page
    assert [line for line in page.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    assert "Not run" not in render(record_of(*figures))


def test_an_update_says_how_the_figures_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch)
    (reached,) = reach(*find_claims(["ltp-one-flow"]), quick=False)
    (row,) = record_of(judged(None, Terms.OWN)).updated([], "6.1", "abc").rows
    assert row.figures[0].value is None
    with pytest.raises(ArtifactError, match=r"no row for 'mean RTT / base' of ltp \(ltp-one-flow\)"):
        record_of(judged(None)).updated([reached], "6.1", "abc")
    delay = judged(None).model_copy(update={"figure": "mean RTT / base"})
    (row,) = record_of(judged(None, Terms.OWN), delay).updated([reached], "6.12", "abc").rows
    (figure, _) = row.figures
    assert (figure.value, figure.spread, figure.seeds) == (0.95, (0.95, 0.95), (1, 2, 3))
    assert (figure.ran_on, figure.revision, figure.verdict) == ("Linux 6.12", "abc", "own target reached")


def test_a_full_run_updates_record_page_and_picture(
    docs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer(monkeypatch)
    out = ["--out", str(tmp_path / "out")]
    picture = (docs / "img" / "claims-spine-interval.png").read_bytes()
    record = read_record(docs / "claims.json")
    lacking = tuple(row.model_copy(update={"picture": "It lacks a band."}) for row in record.rows)
    (docs / "claims.json").write_text(record.model_copy(update={"rows": lacking}).to_json(), encoding="utf-8")
    assert main(["claims-page"]) == 0
    told = "(img/claims-{}.png)\n\nIt lacks a band.\n"
    assert told.format("spine-interval") in (docs / "claims.md").read_text(encoding="utf-8")
    assert main(["claims", "spine-interval", "--update", *out]) == 0
    rows = json.loads((docs / "claims.json").read_text(encoding="utf-8"))["rows"]
    (figures,) = (row["figures"] for row in rows if row["claim"] == "spine-interval")
    assert [figure["value"] for figure in figures] == [0.0, 2.0]
    assert [figure["verdict"] for figure in figures] == ["own target reached", "reached, narrower"]
    page = (docs / "claims.md").read_text(encoding="utf-8")
    assert "| spine | policy generator runs every, s | ≥ 1.2 | 2 | 2 to 2 | 1, 2, 3 | Linux 6.1 |" in page
    assert told.format("spine-interval") not in page
    assert told.format("friendliness") in page
    assert (docs / "img" / "claims-spine-interval.png").read_bytes() != picture
    assert main(["claims-page", "--check"]) == 0


def test_a_quick_run_is_not_for_the_record(
    docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch)
    before = (docs / "claims.json").read_bytes()
    assert main(["claims", "spine-interval", "--quick", "--update"]) == 1
    assert "without --quick" in capsys.readouterr().err
    assert (docs / "claims.json").read_bytes() == before


def test_a_stale_page_is_told_and_made_anew(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = docs / "claims.md"
    made = page.read_text(encoding="utf-8")
    page.write_text(made.replace("missed", "met"), encoding="utf-8")
    assert main(["claims-page", "--check"]) == 1
    assert "claims.md in docs/ are stale. Run `ltp-eval claims-page`" in capsys.readouterr().err
    assert main(["claims-page", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == ["claims.md"]
    assert page.read_text(encoding="utf-8") == made


def test_the_page_draws_the_pictures_that_no_full_run_has_made(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def drawn() -> set[str]:
        assert main(["claims-page", "--json"]) == 0
        return set(json.loads(capsys.readouterr().out)["drawn"])

    record = read_record(docs / "claims.json")
    made = tuple(row.model_copy(update={"picture": ""}) for row in record.rows)
    (docs / "claims.json").write_text(record.model_copy(update={"rows": made}).to_json(), encoding="utf-8")
    assert drawn() == set()
    lacking = tuple(row.model_copy(update={"picture": "It lacks a band."}) for row in record.rows)
    (docs / "claims.json").write_text(record.model_copy(update={"rows": lacking}).to_json(), encoding="utf-8")
    for picture in (docs / "img").glob("claims-*.png"):
        picture.unlink()
    names = {"claims-jury-fairness.png", "claims-friendliness.png"}
    assert drawn() == names
    assert {path.name for path in (docs / "img").glob("claims-*.png")} == names
    shown = (docs / "claims.md").read_text(encoding="utf-8")
    assert all(f"(img/{name})" in shown for name in names)
    assert main(["claims-page", "--check"]) == 0


def test_a_broken_record_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="part of a checkout"):
        read_record(tmp_path / "claims.json")
    broken = tmp_path / "claims.json"
    broken.write_text((DOCS / "claims.json").read_text(encoding="utf-8").replace('"low"', '"lowest"', 1))
    with pytest.raises(ArtifactError, match=r"claims\.json"):
        read_record(broken)
    assert record_module.RECORD == DOCS / "claims.json"
