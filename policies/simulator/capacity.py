# SPDX-License-Identifier: Apache-2.0
"""Each link's capacity in each tick, its base RTT and its loss, from constants, steps and mahimahi traces."""

from __future__ import annotations

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Paths


class Capacity:
    """The links' properties over time: `rtt_s` and `loss`, each of shape (E,). Call `advance` once a tick."""

    def __init__(self, paths: Paths, tick_s: float) -> None:
        self._tick_s = tick_s
        self._packets = paths.rate_mbps * (PPS_PER_MBPS * tick_s)
        self.loss = paths.loss.copy()
        self.rtt_s = paths.rtt_ms / 1e3
        steps = paths.steps
        self._due = [] if steps is None else _schedule(steps.at_s, tick_s)
        self._changes = (
            np.zeros((3, 0, paths.count))
            if steps is None
            else np.stack((steps.rate_mbps, steps.rtt_ms, steps.loss))
        )
        self._traced = np.flatnonzero(paths.trace >= 0)
        self._which = paths.trace[self._traced]
        self._traces = [opportunities(trace, tick_s) for trace in paths.traces]
        if self._traces:
            which = self._which
            lengths = np.array([len(trace) for trace in self._traces])
            self._bank = np.concatenate(self._traces)
            self._start = (np.cumsum(lengths) - lengths)[which]
            self._length = lengths[which]
            self._offset = np.round(paths.trace_start_ms[self._traced] / 1e3 / tick_s).astype(np.int64)
        self.packet_s = tick_s / self._packets
        """Time in seconds to put one packet on the wire, shape (E,). A trace counts with its mean rate."""
        for link, trace in zip(self._traced, self._which, strict=True):
            self.packet_s[link] = tick_s / self._traces[trace].mean()

    def advance(self, now: int) -> bool:
        """Apply the changes of links that are due at tick `now`, counted from 1; return whether there were
        any.
        """
        changed = False
        while self._due and self._due[-1][0] < now:
            _, step, link = self._due.pop()
            changed = True
            rate_mbps, rtt_ms, loss = self._changes[:, step, link]
            if not np.isnan(rate_mbps):
                self._packets[link] = rate_mbps * PPS_PER_MBPS * self._tick_s
                self.packet_s[link] = self._tick_s / self._packets[link]
            if not np.isnan(rtt_ms):
                self.rtt_s[link] = rtt_ms / 1e3
            if not np.isnan(loss):
                self.loss[link] = loss
        return changed

    def packets(self, now: int) -> Floats:
        """Return the packets that each link can send in tick `now`, shape (E,)."""
        if self._traced.size:
            place = (now - 1 + self._offset) % self._length
            self._packets[self._traced] = self._bank[self._start + place]
        return self._packets

    def longest_queue_s(self, buffer_pkts: Floats) -> Floats:
        """Return the longest time that each full queue can take to empty, in seconds, shape (E,)."""
        rates = np.vstack((self._packets, self._changes[0] * (PPS_PER_MBPS * self._tick_s)))
        longest: Floats = buffer_pkts / np.nanmin(rates, axis=0) * self._tick_s
        for link, trace in zip(self._traced, self._which, strict=True):
            longest[link] = _slowest_drain(self._traces[trace], buffer_pkts[link]) * self._tick_s
        return longest


def _schedule(at_s: Floats, tick_s: float) -> list[tuple[int, int, int]]:
    """Return the changes as (tick, step, link), the latest first, so that `pop` takes the next one."""
    step, link = np.nonzero(np.isfinite(at_s))
    tick = np.round(at_s[step, link] / tick_s).astype(np.int64)
    order = np.argsort(tick, kind="stable")[::-1]
    return list(zip(tick[order].tolist(), step[order].tolist(), link[order].tolist(), strict=True))


def opportunities(trace: Ints, tick_s: float) -> Floats:
    """Return the packets that a trace lets through in each tick of its period.

    mahimahi's line "t" is one packet that leaves between t - 1 and t ms.
    """
    ticks = max(1, round(float(trace[-1]) / 1e3 / tick_s))
    at = np.minimum((np.maximum(trace - 1, 0) / 1e3 / tick_s).astype(np.int64), ticks - 1)
    return np.bincount(at, minlength=ticks).astype(np.float64)


def _slowest_drain(packets: Floats, buffer_pkts: float) -> float:
    """Return the most ticks that a trace can take to deliver `buffer_pkts`, whatever the tick at which it
    begins.
    """
    served = np.cumsum(packets)
    rounds = int(np.ceil(buffer_pkts / served[-1])) + 1
    curve = np.concatenate([served + k * served[-1] for k in range(rounds + 1)])
    begin = np.concatenate(([0.0], served[:-1]))
    return float(np.max(np.searchsorted(curve, begin + buffer_pkts) + 1 - np.arange(len(packets))))
