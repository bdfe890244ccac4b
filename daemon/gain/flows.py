# SPDX-License-Identifier: Apache-2.0
"""The effect of an experiment on the value of flows, for all flows and by size class. A flow's value is the
logarithm of its reward, and comes from the log of outcomes (sums over the lives of flows).

A flow belongs to the group and the time block of its birth, whatever its arm was later. Flows that are not in
the decision log count, too. As in the report, the statistical unit is a prefix or a time block.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.effect import Effect, Switchback, drawn, numbered
from ltp_switcher.daemon.gain.log import Reader, Skipped
from ltp_switcher.daemon.gain.outcomes import FOLDER, OUTCOMES, OutcomeRows, latest, numbered_prefixes
from ltp_switcher.daemon.gain.outcomes import ROW_DTYPE as OUTCOME_ROW
from ltp_switcher.daemon.gain.rows import Group
from ltp_switcher.errors import ArtifactError

log = logging.getLogger(__name__)

ALL: Final = "all"
"""The key of the effect on all flows. The other keys are the names of size classes."""
BYTES_MAX: Final = 256_000_000
"""Total size in bytes of the log's newest files that are read. They take half as much memory."""
_OUTCOME: Final = OUTCOME_ROW["outcome"]
_FLOW_DTYPE: Final = np.dtype(
    [
        *((name, OUTCOME_ROW[name]) for name in ("time_s", "group", "block")),
        ("outcome", [(name, _OUTCOME[name]) for name in (
            "cookie", "netns", "family", "daddr", "sport", "dport",
            "acked_bytes", "busy_us", "delivered", "lost", "rtt_us_sum", "rtt_samples",
        )]),
    ]
)  # fmt: skip
"""The fields of an outcome that identify its flow, and those from which the flow's value is computed."""


class KeptFlows:
    """The outcomes of a log's folder, kept in memory and updated from the files.

    Args:
        decisions: the folder of the log of decisions, or a file in it. The log of outcomes lies beside it.
    """

    def __init__(self, decisions: Path) -> None:
        folder = decisions.parent if decisions.is_file() else decisions
        self._reader = Reader(folder.parent / FOLDER, BYTES_MAX, OUTCOMES)
        self._parts: dict[Path, list[OutcomeRows]] = {}

    @property
    def skipped(self) -> Skipped:
        """Counts of the parts of the log that could not be read."""
        return self._reader.skipped

    @property
    def rows(self) -> OutcomeRows:
        """The outcomes, oldest first, shape (n,), with the fields that `effects` needs."""
        parts = (part for of_file in self._parts.values() for part in of_file)
        return np.concatenate([np.zeros(0, _FLOW_DTYPE), *parts])

    def refresh(self) -> bool:
        """Add the outcomes that are new in the log, and drop the outcomes of files that were deleted. Returns
        whether anything changed.

        If the daemon keeps no log of outcomes, there are no rows.
        """
        changed = False
        try:
            for file, rows in self._reader.news():
                self._parts.setdefault(file, []).append(_of_flows(rows))
                changed = True
        except ArtifactError as error:
            log.debug("no effect on the value of flows: %s", error)
            self._parts.clear()
            return False
        for file in self._parts.keys() - {*self._reader.files}:
            del self._parts[file]
        return changed


def _of_flows(rows: OutcomeRows) -> OutcomeRows:
    """Return the fields of these outcomes that `effects` needs, shape (n,)."""
    made = np.empty(len(rows), _FLOW_DTYPE)
    for name in ("time_s", "group", "block"):
        made[name] = rows[name]
    for name in _FLOW_DTYPE["outcome"].names or ():
        made["outcome"][name] = rows["outcome"][name]
    return made


