# SPDX-License-Identifier: Apache-2.0
"""Simulated logs of decisions, with the traits of traffic that make an experiment hard to judge.

Prefixes differ by a factor (log-normal, with a tail of slow ones). Load has a daily wave and is
autocorrelated. Flow sizes are Pareto, so that few flows carry most bytes. A flow's rate is skewed, and most
flows have no retransmits. After a change of arms, the earlier arm still acts for some seconds of the next
time block. So the report has to leave out the first seconds of a block (wash-out). `Trial` draws the groups,
as in the daemon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, RTT_SAMPLES, Group, Kind, Rows
from ltp_switcher.daemon.gain.trial import Trial

NAMES: Final = {1: "cubic", 2: "bbr"}
"""Names of the arms in the log: the baseline, and the daemon's choice."""
BEGIN_S: Final = 1_700_000_000.0 // 86_400 * 86_400
"""Unix time at which the experiments begin."""
BLOCK_S: Final = 600.0
WASHOUT_S: Final = 60.0
_SPAN_S: Final = 10.0
"""Longest time in seconds that one row of the log covers."""
_ROWS_MAX: Final = 30
_DAY_S: Final = 86_400.0
_CARRY_S: Final = 15.0
"""Time constant in seconds with which the effect of the previous block's arm fades."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traits of the traffic. Spreads are standard deviations of logarithms.

    Attributes:
        prefix_spread: spread between prefixes.
        load_spread: spread of a server's load between blocks.
        load_memory: autocorrelation of the load from block to block.
        wave: height of the daily wave.
        path_spread: spread of a prefix between blocks.
        flow_spread: spread between flows of a prefix.
        flows: mean number of flows for a prefix in a block (switchback), or in all (holdback).
        tail: index of the Pareto distribution of sizes.
        seen: chance that a prefix has flows in a block.
    """

    prefix_spread: float = 1.0
    load_spread: float = 0.10
    load_memory: float = 0.8
    wave: float = 0.15
    path_spread: float = 0.15
    flow_spread: float = 0.5
    flows: float = 3.0
    tail: float = 1.2
    seen: float = 0.7


@dataclass(frozen=True, slots=True)
class Effects:
    """Changes by the treatment: factors of goodput, RTT and retransmits, each minus 1."""

    goodput: float = 0.0
    rtt: float = 0.0
    retransmits: float = 0.0


def holdback(
    seed: int,
    prefixes: int,
    share: float,
    effects: Effects = Effects(),
    traffic: Traffic = Traffic(flows=12.0),
    *,
    before: bool = False,
) -> Rows:
    """Return the log of a holdback of one day: a share of the prefixes keeps the baseline. With `before`, the
    log also has the day before, in mode advise, in which the daemon switches nothing.
    """
    rng = np.random.default_rng([1, seed])
    names = _prefixes(prefixes)
    trial = Trial("holdback", share=share, arm=1, seed=seed)
    control = np.array([trial.holds_back(name) for name in names])
    world = _World(rng, prefixes, 2 * int(_DAY_S / BLOCK_S), traffic)
    parts = []
    for day in range(0 if before else 1, 2):
        count = 1 + rng.poisson((traffic.flows - 1) * rng.pareto(2.0, prefixes).clip(0, 10))
        prefix = np.repeat(np.arange(prefixes), count)
        time_s = day * _DAY_S + rng.random(prefix.size) * _DAY_S
        treated = ~control[prefix] if day else np.zeros(prefix.size, np.bool_)
        rows = _rows(rng, world, names, prefix, time_s, treated.astype(np.float64), effects)
        if day:
            rows["active"] = True
            groups = [int(trial.group(BEGIN_S, control=held)) for held in (False, True)]
            rows["group"] = np.where(rows["ran"] == 1, groups[1], groups[0])
        rows["block"] = -1
        parts.append(rows)
    return np.concatenate(parts)


