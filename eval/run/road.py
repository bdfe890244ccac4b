# SPDX-License-Identifier: Apache-2.0
"""Effects of real paths, as tables of a scenario's link: random walk, handovers, burst losses, slow way back.

    [link.walk]               # the RTT walks at random above rtt_ms
    every_s = 0.2             # time between its steps
    step_ms = 3.0             # largest step, up or down
    range_ms = 20.0           # largest distance of the RTT above rtt_ms
    seed = 1                  # optional, default 1: every run of the scenario has the same walk
    [[link.handover]]         # another satellite or cell, any number, in order of time
    at_s = 15.0
    rate_mbps = 40.0          # and/or rtt_ms, from at_s on
    rtt_ms = 50.0
    silence_ms = 90.0         # optional, default 0: time in which packets wait in both directions
    [link.burst_loss]         # losses in bursts, of data packets (Gilbert and Elliott)
    to_bad = 0.001            # probability of a change from good to bad before a packet, and
    to_good = 0.1             # of the change back
    loss_bad = 0.5            # loss in the bad state
    loss_good = 0.0           # optional, default 0
    [link.back]               # a bottleneck on the way back
    rate_mbps = 0.2
    buffer_pkts = 50          # optional, default 100: number of packets of any size that can wait
    loss = 0.01               # optional, default 0
    thin = true               # optional, default false: a new ACK takes the place of one that waits

The mean loss of bursts is `(to_good * loss_good + to_bad * loss_bad) / (to_good + to_bad)`, and a burst is
1 / to_good packets long in the mean (Gilbert 1960, Elliott 1963).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table

ROAD_KEYS: Final = ("walk", "handover", "burst_loss", "back")
SILENT_MBPS: Final = 1e-6
"""Rate in Mbit/s that stands for a silence of the link. `link/labpaths.h` recognises it."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A random walk of the RTT. The module's text describes the fields."""

    every_s: float
    step_ms: float
    range_ms: float
    seed: int = 1

    def above_ms(self, count: int) -> Floats:
        """Return the RTT minus the link's RTT after 0, 1, … steps of the walk, in ms, shape (count,).

        The walk begins at 0 and turns back at 0 and at `range_ms`.
        """
        moves = np.random.default_rng(self.seed).uniform(-self.step_ms, self.step_ms, max(0, count - 1))
        free = np.concatenate(([0.0], np.cumsum(moves)))
        # A walk that turns back at both ends is a free one, folded.
        folded = np.abs((free + self.range_ms) % (2 * self.range_ms) - self.range_ms)
        return np.asarray(np.round(folded[:count], 3), np.float64)


@dataclass(frozen=True, slots=True)
class Handover:
    """A change of cell or satellite at `at_s`; `None` leaves a property as it was."""

    at_s: float
    rate_mbps: float | None = None
    rtt_ms: float | None = None
    silence_ms: float = 0.0

    @property
    def sounds_s(self) -> float:
        """The time in seconds at which the handover's silence ends."""
        return round(self.at_s + self.silence_ms / 1e3, 6)


@dataclass(frozen=True, slots=True)
class BurstLoss:
    """Burst losses by the model of Gilbert and Elliott. All fields are probabilities."""

    to_bad: float
    to_good: float
    loss_bad: float
    loss_good: float = 0.0

    @property
    def mean(self) -> float:
        """The share of packets that are lost in the long run."""
        total = self.to_bad + self.to_good
        return (self.to_good * self.loss_good + self.to_bad * self.loss_bad) / total


@dataclass(frozen=True, slots=True)
class Back:
    """A bottleneck on the way back. The module's text describes the fields."""

    rate_mbps: float
    buffer_pkts: int = 100
    loss: float = 0.0
    thin: bool = False


