# SPDX-License-Identifier: Apache-2.0
"""Runs with requests to a web server that the module `web` cannot make. Either the client keeps one
connection for all requests, or the link needs another kernel module than `lablink`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ltp_switcher.eval.lab import kernels, web
from ltp_switcher.eval.lab.fingerprint import Inputs
from ltp_switcher.eval.lab.layers import GUEST, compiled, link_module
from ltp_switcher.eval.lab.roads import each_path
from ltp_switcher.eval.lab.run import RunFiles, booted, link_input, module_of
from ltp_switcher.eval.lab.schedule import capacity_mbps, link_trace
from ltp_switcher.eval.lab.script import REQUESTS, RESULTS, USUAL_PLACE, Place
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.requests import SESSIONS
from ltp_switcher.eval.run.scenario import Scenario


def is_session(scenario: Scenario) -> bool:
    """Tell whether `run_session` makes the runs of the scenario: it has requests over a kept connection, or
    requests over a link that `lablink` cannot emulate.
    """
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
    """Run a scenario for which `is_session` is true. Arguments, raw results and errors are the same as for
    `web.run_requests`.
    """
    csv, totals, traffic = f"{REQUESTS}.csv", f"{REQUESTS}.json", f"{RESULTS}.json"
    result = booted(
        session_inputs(scenario, seed=seed, kernel=kernel, place=place),
        collect=(csv, totals, traffic),
        on_line=web._follower(scenario, on_progress) if on_progress else None,
    )
    (path,) = each_path(scenario)
    offered_mbit = float(capacity_mbps(path, link_trace(path)).mean()) * scenario.duration_s
    link, flows = json.loads(result.files[totals]), json.loads(result.files[traffic])
    files = {
        "requests.csv": result.files[csv],
        "requests.json": web._totals(scenario, link, flows, offered_mbit),
    }
    return RunFiles(files, result.kernel, result.virtual_s, result.wall_s)


def session_inputs(scenario: Scenario, *, seed: int, kernel: str, place: Place = USUAL_PLACE) -> Inputs:
    """Return everything on which a run of this module and its raw results depend; see
    `web.requests_inputs` for the errors.
    """
    usual = web.requests_inputs(scenario, seed=seed, kernel=kernel, place=place)
    client = "session.c" if scenario.need_requests().kind in SESSIONS else "browser.c"
    own: dict[str, Path | bytes] = {
        "lab/link.ko": link_module(kernels.kernel(kernel), module_of(scenario)),
        "lab/schedule": link_input(scenario, seed),
        "lab/bin/browser": compiled(GUEST / client),
    }
    readers = (*usual.readers, "roads.py", "sessions.py")
    return replace(usual, overlay={**usual.overlay, **own}, readers=readers)
