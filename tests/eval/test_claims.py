# SPDX-License-Identifier: Apache-2.0
"""Claims: their runs, their judgement, their printed page."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from matplotlib import figure as drawing
from matplotlib import image
from rich.console import Console
from support.claim_runs import answer, outcome, reach

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.report.claims import measures, pictures, runner
from ltp_switcher.eval.report.claims.catalogue import CLAIMS, find_claims
from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.pictures import draw, draw_claim, draw_recorded
from ltp_switcher.eval.report.claims.record import Measured
from ltp_switcher.eval.report.claims.scenarios import bundled, swept
from ltp_switcher.eval.report.claims.tables import claims_table
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.figures import Figure, Target


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """A lab that answers at once; the jobs that it was given."""
    return answer(monkeypatch)


def test_a_target_is_met_at_its_ends_and_never_by_nothing() -> None:
    assert Target(low=0.92).met(0.92)
    assert not Target(0.5, 2.0).met(float("nan"))
    assert [str(Target(low=0.92)), str(Target(high=3)), str(Target(0.5, 2))] == ["≥ 0.92", "≤ 3", "0.5 to 2"]
    less = Target(below=1.0)
    assert (less.met(0.999), less.met(1.0), less.met(float("nan")), str(less)) == (True, False, False, "< 1")


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
@pytest.mark.parametrize("quick", [True, False])
def test_every_claim_is_judged_by_its_own_runs(claim: Claim, quick: bool, lab: list[Job]) -> None:
    (reached,) = reach(claim, quick=quick)
    assert len(lab) == len(set(lab))
    judged = {figure.scheme for figure in reached.figures if figure.target is not None}
    assert judged
    assert judged <= set(claim.schemes)
    assert {job.seed for job in lab} == ({claim.seeds[0]} if quick else set(claim.seeds))


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
def test_the_baselines_can_be_left_out(claim: Claim, lab: list[Job]) -> None:
    (reached,) = reach(claim, baselines=False)
    assert {job.scheme for job in lab} == {*claim.schemes, *claim.against}
    assert all(figure.scheme in (*claim.schemes, *claim.against) for figure in reached.figures)


@pytest.mark.parametrize("scheme", sorted({scheme for claim in CLAIMS for scheme in claim.schemes}))
def test_what_is_claimed_of_one_scheme_is_judged_alone(scheme: str, lab: list[Job]) -> None:
    claims = find_claims([], [scheme])
    assert claims
    for claim in claims:
        lab.clear()
        (reached,) = reach(claim, baselines=False)
        assert {job.scheme for job in lab} == {scheme, *claim.against}
        assert any(figure.scheme == scheme for figure in reached.figures)


def test_a_scheme_of_which_nothing_is_claimed_is_told() -> None:
    with pytest.raises(ConfigError, match=r"reno.*jury, ltp"):
        find_claims(["satellite"], ["reno"])


def test_what_cannot_run_is_told_with_its_reason(lab: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"jury": "no weights of jury"}
    monkeypatch.setattr(runner, "missing_weights", lambda name, _: reasons.get(name))
    satellite = next(claim for claim in CLAIMS if claim.name == "satellite")
    fairness = next(claim for claim in CLAIMS if claim.name == "jury-fairness")
    both, none = reach(satellite, fairness)
    assert {job.scheme for job in lab} == {"ltp", "cubic", "bbr", "vegas"}
    assert none.figures == ()
    assert both.missing == reasons
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(claims_table([both, none]))
    text = console.export_text()
    assert text.count("no weights of jury") == 2
    assert "≥ 0.75" in text
    assert "0.95  met" in text
    assert "cubic 0.1, bbr 0.1, vegas 0.1" in text


def test_a_shorter_run_keeps_its_shape() -> None:
    whole, short = bundled("three-flows"), bundled("three-flows", duration_s=100.0)
    assert [flow.start_s for flow in short.flows] == [0.0, 20.0, 40.0]
    assert short.flows[0].stop_s == pytest.approx(whole.flows[0].stop_s / 3)
    wave = bundled("square-wave", duration_s=20.0)
    assert [step.at_s for step in wave.link.steps] == [5.0, 10.0, 15.0]


def test_a_sweep_changes_one_thing_at_a_time() -> None:
    base = bundled("one-flow")
    paths = swept(base, {"loss": (0.0, 0.01), "rtt_ms": (15.0,)})
    assert list(paths) == ["loss 0", "loss 0.01", "rtt_ms 15"]
    assert paths["rtt_ms 15"].link.loss == base.link.loss


@pytest.mark.parametrize(
    ("name", "panels"), [("ltp-sweeps", 4), ("friendliness", 1), ("jury-fairness", 2), ("satellite", 0)]
)
def test_what_a_claim_has_to_show_is_drawn(name: str, panels: int, lab: list[Job], tmp_path: Path) -> None:
    (reached,) = reach(*find_claims([name]))
    draw_claim(tmp_path / "drawn.png", reached)
    drawn = {path.name: image.imread(path).shape[1] for path in tmp_path.iterdir()}
    assert drawn == ({"drawn.png": round(150 * (3.4 * max(2, panels) + 1.2))} if panels else {})


@pytest.mark.parametrize("name", ["ltp-sweeps", "friendliness", "spine-interval"])
def test_markers_at_the_edge_are_whole(name: str, lab: list[Job]) -> None:
    (reached,) = reach(*find_claims([name]))
    figure = drawing.Figure(figsize=(8, 4.6), layout="constrained")
    draw(figure, reached)
    figure.draw_without_rendering()
    for panel in figure.axes:
        frame = panel.get_window_extent()
        for line in panel.lines:
            radius = line.get_markersize() / 2 / 72 * figure.dpi
            for _, y in panel.transData.transform(line.get_xydata()):
                assert y + radius <= frame.y1
            assert not line.get_clip_on()


def legend(reached: runner.Reached) -> tuple[drawing.Figure, list[str]]:
    figure = drawing.Figure(figsize=(12, 4.6), layout="constrained")
    draw(figure, reached)
    return figure, [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_target_of_a_sweep_is_a_band_that_is_seen_whole(lab: list[Job]) -> None:
    (reached,) = reach(*find_claims(["friendliness"]), baselines=False)
    figure, texts = legend(reached)
    assert texts == ["target 0.5 to 2", "ltp", "jury", "spine", "owl"]
    (panel,) = figure.axes
    (band,) = panel.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((0.5, 2.0))
    assert panel.get_ylim()[1] > 2.0


def test_the_targets_of_a_spread_and_cubic_are_in_it(lab: list[Job]) -> None:
    (reached,) = reach(*find_claims(["jury-fairness"]), baselines=False)
    figure, texts = legend(reached)
    assert texts == ["target of the mean ≥ 0.94", "target of the 5th percentile ≥ 0.82", "jury", "cubic"]
    for panel in figure.axes:
        lines = {str(line.get_label()): line.get_xydata() for line in panel.lines}
        assert lines["target of the mean ≥ 0.94"][:, 0].tolist() == [0.94, 0.94]
        assert lines["target of the 5th percentile ≥ 0.82"].tolist() == [[0.82, 0.05]]


def recorded(name: str, *without: str, **changed: float | None) -> tuple[Claim, list[Measured]]:
    """A claim, and figures of it with a value for each scheme, as a record has them."""
    (claim,) = find_claims([name])
    names = {
        "jury-fairness": [
            f"{of} {when}"
            for of in ("mean Jain", "5th percentile of Jain")
            for when in ("while all are open", "by second")
        ],
        "friendliness": [f"goodput / cubic's (rtt_ms {rtt})" for rtt in (30, 60, 120)],
    }[name]
    schemes = {"jury": 0.9, "cubic": 0.8, "bbr": 0.7, "ltp": 0.6, **changed}
    return claim, [
        Measured(
            scheme=scheme, figure=figure, value=None if value is None else value + 0.01 * at, spread=None,
            seeds=(1, 2, 3), ran_on=None, revision=None,
            shortened="links 0 to 14 of 60" if scheme == "cubic" else None,
        )
        for scheme, value in schemes.items()
        if scheme not in without
        for at, figure in enumerate(names)
    ]  # fmt: skip


def recorded_picture(
    claim: Claim, figures: list[Measured], monkeypatch: pytest.MonkeyPatch
) -> tuple[bool, drawing.Figure]:
    """Whether the figures suffice, and the figure that is drawn."""
    made = drawing.Figure(figsize=(8, 4.6), layout="constrained")
    monkeypatch.setattr(pictures, "picture", lambda *_: nullcontext(made))
    return draw_recorded(Path("unused"), claim, figures), made


def test_a_spread_is_drawn_from_its_recorded_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    enough, figure = recorded_picture(*recorded("jury-fairness"), monkeypatch)
    assert enough
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["target of the mean ≥ 0.94", "target of the 5th percentile ≥ 0.82"]
    assert "mean of 3 seeds; cubic: links 0 to 14 of 60" in figure.axes[0].get_title(loc="left")
    assert len({panel.get_xlim() for panel in figure.axes}) == 1
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["jury", "cubic"]
    for panel, at in zip(figure.axes, (0.0, 0.01), strict=True):
        lines = [line.get_xydata().tolist() for line in panel.lines]
        assert lines[0] == [pytest.approx((0.92 + at, 0)), pytest.approx((0.9 + at, 0))]
        assert lines[3] == [pytest.approx((0.82 + at, 1)), pytest.approx((0.8 + at, 1))]
        assert [line[0][0] for line in lines[-2:]] == [0.94, 0.82]


def test_a_sweep_is_drawn_from_its_recorded_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    enough, figure = recorded_picture(*recorded("friendliness"), monkeypatch)
    assert enough
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["target 0.5 to 2", "jury", "ltp"]
    (panel,) = figure.axes
    drawn = {str(line.get_label()): line.get_xydata().tolist() for line in panel.lines}
    assert drawn["ltp"] == [pytest.approx(point) for point in ((30, 0.6), (60, 0.61), (120, 0.62))]


def test_too_few_recorded_figures_draw_nothing(tmp_path: Path) -> None:
    for claim, figures in (
        recorded("jury-fairness", "cubic"),
        recorded("jury-fairness", jury=None),
        recorded("friendliness", "jury", "ltp"),
        (find_claims(["satellite"])[0], recorded("friendliness")[1]),
        (find_claims(["ltp-sweeps"])[0], recorded("jury-fairness")[1]),
    ):
        assert not draw_recorded(tmp_path / "drawn.png", claim, figures)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_what_it_prints(
    lab: list[Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["claims", "ltp-one-flow", "spine-interval", "--quick", "--json", "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "claims.json").read_text())
    first: Mapping[str, object] = printed[0]["figures"][0]
    assert first == {
        "scheme": "ltp", "what": "utilisation", "value": 0.95, "target": "≥ 0.92", "spread": None,
        "met": True,
    }  # fmt: skip
    page = (out / "claims.md").read_text()
    assert "`ltp-eval claims ltp-one-flow spine-interval --quick`, Linux 6.1, revision " in page
    assert "| LTP, one flow, 100 Mbit/s, 30 ms, 1 BDP (quick: one seed) |" in page
    assert "| ltp | utilisation | ≥ 0.92 | 0.95 | met |" in page
    assert (out / "spine-interval.png").is_file()
    assert cli.main(["claims", "ltp-one-flo"]) == 1
    assert "ltp-one-flow" in capsys.readouterr().err


def test_a_figures_spread_is_that_of_its_seeds(lab: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seeds, of which the last fills less of the link."""

    def run_batch(jobs: list[Job], *_: object, **__: object) -> list[RunResult]:
        runs = [outcome(job) for job in jobs]
        for run in runs:
            run.summary.utilisation -= 0.3 * (run.job.seed == 3)  # type: ignore[misc]
        return runs

    monkeypatch.setattr(runner, "run_batch", run_batch)
    (reached,) = reach(*find_claims(["ltp-one-flow"]), quick=False, baselines=False)
    used, delay = reached.figures
    assert used.value == pytest.approx(0.85)
    assert used.spread == pytest.approx((0.65, 0.95))
    assert delay.spread == pytest.approx((1.2, 1.2))


