# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests and answers about a rollout; `ltp_switcher.daemon.gain.rollout` judges it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ltp_switcher.api.models import Answer, Kept, Request

Units = Literal["prefixes", "blocks"]


class RolloutState(Answer):
    """A rollout, under way or ended. All its changes are relative changes of goodput."""

    by: str = Field(description="Who began it", examples=["uid 1000, pid 4711"])
    began: float = Field(description="Unix time", examples=[1735689600.0])
    ended: float | None = Field(description="Unix time; null while it is under way")
    units: Units = Field(description="prefixes: each has lots of its own. blocks: one lot for all traffic")
    baseline_arm: str = Field(description="Arm of the traffic that is not treated", examples=["cubic"])
    tolerance: float = Field(description="rollout.tolerance when it began", examples=[0.05])
    share: float = Field(description="Of the traffic, treated in this stage", examples=[0.2])
    stage: int = Field(description="From 1 on", examples=[2])
    stages: list[float] = Field(description="The share of each stage", examples=[[0.05, 0.2, 0.5, 1.0]])
    stage_s: float = Field(description="Time in this stage")
    stage_min_s: float
    stage_max_s: float
    rounds: int = Field(description="Rounds judged in this stage")
    round_s: float = Field(description="Length of a round")
    prefixes: int = Field(description="Destination prefixes seen in the round under way")
    estimate: float | None = Field(description="Change of goodput, estimated; null before the first round")
    lower: float | None = Field(description="The change is proven to be above this; null: nothing is proven")
    upper: float | None = Field(description="The change is proven to be below this; null: nothing is proven")
    must_exclude: float | None = Field(
        description="The next stage begins once a change of this or worse is excluded; null in the last one",
        examples=[-0.1],
    )
    detect_s: float | None = Field(
        description="About how long a harm of 10 % would take to be proven in this stage; null: not known yet"
    )


class RolloutStatus(Answer):
    """The state of the rollout."""

    state: Literal["none", "running", "done", "harm", "undecided", "aborted", "damaged"] = Field(
        description="done: all of the traffic is treated. harm, undecided, aborted, damaged: it went back to "
        "the mode advise"
    )
    reason: str = Field(description="Why it ended, in a sentence; empty while it is under way")
    rollout: RolloutState | None = Field(description="Null where there is none")


class RolloutChange(RolloutStatus, Kept):
    """The state of the rollout after the request."""


class RolloutRequest(Request):
    """A request to begin a rollout."""

    units: Units | None = Field(
        default=None,
        description="To what the lots fall; where left out: prefixes where 1,000 or more have open flows",
    )
