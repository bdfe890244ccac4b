# SPDX-License-Identifier: Apache-2.0
"""Replays of the learner from flow to flow on measured visits, in true time.

A visit is a group of flows to a path that began near each other. Its lot is the scheme under which they ran:
an arm, or the switcher, which stands for the decision's own choice. The daemon's own `LiveLearner` plans, and
its entries of the module's table give each visit its lot. The visit then is one that was measured under this
lot. Its flows end as late as they did, and the next visit comes after a pause. So the replay shows the
learner's delays and its budget in time, where `choose.visits.replay` has one visit each minute.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.daemon.choose.visits.replay import WINDOWS
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE, START_DTYPE, ArmId, StartCause
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.outcomes import ROW_DTYPE, OutcomeRows
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning import lots
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.errors import RefusedError
from ltp_switcher.eval.report.traffic_flows import FlowSet, visit_numbers

PAUSE_S: Final = 5.0
"""Mean pause in seconds between two visits (groups of flows) to a path, beyond the second that ends one."""
LEAST_VISITS: Final = 5
"""Least number of measured visits (groups of flows to a path) that each lot needs on a path. Other paths are
not replayed.
"""
_BEGIN_S: Final = 1_800_000_000.0
_START_S: Final = 600.0
_DEFAULT: Final = int(ArmId.CUBIC)


@dataclass(frozen=True, slots=True)
class Visit:
    """The flows of a measured visit, a group of flows to a path that began near each other."""

    ends_s: Floats
    """Times at which the flows ended, from the visit's begin on, shape (n,)."""
    rows: OutcomeRows
    """The outcomes of the flows, shape (n,)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The visits of one path by lot, and the true gain of each lot: its mean value, less the mean value of
    the decision's own choice. A value is the logarithm of a reward.
    """

    path: str
    visits: Mapping[int, Sequence[Visit]]
    gains: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Window:
    """Means over paths, for their visits from number `first` to number `last`."""

    first: int
    last: int
    reward: float
    """Reward of the flows over the reward that the decision's own choice earns."""
    closed: float
    """Share of the log gap to the best lot of each path; NaN without a gap."""
    trials: float
    """Share of the flows whose lot was not the incumbent's."""
    others: float
    """Share of the flows that ran on an incumbent other than the decision's own choice."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The figures of one replay."""

    windows: tuple[Window, ...]
    ledger: float
    """Cost of all trials as a share of all flows' reward, by the learner's own ledger."""
    path_changes: int
    """Changes of paths that the learner saw. All are false alarms, because visits are drawn in any order."""


def alike(paths: Sequence[Measured]) -> list[Measured]:
    """Return the same paths with the decision's visits for every lot, so that no arm is better than another.

    Each incumbent that the learner finds there is a false one.
    """
    made = []
    for path in paths:
        visits = dict.fromkeys(path.visits, path.visits[lots.DECISION])
        made.append(Measured(path.path, visits, dict.fromkeys(visits, 0.0)))
    return made


def measured(flows: FlowSet, decision: str) -> list[Measured]:
    """Sort the flows into visits, by path and lot.

    Args:
        flows: flows with raw values.
        decision: the scheme that stands for the decision's own choice. The other schemes that bear the name
            of an arm are the lots.

    Raises:
        RefusedError: no path has `LEAST_VISITS` visits of the decision and of an arm.
    """
    lot_of = {flows.schemes.index(decision): lots.DECISION} if decision in flows.schemes else {}
    for number, scheme in enumerate(flows.schemes):
        if scheme.upper() in ArmId.__members__:
            lot_of[number] = int(ArmId[scheme.upper()])
    found = []
    for number, path in enumerate(flows.paths):
        table = flows.flows[flows.flows["path"] == number]
        table = table[np.isfinite(table["took_s"]) & np.isfinite(table["delivered"])]
        table = table[np.isfinite(table["rtt_ms"]) & np.isin(table["scheme"], list(lot_of))]
        visits: dict[int, list[Visit]] = {lot: [] for lot in lot_of.values()}
        for scheme, seed in np.unique(table[["scheme", "seed"]]).tolist():
            run = table[(table["scheme"] == scheme) & (table["seed"] == seed)]
            run = run[np.argsort(run["at_s"], kind="stable")]
            numbers = visit_numbers(run)
            visits[lot_of[scheme]] += [_visit(run[numbers == visit]) for visit in np.unique(numbers).tolist()]
        if len(visits) > 1 and min(map(len, visits.values())) >= LEAST_VISITS and lots.DECISION in visits:
            found.append(Measured(path, visits, _gains(visits)))
    if not found:
        raise RefusedError(
            f"no path has {LEAST_VISITS} visits of {decision} and of each arm; `ltp-eval traffic` with "
            f"--schemes {decision},ltp,bbr makes them"
        )
    return found


def _visit(flows: npt.NDArray[np.void]) -> Visit:
    rows = np.zeros(len(flows), ROW_DTYPE)
    told = rows["outcome"]
    told["acked_bytes"], told["busy_us"] = flows["asked_bytes"], np.maximum(flows["took_s"] * 1e6, 1)
    told["delivered"], told["retrans"] = flows["delivered"], flows["retransmits"]
    told["lost"] = flows["retransmits"]
    # Flows without RTT samples have no value, and one sample serves as well as many.
    told["rtt_us_sum"], told["rtt_samples"] = flows["rtt_ms"] * 1e3, 1
    told["age_ns"], told["ended"], told["family"] = flows["took_s"] * 1e9, 1, socket.AF_INET
    return Visit(flows["at_s"] - flows["at_s"].min() + flows["took_s"], rows)


