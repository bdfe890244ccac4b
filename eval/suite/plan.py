# SPDX-License-Identifier: Apache-2.0
"""The plan of a suite: which schemes run on which paths with which seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.script import USUAL_PLACE, Place
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Flow, Scenario
from ltp_switcher.eval.run.schemes import BPFTUNE, DAEMON_SCHEMES, KERNEL_ARMS, check_scheme
from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.run.trace_files import locate_trace
from ltp_switcher.eval.suite import paths
from ltp_switcher.eval.suite.studies import CHANGED
from ltp_switcher.policies.simulator.delivery_traces import model_trace, read_trace

ARMS: Final = ("bbr", "vegas", "ltp", "cubic")
KNOWN: Final = "known"
LATER: Final[Mapping[str, tuple[str, str]]] = {
    KNOWN: ("switcher", "switcher"), "bbr-later": ("switcher", "bbr"), "vegas-later": ("switcher", "vegas"),
    BPFTUNE: (BPFTUNE, BPFTUNE),
}  # fmt: skip
"""Schemes for a path that `EARLIER` connections have used before: the scheme of these connections, and the
later connection's scheme.

`bbr-later` and `vegas-later` run a single arm on the link that the earlier connections leave behind. A slow
link is still full then. So these two schemes, and not `bbr` and `vegas`, can be compared with `known`.
"""
EARLIER: Final = 10
EARLIER_S: Final = 2.8
PAUSE_S: Final = 0.2
"""Pause in seconds after each of the earlier connections, which last `EARLIER_S` seconds."""
FULL: Final[Mapping[str, int]] = {
    "rule": 3, "ltp": 3, "bbr": 3, "vegas": 3, "cubic": 2, KNOWN: 1, "bandit": 1, "jury": 1, "spine": 1,
    "random": 1, "epsilon-greedy": 1, "linucb": 1, "paper-preset": 1, BPFTUNE: 1,
}  # fmt: skip
"""Schemes of `make eval` with their numbers of seeds. The schemes that matter most get the most seeds.

