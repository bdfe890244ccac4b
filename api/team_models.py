# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests and answers about team selection, which picks the best k arms for a
destination prefix.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ltp_switcher.api.models import Answer, Request

SelectionMethod = Literal["tournament", "budget", "visits"]
_METHOD: Final = (
    "tournament: by pairs beside the incumbent. budget: by Algorithm 2 of Mutant, which `POST` starts. "
    "visits: by Algorithm 2 with whole visits as pulls"
)
_COST: Final = (
    "Method visits: the reward that the visits have cost beside the incumbent's, in rewards of one flow"
)


class Search(Answer):
    """A team selection under way: it tries the arms of the pool on a prefix, to pick the best k."""

    prefix: str = Field(description="Destination prefix of the selection", examples=["192.0.2.0/24"])
    k: int = Field(description="Number of arms to pick")
    method: SelectionMethod = Field(description=_METHOD)
    pulls: int = Field(description="Number of pulls so far, or of pairs in a tournament")
    budget: int = Field(
        description="Number of all pulls, or largest number of pairs; 0 before a tournament's first pair"
    )
    mean_reward: dict[str, float | None] = Field(
        description="Mean un-normalised reward (Mutant, Eq. 1) by arm; null before its first pull. Only the "
        "method budget has it"
    )
    log_ratio: dict[str, float | None] = Field(
        default={},
        description="Tournament: mean logarithm of the reward over the incumbent's, by arm; null before its "
        "first pair. Method visits: over the reward that flows of that size have had to the prefix",
    )
    half_width: dict[str, float | None] = Field(
        default={},
        description="Tournament: half of the width of the log ratio's interval by arm; null where there are "
        "too few pairs",
    )
    cost_flows: float | None = Field(default=None, description=_COST)


class GivenUpSearch(Search):
    """A team selection by visits that ended without a team."""

    reason: str = Field(description="Reason for the end", examples=["no visit has counted for 6 hours"])


class Team(Answer):
    """The result of a team selection: the best arms for a prefix, and the estimates behind them."""

    prefix: str = Field(description="Destination prefix of the selection", examples=["192.0.2.0/24"])
    arms: list[str] = Field(description="The arms of the team", examples=[["bbr", "vegas"]])
    method: SelectionMethod = Field(default="budget", description=_METHOD)
    mean_reward: dict[str, float] = Field(
        default={},
        description="Mean un-normalised reward by arm; only the method budget has it",
    )
    log_ratio: dict[str, float] = Field(
        default={},
        description="Tournament: mean logarithm of the reward over the incumbent's, by arm; 0 for its own. "
        "Method visits: over the reward that flows of that size have had to the prefix",
    )
    half_width: dict[str, float] = Field(
        default={},
        description="Tournament: half of the width of the log ratio's interval, by arm that was judged",
    )
    cost_flows: float | None = Field(default=None, description=_COST)
    gaps: dict[str, float] = Field(
        default={},
        description=(
            "Distance of each arm from the border of the team, in mean reward or log ratio. For "
            "an arm in the team: its own value less the best one outside. For an arm outside: the"
            " worst one in the team less its own value"
        ),
    )


class Preference(Answer):
    """The outcome of a tournament that binds no flow: the arm that flows to a prefix prefer to the arm of the
    policy, while nothing speaks against it.
    """

    prefix: str = Field(description="Destination prefix of the tournament", examples=["192.0.2.0/24"])
    arm: str | None = Field(
        description="The arm that flows prefer. It is null if no other arm was better, or if the preference "
        "has ended because the path has changed or the arm has earned less than the arm before it",
        examples=["vegas"],
    )
    left_s: float = Field(description="Time until the outcome is forgotten, and another tournament begins, s")
    log_ratio: dict[str, float] = Field(
        description="Mean logarithm of the reward over the incumbent's, by arm; 0 for its own"
    )
    half_width: dict[str, float] = Field(
        description="Half of the width of the log ratio's interval, by arm that was judged"
    )


class TeamSearches(Answer):
    """Team selections that are under way, the teams and preferences of those that are done, and the
    selections by visits that ended without a team.
    """

    running: bool
    searches: list[Search]
    teams: list[Team]
    preferences: list[Preference] = Field(default=[])
    given_up: list[GivenUpSearch] = Field(default=[])


class TeamSearchRequest(Request):
    """A request to forget teams and to pick them again."""

    prefix: str | None = Field(
        default=None,
        max_length=128,
        description=(
            "Limit the request to this destination prefix, which must have open flows. By default"
            " all prefixes are picked again. A selection by visits needs a prefix"
        ),
        examples=["192.0.2.0/24"],
    )
    by: Literal["round-trips", "visits"] = Field(
        default="round-trips",
        description=(
            "Kind of a pull, which is one trial of an arm. round-trips: some round trips of an open flow. "
            'visits: the flows of a whole visit, which needs `visits.learn = "on"`'
        ),
    )
