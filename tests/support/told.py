# SPDX-License-Identifier: Apache-2.0
"""Outcomes of flows whose visits drew lots, as the module tells them."""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple

import numpy as np

from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE, START_DTYPE, StartCause
from ltp_switcher.daemon.gain.outcomes import ROW_DTYPE
from ltp_switcher.daemon.settings.prefixes import whole_prefix


def outcome(address: str = "192.0.2.9", gain: float = 0.0, **fields: int) -> np.ndarray:
    """One outcome of a flow of 200 KB that has ended, shape (1,). gain: in the log of its reward."""
    made = np.zeros(1, OUTCOME_DTYPE)
    parsed = ipaddress.ip_address(address)
    made["family"] = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    made["daddr"][0, : len(parsed.packed)] = list(parsed.packed)
    usual = {
        "acked_bytes": 200_000, "busy_us": round(2_000_000 / np.exp(gain / 2)), "rtt_us_sum": 500_000,
        "rtt_samples": 10, "delivered": 140, "arm": 1, "ended": 1, "age_ns": 2_000_000_000,
        "cause": StartCause.TABLE,
    }  # fmt: skip
    for name, value in {**usual, **fields}.items():
        made[name] = value
    return made


def row(now_s: float, address: str = "192.0.2.9", gain: float = 0.0, **fields: int) -> np.ndarray:
    """The row of one outcome that was told at this Unix time, shape (1,)."""
    made = np.zeros(1, ROW_DTYPE)
    made["outcome"], made["time_s"] = outcome(address, gain, **fields), now_s
    return made


def lot(incumbent: int, trial: int, *, is_trial: bool, chance: float = 0.08) -> dict[str, int]:
    """The fields of a flow's record whose visit, the ninth, drew one of these two lots. The trial's chance is
    `chance`.
    """
    share = chance if is_trial else 1 - chance
    # Spelled out here on purpose: five bits each, the incumbent's below the trial's.
    return {
        "visit": 9, "generation": 1 << 10 | trial << 5 | incumbent, "weight": round(share * 65_535),
        "weights": 65_535, "start_cause": StartCause.TABLE,
    }  # fmt: skip


class Drawn(NamedTuple):
    """What a visit drew: an arm, or 0 for the decision's own choice."""

    prefix: str
    lot: int
    is_trial: bool


class Module:
    """The module's table, and visits that draw by it: one flow each.

    Args:
        gains: for each prefix the gain of each arm on which its flows run, in the log of the reward. The
            decision runs `decision`.
        noise: standard deviation of a visit's gain.
    """

    def __init__(
        self, gains: dict[str, dict[int, float]], decision: int, seed: int = 1, noise: float = 0.2
    ) -> None:
        self.gains, self.decision, self._noise = gains, decision, noise
        self.table: dict[str, np.void] = {}
        self._rng = np.random.default_rng(seed)
        self._visits: dict[str, int] = {}
        self.drawn: list[Drawn] = []

    def set_starts(self, starts: np.ndarray) -> None:
        for entry in starts:
            size = 4 if entry["family"] == socket.AF_INET else 16
            prefix = f"{ipaddress.ip_address(entry['addr'][:size].tobytes())}/{entry['bits']}"
            self.table.pop(prefix, None)
            if entry["choice"]["arm"][0]:
                self.table[prefix] = entry.copy()

    def starts(self) -> np.ndarray:
        return np.array([*self.table.values()], START_DTYPE)

    def visit(self, prefix: str, now_s: float) -> np.ndarray:
        """The row of a flow that was a visit of its own, shape (1,)."""
        number = self._visits[prefix] = self._visits.get(prefix, 0) + 1
        address = str(next(iter(ipaddress.ip_network(prefix).hosts())))
        entry = self.table.get(prefix)
        if entry is None and address == prefix.split("/")[0]:
            # A host without an entry of its own.
            entry = self.table.get(whole_prefix(prefix))
        if entry is None:
            self.drawn.append(Drawn(prefix, 0, is_trial=False))
            gain = self.gains[prefix][self.decision] + self._rng.normal(0, self._noise)
            return row(now_s, address, gain, cause=StartCause.DEFAULT, cookie=self._cookie())
        weights = entry["choice"]["weight"].astype(int)
        place = int(self._rng.choice(len(weights), p=weights / weights.sum()))
        generation = int(entry["generation"])
        # Spelled out here on purpose: five bits each, the incumbent's below the trial's.
        lot = generation >> (5 * place) & 31
        self.drawn.append(Drawn(prefix, lot, is_trial=place == 1))
        gain = self.gains[prefix][lot or self.decision] + self._rng.normal(0, self._noise)
        return row(
            now_s, address, gain, arm=int(entry["choice"]["arm"][place]), visit=number,
            generation=generation, weight=int(weights[place]), weights=int(weights.sum()),
            cookie=self._cookie(),
        )  # fmt: skip

    def _cookie(self) -> int:
        return len(self.drawn) + 1
