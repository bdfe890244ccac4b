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
from ltp_switcher.eval.lab.fingerprint import Inputs
from ltp_switcher.eval.lab.layers import GUEST, compiled, link_module
from ltp_switcher.eval.lab.roads import check_idle, each_path
from ltp_switcher.eval.lab.run import (
    RunFiles,
    booted,
    daemon_files,
    link_input,
    memory_mb,
    module_of,
)
from ltp_switcher.eval.lab.schedule import capacity_mbps, link_trace
from ltp_switcher.eval.lab.script import (
    END_DAEMON,
    HOSTS,
    NETWORK,
    REQUESTS,
    RESULTS,
    USUAL_PLACE,
    GuestDaemon,
    Place,
    daemon_of,
    flow_table,
    needs,
)
from ltp_switcher.eval.run.daemon_settings import Settings
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.requests import TRAFFIC
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.traffic import Arrival, Traffic, draw_traffic
from ltp_switcher.policies.simulator.delivery_traces import mean_rate_mbps

ROWS: Final = "outcomes.npy"
"""Name of the raw file with the outcomes of the run's flows, shape (flows,), `outcomes.ROW_DTYPE`. An outcome
is the sum over a flow's life, as the kernel module tells it. A run without the module has no rows.
"""
CLIENTS: Final = 0x0A020002
"""Address of the first path's first client, 10.2.0.2, as a number."""
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
    """Return the rate of each path at its start, in Mbit/s. A link with a trace has the mean rate of the
    trace. A policer that is slower than the link decides.

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
    """Return the downloads of a run with this seed, in the order in which they begin. Downloads that would
    begin after the scenario's `stop_s` are left out.

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
    """Run a scenario with downloads that come at random. Arguments and raw results are the same as for
    `web.run_requests`, and there is one raw file more, `ROWS`.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: the guest failed, was too busy, or an outcome is missing.
    """
    inputs = traffic_inputs(scenario, seed=seed, kernel=kernel, place=place)
    csv, totals, traffic = f"{REQUESTS}.csv", f"{REQUESTS}.json", f"{RESULTS}.json"
    logged = [f"{_STATE}/{_LOG}"] if inputs.daemon else []
    result = booted(
        inputs,
        collect=(csv, totals, traffic, *logged),
        on_line=web._follower(scenario, on_progress) if on_progress else None,
        of_companion={f"{_STATE}/{_LOG}": f"state/{_LOG}"},
    )
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


def traffic_inputs(scenario: Scenario, *, seed: int, kernel: str, place: Place = USUAL_PLACE) -> Inputs:
    """Return everything on which a run of this module and its raw results depend; see
    `web.requests_inputs` for the errors.
    """
    daemon = _daemon(scenario, place)
    return Inputs(
        scenario=scenario,
        seed=seed,
        kernel=kernel,
        daemon=daemon,
        overlay=_overlay(scenario, daemon, seed=seed, kernel=kernel),
        memory_mb=memory_mb(scenario),
        layers=(web.web_layer(),),
        readers=("web.py", "schedule.py", "roads.py", "traffic.py"),
    )


def places(rows: outcomes.OutcomeRows) -> Ints:
    """Return the index in `arrivals` of the download to which each row belongs, shape (n,). `rows` has n
    outcomes of flows.
    """
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
    """Return the downloads as `guest/downloads.c` takes them: a line for each, with its time in µs, its
    client's address and port, and its bytes.
    """
    return "".join(
        f"{one.at_us} {CLIENTS + NETWORK * one.path + index % HOSTS} {FIRST_PORT + index} {one.size_bytes}\n"
        for index, one in enumerate(drawn)
    ).encode()


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
