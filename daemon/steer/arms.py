# SPDX-License-Identifier: Apache-2.0
"""The learned arms in use: their policies, their flows and their controls.

An arm is a congestion control that a flow can run. A learned arm has a policy, for example a neural network,
which decides here. The kernel module executes the last decision, the control. A policy is imported when its
first flow comes, or at the start if the settings name it. So a daemon that runs only the kernel's own
protocols pays nothing.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Ints, Slots
from ltp_switcher.daemon.datapath import ArmInfo, ControlArray, RecordArray, protocol
from ltp_switcher.daemon.settings.schema import LearnedSection
from ltp_switcher.daemon.steer.ensemble import ALONE, Together, numbers, shared, with_lowest_rtt
from ltp_switcher.daemon.steer.monitor import Monitor
from ltp_switcher.daemon.steer.phases import Schedule, phases_of
from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies.runtime.arm import PARAMETERS, Arm, Law, SharesWindow
from ltp_switcher.policies.runtime.declaration import Variant, declarations
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge, UsesNetworkKnowledge

log = logging.getLogger(__name__)

LEARNED: Final = {arm.value: arm.name.lower() for arm in protocol.ArmId if arm.name.lower() in declarations()}
"""Names of the learned arms by id, in the order of the ids. A name is also the folder of the arm's policy."""
IS_LEARNED: Final = np.isin(np.arange(256), list(LEARNED))
"""True at the ids of learned arms, shape (256,)."""
LOOK_AGAIN_NS: Final = 1_000_000_000
"""Longest pause between two steps, in ns, after which policies still remember their flows. After a pause that
is longer than this and than `LOOK_AGAIN_STEPS` steps, every flow begins anew, because its history is stale.
"""
LOOK_AGAIN_STEPS: Final = 3

BATCH_MAX: Final = 1024
"""Largest number of flows for which a policy decides at once. LTP's network takes about two milliseconds for
this number of flows.
"""

_LAWS: Final = {law: int(protocol.ControlLaw[law.name]) for law in Law}
_UNIT: Final = {Law.WINDOW: 1, Law.AIMD: protocol.CONTROL_ONE, Law.CUBIC: protocol.CONTROL_ONE}
_VALUES: Final = np.zeros(1), np.full(1, 2.0**32 - 1)
"""The least and the largest value of a control, which has 32 bits."""

Loader = Callable[[str], Arm]


def loader(settings: LearnedSection) -> Loader:
    """Make the function that imports a policy by name, in the variant that the settings choose.

    The returned function raises `ArtifactError` if the policy's weights are missing or damaged.
    """
    options: dict[str, dict[str, object]] = {"spine": {"interval_s": settings.spine_interval_ms / 1e3}}

    def load(name: str) -> Arm:
        make: Callable[..., Arm] = import_module(f"ltp_switcher.policies.{name}").make_arm
        return make(chosen_variant(name, settings), **options.get(name, {}))

    return load


def with_policies(arms: Iterable[ArmInfo], settings: LearnedSection) -> list[ArmInfo]:
    """Return the kernel module's arms. A learned arm is unavailable if it lacks the weights that the settings
    ask for.
    """
    return [_with_policy(arm, settings) if arm.id in LEARNED else arm for arm in arms]


def missing_weights(name: str, settings: LearnedSection) -> str | None:
    """Return the reason why the policy `name` lacks the weights that the settings ask for; None if it has
    them.
    """
    weights = chosen_variant(name, settings).weights
    if weights is None or weights.exists():
        return None
    return f"no trained weights ({weights.name}): `make train-{name}`"


def can_begin(arm: int, settings: LearnedSection) -> bool:
    """Whether a flow can begin on the arm with this id. That is so for arms of the kernel, and for learned
    arms whose control is a window. `settings` choose the variants of the learned arms.
    """
    return arm not in LEARNED or chosen_variant(LEARNED[arm], settings).law is Law.WINDOW


