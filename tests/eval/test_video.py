# SPDX-License-Identifier: Apache-2.0
"""Scores of the suite's paths with a video, and the set of applications that pause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ltp_switcher.eval.run.completion_times import RequestSummary, VideoSummary
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.suite import paths
from ltp_switcher.eval.suite.page import Results, html
from ltp_switcher.eval.suite.plan import Run, plan
from ltp_switcher.eval.suite.video import Played, VideoPath, video_paths, video_rows
from ltp_switcher.eval.suite.web import web_paths


def played(share: float, mbps: float) -> Played:
    return Played(1.0, 60 * share, share, 3.0, mbps)


def test_standing_still_costs_the_largest_bitrate() -> None:
    path = VideoPath(
        "video-1", 8.0, {"bbr": played(0.1, 5.0), "ltp": played(0.0, 4.0), "rule": played(0.05, 4.0)}
    )
    assert path.quality_mbps("bbr") == pytest.approx(0.9 * 5.0 - 0.1 * 8.0)
    assert path.quality_mbps("ltp") == 4.0
    assert path.best_arm == "ltp"
    # A scheme of the daemon is no arm, however well it does.
    assert replace(path, played={**path.played, "rule": played(0.0, 8.0)}).best_arm == "ltp"


def test_a_row_tells_time_and_bitrate_over_the_best_arm_s() -> None:
    path = VideoPath("video-1", 8.0, {"bbr": played(0.1, 5.0), "rule": played(0.05, 4.0)})
    best, rule = video_rows([path])
    assert best[1] == "bbr*"
    assert rule[:2] == ("video-1", "rule")
    assert rule[-2:] == ("0.50", "0.80")
    never = VideoPath("video-1", 8.0, {"bbr": played(0.0, 5.0), "rule": played(0.05, 4.0)})
    assert [row[-2] for row in video_rows([never])] == ["", ""]


def finished(run: Run, video: VideoSummary | None) -> RunResult:
    requests = RequestSummary("video", run.scheme, 0, 1.0, 0.0, {}, (), video)
    summary = Summary(run.path, run.scheme, run.job.seed, "6.1", 60.0, 1.0, 1.0, 0.0, (), requests)
    return RunResult(run.job, summary, Path("none"), True, 0.0, "6.1")


def test_seeds_are_folded_into_means_and_a_video_is_no_download() -> None:
    runs = plan("applications", {"bbr": 2}, "6.1", quick=False, names=["video-1"])
    videos = [VideoSummary(1.0, 2.0, 1, 0.1, 4.0), VideoSummary(3.0, 0.0, 0, 0.0, 6.0)]
    made = [(run, finished(run, video)) for run, video in zip(runs, videos, strict=True)]
    (path,) = video_paths(made)
    assert path.played == {"bbr": Played(2.0, 1.0, 0.05, 0.5, 5.0)}
    video = runs[0].job.scenario.need_requests().video
    assert video is not None
    assert path.largest_mbps == max(video.bitrates_mbps)
    assert web_paths(made) == []
    results = Results(set_name="applications", kernel="6.1", quick=False, wall_s=1.0, videos=[path])
    assert "bbr*" in html(results, {})
    assert results.to_dict()["videos"] == [path.to_dict()]


def roads(of: dict[str, Scenario]) -> list[object]:
    return [one.link for one in of.values()]


def test_applications_that_were_tuned_on_have_other_links_and_seeds() -> None:
    sets = ("tuning-applications", "tuning", "test"), ("applications", "test", "tuning")
    for name, links, others in sets:
        found = paths.load(name)
        assert [path for path in found if path.startswith("video")] == [f"video-{n}" for n in range(1, 7)]
        assert [path for path in found if path.startswith("kept")] == [f"kept-{n}" for n in range(1, 7)]
        assert all(link in roads(paths.load(links)) for link in roads(found))
        assert not any(link in roads(paths.load(others)) for link in roads(found))
    seeds = [set(of) for name, of in paths.SEEDS.items() if name != "applications"]
    (run,) = plan("applications", {"bbr": 1}, "6.1", quick=False, names=["video-1"])
    assert run.job.seed not in set().union(*seeds)
