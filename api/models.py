# SPDX-License-Identifier: Apache-2.0
"""The types of the API's requests and answers. The OpenAPI document is made from these types.

Rates are in Mbit/s and times of the network in ms; the names of packet counts end in `_pkts`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from ltp_switcher.daemon.settings.load import key_of

COOKIE_PATTERN = r"^[1-9][0-9]{0,19}$"
ARM_NAME_MAX = 15  # characters, as in the kernel

ArmName = Annotated[str, StringConstraints(min_length=1, max_length=ARM_NAME_MAX)]
Mode = Literal["active", "advise", "off"]
_K: Final = key_of("pool.k").rule


FLOW_EXAMPLE: Final[JsonDict] = {
    "cookie": "4711",
    "netns": 4026531840,
    "local": "192.0.2.1:40000",
    "remote": "198.51.100.7:443",
    "family": "ipv4",
    "arm": "bbr",
    "want_arm": "bbr",
    "prev_arm": "cubic",
    "pinned": False,
    "fallen_back": False,
    "age_s": 12.5,
    "cwnd_pkts": 84,
    "ssthresh_pkts": 61,
    "srtt_ms": 40.5,
    "rtt_ms": 41.0,
    "min_rtt_ms": 40.0,
    "delivery_rate_mbps": 23.4,
    "pacing_rate_mbps": 28.9,
    "goodput_mbps": 22.6,
    "in_flight_pkts": 82,
    "lost_pkts": 3,
    "retrans_pkts": 3,
    "delivered_pkts": 24510,
    "acked_bytes": 35490480,
    "ack_gap_ms": {"p50": 0.49, "p90": 0.83},
    "reordered": 0,
    "reordering_pkts": 3,
    "queue_ms": {"there": 1.0, "back": 0.2},
    "limited_s": {"window": 11.9, "receiver": 0.2, "send_buffer": 0.0, "application": 0.4},
    "switches": 7,
    "reward": 0.83,
    "arm_share": {"cubic": 0.25, "bbr": 0.75},
}
WHY_EXAMPLE: Final[JsonDict] = {
    "sentence": "It runs bbr: the flow was new, and this arm probes its path.",
    "advised": None,
    "estimates": [],
    "path": [
        {"name": "propagation_rtt", "unit": "ms", "value": 40.1, "error": 0.2, "age_s": 0.3},
        {"name": "buffer", "unit": "packets", "value": None, "error": None, "age_s": None},
    ],
    "switches": [
        {
            "time": 1735689600.0,
            "age_s": 1.2,
            "before": "cubic",
            "after": "bbr",
            "cause": "policy",
            "carried_out": True,
            "sentence": "Switched from cubic to bbr: the flow was new, and this arm probes its path.",
        }
    ],
}


class Answer(BaseModel):
    """Base of the answers. Fields that a newer daemon sends, and that this API does not know,
    are left out.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)


