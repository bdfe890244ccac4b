# SPDX-License-Identifier: Apache-2.0
"""The kernel's side of a step, as the engine needs it."""

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
    """The kernel module as a step sees it; see `Datapath`."""

    def close_step(self) -> RecordArray:
        """The aggregates of the flows since the last call."""
        ...

    def select(self, commands: CommandArray) -> SelectResult:
        """Send commands that select arms for flows."""
        ...

    def control(self, controls: ControlArray) -> ControlResult:
        """Send parameters of learned arms."""
        ...

    def pin(self, cookie: int, arm: int) -> None:
        """Give a flow an arm and keep it there."""
        ...

    def config(self) -> KernelConfig:
        """The module's settings."""
        ...

    def flows(self, known: Callable[[int], FlowInfo | None] | None = None) -> list[FlowInfo]:
        """All flows. A flow whose cookie is in `known` is taken from there."""
        ...

    def flow(self, cookie: int) -> FlowInfo:
        """One flow by its cookie."""
        ...


class EventSource(Protocol):
    """A source of the births and deaths of flows; see `EventStream`."""

    def read(self) -> EventBatch:
        """The events since the last call."""
        ...