def test_figures_without_a_target_say_so() -> None:
    assert Figure("cubic", "Jain", 0.5).to_dict()["met"] is None
    assert Results({}).paths == ()


def spoilt(job: Job, **changes: object) -> RunResult:
    """`outcome`, but for what the guest or the first flow tells."""
    told = outcome(job)
    guest = {**told.guest(), **{key: value for key, value in changes.items() if key != "arm_share"}}
    flows = [SimpleNamespace(**{**vars(flow), **changes}) for flow in told.summary.flows]
    summary = SimpleNamespace(**{**vars(told.summary), "flows": flows})
    return cast(RunResult, SimpleNamespace(**{**vars(told), "summary": summary, "guest": lambda: guest}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arm_share": {"ltp": 0.9, "cubic": 0.1}}, "10.0% under cubic"),
        ({"fallbacks": 2}, "2 fallbacks"),
        ({"learned": {"ltp": {"controls": 0}}}, "no control was sent"),
    ],
)
def test_a_run_of_another_arm_than_its_name_is_not_judged(
    changes: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To fall back to Cubic is the easiest way to be as fair as Cubic."""

    def run_batch(jobs: list[Job], *_: object, **__: object) -> list[RunResult]:
        return [spoilt(job, **changes) if job.scheme == "ltp" else outcome(job) for job in jobs]

    monkeypatch.setattr(runner, "run_batch", run_batch)
    monkeypatch.setattr(runner, "missing_weights", lambda *_: None)
    (reached,) = reach(next(claim for claim in CLAIMS if claim.name == "friendliness"))
    assert reason in reached.missing["ltp"]
    judged = {figure.scheme for figure in reached.figures if figure.target is not None}
    assert judged == {"jury", "spine", "owl"}


def shares(*flows: tuple[float, float, list[float]]) -> RunResult:
    """A run of flows from, to, and with a goodput in each second."""
    series, lives = [], []
    for start_s, stop_s, by_second in flows:
        goodput_mbps = np.repeat(by_second, 10)
        t_s = start_s + np.arange(goodput_mbps.size) / 10
        series.append(SimpleNamespace(t_s=t_s, goodput_mbps=goodput_mbps))
        lives.append(SimpleNamespace(start_s=start_s, stop_s=stop_s))
    scenario = SimpleNamespace(flows=lives, duration_s=max(life.stop_s for life in lives))
    return cast(RunResult, SimpleNamespace(job=SimpleNamespace(scenario=scenario), series=series))


def test_who_takes_turns_is_not_fair_by_the_second() -> None:
    turns = shares((0.0, 4.0, [9.0, 1.0, 9.0, 1.0]), (0.0, 4.0, [1.0, 9.0, 1.0, 9.0]))
    assert measures.jain_by_second(turns) == pytest.approx(100.0 / 164.0)
    alone_first = shares((0.0, 4.0, [9.0, 9.0, 5.0, 5.0]), (2.0, 4.0, [5.0, 5.0]))
    assert measures.jain_by_second(alone_first) == pytest.approx(1.0)
    stalled = shares((0.0, 1.0, [0.0]), (0.0, 1.0, [0.0]))
    assert measures.jain_by_second(stalled) == pytest.approx(0.5)
    assert np.isnan(measures.jain_by_second(shares((0.0, 1.0, [5.0]))))


def test_queueing_is_measured_against_the_way_there_alone() -> None:
    """Jury's satellite: 18.2 ms over 400 ms one way, which is 818.2 ms of RTT over 800 ms (§5.2.2)."""
    summary = SimpleNamespace(flows=[SimpleNamespace(rtt_mean_ms=818.2, base_rtt_ms=800.0)])
    run = cast(RunResult, SimpleNamespace(summary=summary))
    assert measures.queueing_over_one_way(run) == pytest.approx(18.2 / 400.0)


def test_a_figure_over_nothing_meets_no_target() -> None:
    assert np.isnan(measures.over(5.0, 0.0))
    assert measures.over(5.0, 2.0) == 2.5
    idle = SimpleNamespace(throughput_mbps=0.0)
    summary = SimpleNamespace(jain=1.0, flows=[idle, idle])
    assert np.isnan(measures.jain(cast(RunResult, SimpleNamespace(summary=summary))))
