# SPDX-License-Identifier: Apache-2.0
"""Requests to a web server: the table of a scenario, and the requests of a run.

    [requests]
    kind = "downloads"        # or "pages", "kept", "video"
    scheme = "switcher"       # congestion control of the server's connections
    per_s = 1.5               # mean number a second; they come at random (Poisson)
    smallest_kb = 10          # optional: a file's size is log-uniform between these, in 1000 bytes
    largest_kb = 10000
    stop_s = 25.0             # optional, default the scenario's end: no request comes later

A download is one file over a connection of its own. A page is a document and, once that is there, 12 objects
over up to 6 connections, the document's among them. Connections are kept until the page is whole. The files
of the kind "kept" come one after the other over one connection that stays open. A file that is due while
another one is under way waits, and its time counts from the moment at which it was due.

The kind "video" is a player with such a connection. It has other keys in place of the rate and the sizes:

    chunk_s = 4.0             # optional, default 4; seconds of video in a file
    buffer_s = 20.0           # optional, default 20; the player asks for no more than it has room for
    bitrates_mbps = [1.0, 2.5, 5.0, 8.0]    # 1 to 16, each larger than the one before

The player takes the largest bitrate up to 0.8 of the harmonic mean of its last 5 chunks' throughput.

The kind "traffic" goes with several paths, and has keys of its own; see `traffic`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table
from ltp_switcher.eval.run.schemes import check_scheme
from ltp_switcher.eval.run.traffic import LARGEST_BYTES, Traffic

_VIDEO_KEYS: Final = ("chunk_s", "buffer_s", "bitrates_mbps")
_RANDOM_KEYS: Final = ("per_s", "smallest_kb", "largest_kb")
_TRAFFIC_KEYS: Final = ("flows", "load")
REQUEST_KEYS: Final = ("kind", "scheme", *_RANDOM_KEYS, "stop_s", *_VIDEO_KEYS, *_TRAFFIC_KEYS)
VIDEO: Final = "video"
TRAFFIC: Final = "traffic"
SESSIONS: Final = ("kept", VIDEO)
"""Kinds of requests whose client keeps one connection for the whole run."""
BITRATES_MAX: Final = 16
START_JITTER_US: Final = 10_000
"""Largest delay of a player's start in µs. The delay is drawn from the seed, so that seeds differ."""
KB: Final = 1000
"""Number of bytes in a kilobyte."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request. `objects` is the number of files after the first one, `connections` is the largest
    number of connections, and the sizes are the kind's defaults.
    """

    objects: int
    connections: int
    smallest_kb: float
    largest_kb: float


KINDS: Final[Mapping[str, Kind]] = {
    "downloads": Kind(objects=0, connections=1, smallest_kb=10.0, largest_kb=10_000.0),
    "pages": Kind(objects=12, connections=6, smallest_kb=5.0, largest_kb=200.0),
    "kept": Kind(objects=0, connections=1, smallest_kb=2.0, largest_kb=200.0),
    VIDEO: Kind(objects=0, connections=1, smallest_kb=1.0, largest_kb=1.0),
    TRAFFIC: Kind(objects=0, connections=1, smallest_kb=0.001, largest_kb=LARGEST_BYTES / KB),
}
_OWN_KEYS: Final[Mapping[str, tuple[str, ...]]] = {VIDEO: _VIDEO_KEYS, TRAFFIC: _TRAFFIC_KEYS}
"""Keys of the kinds that have other keys in place of the rate and the sizes."""


