# SPDX-License-Identifier: Apache-2.0
"""Run a scenario in the lab, and return the measurements."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import beside, kernels
from ltp_switcher.eval.lab.boot import BootResult, boot
from ltp_switcher.eval.lab.bpftune import bpftune_layers
from ltp_switcher.eval.lab.fingerprint import Inputs
from ltp_switcher.eval.lab.layers import GUEST, compiled, link_module
from ltp_switcher.eval.lab.measurements import check_bytes, flows_json, follower, guest_json, timeseries
from ltp_switcher.eval.lab.qemu import Companion
from ltp_switcher.eval.lab.roads import check_idle, encode_roads, on_roads, timeseries_of_paths
from ltp_switcher.eval.lab.schedule import capacity_mbps, encode, link_trace
from ltp_switcher.eval.lab.script import (
    DAEMON_CONFIG,
    PATIENCE_S,
    RESULTS,
    STATUS,
    USUAL_PLACE,
    GuestDaemon,
    Place,
    asks_for_steps,
    asks_network,
    cross_plans,
    daemon_config,
    daemon_of,
    flow_table,
    needs,
    script,
)
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.scenario import DROP_TAIL, PACKET_BYTES, Link, Scenario

_LIMIT_PER_VIRTUAL: Final = 60.0
_SETUP_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The raw results of a run by name, such as `timeseries.csv`, and the kernel's release.

    `virtual_s` counts from the guest's power-on. In a run through mahimahi it is the scenario's duration.
    `wall_s` is the host's time for the whole run.
    """

    files: dict[str, bytes]
    kernel: str
    virtual_s: float
    wall_s: float


def run_scenario(
    scenario: Scenario,
    *,
    scheme: str | None = None,
    seed: int = 1,
    kernel: str = "6.1",
    place: Place = USUAL_PLACE,
    on_progress: Callable[[Sample], None] | None = None,
) -> RunFiles:
    """Run `scenario` on a stock kernel and return its raw results.

    Args:
        scenario: the link and the flows.
        scheme: scheme that replaces the first flow's.
        seed: seed of losses, start times, and everything else that is random in the guest.
        kernel: series, such as "6.1"; see `kernels.known`.
        place: place of the daemon, if a scheme needs one.
        on_progress: function that takes the state of the first flow, every 0.5 virtual seconds.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: the guest failed, or the received bytes differ from the sent ones.
    """
    if scheme is not None:
        scenario = scenario.with_scheme(scheme)
    inputs = run_inputs(scenario, seed=seed, kernel=kernel, place=place)
    status = (STATUS,) if inputs.daemon is not None and inputs.daemon.tells_status else ()
    result = booted(
        inputs,
        collect=(f"{RESULTS}.csv", f"{RESULTS}.json", *status),
        on_line=follower(scenario, on_progress) if on_progress else None,
    )
    totals = json.loads(result.files[f"{RESULTS}.json"])
    check_bytes(scenario, totals)
    check_idle(scenario, totals)
    rows = list(csv.DictReader(io.StringIO(result.files[f"{RESULTS}.csv"].decode())))
    files = {
        "timeseries.csv": _timeseries(scenario, rows),
        "flows.json": flows_json(scenario, totals),
        "guest.json": guest_json(totals, json.loads(result.files[STATUS]) if status else {}),
    }
    return RunFiles(files, result.kernel, result.virtual_s, result.wall_s)


def _timeseries(scenario: Scenario, rows: list[dict[str, str]]) -> bytes:
    if on_roads(scenario):
        return timeseries_of_paths(scenario, rows)
    return timeseries(scenario, rows, capacity_mbps(scenario, link_trace(scenario)).tolist())


def boot_scenario(
    scenario: Scenario,
    *,
    seed: int,
    kernel: str,
    daemon: GuestDaemon | None,
    collect: Sequence[str],
    on_line: Callable[[str], None] | None = None,
) -> BootResult:
    """Boot a guest, run the scenario's flows over its link, and return the guest's files `collect`.

    Raises:
        ConfigError: the scenario's trace is missing.
        LabError: the guest failed, or its kernel complained.
    """
    return booted(_inputs(scenario, daemon, seed=seed, kernel=kernel), collect=collect, on_line=on_line)


def booted(
    inputs: Inputs,
    *,
    collect: Sequence[str],
    on_line: Callable[[str], None] | None,
    of_companion: Mapping[str, str] | None = None,
) -> BootResult:
    """Boot the guest of a run, let the run take place, and return the guest's files `collect`.

    `of_companion` has the files of a daemon beside the guest that take the place of guest files; see
    `Companion.collect`.

    Raises:
        LabError: the guest failed, or its kernel complained.
    """
    scenario = inputs.scenario
    patience_s = PATIENCE_S if scenario.requests else 0.0
    companion = companion_of(inputs.daemon, scenario, inputs.seed)
    if companion and of_companion:
        companion = replace(companion, collect=of_companion)
    result = boot(
        kernel=inputs.kernel,
        script=script(scenario, inputs.daemon),
        overlay=inputs.overlay,
        collect=collect,
        python=guest_python(scenario, inputs.daemon),
        seed=inputs.seed,
        memory_mb=inputs.memory_mb,
        timeout_s=_SETUP_S + _LIMIT_PER_VIRTUAL * (scenario.duration_s + patience_s),
        on_line=on_line,
        mutant=needs(scenario, "mutant"),
        layers=[*inputs.layers, *bpftune_layers(scenario)],
        companion=companion,
    )
    if not result.ok:
        raise LabError(
            f"{scenario.name}: the guest failed with {result.exit_code}:\n{result.console[-3000:]}"
        )
    if result.warnings:
        raise LabError(f"{scenario.name}: the kernel complained:\n" + "\n".join(result.warnings[:20]))
    return result


