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
    """A step's view of the kernel module; see `Datapath`."""

    def close_step(self) -> RecordArray:
        """Aggregates since the last call."""
        ...

    def select(self, commands: CommandArray) -> SelectResult:
        """Send commands."""
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
        """All flows. What `known` has by a cookie stands for the flow."""
        ...

    def flow(self, cookie: int) -> FlowInfo:
        """One flow."""
        ...


class EventSource(Protocol):
    """A source of births and deaths; see `EventStream`."""

    def read(self) -> EventBatch:
        """The events since the last call."""
        ...
