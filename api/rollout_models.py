# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests and answers about a rollout, in which the daemon steers a growing share of the traffic;
`ltp_switcher.daemon.gain.rollout` judges the rollout.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ltp_switcher.api.models import Answer, Kept, Request

Units = Literal["prefixes", "blocks"]


class RolloutState(Answer):
    """A rollout, under way or ended. The traffic that the daemon steers is treated. Estimates and bounds are
    relative changes of goodput.
    """

    by: str = Field(description="The process that began the rollout", examples=["uid 1000, pid 4711"])
    began: float = Field(description="Unix time of the beginning", examples=[1735689600.0])
    ended: float | None = Field(description="Unix time of the end; null while the rollout is under way")
    units: Units = Field(
        description="prefixes: each prefix has lots of its own. blocks: one lot decides for all traffic"
    )
    baseline_arm: str = Field(description="Arm of the traffic that is not treated", examples=["cubic"])
    tolerance: float = Field(description="Value of rollout.tolerance when the rollout began", examples=[0.05])
    share: float = Field(description="Share of the traffic that is treated in this stage", examples=[0.2])
    stage: int = Field(description="Number of the stage, from 1 on", examples=[2])
    stages: list[float] = Field(description="The share of each stage", examples=[[0.05, 0.2, 0.5, 1.0]])
    stage_s: float = Field(description="Time in this stage")
    stage_min_s: float
    stage_max_s: float
    rounds: int = Field(description="Rounds judged in this stage")
    round_s: float = Field(description="Length of a round")
    prefixes: int = Field(description="Destination prefixes seen in the round under way")
    estimate: float | None = Field(description="Estimated change of goodput; null before the first round")
    lower: float | None = Field(description="Proven lower bound of the change; null if nothing is proven")
    upper: float | None = Field(description="Proven upper bound of the change; null if nothing is proven")
    must_exclude: float | None = Field(
        description=(
            "The next stage begins once a change of this size or worse is excluded; null in the last stage"
        ),
        examples=[-0.1],
    )
    detect_s: float | None = Field(
        description="Rough time in which this stage would prove a harm of 10 %; null if not known yet"
    )


class RolloutStatus(Answer):
    """The state of the rollout, and the reason for its end."""

    state: Literal["none", "running", "done", "harm", "undecided", "aborted", "damaged"] = Field(
        description=(
            "done: all of the traffic is treated. harm, undecided, aborted, damaged: the rollout "
            "went back to the mode advise"
        )
    )
    reason: str = Field(
        description="The reason for the end, as a sentence; empty while the rollout is under way"
    )
    rollout: RolloutState | None = Field(description="The rollout; null if there is none")


class RolloutChange(RolloutStatus, Kept):
    """The state of the rollout after the request."""


class RolloutRequest(Request):
    """A request to begin a rollout."""

    units: Units | None = Field(
        default=None,
        description=(
            "The units that draw lots. By default these are prefixes if 1,000 or more prefixes "
            "have open flows"
        ),
    )
