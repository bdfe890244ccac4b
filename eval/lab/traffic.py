# SPDX-License-Identifier: Apache-2.0
"""Runs with traffic: a web server whose downloads come at random over several paths, and their outcomes.

A daemon takes the outcomes of the server's connections from the module and logs them. It runs beside every
scheme of the module, and with the policy `keep` where the scheme needs no daemon. So all schemes are measured
in the same way.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.gain import outcomes
from ltp_switcher.daemon.gain.log import Skipped
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import kernels, web
from ltp_switcher.eval.lab.boot import boot
from ltp_switcher.eval.lab.bpftune import bpftune_layers
from ltp_switcher.eval.lab.fingerprint import fingerprint
from ltp_switcher.eval.lab.layers import GUEST, compiled, link_module
from ltp_switcher.eval.lab.qemu import Companion
from ltp_switcher.eval.lab.roads import check_idle, each_path
from ltp_switcher.eval.lab.run import (
    RunFiles,
    companion_of,
    daemon_files,
    guest_python,
    link_input,
    memory_mb,
    module_of,
)
from ltp_switcher.eval.lab.schedule import capacity_mbps, link_trace
from ltp_switcher.eval.lab.script import (
    END_DAEMON,
    HOSTS,
    NETWORK,
    PATIENCE_S,
    REQUESTS,
    RESULTS,
    USUAL_PLACE,
    GuestDaemon,
    Place,
    daemon_of,
    flow_table,
    needs,
    script,
)
from ltp_switcher.eval.run.daemon_settings import Settings
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.requests import TRAFFIC
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.traffic import Arrival, Traffic, draw_traffic
from ltp_switcher.policies.simulator.delivery_traces import mean_rate_mbps

ROWS: Final = "outcomes.npy"
"""Raw file with the outcomes of the run's flows, `outcomes.ROW_DTYPE`; without rows if the module did not
run.
"""
CLIENTS: Final = 0x0A020002
"""The first client's address: 10.2.0.2."""
FIRST_PORT: Final = 2000
"""Port of the first flow's client. The flows of all paths take the following ports, in order of time."""
_LOG: Final = f"{outcomes.FOLDER}/outcomes-000000000001.log"
"""The first file of the daemon's log of outcomes. One file has room for 20,000 rows."""
_STATE: Final = "/var/lib/ltp-switcher"
"""The daemon's state directory in the guest."""
_SELDOM: Final[Settings] = (("daemon.idle_step_ms", 200.0), ("daemon.step_ms", 200.0))
"""Settings of a daemon that decides nothing."""
_LAST_CLOSE: Final = "sleep 3"
"""Shell line that waits until the server has seen the last connections end."""


def path_rates_mbps(scenario: Scenario) -> list[float]:
    """The rate of each path at its start in Mbit/s: the mean rate of a trace, and the rate of a policer if it
    is lower.

    Raises:
        ConfigError: a trace is missing.
    """
    rates = []
    for path in each_path(scenario):
        trace = link_trace(path)
        rate = path.link.rate_mbps or 0.0 if trace is None else mean_rate_mbps(trace)
        rates.append(min(rate, path.link.police_mbps or rate))
    return rates


def arrivals(scenario: Scenario, seed: int) -> list[Arrival]:
    """The flows of a run of this seed, in order of time; those after `stop_s` are left out.

    Raises:
        ConfigError: a trace is missing.
    """
    requests = scenario.need_requests()
    drawn = draw_traffic(_traffic(scenario), path_rates_mbps(scenario), seed)
    return [one for one in drawn if one.at_us < requests.stop_s * 1e6]