def effects(rows: OutcomeRows, since_s: float = 0.0) -> dict[str, Effect | None]:
    """Return the relative change of a flow's reward that the daemon's choices cause, for `ALL` and each size
    class.

    The change comes from the mean value (`value.of`), the logarithm of the reward. Each flow counts once,
    weighted by its information. The result is empty if no outcome belongs to an experiment. An effect is None
    if there are too few units.

    Args:
        rows: outcomes of the whole log, in the order of writing, shape (n,). Outcomes from before the
            experiment show how the prefixes of a holdback differ.
        since_s: Unix time. Earlier outcomes only show how prefixes differ.
    """
    rows = rows[latest(rows["outcome"])]
    in_trial = np.isin(rows["group"], (Group.TREATED, Group.CONTROL))
    before = (rows["group"] == Group.NONE) & (rows["time_s"] <= rows["time_s"][in_trial].min(initial=np.inf))
    trial = in_trial & (rows["time_s"] >= since_s)
    if not trial.any():
        return {}
    # After a change of the design, the latest design counts.
    switchback = bool(rows["block"][trial][-1] >= 0)
    trial &= (rows["block"] >= 0) == switchback
    rows, trial = rows[trial | before], trial[trial | before]
    said = _Values(rows)
    found = {}
    for name, chosen in {ALL: said.known, **said.by_size()}.items():
        effect = (
            _switchback(said, rows, chosen & trial) if switchback else _holdback(said, rows, chosen, trial)
        )
        if effect is not None:
            change, lower, upper = np.expm1((effect.value, effect.lower, effect.upper)).tolist()
            effect = Effect(change, lower, upper, effect.treated, effect.control)
        found[name] = effect
    return found


class _Values:
    """The values of flows, less the mean of their size class. All arrays have the shape (n,).

    Args:
        rows: outcomes, each of another flow.
    """

    def __init__(self, rows: OutcomeRows) -> None:
        told = rows["outcome"]
        _, self.prefix = numbered_prefixes(told)
        self.size = value.size_classes(told)
        self.place: Ints = self.prefix * len(value.SIZE_NAMES) + self.size
        """Number of each flow's prefix and size class."""
        self.information = value.information(told)
        self.known: Bools
        """Whether a flow counts: its value is finite, and its information is above 0."""
        raw = value.raw_values(told)
        of_place = value.means(raw, self.place)[self.place]
        of_class = value.means(raw, self.size)[self.size]
        self.values: Floats = value.clipped(raw, self.place) + of_place - of_class
        # A flow gets the lowest value if losses leave no reward to any flow of its prefix and size class.
        self.values[np.isneginf(raw) & np.isnan(of_place) & ~np.isnan(of_class)] = -value.CLIP
        self.known = np.isfinite(self.values) & (self.information > 0)

    def by_size(self) -> dict[str, Bools]:
        """The known flows of each size class, by its name."""
        return {name: self.known & (self.size == number) for number, name in enumerate(value.SIZE_NAMES)}

    def of_units(self, chosen: Bools, units: Ints, count: int) -> Floats:
        """Return the mean value of each unit's flows, weighted by information, shape (count,); NaN for a unit
        without flows.

        Args:
            chosen: the flows that count, shape (n,).
            units: number of each of these flows' unit, shape (m,).
            count: the number of units.
        """
        weights, values = self.information[chosen], self.values[chosen]
        total = np.bincount(units, weights, count)
        means: Floats = np.full(count, np.nan)
        np.divide(np.bincount(units, weights * values, count), total, out=means, where=total > 0)
        return means


def _switchback(said: _Values, rows: OutcomeRows, chosen: Bools) -> Effect | None:
    """Return the effect of a switchback, by a comparison of blocks within each prefix and size class. None if
    there are too few blocks.
    """
    if not chosen.any():
        return None
    blocks, block = numbered(rows["block"][chosen])
    _, place = numbered(said.place[chosen])
    cells, cell = np.unique(place.astype(np.int64) * blocks.size + block, return_inverse=True)
    treated = np.zeros(blocks.size, np.bool_)
    treated[block] = rows["group"][chosen] == Group.TREATED
    of_place, of_block = np.divmod(cells, blocks.size)
    values = said.of_units(chosen, cell, cells.size)
    return Switchback(treated[of_block], blocks[of_block], of_place).effect(values)


def _holdback(said: _Values, rows: OutcomeRows, chosen: Bools, trial: Bools) -> Effect | None:
    """Return the effect of a holdback, by a comparison of prefixes. Flows from before the experiment show how
    the prefixes differ anyway.
    """
    count = int(said.prefix.max()) + 1
    now, before = (
        said.of_units(part, said.prefix[part], count) for part in (chosen & trial, chosen & ~trial)
    )
    treated = np.zeros(count, np.bool_)
    treated[said.prefix[trial & (rows["group"] == Group.TREATED)]] = True
    known = np.isfinite(now)
    return drawn(now[known], treated[known], before[known])
