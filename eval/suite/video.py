# SPDX-License-Identifier: Apache-2.0
"""Scores of the suite's paths with a video: how it played under each scheme, and the best single arm.

The quality of a run is a mean over the time since the first chunk. A second that plays earns the mean bitrate
of the chunks. A second that stands still costs the largest bitrate. That is the quality of Yin et al., "A
Control-Theoretic Approach for Dynamic Adaptive Video Streaming over HTTP", SIGCOMM 2015, Eq. 5, without its
terms for changes of the bitrate and for the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Final

from ltp_switcher.eval.run.completion_times import VideoSummary
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.suite.plan import Run, is_arm

VIDEO_HEAD: Final = (
    "path", "scheme", "start s", "stood still", "pauses", "Mbit/s", "quality",
    "still\n/best", "Mbit/s\n/best",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Played:
    """The course of the video under a scheme: means over the seeds, with units in the fields' names."""

    startup_s: float
    rebuffer_s: float
    rebuffer_share: float
    """Share of the time since the start in which the video stood still, 0 to 1."""
    rebuffers: float
    mean_mbps: float


@dataclass(frozen=True, slots=True)
class VideoPath:
    """A path with a video: the largest bitrate of the video, and its course under each scheme."""

    name: str
    largest_mbps: float
    played: Mapping[str, Played]

    def quality_mbps(self, scheme: str) -> float:
        """Return the quality of the video under a scheme in Mbit/s, as the module's text defines it."""
        of = self.played[scheme]
        return (1.0 - of.rebuffer_share) * of.mean_mbps - of.rebuffer_share * self.largest_mbps

    @property
    def best_arm(self) -> str:
        """The arm with the largest quality."""
        return max(filter(is_arm, self.played), key=self.quality_mbps)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "name": self.name, "best_arm": self.best_arm, "largest_mbps": self.largest_mbps,
            "schemes": {
                scheme: {"quality_mbps": self.quality_mbps(scheme), **asdict(of)}
                for scheme, of in self.played.items()
            },
        }  # fmt: skip


def video_paths(made: Iterable[tuple[Run, RunResult]]) -> list[VideoPath]:
    """Return the score of each path with a video, in order of first appearance; other runs are left out."""
    largest_mbps: dict[str, float] = {}
    found: dict[str, dict[str, list[VideoSummary]]] = {}
    for run, outcome in made:
        asked, told = run.job.scenario.requests, outcome.summary.requests
        if asked is None or told is None or asked.video is None or told.video is None:
            continue
        largest_mbps[run.path] = asked.video.bitrates_mbps[-1]
        found.setdefault(run.path, {}).setdefault(run.scheme, []).append(told.video)
    return [
        VideoPath(path, largest_mbps[path], {scheme: _mean(of) for scheme, of in schemes.items()})
        for path, schemes in found.items()
    ]


def _mean(videos: Sequence[VideoSummary]) -> Played:
    return Played(
        fmean(one.startup_s for one in videos),
        fmean(one.rebuffer_s for one in videos),
        fmean(one.rebuffer_share for one in videos),
        fmean(one.rebuffers for one in videos),
        fmean(one.mean_mbps for one in videos),
    )


def video_rows(paths: Sequence[VideoPath]) -> list[tuple[str, ...]]:
    """Return the rows of a table under `VIDEO_HEAD`. The best arm of a path has a star."""
    return [_row(path, scheme, path.best_arm) for path in paths for scheme in path.played]


def _row(path: VideoPath, scheme: str, best_arm: str) -> tuple[str, ...]:
    of, best = path.played[scheme], path.played[best_arm]
    return (
        path.name, scheme + "*" * (scheme == best_arm), f"{of.startup_s:.1f}",
        f"{of.rebuffer_share:.1%}", f"{of.rebuffers:.1f}", f"{of.mean_mbps:.2f}",
        f"{path.quality_mbps(scheme):.2f}", _ratio(of.rebuffer_s, best.rebuffer_s),
        _ratio(of.mean_mbps, best.mean_mbps),
    )  # fmt: skip


def _ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if theirs else ""