class Request(BaseModel):
    """Base of the requests. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AckGap(Answer):
    """The gap between two ACKs of a flow in the last seconds, weighted by time, in ms. The module counts gaps
    in ranges that end at twice their beginning, so a value may be wrong by a factor of two.
    """

    p50: float = Field(description="Half of the time passed in gaps of at most this length")
    p90: float = Field(description="Nine tenths of the time passed in gaps of at most this length")


class Queues(Answer):
    """The part of an RTT beyond its floor, by way."""

    there: float = Field(description="Queue on the way to the receiver, ms")
    back: float = Field(description="Queue on the way back, in which ACKs wait, ms")


class Limits(Answer):
    """The time in which each cause limited a flow, in s, as the kernel counts it in ticks. All but
    `application` contain the time of the connection before it ran `mutant`.
    """

    window: float = Field(description="The congestion window or the pacing rate, while data was on its way")
    receiver: float = Field(description="The receiver's window, which was full")
    send_buffer: float = Field(description="The send buffer, which had no room for more")
    application: float = Field(description="The application, which had nothing to send")


class Flow(Answer):
    """One TCP flow under `mutant`, in its state at the daemon's last step."""

    model_config = ConfigDict(json_schema_extra={"examples": [FLOW_EXAMPLE]})

    cookie: str = Field(description="Socket cookie, a decimal 64-bit number; `ss -e` shows it in hex")
    netns: int = Field(description="Inode of the flow's network namespace")
    local: str = Field(description="Local address and port")
    remote: str = Field(description="Remote address and port")
    family: Literal["ipv4", "ipv6"] = Field(description="Address family")
    arm: str | None = Field(description="The protocol that is steering the flow; null before the first ACK")
    want_arm: str | None = Field(
        description="The protocol of the last command; `arm` follows at the next ACK"
    )
    prev_arm: str | None = Field(description="The protocol before the last switch")
    pinned: bool = Field(description="Whether an operator holds the flow at its arm")
    fallen_back: bool = Field(
        description="Whether the flow is at the fallback arm until the daemon's next command"
    )
    age_s: float = Field(description="Time since the flow began to run `mutant`")
    cwnd_pkts: int = Field(description="Congestion window")
    ssthresh_pkts: int | None = Field(description="Slow start threshold; null while it is infinite")
    srtt_ms: float = Field(description="Smoothed RTT")
    rtt_ms: float = Field(description="Last RTT sample")
    min_rtt_ms: float | None = Field(
        description="The kernel's windowed minimum RTT; null before the first sample"
    )
    delivery_rate_mbps: float = Field(description="Last delivery rate sample")
    pacing_rate_mbps: float | None = Field(description="Pacing rate; null when unlimited")
    goodput_mbps: float = Field(description="Newly acknowledged data, smoothed over a second")
    in_flight_pkts: int = Field(description="Packets in flight")
    lost_pkts: int = Field(description="Number of all packets that were marked lost")
    retrans_pkts: int = Field(description="Number of all packets that were retransmitted")
    delivered_pkts: int = Field(description="Number of all packets that were delivered")
    acked_bytes: int = Field(description="Number of all bytes that were acknowledged")
    ack_gap_ms: AckGap | None = Field(
        default=None, description="Gap between two ACKs in the last seconds; null if there was none"
    )
    reordered: int | None = Field(
        default=None, description="Number of times that the kernel saw packets in another order"
    )
    reordering_pkts: int | None = Field(
        default=None,
        description="Number of packets by which the kernel expects packets to be reordered at most; "
        "null if unknown",
    )
    queue_ms: Queues | None = Field(
        default=None,
        description="The queues on both ways at the end of the last round trip, by TCP's timestamps; null "
        "if unknown",
    )
    limited_s: Limits | None = Field(
        default=None, description="The causes that limited the flow, and for how long; null if unknown"
    )
    switches: int = Field(description="Number of all switches from arm to arm")
    reward: float | None = Field(
        description="Last normalised reward (Mutant, Eq. 1); null before the first reward"
    )
    arm_share: dict[str, float] = Field(description="Fraction of the flow's life under each arm")


class Estimate(Answer):
    """The reward that the policy expects if one flow runs one arm. Rewards are normalised: 1 is the highest
    reward of late.
    """

    arm: str = Field(examples=["bbr"])
    mean: float = Field(description="Expected reward")
    lower: float = Field(description="Lower confidence bound of the reward")
    upper: float = Field(description="Upper confidence bound of the reward, by which LinUCB chooses")


class Switch(Answer):
    """One switch of a flow, or the daemon's advice to switch."""

    time: float = Field(description="Unix time, s")
    age_s: float = Field(description="Time since the switch")
    before: str | None = Field(description="The arm that the flow left")
    after: str | None = Field(description="The arm that the flow went to, or should go to")
    cause: Literal[
        "policy",
        "team_selection",
        "operator",
        "fallback",
        "mode",
        "elsewhere",
        "held",
        "experiment",
        "exploration",
        "visit",
    ]
    carried_out: bool = Field(description="False if mode advise kept the flow on its arm")
    sentence: str = Field(description="The switch and its reason, for people")


class PathNumber(Answer):
    """A number that describes a flow's path. A look is a measurement over a quarter of a second and two round
    trips at least; the value is the mean over the last looks that observed the number.
    """

    name: str = Field(examples=["propagation_rtt"])
    unit: str = Field(examples=["ms"])
    value: float | None = Field(description="Mean of the number; null if it was not observed")
    error: float | None = Field(description="Standard error of the mean; null after a single look")
    age_s: float | None = Field(description="Time since the last look that observed the number")


class Why(Answer):
    """The reason why a flow runs its arm, with the policy's estimates and the flow's last switches."""

    sentence: str = Field(description="The reason, for people")
    advised: str | None = Field(description="The arm that the policy would give the flow instead")
    estimates: list[Estimate] = Field(description="Estimates by arm; empty if the policy has none")
    path: list[PathNumber] = Field(
        default=[], description="The known numbers of the path; empty if the policy has no model of it"
    )
    switches: list[Switch] = Field(description="The last five switches, newest first")


