# SPDX-License-Identifier: Apache-2.0
"""Daemons that share lessons: their settings, and `ltp-switcher-fleet` of each as a process."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, VisitsSection
from support.daemon_process import service_running

SERVICE: Final = (sys.executable, "-m", "ltp_switcher.daemon.fleet.process")


def until(done: Callable[[], object], patience_s: float = 60.0) -> float:
    """Wait for an event, and return the time that it took, s."""
    began_s = time.monotonic()
    while not done():
        assert time.monotonic() - began_s < patience_s
        time.sleep(0.01)
    return time.monotonic() - began_s


def learning(folder: Path, name: str, fleet: FleetSection | None = None) -> Config:
    """The settings of a daemon that learns from visits, in files of its own below `folder`."""
    section = DaemonSection(
        mode="active", state_dir=str(folder / name), control_socket=str(folder / f"{name}.sock")
    )
    (folder / name).mkdir(exist_ok=True)
    return Config(daemon=section, visits=VisitsSection("on"), fleet=fleet or FleetSection())


def sharing_of(name: str, store: Path, period_s: float) -> FleetSection:
    """The settings of a host that shares over a store on a UNIX socket."""
    return FleetSection(share="on", store=(str(store),), host=name, period_s=period_s)


@contextlib.contextmanager
def sharing(folder: Path, config: Config, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The service of a daemon, ready until the end of the context."""
    fleet = config.fleet
    environment = {
        "LTP_SWITCHER_DAEMON_CONTROL_SOCKET": config.daemon.control_socket,
        "LTP_SWITCHER_VISITS_LEARN": "on", "LTP_SWITCHER_FLEET_SHARE": "on",
        "LTP_SWITCHER_FLEET_STORE": ",".join(fleet.store), "LTP_SWITCHER_FLEET_TLS": fleet.tls,
        "LTP_SWITCHER_FLEET_TLS_CA": fleet.tls_ca, "LTP_SWITCHER_FLEET_HOST": fleet.host,
        "LTP_SWITCHER_FLEET_PERIOD_S": str(fleet.period_s),
    }  # fmt: skip
    place = folder / f"{fleet.host}-service"
    place.mkdir(exist_ok=True)
    with service_running(SERVICE, place, environment=environment, log=log) as service:
        yield service