def guest_python(scenario: Scenario, daemon: GuestDaemon | None) -> bool | Literal["service"]:
    """Return the value of the argument `python` of `boot` for this scenario's guest."""
    if asks_network(scenario):
        return "service"
    return asks_for_steps(scenario) or (daemon is not None and daemon.place == "inside")


def daemon_files(daemon: GuestDaemon | None, scenario: Scenario, seed: int) -> dict[str, Path | bytes]:
    """Return the guest's files for its daemon, by guest path."""
    if daemon is None:
        return {}
    files: dict[str, Path | bytes] = {DAEMON_CONFIG: daemon_config(daemon, scenario, seed)}
    return files | ({beside.AGENT: beside.agent()} if daemon.place == "beside" else {})


def companion_of(daemon: GuestDaemon | None, scenario: Scenario, seed: int) -> Companion | None:
    """Return the process that runs beside the guest; None if the daemon does not run there.

    Raises:
        LabError: a part of it cannot be fetched or built.
    """
    if daemon is None or daemon.place == "inside":
        return None
    status = STATUS if daemon.tells_status else ""
    return beside.companion(daemon_config(daemon, scenario, seed), daemon.policy, status)


def overlay_of(
    scenario: Scenario, daemon: GuestDaemon | None, *, seed: int, kernel: str
) -> dict[str, Path | bytes]:
    """Return the files that only this run has in its guest, by guest path."""
    chosen = kernels.kernel(kernel)
    overlay: dict[str, Path | bytes] = {
        "lab/link.ko": link_module(chosen, module_of(scenario)),
        "lab/schedule": link_input(scenario, seed),
        "lab/flows": flow_table(scenario, seed),
        "lab/bin/traffic": compiled(GUEST / "traffic"),
        "lab/network": GUEST / "network",
    }
    overlay |= cross_plans(scenario, seed)
    if "lab/plan" in overlay:
        overlay |= {"lab/bin/browser": compiled(GUEST / "browser.c"), "lab/web": GUEST / "web"}
    if "lab/pulses" in overlay:
        overlay["lab/bin/pulses"] = compiled(GUEST / "pulses.c")
    if needs(scenario, "fixed"):
        overlay["lab/fixed.ko"] = link_module(chosen, "labfixed")
    return overlay | daemon_files(daemon, scenario, seed)


def _cross_layers(scenario: Scenario) -> list[Path]:
    """The web server's layer, where downloads come beside the flows."""
    # The module `web` imports this one, so it cannot be imported above.
    from ltp_switcher.eval.lab.web import web_layer

    return [web_layer()] if scenario.cross and scenario.cross.short else []


def module_of(scenario: Scenario) -> str:
    """Return the variant of the link module that the scenario needs.

    Each variant is a file of its own, so that a change of one does not change the runs of another.
    """
    if on_roads(scenario):
        return "labpaths"
    if scenario.link.queue != DROP_TAIL:
        return "labqueue"
    return "labjitter" if scenario.link.jitter_ms else "lablink"


def link_input(scenario: Scenario, seed: int) -> bytes:
    """Return the bytes that the scenario's link module takes."""
    if on_roads(scenario):
        return encode_roads(scenario, seed)
    jitter_ms = scenario.link.jitter_ms
    # For `labjitter` the schedule ends with the longest jitter in ns; see link/jitter.h.
    jitter = struct.pack("=Q", round(jitter_ms * 1e6)) if jitter_ms else b""
    return encode(scenario, link_trace(scenario), seed) + jitter


def run_inputs(scenario: Scenario, *, seed: int, kernel: str, place: Place = USUAL_PLACE) -> Inputs:
    """Return everything on which a run and its raw results depend.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: a part of the lab cannot be fetched or built.
        InvalidValueError: the lab has no such kernel.
    """
    return _inputs(scenario, daemon_of(scenario, place), seed=seed, kernel=kernel)


def _inputs(scenario: Scenario, daemon: GuestDaemon | None, *, seed: int, kernel: str) -> Inputs:
    return Inputs(
        scenario=scenario,
        seed=seed,
        kernel=kernel,
        daemon=daemon,
        overlay=overlay_of(scenario, daemon, seed=seed, kernel=kernel),
        memory_mb=memory_mb(scenario),
        layers=_cross_layers(scenario),
        readers=("schedule.py", "measurements.py", *(("roads.py",) if on_roads(scenario) else ())),
    )


def memory_mb(scenario: Scenario) -> int:
    """Return the guest's memory in MiB: room for the system, for a server's file, and for four times the data
    that the links and their queues can hold.
    """
    own_ms = [flow.rtt_ms or 0.0 for flow in scenario.flows]
    in_flight_mb = sum(_in_flight_mb(link, own_ms) for link in scenario.links)
    served = scenario.requests or (scenario.cross and scenario.cross.short)
    file_mb = served.largest_kb / 1e3 if served else 0.0
    return min(4096, 512 * math.ceil((768 + file_mb + 4 * in_flight_mb) / 512))


def _in_flight_mb(link: Link, own_ms: Sequence[float]) -> float:
    """Return the data in MB that the link and its queue hold at most. Flows may have the RTTs `own_ms`."""
    walk = link.road.walk
    rtt_s = (
        max([state.rtt_ms + (walk.range_ms if walk else 0.0) for state in link.states()] + [*own_ms]) / 1e3
    )
    rate_mbps = max((state.rate_mbps or 100.0) for state in link.states())
    queue_bytes = link.buffer_packets(rate_mbps) * PACKET_BYTES
    return rate_mbps / 8 * rtt_s + queue_bytes / 1e6
