# SPDX-License-Identifier: Apache-2.0
"""Bodies of answers about the exchange between hosts."""

from __future__ import annotations

from pydantic import Field

from ltp_switcher.api.models import Answer
from ltp_switcher.api.visit_models import Effect


class FleetHost(Answer):
    """Another host of the site."""

    name: str = Field(examples=["edge-2"])
    version: str = Field(description="Its release", examples=["0.9.0"])
    age_s: float = Field(description="Time since its latest sign of life")
    lessons: int = Field(description="Lessons of it that were merged with others'")
    refused: int = Field(description="Values of it that no rewards lead to")
    other_version: int = Field(description="Lessons of it in a form that this release does not read")
    other_model: int = Field(description="Lessons of it about a decision with other settings")
    compared: float = Field(description="Comparisons of its word with others', the latest ones in full")
    apart: float = Field(description="Those among them in which it was far from all others")
    disagrees: bool = Field(description="Whether it is far from all others mostly")
    shut_out: bool = Field(description="Whether its word does not count; see fleet.shut_out")


class ToldPrefix(Answer):
    """The knowledge of other hosts about a destination prefix."""

    prefix: str = Field(examples=["203.0.113.0/24"])
    hosts: int = Field(description="Hosts whose word it is")
    # `from` is a keyword of Python.
    sources: list[str] = Field(alias="from", description="Their names", examples=[["edge-1", "edge-3"]])
    age_s: float = Field(description="Time since their word came")
    visits: int = Field(description="Visits that this host has observed itself")
    effects: dict[str, Effect] = Field(description="By arm, by all that this host knows")


class Fleet(Answer):
    """The state of the exchange with other hosts."""

    share: bool = Field(description="Whether this host shares; see fleet.share")
    running: bool = Field(description="Whether ltp-switcher-fleet tells of itself")
    reachable: bool = Field(description="Whether it reaches the store")
    error: str = Field(description="Why not; empty otherwise")
    host: str = Field(description="This host's name in the site", examples=["edge-1"])
    site: str = Field(examples=["default"])
    store: str = Field(description="Addresses of the store", examples=["127.0.0.1:6379"])
    namesakes: int = Field(description="Other services of the site that write in this host's name")
    lag_s: float = Field(description="Time since the last whole exchange")
    exchanges: int
    failures: int = Field(description="Exchanges that failed")
    written: int = Field(description="Lessons written")
    write_failures: int = Field(description="Lessons that the store refused")
    read: int = Field(description="Lessons read")
    live: int = Field(description="Prefixes with traffic here")
    told: int = Field(description="Prefixes of which others know something")
    without_room: int = Field(description="Prefixes told that had no room")
    hosts: list[FleetHost] = Field(description="The other hosts, by name")
    prefixes: list[ToldPrefix] = Field(
        description="Prefixes of which others know something, the latest first"
    )
