# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher-fleet`: it shares lessons (knowledge about arms on prefixes) with the other hosts of a site
until it is stopped.

It is a process of its own without any capability. It talks to the daemon's control socket and to the store,
and to nothing else.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import ltp_switcher
from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.service import log as logs
from ltp_switcher.daemon.service.systemd import ServiceManager
from ltp_switcher.daemon.settings.fleet import NAME, FleetSection
from ltp_switcher.daemon.settings.load import load
from ltp_switcher.daemon.settings.schema import DEFAULT_PATH
from ltp_switcher.errors import ConfigError, ControlError, LtpSwitcherError, StoreError, reason

CREDENTIAL: Final = "fleet-password"
"""Name of the systemd credential with the store's password."""
log = logging.getLogger("ltp_switcher.fleet")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    options = parser().parse_args(arguments)
    try:
        config = load(options.config, os.environ)
        logs.set_up(config.daemon.log_level)
        if config.fleet.share == "off":
            print('ltp-switcher-fleet: nothing to do, since fleet.share is "off"', file=sys.stderr)
            return 0
        serve(config.fleet, config.daemon.control_socket)
    except ConfigError as error:
        print(f"ltp-switcher-fleet: {error}", file=sys.stderr)
        return 2
    except LtpSwitcherError as error:
        print(f"ltp-switcher-fleet: {error}", file=sys.stderr)
        return 1
    return 0


def serve(settings: FleetSection, control_socket: str) -> None:
    """Exchange lessons with the store until SIGTERM or SIGINT. Raises `LtpSwitcherError` if no exchange can
    ever work, for example because a package is missing.
    """
    try:
        # The client library is optional. Only a host that shares lessons needs it.
        from ltp_switcher.daemon.fleet.exchange import Exchange
        from ltp_switcher.daemon.fleet.store import Store
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the Python package {error.name} is missing: pip install 'ltp-switcher[fleet]'"
        ) from error
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    manager, store, host = ServiceManager(), Store(settings, password()), host_name(settings)
    log.info("host %s of the site %s shares lessons over %s", host, settings.site, store.address)
    if settings.tls == "off" and not settings.store[0].startswith("/"):
        log.warning("fleet.tls is off: whoever is on the way to the store can change what this host is told")
    with ControlClient(control_socket) as daemon:
        exchange = Exchange(settings, host, daemon, store)
        failures, said, told = 0, "", False
        # Hosts must not come at the same moments.
        chances = random.SystemRandom()
        while not stop.is_set():
            try:
                exchange.run(time.time())
                fault = exchange.error
            except ControlError as error:
                fault = str(error)
            if fault and not said:
                log.warning("%s; what is known here stays in force", fault)
            elif said and not fault:
                log.info("exchanges with %s go on", store.address)
            failures, said = failures + 1 if fault else 0, fault
            if not told:
                manager.ready()
                told = True
            manager.feed_watchdog()
            stop.wait(exchange.pause_s(failures, chances.random()))
    manager.stopping()
    store.close()
    manager.close()


def host_name(settings: FleetSection) -> str:
    """The name of this host in the site: the one in the settings, or else the machine's name. Raises
    `ConfigError` if the name has other characters than are allowed.
    """
    name = settings.host or socket.gethostname()
    if not NAME.fullmatch(name):
        raise ConfigError("fleet.host", name, "letters, digits, dots, dashes, underscores; set another one")
    return name


def password() -> str:
    """The store's password, which the service manager hands over in a file; empty if there is none. Raises
    `StoreError` if the file cannot be read.
    """
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return ""
    place = Path(folder) / CREDENTIAL
    try:
        return place.read_text().strip() if place.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the credential {CREDENTIAL} cannot be read: {reason(error)}") from error


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(
        prog="ltp-switcher-fleet",
        description="Share lessons about arms with the other hosts of a site; see section [fleet].",
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {ltp_switcher.__version__}")
    made.add_argument(
        "--config", type=Path, metavar="FILE", help=f"the daemon's configuration (default {DEFAULT_PATH})"
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
