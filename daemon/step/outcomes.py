# SPDX-License-Identifier: Apache-2.0
"""Takes the outcomes of flows (sums over their lives) from the module once a second, and logs them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Protocol

from ltp_switcher.daemon.datapath import OutcomeBatch
from ltp_switcher.daemon.gain.log import LogWriter
from ltp_switcher.daemon.gain.outcomes import OutcomeRows, rows_of
from ltp_switcher.errors import DatapathError


class OutcomeSource(Protocol):
    """The part of the module's client that returns outcomes of flows; see `Datapath`."""

    def outcomes(self) -> OutcomeBatch:
        """Return the outcomes that have come since the last call."""
        ...


class Outcomes:
    """The outcomes of flows, including flows that lived and died between two steps. The module sends an
    outcome, the sums over a flow's life so far, every ten seconds and at the flow's end.

    Args:
        source: the session with the module that asks for outcomes.
        writer: the log, or None for no log.
        home_netns: inode of the daemon's own network namespace.
        clock: CLOCK_MONOTONIC, ns.
    """

    def __init__(
        self,
        source: OutcomeSource,
        writer: LogWriter | None,
        home_netns: int,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._source = source
        self._writer = writer
        self._home_netns = home_netns
        self._clock = clock
        self.told = 0
        """Number of outcomes that the module sent."""
        self.dropped = 0
        """Number of outcomes for which the module had no room."""
        self.grouped: Callable[[OutcomeRows], OutcomeRows] = lambda rows: rows
        """A function that is called with rows before they are logged. It writes into them the group of the
        experiment to which each flow belongs.
        """

    @property
    def unlogged(self) -> int:
        """Number of outcomes that were not logged, because the disk had no room or was too slow."""
        return 0 if self._writer is None else self._writer.dropped

    def take(self) -> OutcomeRows:
        """Take the outcomes that have come since the last call, and return their rows, shape (n,)."""
        batch = self._source.outcomes()
        self.told += len(batch.outcomes)
        if batch.dropped is not None:
            self.dropped = batch.dropped
        rows = self.grouped(rows_of(batch.outcomes, time.time(), self._clock(), self._home_netns))
        if self._writer is not None and len(rows):
            self._writer.append(rows)
        return rows

    def close(self) -> None:
        """Take the remaining outcomes, and finish the log."""
        with contextlib.suppress(DatapathError):
            self.take()
        if self._writer is not None:
            self._writer.close()