All runs together take about ten hours on 2 cores. Twice as many seeds would take a night and a day."""
QUICK: Final[Mapping[str, int]] = {"rule": 1, **dict.fromkeys(ARMS, 1)}
QUICK_PATHS: Final = (
    "fixed-1", "large-queue-1", "lossy-1", "slow-1", "rate-steps-1", "rtt-steps-1", "trace-1", "trace-4",
)  # fmt: skip
QUICK_FACTOR: Final = 2.0
"""Factor by which times are shorter in a quick run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the plan: a scheme on a path, which `path` names."""

    path: str
    kind: str
    scheme: str
    job: Job


def is_arm(scheme: str) -> bool:
    """Return whether a scheme is a single arm, which may be the best in hindsight."""
    return not any(scheme in of for of in (DAEMON_SCHEMES, LATER, CHANGED))


def lasting(scenario: Scenario) -> bool:
    """Return whether the results of a scenario stay valid when the daemon changes: none of its flows needs
    the daemon, and all run the kernel's own congestion controls.
    """
    return {scenario.scheme, *(flow.scheme for flow in scenario.flows)} <= set(KERNEL_ARMS)


def plan(
    set_name: str,
    schemes: Mapping[str, int],
    kernel: str,
    *,
    quick: bool,
    names: Sequence[str] = (),
    daemon: Place = USUAL_PLACE,
) -> list[Run]:
    """Return the runs of a set of paths. All runs of a path are together.

    Args:
        set_name: name of the set, as in `paths.load`.
        schemes: number of seeds by scheme.
        kernel: series.
        quick: whether the paths are shorter. The suite's own sets then have fewer paths, too.
        names: names of the paths; empty for all.
        daemon: place where the lab runs the daemon.

    Raises:
        ConfigError: there is no such path or scheme, or no arm among the schemes.
    """
    for scheme in schemes:
        if scheme not in LATER and scheme not in CHANGED:
            check_scheme("--schemes", scheme, more=(*LATER, *CHANGED))
    if not any(map(is_arm, schemes)):
        raise ConfigError("--schemes", list(schemes), "one arm at least, to compare with")
    known = paths.load(set_name)
    ours = set_name in paths.SETS
    wanted = names or (QUICK_PATHS if quick and ours else tuple(known))
    for name in wanted:
        if name not in known:
            raise ConfigError("--paths", name, f"one of {', '.join(known)}")
    seeds = paths.SEEDS.get(set_name, paths.OTHER_SEEDS)
    timed = {name: one.faster(QUICK_FACTOR) if quick else one for name, one in known.items()}
    return [
        Run(
            name,
            paths.kind(known[name]),
            scheme,
            Job(_with(timed[name], scheme), seed, kernel, daemon=daemon),
        )
        for name in wanted
        for scheme, count in schemes.items()
        if scheme not in LATER or _may_be_later(timed[name])
        for seed in seeds[:count]
    ]


def needed_arms(planned: Sequence[Run]) -> set[str]:
    """Return the arms of `ARMS` that are planned. If none of them is planned, return all planned arms."""
    arms = {run.scheme for run in planned if is_arm(run.scheme)}
    return arms & set(ARMS) or arms


def comparable(planned: Sequence[Run], made: Sequence[Run]) -> list[Run]:
    """Return the finished runs of the paths on which every one of `needed_arms` has run.

    The best of fewer arms would be a lower bar.
    """
    needed = needed_arms(planned)
    found: dict[str, set[str]] = {}
    for run in made:
        found.setdefault(run.path, set()).add(run.scheme)
    return [run for run in made if needed <= found[run.path]]


def _with(scenario: Scenario, scheme: str) -> Scenario:
    """Return the scenario with `scheme` on its web server, or else on its first flow. If all flows have the
    scenario's own scheme, they get `scheme`, too.
    """
    if scheme in LATER:
        return after_others(scenario, *LATER[scheme])
    if scheme in CHANGED:
        whole, settings = CHANGED[scheme]
        return _with(scenario, whole).with_settings(settings)
    switched = {flow.scheme for flow in scenario.flows} == {scenario.scheme}
    return scenario.with_scheme(scheme, every_flow=switched)


def _may_be_later(scenario: Scenario) -> bool:
    """Whether other flows can come before the scenario's only flow, and it still meets the same path."""
    steady = scenario.link.road.walk is None and not scenario.link.road.handovers
    return (
        len(scenario.flows) == 1
        and scenario.requests is None
        and steady
        and not (scenario.paths or scenario.cross)
    )


def after_others(scenario: Scenario, earlier: str, scheme: str) -> Scenario:
    """Return a scenario in which `EARLIER` flows under `earlier` use the path before the one flow of
    `scenario`, which runs `scheme`.

    This flow starts later, and the link's changes are delayed by the same time.
    """
    every_s = EARLIER_S + PAUSE_S
    lead_s = round(EARLIER * every_s, 3)
    scenario = scenario.with_scheme(earlier)
    (flow,) = scenario.flows
    others = [
        Flow(flow.scheme, round(n * every_s, 3), round(n * every_s + EARLIER_S, 3)) for n in range(EARLIER)
    ]
    link = scenario.link
    offset_s = link.offset_s
    if link.trace:
        file = locate_trace(link.trace)
        trace = model_trace() if file is None else read_trace(file)
        offset_s = (offset_s - lead_s) % (float(trace[-1]) / 1e3)
    return replace(
        scenario,
        duration_s=scenario.duration_s + lead_s,
        link=replace(
            link,
            offset_s=round(offset_s, 3),
            steps=tuple(replace(step, at_s=round(step.at_s + lead_s, 3)) for step in link.steps),
        ),
        flows=(
            *others,
            replace(flow, scheme=scheme, start_s=flow.start_s + lead_s, stop_s=flow.stop_s + lead_s),
        ),
    )


def judged(run: Run, summary: Summary) -> Summary:
    """Return the summary with only the flows that count for the run's scheme. These flows get the scheme's
    name.
    """
    if run.scheme in LATER:
        return replace(summary, scheme=run.scheme, flows=(replace(summary.flows[-1], scheme=run.scheme),))
    if run.scheme not in CHANGED:
        return summary
    whole, _ = CHANGED[run.scheme]
    flows = (replace(f, scheme=run.scheme) if f.scheme == whole else f for f in summary.flows)
    return replace(summary, scheme=run.scheme, flows=tuple(flows))
