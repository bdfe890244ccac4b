# SPDX-License-Identifier: Apache-2.0
"""Bodies of answers about the exchange of knowledge between the hosts of a site.

A lesson is the knowledge of one host about the congestion controls (arms) on a destination prefix.
"""

from __future__ import annotations

from pydantic import Field

from ltp_switcher.api.models import Answer
from ltp_switcher.api.visit_models import Effect


class FleetHost(Answer):
    """Another host of the site, and the quality of its lessons: its knowledge about congestion controls on
    destination prefixes.
    """

    name: str = Field(examples=["edge-2"])
    version: str = Field(description="Release of the program on the host", examples=["0.9.0"])
    age_s: float = Field(description="Time since the host's latest sign of life")
    lessons: int = Field(description="Number of the host's lessons that were merged with other hosts'")
    refused: int = Field(description="Number of the host's values that no rewards can lead to")
    other_version: int = Field(
        description="Number of the host's lessons in a form that this release does not read"
    )
    other_model: int = Field(description="Number of the host's lessons about a decision with other settings")
    compared: float = Field(
        description="Comparisons of the host's lessons with other hosts'. Older comparisons count less"
    )
    apart: float = Field(description="Comparisons, among these, in which the host was far from all others")
    disagrees: bool = Field(description="Whether the host was far from all others in most comparisons")
    shut_out: bool = Field(description="Whether the host's lessons do not count; see fleet.shut_out")


class ToldPrefix(Answer):
    """The knowledge of other hosts about congestion controls on a destination prefix."""

    prefix: str = Field(examples=["203.0.113.0/24"])
    hosts: int = Field(description="Number of hosts that know something about the prefix")
    # `from` is a keyword of Python.
    sources: list[str] = Field(alias="from", description="Their names", examples=[["edge-1", "edge-3"]])
    age_s: float = Field(description="Time since the last report of these hosts")
    visits: int = Field(description="Number of visits that this host has observed itself")
    effects: dict[str, Effect] = Field(description="Effects by arm, from all knowledge of this host")


class Fleet(Answer):
    """The state of the exchange of knowledge with other hosts of the site."""

    share: bool = Field(description="Whether this host shares; see fleet.share")
    running: bool = Field(description="Whether ltp-switcher-fleet reports its state")
    reachable: bool = Field(description="Whether the service reaches the store")
    error: str = Field(description="The reason why the store is not reached; empty if it is")
    host: str = Field(description="This host's name in the site", examples=["edge-1"])
    site: str = Field(examples=["default"])
    store: str = Field(description="Addresses of the store", examples=["127.0.0.1:6379"])
    namesakes: int = Field(description="Number of other services of the site with this host's name")
    lag_s: float = Field(description="Time since the last complete exchange")
    exchanges: int
    failures: int = Field(description="Number of exchanges that failed")
    written: int = Field(description="Number of lessons that were written")
    write_failures: int = Field(description="Number of lessons that the store refused")
    read: int = Field(description="Number of lessons that were read")
    live: int = Field(description="Number of prefixes with traffic on this host")
    told: int = Field(description="Number of prefixes about which other hosts know something")
    without_room: int = Field(description="Number of reported prefixes for which there was no room")
    hosts: list[FleetHost] = Field(description="The other hosts, by name")
    prefixes: list[ToldPrefix] = Field(
        description="Prefixes about which other hosts know something, the latest report first"
    )
