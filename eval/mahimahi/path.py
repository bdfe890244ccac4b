# SPDX-License-Identifier: Apache-2.0
"""A scenario's link in the form of mahimahi's shells: delivery traces, a queue, losses and delays."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.schedule import link_trace, queue_packets
from ltp_switcher.eval.run.road import ROAD_KEYS
from ltp_switcher.eval.run.scenario import DROP_TAIL, PACKET_BYTES, Link, Scenario
from ltp_switcher.eval.run.schemes import KERNEL_ARMS, PINNED_PREFIX, resolve
from ltp_switcher.policies.simulator.delivery_traces import TraceArray

DRAIN_MS: Final = 10_000
"""Time in ms for which the link goes on after the scenario's end, while the last data arrive."""
LEAD_MS: Final = 4_000
LEAD_PER_SHELL_MS: Final = 1_000
"""Time in ms that each shell adds to the time between the link's start and the flows' start. The link's clock
starts with its own shell, and further shells take time to start.
"""
_RETURN_PER_MS: Final = 10
"""Delivery opportunities a millisecond on the way back: more than the acknowledgements of any link need."""
_ELSEWHERE: Final = "only with --engine lab: mahimahi has"


@dataclass(frozen=True, slots=True)
class ShellPath:
    """The arguments of mahimahi's shells for a run.

    `up_ms` is the trace of the data's direction, shape (opportunities,), in ms since the link's start. The
    scenario begins `lead_ms` after the link's start. `delays_ms` has the one-way delay of each different RTT.
    `delay_of` has each flow's index into `delays_ms`. `loss` is a share, 0..1.
    """

    up_ms: Ints
    queue_pkts: int
    loss: float
    delays_ms: tuple[int, ...]
    delay_of: tuple[int, ...]
    lead_ms: int

    def up_trace(self) -> str:
        """Return the trace of the data's direction in the form that mm-link reads."""
        return "\n".join([*map(str, self.up_ms.tolist()), ""])

    def down_trace(self) -> str:
        """Return the trace of the way back, on which no packet waits longer than a millisecond."""
        return "1\n" * _RETURN_PER_MS


def check_emulable(scenario: Scenario, protocols: Collection[str]) -> None:
    """Refuse a scenario that mahimahi cannot run on a kernel with these congestion controls.

    Raises:
        ConfigError: mahimahi cannot run the scenario; the error names the field.
    """
    link = scenario.link
    for index, step in enumerate(link.steps):
        for key in ("rtt_ms", "loss"):
            value = getattr(step, key)
            if value is not None:
                raise ConfigError(f"link.step[{index}].{key}", value, f"{_ELSEWHERE} no steps of it")
    if link.police_mbps is not None:
        raise ConfigError("link.police_mbps", link.police_mbps, f"{_ELSEWHERE} no policer")
    if link.queue != DROP_TAIL:
        raise ConfigError("link.queue", link.queue, f"{_ELSEWHERE} no queue discipline but {DROP_TAIL}")
    if link.jitter_ms:
        raise ConfigError("link.jitter_ms", link.jitter_ms, f"{_ELSEWHERE} no jitter")
    for key, given in zip(ROAD_KEYS, asdict(link.road).values(), strict=True):
        if given:
            raise ConfigError(f"link.{key}", given, f"{_ELSEWHERE} no {key}")
    if scenario.cross is not None:
        raise ConfigError("cross", "tables", f"{_ELSEWHERE} no traffic beside the flows")
    if scenario.paths:
        raise ConfigError("path", [path.name for path in scenario.paths], f"{_ELSEWHERE} one path, [link]")
    if scenario.requests is not None:
        raise ConfigError("requests", scenario.requests.kind, f"{_ELSEWHERE} no web server")
    for index, flow in enumerate(scenario.flows):
        _check_scheme(f"flow[{index}].scheme", flow.scheme, protocols)


