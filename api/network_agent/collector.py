# SPDX-License-Identifier: Apache-2.0
"""Reads the nodes (queues on the path) of a measurement agent every second, and keeps the result."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ltp_switcher.errors import DatapathError
from ltp_switcher.policies.runtime.path_knowledge import (
    WINDOW_S,
    CounterSource,
    NetworkKnowledge,
    NodeMeter,
    NodeReport,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The measurements between the last two readings: a report for each node by name, their combination, and
    the time of the last reading.
    """

    at_s: float
    nodes: dict[str, NodeReport]
    knowledge: NetworkKnowledge | None


class Collector:
    """One thread that reads all nodes. A node that cannot be read counts as unknown until a reading succeeds.

    Args:
        sources: the nodes that the agent reads, with distinct names.
        path_nodes: number of all nodes of the path, known or not, as traceroute counts them.
    """

    def __init__(self, sources: Sequence[CounterSource], path_nodes: int) -> None:
        self._sources = sources
        self._path_nodes = path_nodes
        self._meters = {source.name: NodeMeter() for source in sources}
        self._silent: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self.latest: Snapshot | None = None
        """The latest measurements; None before the first reading."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def read(self) -> None:
        """Read all nodes once. The measurements cover the time since the call before."""
        reports: dict[str, NodeReport] = {}
        for source in self._sources:
            try:
                report = self._meters[source.name].update(source.read())
            except DatapathError as error:
                self._lose(source.name, error)
                continue
            self._silent.discard(source.name)
            if report is not None:
                reports[source.name] = report
        knowledge = NetworkKnowledge.of(reports.values(), self._path_nodes)
        self.latest = Snapshot(time.monotonic(), reports, knowledge)

    def _lose(self, name: str, error: DatapathError) -> None:
        if name not in self._silent:
            log.warning("node %s: %s; its state is unknown until it can be read again", name, error)
        self._silent.add(name)
        self._meters[name] = NodeMeter()

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._stop.is_set():
            self.read()
            due_s = max(due_s + WINDOW_S, time.monotonic())
            self._stop.wait(due_s - time.monotonic())
