# SPDX-License-Identifier: Apache-2.0
"""Runs with requests that `web` cannot make: the client keeps one connection, or the link needs another
module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import kernels, web
from ltp_switcher.eval.lab.boot import boot
from ltp_switcher.eval.lab.bpftune import bpftune_layers
from ltp_switcher.eval.lab.fingerprint import fingerprint
from ltp_switcher.eval.lab.layers import GUEST, compiled, link_module
from ltp_switcher.eval.lab.roads import each_path
from ltp_switcher.eval.lab.run import RunFiles, companion_of, guest_python, link_input, module_of
from ltp_switcher.eval.lab.schedule import capacity_mbps, link_trace
from ltp_switcher.eval.lab.script import (
    PATIENCE_S,
    REQUESTS,
    RESULTS,
    USUAL_PLACE,
    GuestDaemon,
    Place,
    daemon_of,
    needs,
    script,
)
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.requests import SESSIONS
from ltp_switcher.eval.run.scenario import Scenario


def is_session(scenario: Scenario) -> bool:
    """Tell whether a run of the scenario is one of this module's."""
    if scenario.requests is None:
        return False
    return scenario.requests.kind in SESSIONS or module_of(scenario) != "lablink"


def run_session(
    scenario: Scenario,
    *,
    seed: int = 1,
    kernel: str = "6.1",
    place: Place = USUAL_PLACE,
    on_progress: Callable[[Sample], None] | None = None,
) -> RunFiles:
    """Run the scenario as `web.run_requests` does, with the same raw results."""
    daemon = daemon_of(scenario, place)
    csv, totals, traffic = f"{REQUESTS}.csv", f"{REQUESTS}.json", f"{RESULTS}.json"
    result = boot(
        kernel=kernel,
        script=script(scenario, daemon),
        overlay=_overlay(scenario, daemon, seed=seed, kernel=kernel),
        collect=(csv, totals, traffic),
        python=guest_python(scenario, daemon),
        seed=seed,
        memory_mb=web._memory_mb(scenario),
        timeout_s=web._SETUP_S + web._LIMIT_PER_VIRTUAL * (scenario.duration_s + PATIENCE_S),
        on_line=web._follower(scenario, on_progress) if on_progress else None,
        mutant=needs(scenario, "mutant"),
        layers=[web.web_layer(), *bpftune_layers(scenario)],
        companion=companion_of(daemon, scenario, seed),
    )
    if not result.ok or result.warnings:
        told = "\n".join([*result.warnings[:20], result.console[-3000:]])
        raise LabError(f"{scenario.name}: the guest failed with {result.exit_code}:\n{told}")
    (path,) = each_path(scenario)
    offered_mbit = float(capacity_mbps(path, link_trace(path)).mean()) * scenario.duration_s
    link, flows = json.loads(result.files[totals]), json.loads(result.files[traffic])
    files = {
        "requests.csv": result.files[csv],
        "requests.json": web._totals(scenario, link, flows, offered_mbit),
    }
    return RunFiles(files, result.kernel, result.virtual_s, result.wall_s)


def session_fingerprint(scenario: Scenario, *, seed: int, kernel: str, place: Place = USUAL_PLACE) -> str:
    """Return a hash of all that the run depends on, as `web.requests_fingerprint` does."""
    daemon = daemon_of(scenario, place)
    return fingerprint(
        scenario,
        daemon,
        _overlay(scenario, daemon, seed=seed, kernel=kernel),
        seed=seed,
        kernel=kernel,
        memory_mb=web._memory_mb(scenario),
        layers=(web.web_layer(),),
        readers=("web.py", "schedule.py", "roads.py", "sessions.py"),
    )


def _overlay(
    scenario: Scenario, daemon: GuestDaemon | None, *, seed: int, kernel: str
) -> Mapping[str, Path | bytes]:
    """The files that only this run has in its guest, by guest path."""
    client = "session.c" if scenario.need_requests().kind in SESSIONS else "browser.c"
    return web._overlay(scenario, daemon, seed=seed, kernel=kernel) | {
        "lab/link.ko": link_module(kernels.kernel(kernel), module_of(scenario)),
        "lab/schedule": link_input(scenario, seed),
        "lab/bin/browser": compiled(GUEST / client),
    }