class FlowHistory(Answer):
    """A flow's last minutes, with a point for each second, oldest first. All lists have the same length."""

    kept: bool = Field(description="Whether the flow has a history. Only 4,096 flows have one")
    time: list[float] = Field(description="Unix time, s")
    goodput_mbps: list[float] = Field(description="Newly acknowledged data since the previous point")
    srtt_ms: list[float | None] = Field(description="Smoothed RTT at the point; null if unknown")
    loss: list[float] = Field(description="Loss rate, 0 to 1, since the previous point")
    arm: list[str | None] = Field(description="The protocol that was steering the flow at the point")


class FlowDetail(Flow):
    """One TCP flow, and the reason why it runs its arm."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**FLOW_EXAMPLE, "why": WHY_EXAMPLE}]})

    why: Why


class FlowRow(Flow):
    """One TCP flow in a page of flows, with its past if the request asks for the past."""

    history: FlowHistory | None = Field(
        default=None, description="The flow's last minutes, if the request asks for them"
    )


class Totals(Answer):
    """The last minutes of all flows together, by the arm that the flows ran, with a point for each second,
    oldest first.
    """

    time: list[float] = Field(description="Unix time, s")
    goodput_mbps: dict[str, list[float]] = Field(description="Newly acknowledged data")
    flows: dict[str, list[int]] = Field(description="Number of flows")


class FlowList(Answer):
    """Some flows, the number of all flows that match, and the place where the next page begins."""

    flows: list[FlowRow]
    total: int = Field(description="Flows that match the filter, on all pages")
    next_cursor: str | None = Field(
        default=None,
        description="`cursor` of the next page; null on the last page, and if the order is not by cookie",
    )


class FlowPage(FlowList):
    """A page of flows."""

    limit: int = Field(description="Largest number of flows on the page")
    offset: int = Field(description="Number of flows that were skipped")


class Arm(Answer):
    """One congestion control that `mutant` knows, and whether flows can run it on this kernel."""

    id: int = Field(description="The kernel module's id")
    name: str = Field(examples=["bbr"])
    state: Literal["unavailable", "available", "refused"]
    kind: Literal["kernel", "learned", "extra"]
    reason: str | None = Field(default=None, description="The reason why the arm is unavailable or refused")


class ArmList(Answer):
    """All arms, by id."""

    arms: list[Arm]


class Kept(Answer):
    """Whether the daemon could write a change to disk. The change is in force in either case."""

    saved: bool = Field(
        default=True,
        description=(
            "False if the change is in force but could not be written. The next start does not know it then"
        ),
    )
    save_error: str | None = Field(default=None, description="The reason why the change could not be written")


class Pool(Answer):
    """The arms among which the daemon chooses, and the teams: the best arms that MPTS, the team selection of
    Mutant, has picked for a prefix.
    """

    arms: list[str] = Field(
        description="The arms among which the daemon chooses for a prefix without a team",
        examples=[["cubic", "bbr", "vegas"]],
    )
    teams: dict[str, list[str]] = Field(
        description="The arms of each team that MPTS has picked, by destination prefix",
        examples=[{"192.0.2.0/24": ["bbr", "vegas"]}],
    )


class PoolChange(Pool, Kept):
    """The pool after a change."""


class PoolRequest(Request):
    """The arms among which the daemon is to choose. MPTS, the team selection of Mutant, picks teams from the
    same arms.
    """

    arms: Annotated[list[ArmName], Field(min_length=1, max_length=20)] = Field(
        description="Names of available arms, each once", examples=[["cubic", "bbr", "vegas"]]
    )


class TeamSize(Answer):
    """The size k of teams: the number of arms that MPTS, the team selection of Mutant, picks for a prefix."""

    k: int = Field(examples=[6])


class TeamSizeChange(TeamSize, Kept):
    """The size k of teams (the number of arms picked for a prefix) after a change."""

    note: str | None = Field(
        default=None,
        description=(
            "The reason why teams are smaller than requested, or why none is picked yet; null if "
            "team selections of the requested size start"
        ),
    )


class TeamSizeRequest(Request):
    """The size k of teams to set: the number of arms picked for a prefix."""

    k: Annotated[int, Field(ge=_K.minimum, le=_K.maximum)] = Field(
        description="Size of the team. A size above the number of arms in the pool stands for all of them",
        examples=[6],
    )


class PinChange(Flow, Kept):
    """The flow after it was pinned to an arm, or unpinned."""


class PinRequest(Request):
    """A request to hold a flow at an arm."""

    arm: ArmName = Field(description="Name of an available arm", examples=["bbr"])


class ArmRequest(Request):
    """A request to load a congestion control of this kernel as an arm."""

    name: ArmName = Field(description="Name of the congestion control in the kernel", examples=["yeah"])


class ModeState(Answer):
    """The daemon's mode."""

    mode: Mode = Field(
        description="active: carry out decisions; advise: only log decisions; off: make no decisions"
    )


