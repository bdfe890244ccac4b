# SPDX-License-Identifier: Apache-2.0
"""Cross traffic beside the flows of a scenario, given by tables of the scenario. No result counts it.

    [cross.short]             # downloads that come at random (Poisson), each on a connection of its own
    per_s = 4.0               # mean number a second
    smallest_kb = 5           # their sizes are Pareto's with this shape, between these bounds
    largest_kb = 5000         # optional, default 10,000
    shape = 1.2               # optional, default 1.2: the smaller, the heavier the tail
    [cross.on_off]            # packets of 1500 bytes at a constant rate, whatever is lost
    rate_mbps = 8.0
    on_s = 2.0                # mean lengths of sending and of silence, which are exponential
    off_s = 4.0

The downloads come from Debian's nginx under Cubic. A run's seed draws both kinds, so every scheme meets
the same cross traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table
from ltp_switcher.eval.run.requests import KB

_SHORT_STREAM, _ON_OFF_STREAM = 1, 2
"""Numbers of the random streams for downloads and on-off packets. They keep these draws apart from all others
of a seed.
"""
CROSS_KEYS: Final = ("short", "on_off")


@dataclass(frozen=True, slots=True)
class ShortFlows:
    """Downloads that come at random. The module's text describes the fields."""

    per_s: float
    smallest_kb: float
    largest_kb: float = 10_000.0
    shape: float = 1.2

    def draw(self, duration_s: float, seed: int) -> Iterator[tuple[float, int]]:
        """Yield the time of each download in seconds, and its bytes."""
        rng = np.random.default_rng((seed, _SHORT_STREAM))
        least = (self.smallest_kb / self.largest_kb) ** self.shape
        at_s = 0.0
        while (at_s := at_s + float(rng.exponential(1.0 / self.per_s))) < duration_s:
            above = 1.0 - float(rng.uniform()) * (1.0 - least)
            yield at_s, max(1, round(self.smallest_kb * KB * above ** (-1.0 / self.shape)))


@dataclass(frozen=True, slots=True)
class OnOff:
    """Packets at a constant rate, sent in periods with silences between. The module's text describes the
    fields.
    """

    rate_mbps: float
    on_s: float
    off_s: float

    def draw(self, duration_s: float, seed: int) -> Iterator[tuple[float, float]]:
        """Yield the begin and the end of each period of sending, in seconds. Before the first period is a
        silence.
        """
        rng = np.random.default_rng((seed, _ON_OFF_STREAM))
        at_s = 0.0
        while (begin_s := at_s + float(rng.exponential(self.off_s))) < duration_s:
            at_s = begin_s + float(rng.exponential(self.on_s))
            yield begin_s, min(at_s, duration_s)


@dataclass(frozen=True, slots=True)
class Cross:
    """The cross traffic of a scenario: downloads, on-off packets, or both."""

    short: ShortFlows | None = None
    on_off: OnOff | None = None

    def faster(self, factor: float) -> Cross:
        """Return the cross traffic with the lengths of sending and silence divided by `factor`."""
        if self.on_off is None:
            return self
        of = self.on_off
        return replace(self, on_off=replace(of, on_s=of.on_s / factor, off_s=of.off_s / factor))


def parse_cross(table: Table) -> Cross:
    """Check the table `[cross]` of a scenario.

    Raises:
        ConfigError: a value breaks a rule; the error names the field's path, its value and the allowed
            values.
    """
    if not any(key in table for key in CROSS_KEYS):
        raise ConfigError("cross", None, f"tables {' and '.join(CROSS_KEYS)}, one at least")
    return Cross(
        _short(table.table("short", ("per_s", "smallest_kb", "largest_kb", "shape")))
        if "short" in table
        else None,
        _on_off(table.table("on_off", ("rate_mbps", "on_s", "off_s"))) if "on_off" in table else None,
    )


def _short(table: Table) -> ShortFlows:
    smallest_kb, largest_kb = table.number("smallest_kb"), table.number("largest_kb", default=10_000.0)
    if largest_kb <= smallest_kb:
        raise ConfigError(table.field("largest_kb"), largest_kb, f"more than smallest_kb ({smallest_kb:g})")
    return ShortFlows(table.number("per_s"), smallest_kb, largest_kb, table.number("shape", default=1.2))


def _on_off(table: Table) -> OnOff:
    return OnOff(table.number("rate_mbps"), table.number("on_s"), table.number("off_s"))
