# SPDX-License-Identifier: Apache-2.0
"""Bodies of answers about the knowledge that later flows take from earlier ones."""

from __future__ import annotations

from pydantic import Field

from ltp_switcher.api.models import Answer


class Effect(Answer):
    """The value of an arm minus the value of the decision's own choice, as a logarithm of the reward."""

    mean: float = Field(examples=[0.4])
    lower: float = Field(description="Nineteen in twenty effects lie above", examples=[0.1])
    upper: float = Field(description="Nineteen in twenty effects lie below", examples=[0.7])


class VisitedPrefix(Answer):
    """The knowledge about a destination prefix, or about a single host in it, and the plan for it."""

    prefix: str = Field(description="/32 and /128 are hosts", examples=["203.0.113.0/24"])
    incumbent: str = Field(
        description="The arm that visits run unless they draw the trial; decision: the policy's own choice",
        examples=["decision"],
    )
    trial: str | None = Field(description="Null where there is no money for one", examples=["vegas"])
    chance: float = Field(description="Chance that a visit draws the trial", examples=[0.08])
    visits: int = Field(description="Visits that were observed")
    flows: float = Field(description="Flows of these visits")
    spent: float = Field(description="Cost of the trials, less their gains, in flows' rewards")
    path_changes: int = Field(
        description="Changes of the path that its visits have shown (ADWIN), since the daemon's start"
    )
    surprises: int = Field(
        description="How often a starving arm of the decision opened trials anew, since the daemon's start"
    )
    ruled: bool = Field(description="Whether a policy or an experiment gives the flows their arms")
    effects: dict[str, Effect] = Field(description="By arm")


class Visits(Answer):
    """The daemon's knowledge from earlier flows."""

    learn: bool = Field(description="Whether it learns; see visits.learn")
    arms: list[str] = Field(description="Arms that visits try", examples=[["bbr", "ltp", "vegas", "cubic"]])
    known: int = Field(description="Prefixes known")
    hosts: int = Field(description="Hosts of these prefixes that are known by themselves")
    open: int = Field(description="Visits that have not ended")
    visits: int = Field(description="Visits since the daemon's start")
    trials: int = Field(description="Visits among them that drew a trial")
    aborted_flows: int = Field(description="Flows that left the arm of their visit, because they starved")
    path_changes: int = Field(
        description="Changes of paths that visits have shown (ADWIN), since the daemon's start"
    )
    surprises: int = Field(
        description="How often a starving arm of the decision opened trials on a prefix anew, since the "
        "daemon's start"
    )
    left_out: int = Field(description="Outcomes of visits for which there was no room")
    flows: float = Field(description="Flows in the ledger")
    spent: float = Field(description="Cost of all trials, less their gains, in flows' rewards")
    share: float = Field(description="The same as a share of all flows' reward", examples=[0.004])
    balance: float = Field(
        description="Money left for trials, in flows' rewards. Below 0 while trials are paid that are not "
        "yet earned: the worst case of two trials may be paid ahead"
    )
    prefixes: list[VisitedPrefix] = Field(description="Those seen last, the latest first")