@dataclass(frozen=True, slots=True)
class Road:
    """The effects of real paths on one link. The module's text describes them."""

    walk: Walk | None = None
    handovers: tuple[Handover, ...] = ()
    burst_loss: BurstLoss | None = None
    back: Back | None = None

    def faster(self, factor: float) -> Road:
        """Return the road with the times of all its changes divided by `factor`."""
        walk = self.walk and replace(self.walk, every_s=round(self.walk.every_s / factor, 6))
        handovers = tuple(
            replace(h, at_s=round(h.at_s / factor, 3), silence_ms=round(h.silence_ms / factor, 3))
            for h in self.handovers
        )
        return replace(self, walk=walk, handovers=handovers)


PLAIN: Final = Road()
"""A road without any effect."""


def parse_road(link: Table, duration_s: float) -> Road:
    """Return the effects of real paths that a scenario's link asks for by its tables `walk`, `handover`,
    `burst_loss` and `back`. The module's text describes the tables.

    Handovers have to come before `duration_s`, the scenario's length in seconds.

    Raises:
        ConfigError: a value breaks a rule; the error names the field's path, its value and the allowed
            values.
    """
    handovers = tuple(
        _handover(table, duration_s)
        for table in link.tables("handover", ("at_s", "rate_mbps", "rtt_ms", "silence_ms"))
    )
    for i, (before, after) in enumerate(itertools.pairwise(handovers), start=1):
        if after.at_s <= before.sounds_s:
            allowed = f"later than {before.sounds_s:g} s, the end of the handover before"
            raise ConfigError(f"{link.field('handover')}[{i}].at_s", after.at_s, allowed)
    if "trace" in link and handovers:
        allowed = f"no tables beside {link.field('trace')}, which has changes of its own"
        raise ConfigError(link.field("handover"), len(handovers), allowed)
    if "back" in link and "jitter_ms" in link:
        allowed = f"no table beside {link.field('jitter_ms')}"
        raise ConfigError(link.field("back"), "a table", allowed)
    return Road(
        walk=_walk(link.table("walk", ("every_s", "step_ms", "range_ms", "seed")))
        if "walk" in link
        else None,
        handovers=handovers,
        burst_loss=_burst_loss(link) if "burst_loss" in link else None,
        back=_back(link.table("back", ("rate_mbps", "buffer_pkts", "loss", "thin")))
        if "back" in link
        else None,
    )


def _walk(table: Table) -> Walk:
    return Walk(
        every_s=table.number("every_s"),
        step_ms=table.number("step_ms"),
        range_ms=table.number("range_ms"),
        seed=table.integer("seed") if "seed" in table else 1,
    )


def _handover(table: Table, duration_s: float) -> Handover:
    at_s = table.number("at_s", low=0.0, high=duration_s)
    silence_ms = table.number("silence_ms", default=0.0)
    made = Handover(at_s, table.optional_number("rate_mbps"), table.optional_number("rtt_ms"), silence_ms)
    if not 0.0 < at_s <= made.sounds_s < duration_s:
        allowed = f"more than 0 s, and its silence over before {duration_s:g} s"
        raise ConfigError(table.field("at_s"), at_s, allowed)
    if made.rate_mbps is made.rtt_ms is None and not silence_ms:
        raise ConfigError(table.field("at_s"), at_s, "a handover with rate_mbps, rtt_ms or silence_ms")
    return made


def _burst_loss(link: Table) -> BurstLoss:
    table = link.table("burst_loss", ("to_bad", "to_good", "loss_bad", "loss_good"))
    made = BurstLoss(
        table.number("to_bad"),
        table.number("to_good"),
        table.number("loss_bad"),
        table.number("loss_good", default=0.0),
    )
    if made.mean > 0.99:
        raise ConfigError(table.field("loss_bad"), made.loss_bad, "a mean loss of 0.99 at most")
    return made


def _back(table: Table) -> Back:
    return Back(
        rate_mbps=table.number("rate_mbps", low=0.01, high=1000.0),
        buffer_pkts=table.integer("buffer_pkts") if "buffer_pkts" in table else 100,
        loss=table.number("loss", default=0.0),
        thin=table.flag("thin"),
    )
