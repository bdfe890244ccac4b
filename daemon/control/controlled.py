# SPDX-License-Identifier: Apache-2.0
"""The members of the daemon that the control methods use, and the lookup of the flows that requests name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ltp_switcher.daemon.control.answers import Params
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choices import Choices
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.keeper import Save
from ltp_switcher.daemon.control.rollouts import Rollouts
from ltp_switcher.daemon.datapath import ArmInfo, Datapath, FlowNotFoundError
from ltp_switcher.daemon.settings.policies import Policies
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.daemon.steer import ToldNetwork
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import UNKNOWN, FlowTable
from ltp_switcher.errors import InvalidValueError

COOKIE_DIGITS = 20
COOKIE_RULE = "a socket cookie: a decimal number from 1 to 2^64 - 1, written as a text"


class Controlled(Protocol):
    """The members of the daemon that the control methods use."""

    @property
    def config(self) -> Config:
        """The settings in force."""
        ...

    @property
    def choices(self) -> Choices:
        """The operators' settings, policies and pins."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine, which holds the flows, the policy and the counters."""
        ...

    @property
    def datapath(self) -> Datapath:
        """The connection to the kernel module."""
        ...

    @property
    def arms(self) -> list[ArmInfo]:
        """Every arm (a congestion control that a flow can run), available or not."""
        ...

    @property
    def names(self) -> dict[int, str]:
        """The arms' names by id."""
        ...

    @property
    def network(self) -> ToldNetwork:
        """The latest reports of measurement agents on routers."""
        ...

    @property
    def rollouts(self) -> Rollouts:
        """The staged rollout of the daemon's choices that is under way, or the last one."""
        ...

    @property
    def faults(self) -> Sequence[str]:
        """Sentences about faults that keep the daemon from a part of its task; see `Daemon.faults`."""
        ...

    @property
    def mode(self) -> str:
        """The mode: `active`, `advise` or `off`."""
        ...

    def change(self, values: Mapping[str, Json], caller: Caller, *, runtime: bool) -> Save:
        """Set values over the configuration, or drop the overrides whose values are None; see
        `Choices.change`.
        """
        ...

    def clear(self, caller: Caller) -> Save:
        """Drop all settings that override the configuration."""
        ...

    def revert(self, number: int, caller: Caller) -> Save:
        """Undo a change; see `Choices.revert`."""
        ...

    def set_policies(self, policies: Policies, caller: Caller) -> Save:
        """Put these policies in force in place of all earlier ones."""
        ...

    def load_arm(self, name: str) -> ArmInfo:
        """Load a congestion control of this kernel as an arm."""
        ...

    def reload(self) -> Sequence[str]:
        """Read the settings anew, and return the keys that changed."""
        ...


def is_number(text: str) -> bool:
    """Whether a text is a whole number that fits in 64 bits. The text is checked first, because Python
    refuses to parse thousands of digits.
    """
    return text.isascii() and text.isdigit() and len(text) <= COOKIE_DIGITS and int(text) < 2**64


def cookie_of(params: Params) -> int:
    """The cookie of the flow that a request names. Raises `InvalidValueError` if the request has no whole
    number as cookie.
    """
    text = params.get("cookie")
    if not isinstance(text, str) or not is_number(text) or not int(text):
        raise InvalidValueError("cookie", text, COOKIE_RULE)
    return int(text)


def slot_of(table: FlowTable, cookie: int) -> int:
    """The slot of the flow with this cookie. Raises `FlowNotFoundError`."""
    slot = table.slot(cookie)
    if slot == UNKNOWN:
        raise FlowNotFoundError(cookie)
    return slot