def _gains(visits: Mapping[int, Sequence[Visit]]) -> dict[int, float]:
    rows = {lot: np.concatenate([visit.rows for visit in of_lot]) for lot, of_lot in visits.items()}
    told = np.concatenate([of_lot["outcome"] for of_lot in rows.values()])
    values = value.about_lines(value.raw_values(told), value.size_classes(told), told["acked_bytes"])
    whose = np.repeat(list(rows), [len(of_lot) for of_lot in rows.values()])
    means = {lot: float(np.nanmean(values[whose == lot])) for lot in rows}
    return {lot: mean - means[lots.DECISION] for lot, mean in means.items()}


class _Table:
    """Takes the place of the module's table of starting arms. Entries are found by the third byte of their
    address, which is the number of the path.
    """

    def __init__(self) -> None:
        self.entries: dict[int, np.void] = {}

    def set_starts(self, starts: npt.NDArray[np.void]) -> None:
        for entry in starts:
            self.entries.pop(int(entry["addr"][2]), None)
            if entry["choice"]["arm"][0]:
                self.entries[int(entry["addr"][2])] = entry.copy()

    def starts(self) -> npt.NDArray[np.void]:
        return np.array([*self.entries.values()], START_DTYPE)


def _free(prefixes: Sequence[str]) -> Bools:
    return np.ones(len(prefixes), np.bool_)


def replay(paths: Sequence[Measured], seed: int, visits: int) -> Replay:
    """Replay the learner on these paths. All randomness comes from `seed`.

    Each path gets `visits` visits. Looks of the learner come once a second, as in the daemon.
    """
    rng, table = np.random.default_rng(seed), _Table()
    arms = sorted({lot for path in paths for lot in path.visits if lot != lots.DECISION})
    live = LiveLearner(arms, _DEFAULT, StartingArms(table, _START_S), _START_S)
    flows, now_s = FlowTable(), _BEGIN_S
    next_s = now_s + rng.exponential(PAUSE_S, len(paths))
    drawn: list[list[tuple[int, bool, int]]] = [[] for _ in paths]
    waiting = np.zeros(0, ROW_DTYPE)
    while min(map(len, drawn)) < visits:
        for number, path in enumerate(paths):
            if now_s < next_s[number] or len(drawn[number]) >= visits:
                continue
            lot, is_trial, fields = _lot(table.entries.get(number), len(drawn[number]) + 1, rng)
            of_lot = path.visits[lot]
            visit = of_lot[int(rng.integers(len(of_lot)))]
            drawn[number].append((lot, is_trial, len(visit.rows)))
            rows = visit.rows.copy()
            rows["time_s"] = now_s + visit.ends_s
            for name, field in fields.items():
                rows["outcome"][name] = field
            rows["outcome"]["daddr"][:, :4] = 10, 0, number, 1
            rows["outcome"]["cookie"] = rng.integers(1, 2**62, len(rows))
            waiting = np.concatenate([waiting, rows])
            next_s[number] = rows["time_s"].max() + 1.0 + rng.exponential(PAUSE_S)
        ended = waiting["time_s"] <= now_s
        live.take(waiting[ended], flows, _free, now_s)
        waiting = waiting[~ended]
        live.plan(_free, now_s)
        now_s += 1.0
    return Replay(tuple(_windows(paths, drawn, visits)), live.learner.purse.share, live.path_changes)


def _lot(entry: np.void | None, visit: int, rng: np.random.Generator) -> tuple[int, bool, dict[str, int]]:
    """Draw a visit's lot by an entry of the table. Returns the lot, whether it is a trial, and the fields of
    the outcomes that tell it.
    """
    if entry is None:
        return lots.DECISION, False, {"cause": StartCause.DEFAULT, "arm": _DEFAULT}
    choice = entry["choice"]
    weights = choice["weight"].astype(np.int64)
    place = int(rng.choice(len(weights), p=weights / weights.sum()))
    fields = {
        "cause": StartCause.TABLE, "arm": int(choice["arm"][place]), "visit": visit,
        "generation": int(entry["generation"]), "weight": int(weights[place]), "weights": int(weights.sum()),
    }  # fmt: skip
    told = np.zeros(1, OUTCOME_DTYPE)
    for name, field in fields.items():
        told[name] = field
    return int(lots.drawn(told)[0]), place == 1, fields


def _windows(
    paths: Sequence[Measured], drawn: Sequence[Sequence[tuple[int, bool, int]]], visits: int
) -> list[Window]:
    best = float(np.mean([max(path.gains.values()) for path in paths]))
    made = []
    for first, last in WINDOWS:
        if first > visits:
            continue
        gains, trials, others = [], [], []
        for path, of_path in zip(paths, drawn, strict=True):
            window = of_path[first - 1 : last]
            flows = [count for _, _, count in window]
            gains.append(np.average([path.gains[lot] for lot, _, _ in window], weights=flows))
            trials.append(np.average([tried for _, tried, _ in window], weights=flows))
            found = [lot != lots.DECISION and not tried for lot, tried, _ in window]
            others.append(np.average(found, weights=flows))
        gain = float(np.mean(gains))
        closed = gain / best if best > 0 else math.nan
        shares = float(np.mean(trials)), float(np.mean(others))
        made.append(Window(first, min(last, visits), math.exp(gain), closed, *shares))
    return made