class ModeChange(ModeState, Kept):
    """The mode after a change."""


class ModeRequest(Request):
    """The mode to set."""

    mode: Mode = Field(
        description="active: carry out decisions; advise: only log decisions; off: make no decisions"
    )


class SessionRequest(Request):
    """A request for an address that opens a session in a browser."""

    scope: Literal["read", "write"] = Field(description="write: the browser may change things")


class SessionAddress(Answer):
    """An address that opens the dashboard once, in one browser."""

    url: str = Field(
        description="The address that the browser opens", examples=["http://127.0.0.1:9480/?code=7Hq…"]
    )
    expires_in_s: float = Field(description="Time in which the address works, s", examples=[60.0])


class LearnedStatus(Answer):
    """Counters of one learned arm (a congestion control with a trained policy) since the daemon's start."""

    intervals: int = Field(description="Batches of decisions, each for all flows of the arm")
    decisions: int = Field(description="Decisions: batches times flows")
    controls: int = Field(description="Decisions that changed the kernel's parameters")
    seconds: float = Field(description="Time spent on deciding")


class Status(Answer):
    """The daemon's state. Counts are since its start."""

    version: str
    pid: int
    uptime_s: float
    mode: Mode
    faults: list[str] = Field(description="Faults that keep the daemon from a part of its task, in sentences")
    policy: str = Field(description="The chooser; `mutant` is Algorithm 1 of the paper")
    step_ms: float = Field(description="Time between decisions that the policy and the arms in use need")
    idle_step_ms: float = Field(description="Time between decisions while no flow moves data")
    flows: int = Field(description="Flows under `mutant`")
    flows_max: int = Field(
        description=("Largest number of flows at a time: `kernel.flows_max`, or fewer if memory holds fewer")
    )
    flows_refused: int = Field(description="Connections that could not be steered, because there was no room")
    median_rtt_ms: float | None = Field(
        default=None, description="Median smoothed RTT of all flows; null if no flow has one"
    )
    busy: bool = Field(description="Whether a flow has moved data lately. An idle daemon takes fewer steps")
    pool: list[str] = Field(description="The arms among which the daemon chooses for a prefix without a team")
    k: int = Field(description="Number of arms in the teams that MPTS picks")
    searches: int = Field(description="Team selections under way")
    teams: int = Field(description="Destination prefixes with a team")
    steps: int
    missed_steps: int = Field(description="Number of steps that were left out because another step still ran")
    last_step_age_ms: float = Field(description="Time since the last step")
    step_p50_ms: float = Field(description="Median duration of a step")
    step_p99_ms: float = Field(description="99th percentile of the duration of a step")
    decisions: int = Field(
        description="Number of decisions: the sum over all steps of the flows that got one"
    )
    changes: int = Field(description="Number of decisions for another arm than the flow's")
    fallbacks: int = Field(description="Times that the kernel sent a flow to the fallback arm")
    log_rows_written: int = Field(description="Rows written to the decision log")
    log_rows_dropped: int = Field(description="Rows lost because the log's disk was full or too slow")
    learned: dict[str, LearnedStatus] = Field(description="The learned arms in use, by name")


class Health(Answer):
    """The answer of a healthy service. If the service is not healthy, the answer is a problem
    of status 503.
    """

    live: Literal[True] = Field(description="This process answers")
    ready: Literal[True] = Field(description="The daemon answers and steps on time")
    mode: Mode
    faults: list[str] = Field(
        description="The faults that the status names. With a fault the daemon works, but not fully"
    )
    last_step_age_ms: float = Field(description="Time since the daemon's last step")