def chosen_variant(name: str, settings: LearnedSection) -> Variant:
    """Return the variant of a learned arm that the settings ask for: a set of weights, or a way to decide.
    Without a request, it is the arm's first variant.
    """
    variants = declarations()[name].variants
    return next((variant for variant in variants if variant.name in settings.variants), variants[0])


def _with_policy(arm: ArmInfo, settings: LearnedSection) -> ArmInfo:
    reason = missing_weights(arm.name, settings) if arm.available else None
    if reason is None:
        return arm
    return dataclasses.replace(arm, state=protocol.ArmState.UNAVAILABLE, reason=reason)


def controls(cookies: np.ndarray, arm: int, law: Law, parameters: Floats, number: int = 0) -> ControlArray:
    """Make the controls of n flows, `CONTROL_DTYPE`, shape (m ≤ n,). Flows with a NaN parameter get none.

    Args:
        cookies: cookies of the flows, shape (n,).
        arm: id of the arm that the controls are for.
        law: the control law to which the parameters belong.
        parameters: shape (n, PARAMETERS[law]), in the law's own units.
        number: number of the control, which only a control of `Law.WINDOW` carries. The kernel reports it
            back with the fate of the packets that were sent under the control.
    """
    told = np.flatnonzero(~np.isnan(parameters).any(axis=1))
    made = np.zeros(told.size, protocol.CONTROL_DTYPE)
    made["cookie"] = cookies[told]
    made["arm"] = arm
    made["law"] = _LAWS[law]
    values = np.rint(parameters.take(told, axis=0) * _UNIT[law])
    made["value"][:, : PARAMETERS[law]] = values.clip(*_VALUES)
    if law is Law.WINDOW:
        made["value"][:, PARAMETERS[law]] = number % 2**32
    return made


@dataclass(slots=True)
class Batches:
    """Counters of one arm's decisions since the daemon's start."""

    count: int = 0
    """Number of batches. A batch has the decisions for all flows of an arm whose intervals end in the same
    step.
    """
    flows: int = 0
    """Number of decisions, one for each flow of each batch."""
    controls: int = 0
    """Number of controls that the decisions led to."""
    seconds: float = 0.0
    """Time spent on deciding, in seconds."""


@dataclass(slots=True)
class _Running:
    """An arm with its flows."""

    id: int
    arm: Arm
    monitor: Monitor
    heeds: UsesNetworkKnowledge | None
    """The same arm if it uses reports of the network; otherwise None."""
    schedule: Schedule
    slots: Slots = field(default_factory=lambda: np.zeros(0, np.int64))
    """Slots of the arm's flows in the last step. `rows` has the places of these flows' records among all
    records of the step.
    """
    rows: Ints | slice = field(default_factory=lambda: slice(None))
    batches: Batches = field(default_factory=Batches)


