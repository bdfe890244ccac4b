# SPDX-License-Identifier: Apache-2.0
"""Run a scenario with requests: Debian's nginx at one end of the link, its clients at the other."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab import cpio, kernels
from ltp_switcher.eval.lab.fingerprint import Inputs
from ltp_switcher.eval.lab.layers import GUEST, compiled, layer, link_module, package_entries
from ltp_switcher.eval.lab.packages import candidates, say
from ltp_switcher.eval.lab.run import RunFiles, booted, daemon_files, memory_mb
from ltp_switcher.eval.lab.schedule import capacity_mbps, encode, link_trace
from ltp_switcher.eval.lab.script import (
    REQUESTS,
    RESULTS,
    USUAL_PLACE,
    GuestDaemon,
    Place,
    daemon_of,
    flow_table,
    request_plan,
)
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.requests import Requests
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.schemes import resolve

PACKAGES: Final = ("nginx", "libssl3", "libcrypt1")
"""Debian's packages of the web server, and the libraries that other layers of the guest's files may lack."""
_UNWANTED: Final = re.compile(r"/(systemd|ufw|engines-3|ossl-modules)/|^usr/lib/nginx/modules/")
_USERS: Final = {
    "etc/passwd": b"root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/bin/false\n",
    "etc/group": b"root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n",
}


def run_requests(
    scenario: Scenario,
    *,
    seed: int = 1,
    kernel: str = "6.1",
    place: Place = USUAL_PLACE,
    on_progress: Callable[[Sample], None] | None = None,
) -> RunFiles:
    """Run a scenario that has requests, and return its raw results: `requests.csv` and `requests.json`.

    Args:
        scenario: the link, the web server's requests, and any flows beside them.
        seed: seed of the requests, the losses, and everything else that is random in the guest.
        kernel: series, "6.1" or "6.12".
        place: place of the daemon, if a scheme needs one.
        on_progress: function that is called every 0.5 virtual seconds with a sample that has the time alone.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: the guest failed.
    """
    trace = link_trace(scenario)
    csv, totals, traffic = f"{REQUESTS}.csv", f"{REQUESTS}.json", f"{RESULTS}.json"
    result = booted(
        requests_inputs(scenario, seed=seed, kernel=kernel, place=place),
        collect=(csv, totals, traffic),
        on_line=_follower(scenario, on_progress) if on_progress else None,
    )
    offered_mbit = float(capacity_mbps(scenario, trace).mean()) * scenario.duration_s
    files = {
        "requests.csv": result.files[csv],
        "requests.json": _totals(
            scenario, json.loads(result.files[totals]), json.loads(result.files[traffic]), offered_mbit
        ),
    }
    return RunFiles(files, result.kernel, result.virtual_s, result.wall_s)


def requests_inputs(scenario: Scenario, *, seed: int, kernel: str, place: Place = USUAL_PLACE) -> Inputs:
    """Return everything on which a run with requests and its raw results depend.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: a part of the lab cannot be fetched or built.
        InvalidValueError: the lab has no such kernel.
    """
    daemon = daemon_of(scenario, place)
    return Inputs(
        scenario=scenario,
        seed=seed,
        kernel=kernel,
        daemon=daemon,
        overlay=_overlay(scenario, daemon, seed=seed, kernel=kernel),
        memory_mb=memory_mb(scenario),
        layers=(web_layer(),),
        readers=("web.py", "schedule.py"),
    )


def web_layer() -> Path:
    """Return the layer of the guest's file system that has Debian's nginx, its configuration, and the users
    that nginx asks for. A layer is a cpio archive, which is built if its inputs are new.

    Raises:
        LabError: a package cannot be fetched.
    """
    versions = [f"{package}={version}" for package, version in candidates(PACKAGES).items()]
    configuration = (GUEST / "nginx.conf").read_bytes()

    def build() -> dict[str, cpio.Entry]:
        say("lab: packing the guest's web server")
        entries = {n: e for n, e in package_entries(PACKAGES).items() if not _UNWANTED.search(n)}
        users = {path: cpio.regular(text) for path, text in _USERS.items()}
        return entries | users | {"lab/nginx.conf": cpio.regular(configuration)}

    texts = [configuration.decode(), _UNWANTED.pattern, *(text.decode() for text in _USERS.values())]
    return layer("web", [*versions, *texts], build)


def _overlay(
    scenario: Scenario, daemon: GuestDaemon | None, *, seed: int, kernel: str
) -> dict[str, Path | bytes]:
    """The files that only this run has in its guest, by guest path."""
    requests = scenario.need_requests()
    _check_arms(scenario, requests)
    overlay: dict[str, Path | bytes] = {
        "lab/link.ko": link_module(kernels.kernel(kernel)),
        "lab/schedule": encode(scenario, link_trace(scenario), seed),
        "lab/flows": flow_table(scenario, seed),
        "lab/plan": request_plan(requests, seed),
        "lab/bin/traffic": compiled(GUEST / "traffic"),
        "lab/bin/browser": compiled(GUEST / "browser.c"),
        "lab/network": GUEST / "network",
        "lab/web": GUEST / "web",
    }
    return overlay | daemon_files(daemon, scenario, seed)


def _check_arms(scenario: Scenario, requests: Requests) -> None:
    """Raise `ConfigError` if the server and a flow beside it need different default arms. A flow sets the
    module's default arm as it starts, and the server's connections begin on that arm, too.
    """
    served = resolve(requests.scheme)
    if served.protocol == "fixed":
        raise ConfigError("requests.scheme", requests.scheme, "a scheme without a rate of its own")
    for i, flow in enumerate(scenario.flows):
        scheme = resolve(flow.scheme)
        if scheme.protocol == "fixed":
            raise ConfigError(f"flow[{i}].scheme", flow.scheme, "beside requests, no constant rate")
        if served.protocol == scheme.protocol == "mutant" and served.arm != scheme.arm:
            allowed = f"beside requests, {requests.scheme} or a protocol of the kernel"
            raise ConfigError(f"flow[{i}].scheme", flow.scheme, allowed)


def _follower(scenario: Scenario, on_progress: Callable[[Sample], None]) -> Callable[[str], None]:
    def follow(line: str) -> None:
        if line.startswith('{"t_ms"'):
            at_s = json.loads(line)["t_ms"] / 1e3
            on_progress(Sample(at_s, scenario.scheme, math.nan, math.nan, math.nan, math.nan, 0))

    return follow


def _totals(scenario: Scenario, link: dict[str, Any], traffic: dict[str, Any], offered_mbit: float) -> bytes:
    """The link's counts for the server, the totals of the flows beside it, and the load offered, as JSON."""
    upper_ms = [edge / 1e3 for edge in traffic["rtt_upper_us"]]
    flows = []
    for flow, total in zip(scenario.flows, traffic["flows"], strict=True):
        used = max((i for i, count in enumerate(total["rtt_counts"]) if count), default=0) + 1
        flows.append(
            {
                "scheme": flow.scheme,
                "bytes_received": total["stop_received_bytes"],
                "lost_pkts": total["lost_pkts"],
                "delivered_pkts": total["delivered_pkts"],
                "rtt_histogram": {"upper_ms": upper_ms[:used], "count": total["rtt_counts"][:used]},
            }
        )
    document = {"server": link, "flows": flows, "offered_mbit": offered_mbit}
    return (json.dumps(document, indent=1) + "\n").encode()