@dataclass(frozen=True, slots=True)
class Video:
    """A video player. The module's text describes the fields."""

    chunk_s: float
    buffer_s: float
    bitrates_mbps: tuple[float, ...]

    def chunk_kb(self, bitrate_mbps: float) -> float:
        """Return the size in KB of a chunk of this bitrate."""
        return bitrate_mbps * 1e6 / 8 * self.chunk_s / KB

    def plan(self, stop_s: float, seed: int) -> str:
        """Return the player's plan for a run of this seed, as a line that `guest/session.c` reads."""
        start_us = int(np.random.default_rng(seed).integers(START_JITTER_US))
        times_us = (round(time_s * 1e6) for time_s in (stop_s, self.chunk_s, self.buffer_s))
        rates_bps = (round(rate * 1e6) for rate in self.bitrates_mbps)
        return " ".join(map(str, ("video", start_us, *times_us, *rates_bps))) + "\n"


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a scenario. The module's text describes the fields.

    With a video, `smallest_kb` and `largest_kb` are the sizes of a chunk at the smallest and the largest
    bitrate. `per_s` is then the rate of a player that never waits. With traffic, `per_s` is 0, because each
    path has a rate of its own.
    """

    kind: str
    scheme: str
    per_s: float
    smallest_kb: float
    largest_kb: float
    stop_s: float
    video: Video | None = None
    traffic: Traffic | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One download or page: the time of its request, and the sizes of its files, the document first."""

    at_us: int
    sizes_bytes: tuple[int, ...]


def parse_requests(table: Table, duration_s: float) -> Requests:
    """Check the table `[requests]` of a scenario of this duration.

    Raises:
        ConfigError: a value breaks a rule; the error names the field's path, its value and the allowed
            values.
    """
    kind = table.text("kind")
    if kind not in KINDS:
        raise ConfigError(table.field("kind"), kind, f"one of {', '.join(KINDS)}")
    scheme = check_scheme(table.field("scheme"), table.required("scheme"))
    stop_s = table.number("stop_s", low=0.0, high=duration_s, default=duration_s)
    of_kind = _OWN_KEYS.get(kind, _RANDOM_KEYS)
    for key in (*_RANDOM_KEYS, *_VIDEO_KEYS, *_TRAFFIC_KEYS):
        if key in table and key not in of_kind:
            raise ConfigError(table.field(key), table.required(key), f"no such key with the kind {kind}")
    if kind == TRAFFIC:
        traffic = Traffic(table.integer("flows"), table.number("load", default=0.25))
        sizes_kb = (KINDS[kind].smallest_kb, KINDS[kind].largest_kb)
        return Requests(kind, scheme, 0.0, *sizes_kb, stop_s, traffic=traffic)
    if kind == VIDEO:
        video = _video(table)
        sizes_kb = (video.chunk_kb(video.bitrates_mbps[0]), video.chunk_kb(video.bitrates_mbps[-1]))
        return Requests(kind, scheme, 1.0 / video.chunk_s, *sizes_kb, stop_s, video)
    smallest_kb = table.number("smallest_kb", default=KINDS[kind].smallest_kb)
    largest_kb = table.number("largest_kb", default=KINDS[kind].largest_kb)
    if largest_kb < smallest_kb:
        allowed = f"at least smallest_kb ({smallest_kb:g})"
        raise ConfigError(table.field("largest_kb"), largest_kb, allowed)
    return Requests(kind, scheme, table.number("per_s"), smallest_kb, largest_kb, stop_s)


def _video(table: Table) -> Video:
    chunk_s = table.number("chunk_s", default=4.0)
    buffer_s = table.number("buffer_s", default=20.0)
    if buffer_s < chunk_s:
        raise ConfigError(table.field("buffer_s"), buffer_s, f"at least chunk_s ({chunk_s:g})")
    bitrates = table.numbers("bitrates_mbps", BITRATES_MAX)
    if any(after <= before for before, after in itertools.pairwise(bitrates)):
        raise ConfigError(table.field("bitrates_mbps"), list(bitrates), "each larger than the one before")
    return Video(chunk_s, buffer_s, bitrates)


def draw_requests(requests: Requests, seed: int) -> list[Request]:
    """Draw the requests of a run of this seed, in order of time. They are the same for every scheme."""
    rng = np.random.default_rng(seed)
    low, high = np.log(requests.smallest_kb * KB), np.log(requests.largest_kb * KB)
    drawn = []
    at_s = 0.0
    while (at_s := at_s + float(rng.exponential(1.0 / requests.per_s))) < requests.stop_s:
        sizes = np.exp(rng.uniform(low, high, 1 + KINDS[requests.kind].objects))
        drawn.append(Request(round(at_s * 1e6), tuple(np.rint(sizes).astype(int).tolist())))
    return drawn