class LearnedArms:
    """Makes the decisions for all flows that run a learned arm. Each flow gets one decision per interval of
    its arm, such as 30 ms.

    Args:
        step_s: time between two calls of `step`, in seconds; it may change. An interval ends with the step
            nearest to its end.
        load: makes an arm by its name. It raises `ArtifactError` if the weights are missing or damaged.
        network: returns the reports of routers about their queues, for the arms that use them.
        together: tells which flows are siblings, that is, share a bottleneck. Siblings share their windows.
        paths: returns the path of each flow. All flows of a path get their decisions in the same step.
    """

    def __init__(
        self,
        step_s: float,
        load: Loader,
        network: Callable[[], NetworkKnowledge | None] = lambda: None,
        *,
        together: Together = ALONE,
        paths: Callable[[Slots], Sequence[Hashable]] = np.ndarray.tolist,
    ) -> None:
        self._load = load
        self._network = network
        self.step_s = step_s
        self.rtt_quarters = 0
        """Least time between reports of a flow, in quarters of its RTT."""
        self._together = together
        self._paths = paths
        self.breathe: Callable[[], object] = lambda: None
        """A function that is called between batches of decisions."""
        self._running: dict[int, _Running] = {}
        self._stepped_ns = 0
        # The slots of the last step and the bytes of their arms. They seldom change, and then no flow is
        # sorted anew.
        self._sorted: tuple[Ints, bytes] | None = None
        self.failed: dict[int, str] = {}
        """The reason why an arm could not be loaded, by the arm's id."""

    @property
    def batches(self) -> dict[int, Batches]:
        """The counters of each loaded arm, by id."""
        return {running.id: running.batches for running in self._running.values()}

    @property
    def needed_step_s(self) -> float:
        """The longest step in seconds that is short enough for all arms that have flows; infinite if no arm
        has any.
        """
        used = (running.arm.interval_s for running in self._running.values() if running.monitor.slots.size)
        return min(used, default=inf)

    def load(self, arms: Iterable[int]) -> None:
        """Load the learned arms among these ids. Raises `ArtifactError`."""
        for arm in arms:
            if arm in LEARNED and arm not in self._running:
                policy = self._load(LEARNED[arm])
                heeds = policy if isinstance(policy, UsesNetworkKnowledge) else None
                self._running[arm] = _Running(arm, policy, Monitor(), heeds, Schedule(policy.interval_s))
                interval_s = max(policy.interval_s, self.step_s)
                log.info("arm %s: decides every %g ms", LEARNED[arm], interval_s * 1e3)

    def step(self, slots: Slots, records: RecordArray, now_ns: int) -> ControlArray:
        """Take in a step's records and return the controls to send, `CONTROL_DTYPE`, shape (m,).

        Args:
            slots: slots of the flows, shape (n,), each once. While the flows stay the same, pass the same
                array object, not a copy.
            records: records of these flows, `RECORD_DTYPE`, shape (n,). A flow that is left out keeps its
                measurements.
            now_ns: time at which the records were read, CLOCK_MONOTONIC in ns.
        """
        if now_ns - self._stepped_ns > max(LOOK_AGAIN_NS, LOOK_AGAIN_STEPS * self.step_s * 1e9):
            self._sorted = None
            for running in self._running.values():
                running.monitor.leave(running.monitor.slots)
        self._stepped_ns = now_ns
        if slots.size:
            self._observe(slots, records, now_ns)
        made = [
            self._decide(running, phase, now_ns)
            for running in self._running.values()
            for phase in running.schedule.due(running.monitor.deal.flows, now_ns, self._tolerance_ns(running))
        ]
        if len(made) == 1:
            return made[0]
        return np.concatenate(made) if made else _NONE

    def forget(self, slots: Slots) -> None:
        """Let policies forget these flows. A forgotten flow that still sends begins as if it had just come to
        its arm.
        """
        for running in self._running.values():
            running.monitor.leave(slots[slots < running.monitor.capacity])
        self._sorted = None

    def _load_for(self, active: np.ndarray) -> None:
        for arm in set(active.tolist()) & (LEARNED.keys() - self._running.keys() - self.failed.keys()):
            try:
                self.load([arm])
            except ArtifactError as error:
                self.failed[arm] = str(error)
                log.error(
                    "arm %s has no policy, so the kernel alone controls its flows: %s", LEARNED[arm], error
                )

    def _observe(self, slots: Slots, records: RecordArray, now_ns: int) -> None:
        active = records["arm"]
        seen = active.tobytes()
        if self._sorted is None or self._sorted[0] is not slots or self._sorted[1] != seen:
            self._sort_out(slots, records, now_ns)
            self._sorted = slots, seen
            return
        for running in self._running.values():
            if running.slots.size:
                running.monitor.observe(running.slots, _taken(records, running.rows), now_ns)

    def _sort_out(self, slots: Slots, records: RecordArray, now_ns: int) -> None:
        """Take in a step whose flows, or whose flows' arms, are not the same as in the step before."""
        active = records["arm"]
        self._load_for(active)
        for running in self._running.values():
            monitor = running.monitor
            ours = active == running.id
            monitor.grow(int(slots.max()) + 1)
            monitor.leave(slots[~ours])
            running.slots = mine = slots[ours]
            running.rows = slice(None) if ours.all() else np.flatnonzero(ours)
            if not mine.size:
                continue
            found = _taken(records, running.rows)
            watched = monitor.watches(mine)
            if watched.all():
                monitor.observe(mine, found, now_ns)
                continue
            if watched.any():
                monitor.observe(mine[watched], _taken(found, watched), now_ns)
            self._begin(running, mine[~watched], _taken(found, ~watched), now_ns)

    def _begin(self, running: _Running, slots: Slots, records: RecordArray, now_ns: int) -> None:
        flows = running.monitor.deal.flows.copy()
        phases = self._phases(running)
        dealt = running.monitor.begin(slots, records, now_ns, phases=phases, paths=self._paths(slots))
        for phase in sorted(set(dealt.tolist())):
            if not flows[phase]:
                running.schedule.open(phase, flows, phases, now_ns)
                flows[phase] = running.monitor.deal.flows[phase]
        running.arm.begin(slots, records["snd_cwnd"].astype(np.float64))

    def _decide(self, running: _Running, phase: int, now_ns: int) -> ControlArray:
        """End the interval of a phase's flows, and make their decisions in one batch."""
        began_ns = time.perf_counter_ns()
        running.schedule.end(
            phase, running.monitor.deal.flows, self._phases(running), now_ns, self._tolerance_ns(running)
        )
        watched = running.monitor.slots
        slots, interval = running.monitor.close(now_ns, phase, self.rtt_quarters)
        if running.monitor.slots is not watched:
            # A flow stopped. It begins anew when it comes back.
            self._sorted = None
        fresh, window_pkts = running.monitor.fresh
        if fresh.size:
            running.arm.begin(fresh, window_pkts)
        if not slots.size:
            return _NONE
        if running.heeds is not None:
            running.heeds.network_knowledge = self._network()
        parameters = self._parameters(running.arm, slots, interval)
        number = int(running.monitor.interval[phase])
        made = controls(running.monitor.cookie[slots], running.id, running.arm.law, parameters, number)
        running.batches.count += 1
        running.batches.flows += slots.size
        running.batches.controls += made.size
        running.batches.seconds += (time.perf_counter_ns() - began_ns) * 1e-9
        return made

    def _parameters(self, arm: Arm, slots: Slots, interval: Interval) -> Floats:
        if not isinstance(arm, SharesWindow) or (players := self._together(slots)) is None:
            return self._decisions(arm, slots, interval)
        arm.crowd(slots, numbers(players), interval.index)
        parameters = self._decisions(arm, slots, with_lowest_rtt(players, interval))
        window_pkts = shared(players, parameters[:, 0], interval.leaves_unused(parameters[:, 0]))
        arm.displace(slots, window_pkts)
        return window_pkts[:, None]

    def _decisions(self, arm: Arm, slots: Slots, interval: Interval) -> Floats:
        if slots.size <= BATCH_MAX:
            return arm.decide(slots, interval)
        parts = []
        for first in range(0, slots.size, BATCH_MAX):
            rows = np.arange(first, min(first + BATCH_MAX, slots.size))
            parts.append(arm.decide(slots[rows], interval.rows(rows)))
            self.breathe()
        return np.concatenate(parts)

    def _tolerance_ns(self, running: _Running) -> float:
        return min(self.step_s, running.arm.interval_s) * 0.5e9

    def _phases(self, running: _Running) -> int:
        return phases_of(running.arm.interval_s, self.step_s)


def _taken(records: RecordArray, rows: Indices | Bools | slice) -> RecordArray:
    """Return these rows of the records, shape (m,)."""
    if isinstance(rows, slice):
        return records[rows]
    # The records are copied as opaque bytes, because numpy copies records with fields at 50 times the cost.
    taken: RecordArray = records.view(_OPAQUE)[rows].view(protocol.RECORD_DTYPE)
    return taken


_NONE: Final = np.zeros(0, protocol.CONTROL_DTYPE)
_OPAQUE: Final = np.dtype(f"V{protocol.RECORD_DTYPE.itemsize}")