def run_traffic(
    scenario: Scenario,
    *,
    seed: int = 1,
    kernel: str = "6.1",
    place: Place = USUAL_PLACE,
    on_progress: Callable[[Sample], None] | None = None,
) -> RunFiles:
    """Run the scenario as `web.run_requests` does, and return the same raw results and the file `ROWS`.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: the guest failed, was too busy, or an outcome is missing.
    """
    daemon = _daemon(scenario, place)
    csv, totals, traffic = f"{REQUESTS}.csv", f"{REQUESTS}.json", f"{RESULTS}.json"
    logged = [f"{_STATE}/{_LOG}"] if daemon else []
    result = boot(
        kernel=kernel,
        script=script(scenario, daemon),
        overlay=_overlay(scenario, daemon, seed=seed, kernel=kernel),
        collect=(csv, totals, traffic, *logged),
        python=guest_python(scenario, daemon),
        seed=seed,
        memory_mb=memory_mb(scenario),
        timeout_s=web._SETUP_S + web._LIMIT_PER_VIRTUAL * (scenario.duration_s + PATIENCE_S),
        on_line=web._follower(scenario, on_progress) if on_progress else None,
        mutant=needs(scenario, "mutant"),
        layers=[web.web_layer(), *bpftune_layers(scenario)],
        companion=_companion(daemon, scenario, seed),
    )
    if not result.ok or result.warnings:
        told = "\n".join([*result.warnings[:20], result.console[-3000:]])
        raise LabError(f"{scenario.name}: the guest failed with {result.exit_code}:\n{told}")
    guest = json.loads(result.files[traffic])
    check_idle(scenario, guest)
    capacities = (capacity_mbps(path, link_trace(path)).mean() for path in each_path(scenario))
    offered_mbit = float(sum(capacities)) * scenario.duration_s
    files = {
        "requests.csv": result.files[csv],
        "requests.json": web._totals(scenario, json.loads(result.files[totals]), guest, offered_mbit),
        ROWS: _rows(result.files.get(logged[0], b"") if logged else b""),
    }
    return RunFiles(files, result.kernel, result.virtual_s, result.wall_s)


def traffic_fingerprint(scenario: Scenario, *, seed: int, kernel: str, place: Place = USUAL_PLACE) -> str:
    """Return a hash of all that the run depends on, as `web.requests_fingerprint` does."""
    daemon = _daemon(scenario, place)
    return fingerprint(
        scenario,
        daemon,
        _overlay(scenario, daemon, seed=seed, kernel=kernel),
        seed=seed,
        kernel=kernel,
        memory_mb=memory_mb(scenario),
        layers=(web.web_layer(),),
        readers=("web.py", "schedule.py", "roads.py", "traffic.py"),
    )


def places(rows: outcomes.OutcomeRows) -> Ints:
    """The index of each row's flow in the list of `arrivals`, shape (n,)."""
    found: Ints = rows["outcome"]["dport"].astype(np.int64) - FIRST_PORT
    return found


def _traffic(scenario: Scenario) -> Traffic:
    traffic = scenario.need_requests().traffic
    if traffic is None:
        raise LabError(f"{scenario.name} has no requests of the kind {TRAFFIC}")
    return traffic


def _daemon(scenario: Scenario, place: Place) -> GuestDaemon | None:
    """The daemon, which ends after the last connection and so has written all outcomes."""
    daemon = daemon_of(scenario, place)
    if daemon is None:
        if not needs(scenario, "mutant"):
            return None
        daemon = GuestDaemon("keep", place=place, settings=_SELDOM)
    after = (line for line in daemon.after if line != END_DAEMON)
    return replace(daemon, after=(_LAST_CLOSE, *after, END_DAEMON))


def _overlay(
    scenario: Scenario, daemon: GuestDaemon | None, *, seed: int, kernel: str
) -> dict[str, Path | bytes]:
    """The files that only this run has in its guest, by guest path."""
    web._check_arms(scenario, scenario.need_requests())
    return {
        "lab/link.ko": link_module(kernels.kernel(kernel), module_of(scenario)),
        "lab/schedule": link_input(scenario, seed),
        "lab/flows": flow_table(scenario, seed),
        "lab/plan": plan(arrivals(scenario, seed)),
        "lab/bin/traffic": compiled(GUEST / "traffic"),
        "lab/bin/browser": compiled(GUEST / "downloads.c"),
        "lab/network": GUEST / "network",
        "lab/web": GUEST / "web",
        **daemon_files(daemon, scenario, seed),
    }


def plan(drawn: list[Arrival]) -> bytes:
    """The flows as `guest/downloads.c` takes them, a line for each."""
    return "".join(
        f"{one.at_us} {CLIENTS + NETWORK * one.path + index % HOSTS} {FIRST_PORT + index} {one.size_bytes}\n"
        for index, one in enumerate(drawn)
    ).encode()


def _companion(daemon: GuestDaemon | None, scenario: Scenario, seed: int) -> Companion | None:
    companion = companion_of(daemon, scenario, seed)
    return companion and replace(companion, collect={f"{_STATE}/{_LOG}": f"state/{_LOG}"})


def _rows(log: bytes) -> bytes:
    """The rows of a log's file as `ROWS` has them, without the frames in which they were written."""
    rows = np.zeros(0, outcomes.ROW_DTYPE)
    if log:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / Path(_LOG).name
            file.write_bytes(log)
            skipped = Skipped()
            rows = np.concatenate([rows, *outcomes.read(file, skipped=skipped)])
        if skipped != Skipped():
            raise LabError(f"the log of outcomes cannot be read whole: {skipped}")
    made = io.BytesIO()
    np.save(made, rows)
    return made.getvalue()
