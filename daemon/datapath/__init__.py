# SPDX-License-Identifier: Apache-2.0
"""The kernel module over generic netlink: `Datapath`, the types of its results, and its exceptions."""

from ltp_switcher.daemon.datapath.client import Datapath, EventStream
from ltp_switcher.daemon.datapath.errors import (
    FlowNotFoundError,
    ModuleMissingError,
    PermissionDeniedError,
    RequestRefusedError,
)
from ltp_switcher.daemon.datapath.types import (
    ArmInfo,
    CommandArray,
    ControlArray,
    ControlResult,
    EventBatch,
    FlowCounts,
    FlowEvent,
    FlowInfo,
    KernelConfig,
    OutcomeArray,
    OutcomeBatch,
    RecordArray,
    ResumeCounts,
    SelectResult,
)

__all__ = [
    "ArmInfo",
    "CommandArray",
    "ControlArray",
    "ControlResult",
    "Datapath",
    "EventBatch",
    "EventStream",
    "FlowCounts",
    "FlowEvent",
    "FlowInfo",
    "FlowNotFoundError",
    "KernelConfig",
    "ModuleMissingError",
    "OutcomeArray",
    "OutcomeBatch",
    "PermissionDeniedError",
    "RecordArray",
    "RequestRefusedError",
    "ResumeCounts",
    "SelectResult",
]
