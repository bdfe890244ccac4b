# SPDX-License-Identifier: Apache-2.0
"""The parts of the kernel module's client that a step needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ltp_switcher.daemon.datapath import (
    CommandArray,
    ControlArray,
    ControlResult,
    EventBatch,
    FlowInfo,
    KernelConfig,
    RecordArray,
    SelectResult,
)


class StepSource(Protocol):
    """The part of the kernel module's client that a step uses; see `Datapath`."""

    @property
    def record_version(self) -> int:
        """Version of the records that the module sends."""
        ...

    def close_step(self) -> RecordArray:
        """End the step of every flow that had an ACK or a switch of arms since the last call. Returns one
        record of measurements for each such flow, shape (n,).
        """
        ...

    def select(self, commands: CommandArray) -> SelectResult:
        """Send commands that give flows arms."""
        ...

    def control(self, controls: ControlArray) -> ControlResult:
        """Send the actions of learned arms to the flows that run them."""
        ...

    def pin(self, cookie: int, arm: int) -> None:
        """Give a flow an arm and keep it there."""
        ...

    def config(self) -> KernelConfig:
        """The module's settings."""
        ...

    def flows(self, known: Callable[[int], FlowInfo | None] | None = None) -> list[FlowInfo]:
        """Return all flows. `known` may return, for a flow's cookie, the description that the caller has
        already; then the list has this description.
        """
        ...

    def flow(self, cookie: int) -> FlowInfo:
        """Return the flow with this cookie."""
        ...


class EventSource(Protocol):
    """A source of the births and deaths of flows; see `EventStream`."""

    def read(self) -> EventBatch:
        """Return the events since the last call."""
        ...
