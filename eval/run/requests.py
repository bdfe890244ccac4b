# SPDX-License-Identifier: Apache-2.0
"""Requests to a web server: the table of a scenario, and the requests of a run.

    [requests]
    kind = "downloads"        # or "pages"
    scheme = "switcher"       # congestion control of the server's connections
    per_s = 1.5               # mean number a second; they come at random (Poisson)
    smallest_kb = 10          # optional: a file's size is log-uniform between these, in 1000 bytes
    largest_kb = 10000
    stop_s = 25.0             # optional, default the scenario's end: no request comes later

A download is one file over a connection of its own. A page is a document and, once that is there, 12 objects
over up to 6 connections, the document's among them. Connections are kept until the page is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table
from ltp_switcher.eval.run.schemes import check_scheme

REQUEST_KEYS: Final = ("kind", "scheme", "per_s", "smallest_kb", "largest_kb", "stop_s")
KB: Final = 1000
"""Bytes of a kilobyte."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request: files beside the first, connections at most, and sizes if the scenario says none."""

    objects: int
    connections: int
    smallest_kb: float
    largest_kb: float


KINDS: Final[Mapping[str, Kind]] = {
    "downloads": Kind(objects=0, connections=1, smallest_kb=10.0, largest_kb=10_000.0),
    "pages": Kind(objects=12, connections=6, smallest_kb=5.0, largest_kb=200.0),
}


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of a scenario; the module's text tells the fields."""

    kind: str
    scheme: str
    per_s: float
    smallest_kb: float
    largest_kb: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """One download or page: when it is asked for, and the sizes of its files, the document first."""

    at_us: int
    sizes_bytes: tuple[int, ...]


def parse_requests(table: Table, duration_s: float) -> Requests:
    """Check the table `[requests]` of a scenario of this duration.

    Raises:
        ConfigError: it names the field's path, its value and the allowed values.
    """
    kind = table.text("kind")
    if kind not in KINDS:
        raise ConfigError(table.field("kind"), kind, f"one of {', '.join(KINDS)}")
    scheme = check_scheme(table.field("scheme"), table.required("scheme"))
    smallest_kb = table.number("smallest_kb", default=KINDS[kind].smallest_kb)
    largest_kb = table.number("largest_kb", default=KINDS[kind].largest_kb)
    if largest_kb < smallest_kb:
        allowed = f"at least smallest_kb ({smallest_kb:g})"
        raise ConfigError(table.field("largest_kb"), largest_kb, allowed)
    stop_s = table.number("stop_s", low=0.0, high=duration_s, default=duration_s)
    return Requests(kind, scheme, table.number("per_s"), smallest_kb, largest_kb, stop_s)


def draw_requests(requests: Requests, seed: int) -> list[Request]:
    """The requests of a run of this seed, in order of time: the same for every scheme."""
    rng = np.random.default_rng(seed)
    low, high = np.log(requests.smallest_kb * KB), np.log(requests.largest_kb * KB)
    drawn = []
    at_s = 0.0
    while (at_s := at_s + float(rng.exponential(1.0 / requests.per_s))) < requests.stop_s:
        sizes = np.exp(rng.uniform(low, high, 1 + KINDS[requests.kind].objects))
        drawn.append(Request(round(at_s * 1e6), tuple(np.rint(sizes).astype(int).tolist())))
    return drawn
