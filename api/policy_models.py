# SPDX-License-Identifier: Apache-2.0
"""Operators' policies in the form of requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ltp_switcher.api.models import Answer, ArmName, Kept, Request

POLICIES_MAX = 256
Port = Annotated[int, Field(ge=1, le=65535)]


class PolicyEntry(Request):
    """A policy: the flows that it matches, and how the daemon has to treat these flows."""

    prefix: str | None = Field(
        default=None, max_length=64, description="Network of the destination", examples=["198.51.100.0/24"]
    )
    netns: Annotated[str, Field(pattern=r"^[!-.0-~]+$")] | None = Field(
        default=None,
        max_length=64,
        description="Name of a network namespace in /run/netns, or the number of its inode, as flows have it",
    )
    port: Port | None = Field(default=None, description="Port of the destination")
    local_port: Port | None = Field(default=None, description="This server's own port")
    exclude: bool | None = Field(default=None, description="The daemon leaves the flows alone")
    pin: ArmName | None = Field(default=None, description="The daemon holds the flows at this arm")
    pool: Annotated[list[ArmName], Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="The daemon chooses among these arms", examples=[["bbr", "vegas"]]
    )
    k: Annotated[int, Field(ge=1, le=20)] | None = Field(
        default=None, description="Size of a team that MPTS picks"
    )
    start: ArmName | None = Field(default=None, description="The arm of the kernel on which the flows start")


class PolicyList(Answer):
    """All policies of operators for flows."""

    policies: list[PolicyEntry] = Field(
        description=(
            "The policies, the most specific first: the longest prefix, then the namespace, the "
            "port, the own port"
        )
    )


class PolicyRequest(Request):
    """The policies to put in force, in any order."""

    policies: Annotated[list[PolicyEntry], Field(max_length=POLICIES_MAX)] = Field(
        description="The policies. No two of them may match the same flows by the same rule",
        examples=[
            [
                {"prefix": "198.51.100.0/24", "pool": ["bbr", "vegas"], "start": "bbr"},
                {"port": 22, "exclude": True},
            ]
        ],
    )


class PolicyChange(PolicyList, Kept):
    """The policies after a change, and the policies that the change removed and added."""

    removed: list[str] = Field(description="Policies that are removed, in words; empty if nothing changes")
    added: list[str] = Field(description="Policies that are added", examples=[["port 22: excluded"]])
