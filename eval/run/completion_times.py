# SPDX-License-Identifier: Apache-2.0
"""Completion times of a run's requests, and their summary."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.run import metrics
from ltp_switcher.eval.run.requests import KB, Video
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.measures import BYTES_TO_MBIT, loss_rate

COLUMNS: Final = ("at_us", "bytes", "first_us", "done_us")
"""Header of `requests.csv`: a request's time in µs, its bytes, and the times in µs at which its first and its
last file were complete. A file that was never complete has the time 0.
"""
ALL: Final = "all"
CLASSES: Final[Mapping[str, tuple[float, float]]] = {
    ALL: (0.0, math.inf),
    "below 100 KB": (0.0, 100.0),
    "100 KB to 1 MB": (100.0, 1000.0),
    "from 1 MB": (1000.0, math.inf),
}
"""Classes of requests by size, each with its lower bound (included) and upper bound (excluded), in KB."""


@dataclass(frozen=True, slots=True)
class Completions:
    """The requests of a run: every array has shape (requests,)."""

    at_s: Floats
    kilobytes: Floats
    took_s: Floats
    """Time from the request to its last byte in seconds, including the connection's start; infinite if the
    byte never came."""

    def of(self, name: str) -> Floats:
        """Return the completion times of the requests of a class in seconds, shape (n,)."""
        low, high = CLASSES[name]
        chosen: Floats = self.took_s[(self.kilobytes >= low) & (self.kilobytes < high)]
        return chosen


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The number of requests, and three quantiles of their completion times in seconds. A request that never
    completed counts as infinite.
    """

    count: int
    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Beside:
    """A flow beside the requests. `rtt_p50_ms` is the median of the flow's RTT."""

    scheme: str
    throughput_mbps: float
    rtt_p50_ms: float


@dataclass(frozen=True, slots=True)
class VideoSummary:
    """The course of a video.

    `startup_s` is the time to the first chunk. `rebuffer_s` is the time for which the video stood still later
    on, in `rebuffers` pauses. `rebuffer_share` is `rebuffer_s` divided by the sum of `rebuffer_s` and the
    time played. `mean_mbps` is the mean bitrate of the chunks that came.
    """

    startup_s: float
    rebuffer_s: float
    rebuffers: int
    rebuffer_share: float
    mean_mbps: float


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """The requests of one run. `loss` is the lost share of the server's packets, 0..1. `unfinished` is the
    number of requests that never completed. `megabytes` counts the completed ones.
    """

    kind: str
    scheme: str
    unfinished: int
    megabytes: float
    loss: float
    completion: Mapping[str, Quantiles]
    """Quantiles of completion times by class. A class without a request is missing."""
    beside: tuple[Beside, ...]
    video: VideoSummary | None = None


def read_completions(text: str) -> Completions:
    """Parse `requests.csv`.

    Raises:
        ArtifactError: the header is not `COLUMNS`, or a cell is not a number.
    """
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ArtifactError(f"requests.csv: header {reader.fieldnames} is not {', '.join(COLUMNS)}")
    try:
        rows = [[float(row[name]) for name in COLUMNS] for row in reader]
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"requests.csv: {error}") from error
    at_us, size_bytes, _, done_us = np.array(rows, np.float64).reshape(-1, len(COLUMNS)).T
    return Completions(at_us / 1e6, size_bytes / KB, np.where(done_us > 0, (done_us - at_us) / 1e6, np.inf))


def quantiles(took_s: Floats) -> Quantiles:
    """Return the quantiles of completion times `took_s`, shape (n,), which must not be empty."""
    p50_s, p95_s, p99_s = np.quantile(took_s, (0.5, 0.95, 0.99), method="inverted_cdf").tolist()
    return Quantiles(took_s.size, p50_s, p95_s, p99_s)


def by_class(runs: Sequence[Completions]) -> dict[str, Quantiles]:
    """Return the quantiles of the requests of all runs together, by class."""
    times = {name: np.concatenate([run.of(name) for run in runs]) for name in CLASSES}
    return {name: quantiles(took_s) for name, took_s in times.items() if took_s.size}


def summarise_requests(scenario: Scenario, csv_text: str, json_text: str) -> tuple[RequestSummary, float]:
    """Compute the summary of a run with requests from its raw results. Return it with the link's utilisation.

    Raises:
        ArtifactError: the raw results do not have this version's form.
    """
    requests = scenario.need_requests()
    done = read_completions(csv_text)
    finished = np.isfinite(done.took_s)
    try:
        document = json.loads(json_text)
        server = document["server"]
        lost_pkts = int(server["lost_pkts"]) + int(server["dropped_pkts"])
        loss = float(loss_rate(lost_pkts, int(server["delivered_pkts"])))
        beside = tuple(
            Beside(
                str(total["scheme"]),
                int(total["bytes_received"]) * BYTES_TO_MBIT / (flow.stop_s - flow.start_s),
                metrics.histogram_quantile(
                    total["rtt_histogram"]["upper_ms"], total["rtt_histogram"]["count"], 0.5
                ),
            )
            for flow, total in zip(scenario.flows, document["flows"], strict=True)
        )
        video = _video(requests.video, int(finished.sum()), server["video"]) if requests.video else None
        carried_mbit = sum(int(total["bytes_received"]) for total in document["flows"]) * BYTES_TO_MBIT
        offered_mbit = float(document["offered_mbit"])
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"requests.json: {error!r}") from error
    megabytes = float(done.kilobytes[finished].sum()) * KB / 1e6
    # The capacity is known up to the scenario's end, so bytes that came later do not count.
    in_time = done.at_s + done.took_s <= scenario.duration_s
    carried_mbit += float(done.kilobytes[in_time].sum()) * KB * BYTES_TO_MBIT
    summary = RequestSummary(
        requests.kind, requests.scheme, int((~finished).sum()), megabytes, loss,
        by_class([done]), beside, video,
    )  # fmt: skip
    return summary, carried_mbit / offered_mbit


def _video(video: Video, chunks: int, told: Mapping[str, float]) -> VideoSummary:
    rebuffer_s, played_s = told["rebuffer_us"] / 1e6, told["played_us"] / 1e6
    share = rebuffer_s / (rebuffer_s + played_s) if rebuffer_s else 0.0
    mean_mbps = told["bits"] / 1e6 / (chunks * video.chunk_s) if chunks else 0.0
    return VideoSummary(told["startup_us"] / 1e6, rebuffer_s, int(told["rebuffers"]), share, mean_mbps)
