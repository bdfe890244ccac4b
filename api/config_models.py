# SPDX-License-Identifier: Apache-2.0
"""The types of settings, changes and versions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StrictBool, StrictFloat, StrictInt, StrictStr

from ltp_switcher.api.models import Answer, Kept, Request

Setting = StrictBool | StrictInt | StrictFloat | StrictStr | list[StrictStr]
Settings = dict[str, dict[str, Setting]]
Name = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]


class ConfigState(Answer):
    """The settings by section and key, and the origin of each value. `ltp-switcher config --example` explains
    each setting.
    """

    values: Settings = Field(
        description="The values in force", examples=[{"pool": {"arms": ["bbr", "vegas"], "k": 2}}]
    )
    origins: dict[
        str, dict[str, Literal["default", "file", "environment", "flag", "override", "runtime"]]
    ] = Field(
        description=(
            "The origin of each value. override: a value set here or on the command line; "
            "runtime: such a value that lasts until the daemon ends; flag: an option of "
            "`ltp-switcher run`"
        ),
        examples=[{"pool": {"arms": "override", "k": "runtime"}}],
    )
    restart: list[str] = Field(
        description="Settings whose configured value waits for a restart of the daemon",
        examples=[["daemon.step_ms"]],
    )


class ConfigChange(ConfigState, Kept):
    """The settings after a change."""


class ConfigPatch(Request):
    """Settings to change, as a merge patch of the answer to `GET` (RFC 7396)."""

    values: Annotated[
        dict[Name, Annotated[dict[Name, Setting | None], Field(max_length=100)]], Field(max_length=20)
    ] = Field(
        description="Values by section and key; null drops what was set over the configuration",
        examples=[{"mpts": {"budget": 200}, "daemon": {"mode": None}}],
    )


class Author(Answer):
    """The process that made a change, or the API token with which a client made it."""

    uid: int = Field(description="User id of the process")
    pid: int = Field(description="Id of the process at that time")
    token: str | None = Field(default=None, description="Name of the API token that the process was shown")
    via: Author | None = Field(
        description="The server that the process asked, such as this API; null for none"
    )


class Change(Answer):
    """A change that an operator made."""

    number: int = Field(description="Number of the change, one more than the number of the change before")
    time: str = Field(description="Time of the change (RFC 3339)", examples=["2026-01-31T12:00:00.000Z"])
    what: str = Field(
        description="Name of the setting, or of another value, that was changed", examples=["pool.k"]
    )
    before: JsonValue = Field(description="The earlier value; null for none")
    after: JsonValue = Field(description="The new value; null for none")
    lasts: bool = Field(description="Whether the change outlives the daemon")
    caller: Author


class Changed(Change):
    """One of the last changes of operators, with the ways in which it can still be undone."""

    can_revert: bool = Field(description="Whether the change can be reverted")
    confirm_within_s: float | None = Field(
        description="Time after which the change is undone, unless it is confirmed; null if it stays"
    )


class Confirmed(Kept):
    """The changes that an operator has just confirmed. They stay in force."""

    confirmed: list[int] = Field(description="Numbers of the changes")


class Reverted(Kept):
    """The result of reverting a change."""

    change: Change = Field(description="The new change, which undoes the reverted one")


class ChangeList(Answer):
    """The last changes that operators made."""

    changes: list[Changed] = Field(description="The changes, the latest first")


class Versions(Answer):
    """The versions of the project's parts: API, daemon, and the format of the kernel module's records."""

    api: str = Field(examples=["0.1.0"])
    daemon: str = Field(examples=["0.1.0"])
    records: int = Field(description="Version of the records that module and daemon exchange")