def switchback(
    seed: int,
    blocks: int,
    prefixes: int = 30,
    effects: Effects = Effects(),
    traffic: Traffic = Traffic(),
    *,
    washout_s: float = WASHOUT_S,
) -> Rows:
    """Return the log of a switchback: in each of the time blocks, all flows have either the baseline or the
    treatment, by lot.
    """
    rng = np.random.default_rng([2, seed])
    names = _prefixes(prefixes)
    trial = Trial("switchback", block_s=BLOCK_S, washout_s=washout_s, arm=1, seed=seed)
    first = trial.block(BEGIN_S)
    control = np.array([trial.pauses(first + at) for at in range(blocks)])
    world = _World(rng, prefixes, blocks, traffic)
    seen = rng.random((blocks, prefixes)) < traffic.seen
    count = np.where(seen, 1 + rng.poisson(traffic.flows - 1, seen.shape), 0)
    block, prefix = (np.repeat(part.reshape(-1), count.reshape(-1)) for part in np.indices(seen.shape))
    into_s = rng.random(block.size) * BLOCK_S
    fades = np.exp(-into_s / _CARRY_S) * (block > 0)
    treated = ~control[block] * (1 - fades) + ~control[np.maximum(block - 1, 0)] * fades
    rows = _rows(rng, world, names, prefix, block * BLOCK_S + into_s, treated, effects)
    place = ((rows["time_s"] - BEGIN_S) // BLOCK_S).astype(np.int64)
    rows = rows[place < blocks]
    place = place[place < blocks]
    rows["active"], rows["block"] = True, first + place
    rows["arm"] = rows["ran"] = np.where(control[place], 1, 2)
    rows["kind"] = np.where(control[place], Kind.BASELINE, Kind.CHOSEN)
    rows["group"] = [
        trial.group(time_s, control=held)
        for time_s, held in zip(rows["time_s"].tolist(), control[place].tolist(), strict=True)
    ]
    return rows


class Server:
    """A server's traffic block by block, for experiments without a fixed length.

    Each flow makes one row, which covers the flow's time up to the block's end.
    """

    def __init__(self, seed: int, prefixes: int, blocks: int, traffic: Traffic = Traffic()) -> None:
        self._rng = np.random.default_rng([3, seed])
        self._world = _World(self._rng, prefixes, blocks, traffic)

    def rows(self, first: int, treated: Bools, effects: Effects) -> tuple[Rows, Indices]:
        """Return the rows of n flows in some blocks, and each flow's prefix, shape (n,). Some fields of the
        rows stay empty.

        Args:
            first: number of the first block, from 0 on. Nothing was treated before it.
            treated: whether a prefix is treated in a block, shape (prefixes, blocks).
            effects: effects of the treatment, on goodput alone.
        """
        rng, traffic, world = self._rng, self._world.traffic, self._world
        seen = rng.random(treated.shape) < traffic.seen
        count = np.where(seen, 1 + rng.poisson(traffic.flows - 1, treated.shape), 0)
        prefix, place = (np.repeat(part.reshape(-1), count.reshape(-1)) for part in np.indices(treated.shape))
        into_s = rng.random(prefix.size) * BLOCK_S
        fades = np.exp(-into_s / _CARRY_S)
        before = treated[prefix, place - 1] & (place > 0)
        acts = treated[prefix, place] * (1 - fades) + before * fades
        luck = rng.normal(0, traffic.flow_spread, prefix.size) - rng.exponential(0.3, prefix.size)
        shared = world.load[first + place] + world.path[first + place, prefix]
        rate_Bps = np.exp(world.level[prefix] + shared + luck) * (1 + effects.goodput * acts)
        size = np.minimum(2e5 * (1 + rng.pareto(traffic.tail, prefix.size)), 2e9)
        rows = np.zeros(prefix.size, ROW_DTYPE)
        rows["time_s"] = BEGIN_S + (first + place) * BLOCK_S + into_s
        rows["block"] = BEGIN_S // BLOCK_S + first + place
        rows["busy_s"] = rows["duration_s"] = np.minimum(np.maximum(size / rate_Bps, 0.05), BLOCK_S - into_s)
        rows["acked_bytes"] = rate_Bps * rows["busy_s"]
        rows["kind"] = np.where(treated[prefix, place], Kind.CHOSEN, Kind.BASELINE)
        return rows, prefix


class _World:
    """The parts of the traffic that flows of a prefix or of a time block have in common.

    `level`, `load` and `path` are terms of the logarithm of goodput in bytes a second. Their shapes are
    (prefixes,), (blocks,) and (blocks, prefixes). `rtt_us` and `loss` have the shape (prefixes,).
    """

    def __init__(self, rng: np.random.Generator, prefixes: int, blocks: int, traffic: Traffic) -> None:
        self.traffic = traffic
        slow = rng.exponential(1.0, prefixes) * (rng.random(prefixes) < 0.15)
        self.level = np.log(1e6) + rng.normal(0, traffic.prefix_spread, prefixes) - slow
        self.rtt_us = np.exp(rng.normal(np.log(40e3), 0.6, prefixes))
        self.loss = np.minimum(np.exp(rng.normal(np.log(3e-3), 1.2, prefixes)), 0.2)
        phase = rng.random() * 2 * np.pi
        wave = traffic.wave * np.sin(phase + 2 * np.pi * BLOCK_S / _DAY_S * np.arange(blocks))
        self.load = wave + _remembering(rng, traffic.load_spread, traffic.load_memory, (blocks, 1))[:, 0]
        self.path = _remembering(rng, traffic.path_spread, traffic.load_memory, (blocks, prefixes))


def _remembering(rng: np.random.Generator, spread: float, memory: float, shape: tuple[int, int]) -> Floats:
    """Autoregressive noise of order 1 along the first axis, with this standard deviation."""
    steps = rng.normal(0, spread * np.sqrt(1 - memory**2), shape)
    steps[0] = rng.normal(0, spread, shape[1])
    for at in range(1, shape[0]):
        steps[at] += memory * steps[at - 1]
    return steps


def _rows(
    rng: np.random.Generator, world: _World, names: list[str], prefix: Indices, time_s: Floats,
    treated: Floats, effects: Effects,
) -> Rows:  # fmt: skip
    """Return the decisions about n flows. The arrays `prefix`, `time_s` and `treated` have the shape (n,).
    `time_s` counts from `BEGIN_S`. `treated` is the share of the treatment that acts on a flow, 0 to 1.
    """
    traffic, n = world.traffic, prefix.size
    block = np.minimum((time_s // BLOCK_S).astype(np.int64), world.load.size - 1)
    luck = rng.normal(0, traffic.flow_spread, n) - rng.exponential(0.3, n)
    shared = world.load[block] + world.path[block, prefix]
    rate_Bps = np.exp(world.level[prefix] + shared + luck) * (1 + effects.goodput * treated)
    size = np.minimum(2e5 * (1 + rng.pareto(traffic.tail, n)), 2e9)
    life_s = np.maximum(size / rate_Bps, 0.05)
    spans = np.minimum(np.ceil(life_s / _SPAN_S).astype(np.int64), _ROWS_MAX)
    flow = np.repeat(np.arange(n), spans)
    number = np.arange(flow.size) - np.repeat(np.cumsum(spans) - spans, spans)
    rows = np.zeros(flow.size, ROW_DTYPE)
    last = number == spans[flow] - 1
    duration_s = np.where(last, np.minimum(life_s[flow] - number * _SPAN_S, _SPAN_S), _SPAN_S)
    noise = np.exp(rng.normal(0, 0.1, flow.size))
    rows["prefix"], rows["cookie"] = np.array(names, "S32")[prefix[flow]], flow
    rows["time_s"] = BEGIN_S + time_s[flow] + number * _SPAN_S
    rows["duration_s"] = rows["busy_s"] = duration_s
    rows["acked_bytes"] = rate_Bps[flow] * noise * duration_s
    rows["delivered"] = rows["acked_bytes"] // 1448 + 1
    loss = world.loss[prefix[flow]] * np.exp(-shared[flow]) * (1 + effects.retransmits * treated[flow])
    rows["lost"] = rows["retrans"] = rng.poisson(np.minimum(loss, 0.5) * rows["delivered"])
    rtt_us = (
        world.rtt_us[prefix] * np.exp(-0.5 * shared + rng.gamma(1.0, 0.2, n)) * (1 + effects.rtt * treated)
    )
    rows["rtt_us"] = np.nan
    samples = np.minimum(np.ceil(duration_s).astype(np.int64), RTT_SAMPLES)
    taken = np.arange(RTT_SAMPLES) < samples[:, None]
    rows["rtt_us"][taken] = np.repeat(rtt_us[flow], samples) * np.exp(
        rng.gamma(1.0, 0.05, int(samples.sum()))
    )
    rows["ended"] = last & (spans < _ROWS_MAX)[flow]
    rows["life_s"] = number * _SPAN_S + duration_s
    rows["arm"] = rows["ran"] = np.where(treated[flow] > 0, 2, 1)
    rows["kind"] = np.where(treated[flow] > 0, Kind.CHOSEN, Kind.BASELINE)
    rows["group"], rows["reward"] = Group.NONE, 0.5
    return rows


def _prefixes(count: int) -> list[str]:
    return [f"10.{at // 256}.{at % 256}.0/24" for at in range(count)]