def _check_scheme(field: str, name: str, protocols: Collection[str]) -> None:
    scheme = resolve(name)
    if scheme.policy is not None or scheme.rate_mbps is not None or scheme.measured or scheme.bpftune:
        here = [known for known in (*KERNEL_ARMS, "reno") if known in protocols]
        if "mutant" in protocols:
            here.append(f"{PINNED_PREFIX}<arm>")
        allowed = f"{', '.join(here)} with --engine mahimahi; nobody chooses arms there, and no rate is fixed"
        raise ConfigError(field, name, allowed)
    if scheme.protocol not in protocols:
        ready = ", ".join(sorted(protocols))
        raise ConfigError(
            field, name, f"a protocol of this kernel ({ready}); `modprobe tcp_{scheme.protocol}` may add it"
        )


def with_whole_delays(scenario: Scenario) -> Scenario:
    """Return the scenario with the RTTs that mm-delay can make: even numbers of ms. The queue keeps its
    length.

    Raises:
        ConfigError: the link's trace is not there.
    """
    queue_pkts = queue_packets(scenario, link_trace(scenario))
    # One packet of the queue is in service, and does not belong to the buffer.
    link = replace(scenario.link, rtt_ms=_even(scenario.link.rtt_ms), buffer_pkts=queue_pkts - 1)
    flows = tuple(
        flow if flow.rtt_ms is None else replace(flow, rtt_ms=_even(flow.rtt_ms)) for flow in scenario.flows
    )
    return replace(scenario, link=link, flows=flows)


def _even(rtt_ms: float) -> float:
    return 2.0 * max(1, math.floor(rtt_ms / 2 + 0.5))


def shell_path(scenario: Scenario) -> ShellPath:
    """Return the arguments of mahimahi's shells for a scenario whose RTTs are even numbers of ms.

    Raises:
        ConfigError: the link's trace is not there.
    """
    trace = link_trace(scenario)
    ways_ms = [round((flow.rtt_ms or scenario.link.rtt_ms) / 2) for flow in scenario.flows]
    delays_ms = tuple(dict.fromkeys(ways_ms))
    lead_ms = LEAD_MS + LEAD_PER_SHELL_MS * len(delays_ms)
    end_ms = lead_ms + math.ceil(scenario.duration_s * 1e3) + DRAIN_MS
    up_ms = _of_rates(scenario.link, lead_ms, end_ms) if trace is None else _of_trace(trace, lead_ms, end_ms)
    return ShellPath(
        up_ms=up_ms,
        queue_pkts=queue_packets(scenario, trace),
        loss=scenario.link.loss,
        delays_ms=delays_ms,
        delay_of=tuple(delays_ms.index(way_ms) for way_ms in ways_ms),
        lead_ms=lead_ms,
    )


def _of_rates(link: Link, lead_ms: int, end_ms: int) -> Ints:
    """Return the opportunities of a link whose rate changes in steps. Before the scenario begins, the link
    has its first rate.
    """
    pkts_per_ms = np.zeros(end_ms)
    for state in link.states():
        at_ms = lead_ms + round(state.at_s * 1e3) if state.at_s else 0
        pkts_per_ms[at_ms:] = (state.rate_mbps or 0.0) * 1e3 / (8 * PACKET_BYTES)
    # The sum of many floats falls a little short of the whole numbers that it stands for.
    total = np.floor(np.cumsum(pkts_per_ms) + 1e-6).astype(np.int64)
    return np.repeat(np.arange(1, end_ms + 1), np.diff(total, prepend=0))


def _of_trace(trace: TraceArray, lead_ms: int, end_ms: int) -> Ints:
    """The trace from the scenario's begin on, again and again. One opportunity at the end closes the file."""
    period_ms = int(trace[-1])
    begins_ms = np.arange(lead_ms, end_ms, period_ms)
    times_ms = (begins_ms[:, None] + trace.astype(np.int64)).ravel()
    return np.append(times_ms[times_ms < end_ms], end_ms)
