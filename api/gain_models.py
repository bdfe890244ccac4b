# SPDX-License-Identifier: Apache-2.0
"""The report about the daemon's gain, in the form of the API's answers. `ltp_switcher.daemon.gain.report`
makes the report.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ltp_switcher.api.models import Answer

Interval = tuple[float, float, float]
"""A mean, and the two ends of its 95 % interval."""


class GainEffect(Answer):
    """A difference between the traffic with the daemon's choices and the traffic without them, with its 95 %
    interval.
    """

    value: float = Field(
        description="The difference: with the daemon's choices less without them", examples=[0.08]
    )
    lower: float = Field(description="Lower end of the 95 % interval", examples=[0.03])
    upper: float = Field(description="Upper end of the 95 % interval", examples=[0.13])
    treated: int = Field(description="Number of independent units with the daemon's choices", examples=[30])
    control: int = Field(
        description="Number of independent units without the daemon's choices", examples=[10]
    )


class ArmUseState(Answer):
    """Measures of the flows under one arm, as means over destination prefixes. A measure is null if there are
    too few flows.
    """

    share: float = Field(description="Share of all acknowledged bytes")
    goodput_Bps: Interval | None = Field(description="Geometric mean of the goodput, bytes a second")  # noqa: N815 - B is bytes
    rtt_p95_us: Interval | None = Field(description="95th percentile of the RTT, geometric mean, µs")
    retransmits: Interval | None = Field(description="Ratio of retransmitted packets to delivered ones")
    completion_time_s: Interval | None = Field(
        description="Geometric mean of the life of flows that ended, s"
    )


class AdviceState(Answer):
    """How far the flows to a prefix followed the daemon's advice in mode advise, and the change to expect if
    all do.
    """

    agreed: float = Field(description="Share of the time in which the flows ran the advised arm")
    expected: GainEffect | None = Field(
        description=(
            "Estimated change of the reward if flows follow the advice. It is no proof, because "
            "no lot chose the flows"
        )
    )
    verdict: str = Field(examples=["too few decisions"])


class SkippedState(Answer):
    """Counts of the parts of the log that could not be read."""

    damaged: int = Field(description="Number of damaged records, of about a second each", examples=[0])
    foreign: int = Field(
        description="Number of files that another version of the program wrote", examples=[0]
    )
    old: int = Field(
        description="Number of oldest files that were left out, because the log is too large for a report",
        examples=[0],
    )


class GainReport(Answer):
    """The daemon's gain by measure, the use of each arm, and the advice for each prefix."""

    design: Literal["none", "holdback", "switchback"] = Field(description="The experiment in the log")
    decisions: int = Field(description="Number of decisions that the report covers")
    overall: dict[str, GainEffect | None] = Field(
        description="Relative change of goodput, rtt_p95, completion_time and reward (Eq. 1, zeta 5 and "
        "kappa 2); difference of the share of retransmits. Null while there are too few units"
    )
    prefixes: dict[str, dict[str, GainEffect | None]] = Field(
        description="The changes by prefix, in a switchback. Prefixes with the most data come first"
    )
    arms: dict[str, ArmUseState] = Field(description="Measures of the arms, by name")
    agreed: Interval | None = Field(
        description="Mean over prefixes of the share of time in which flows ran the advised arm"
    )
    advice: dict[str, AdviceState] = Field(description="Advice by prefix, in mode advise")
    skipped: SkippedState
    flow_reward: dict[str, GainEffect | None] = Field(
        description="Relative change of the reward of a flow, from the log of outcomes: of all flows, and by "
        "size class. Empty without an outcome of the experiment; null while there are too few units"
    )
