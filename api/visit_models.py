# SPDX-License-Identifier: Apache-2.0
"""Bodies of answers about the knowledge that later flows take from earlier ones.

A visit is a group of flows to a prefix that began near each other on one arm. The decision is the policy that
chooses arms while flows run.
"""

from __future__ import annotations

from pydantic import Field

from ltp_switcher.api.models import Answer


class Effect(Answer):
    """The gain of an arm over the decision (the policy's own choice of arms), in the logarithm
    of the reward.
    """

    mean: float = Field(examples=[0.4])
    lower: float = Field(description="Lower bound. Nineteen in twenty effects lie above it", examples=[0.1])
    upper: float = Field(description="Upper bound. Nineteen in twenty effects lie below it", examples=[0.7])


class VisitedPrefix(Answer):
    """The knowledge about a destination prefix, or about a single host in it, and the arms on which its next
    flows begin.
    """

    prefix: str = Field(description="The prefix. A /32 or /128 is a single host", examples=["203.0.113.0/24"])
    incumbent: str = Field(
        description="The arm that visits run unless they draw the trial; decision: the policy's own choice",
        examples=["decision"],
    )
    trial: str | None = Field(
        description="The arm on trial; null if there is no money for a trial", examples=["vegas"]
    )
    chance: float = Field(description="Chance that a visit draws the trial", examples=[0.08])
    visits: int = Field(description="Number of visits that were observed")
    flows: float = Field(description="Number of flows in these visits")
    spent: float = Field(description="Net cost of the trials, in flows' rewards")
    path_changes: int = Field(
        description=("Number of changes of the path that visits have shown (ADWIN), since the daemon's start")
    )
    surprises: int = Field(
        description=(
            "Number of times, since the daemon's start, that a starving arm of the decision "
            "opened trials anew"
        )
    )
    ruled: bool = Field(description="Whether a policy or an experiment gives the flows their arms")
    effects: dict[str, Effect] = Field(description="Effects by arm")


class Visits(Answer):
    """The daemon's knowledge from earlier flows, and the cost of the trials by which it learned."""

    learn: bool = Field(description="Whether the daemon learns; see visits.learn")
    arms: list[str] = Field(description="Arms that visits try", examples=[["bbr", "ltp", "vegas", "cubic"]])
    known: int = Field(description="Number of known prefixes")
    hosts: int = Field(description="Number of hosts of these prefixes with knowledge of their own")
    open: int = Field(description="Number of visits that have not ended")
    visits: int = Field(description="Number of visits since the daemon's start")
    trials: int = Field(description="Number of these visits that drew a trial")
    aborted_flows: int = Field(
        description="Number of flows that left the arm of their visit, because they starved"
    )
    path_changes: int = Field(
        description="Number of changes of paths that visits have shown (ADWIN), since the daemon's start"
    )
    surprises: int = Field(
        description=(
            "Number of times, since the daemon's start, that a starving arm of the decision "
            "opened trials on a prefix anew"
        )
    )
    left_out: int = Field(description="Number of outcomes whose visits had no room")
    flows: float = Field(description="Number of flows in the ledger")
    spent: float = Field(description="Net cost of all trials, in flows' rewards")
    share: float = Field(
        description="Net cost of all trials, as a share of all flows' reward", examples=[0.004]
    )
    balance: float = Field(
        description=(
            "Money that is left for trials, in flows' rewards. It is below 0 while trials are "
            "paid ahead; the worst case of two trials may be"
        )
    )
    prefixes: list[VisitedPrefix] = Field(description="The prefixes that were seen last, the latest first")
