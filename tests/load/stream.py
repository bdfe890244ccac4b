# SPDX-License-Identifier: Apache-2.0
"""The recorded flows, played for any number of flows: each one begins at a place of its own, and repeats."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.datapath.types import RecordArray

OPAQUE: Final = np.dtype(f"V{protocol.RECORD_DTYPE.itemsize}")
TOTALS: Final = ("total_delivered", "total_lost", "total_acked_bytes", "total_retrans", "total_delivered_ce")
FIRST_COOKIE: Final = 1_000
FLOWS_A_PREFIX: Final = 4
_STANDING: Final = np.uint32(protocol.FlowFlags.PINNED | protocol.FlowFlags.FALLEN_BACK)


class Stream:
    """Flows as the module reports them.

    What is measured comes from the recording. Identity, times, totals over a repeat, arms and epochs are
    those of the flow: it takes the arm of the last command, as a flow does at its next ACK.

    Args:
        recording: what `make_recording` wrote. It is mapped, not read, so that it takes no memory of its own.
        flows: how many flows there are at a time.
        seed: of the flows' places in the recording.
    """

    def __init__(self, recording: Path, flows: int, seed: int) -> None:
        self._base = np.asarray(np.load(recording, mmap_mode="r")).view(OPAQUE)
        named = self._base.view(protocol.RECORD_DTYPE)
        steps = np.load(recording.with_suffix(".steps.npy"))
        steps = steps - steps[0]
        kinds, of_row = np.unique(named["cookie"], return_inverse=True)
        self.steps = int(steps[-1]) + 1
        self._rows = np.full((self.steps, kinds.size), -1, np.int64)
        self._rows[steps, of_row] = np.arange(steps.size)
        self._lap = np.zeros((len(TOTALS), kinds.size), np.uint64)
        for row, name in enumerate(TOTALS):
            np.maximum.at(self._lap[row], of_row, named[name])
        rng = self._rng = np.random.default_rng(seed)
        self._step = 0
        first = (self._rows >= 0).argmax(axis=0)
        self._kind = rng.integers(kinds.size, size=flows)
        self._last = self._rows[first, np.arange(kinds.size)][self._kind]
        self._offset = rng.integers(self.steps, size=flows)
        self.cookie = FIRST_COOKIE + np.arange(flows, dtype=np.uint64)
        self.born_ns = np.full(flows, time.monotonic_ns())
        self._closed_ns = self.born_ns.copy()
        self.arm = np.full(flows, int(protocol.ArmId.CUBIC), np.uint8)
        self.want = self.arm.copy()
        self._before = np.zeros(flows, np.uint8)
        self._switches = np.zeros(flows, np.uint32)
        self.flags = np.zeros(flows, np.uint32)
        self.index = {int(cookie): place for place, cookie in enumerate(self.cookie)}
        self._next_cookie = FIRST_COOKIE + flows

    def __len__(self) -> int:
        return len(self.cookie)

    def close_step(self) -> RecordArray:
        """The aggregates of the flows that acknowledged something."""
        self._step += 1
        now_ns = time.monotonic_ns()
        switching = np.flatnonzero(self.arm != self.want)
        self._before[switching] = self.arm[switching]
        self.arm[switching] = self.want[switching]
        self._switches[switching] += np.uint32(1)
        at = self._offset + self._step
        rows = self._rows[at % self.steps, self._kind]
        seen = np.flatnonzero(rows >= 0)
        self._last[seen] = rows[seen]
        records = self._records(seen, rows[seen], (at[seen] // self.steps).astype(np.uint64), now_ns)
        self._closed_ns[seen] = now_ns
        return records

    def look(self, *places: int) -> RecordArray:
        """The last aggregates of these flows, or of all."""
        chosen = np.array(places or range(len(self)))
        laps = np.maximum(self._offset[chosen] + self._step, 0) // self.steps
        return self._records(chosen, self._last[chosen], laps.astype(np.uint64), time.monotonic_ns())

    def choose(self, count: int) -> list[int]:
        """Places of so many flows of the later half. The earlier half stays for ever."""
        places = np.arange(len(self) // 2, len(self))
        return [int(place) for place in self._rng.choice(places, count, replace=False)]

    def begin(self, place: int) -> None:
        """Let another flow begin at a place."""
        del self.index[int(self.cookie[place])]
        self.cookie[place] = self._next_cookie
        self.index[self._next_cookie] = place
        self._next_cookie += 1
        self._offset[place] = -self._step
        self.born_ns[place] = self._closed_ns[place] = time.monotonic_ns()
        self.arm[place] = self.want[place] = int(protocol.ArmId.CUBIC)
        self._before[place] = self._switches[place] = self.flags[place] = 0

    def _records(self, chosen: np.ndarray, rows: np.ndarray, laps: np.ndarray, now_ns: int) -> RecordArray:
        records = self._base[rows].view(protocol.RECORD_DTYPE)
        records["cookie"] = self.cookie[chosen]
        records["time_ns"] = now_ns
        records["interval_ns"] = now_ns - self._closed_ns[chosen]
        for name, lap in zip(TOTALS, self._lap, strict=True):
            records[name] += laps * lap[self._kind[chosen]]
        arm, before, epoch = self.arm[chosen], self._before[chosen], self._switches[chosen]
        credit = records["credit"]
        age = records["epoch"][:, None] - credit["epoch"]
        used = credit["arm"] != 0
        credit["epoch"] = np.where(used, epoch[:, None] - np.minimum(age, epoch[:, None]), 0)
        credit["arm"] = np.where(used, np.where(age == 0, arm[:, None], before[:, None]), 0)
        records["arm"], records["prev_arm"], records["want_arm"] = arm, before, self.want[chosen]
        records["switches"] = records["epoch"] = epoch
        records["flags"] = (records["flags"] & ~_STANDING) | self.flags[chosen]
        return records


def address_of(number: int) -> tuple[int, bytes]:
    """Family and address of a flow's destination: every tenth IPv6, four flows a prefix of /24 or /48."""
    prefix, host = divmod(number, FLOWS_A_PREFIX)
    if prefix % 10 == 9:
        text = f"2001:db8:{prefix:x}::{host + 1:x}"
        return socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text)
    text = f"10.{prefix >> 8}.{prefix & 255}.{host + 1}"
    return socket.AF_INET, socket.inet_pton(socket.AF_INET, text)
