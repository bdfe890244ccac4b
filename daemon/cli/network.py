# SPDX-License-Identifier: Apache-2.0
"""`network`: pass reports of the measurement agents on routers to the daemon. The process needs no
capability.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from typing import Final

from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.control.client import ControlClient, Json
from ltp_switcher.daemon.service import log as logs
from ltp_switcher.daemon.steer import NetworkFeed
from ltp_switcher.errors import ControlError
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

TELL_S: Final = 0.5
"""Time between two reports to the daemon, in seconds. The daemon forgets a report after three seconds."""

log = logging.getLogger("ltp_switcher.network")


def relay(options: argparse.Namespace) -> int:
    """Pass the agents' reports to the daemon until SIGTERM. If the settings name no agents, return
    at once.
    """
    logs.set_up("info")
    config = settings(options)
    urls = config.learned.owl_network_urls
    if not urls:
        log.info("learned.owl_network_urls names no agents")
        return 0
    feed, stopped = NetworkFeed(urls), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    feed.start()
    heard = True
    while not stopped.wait(TELL_S):
        heard = _tell(config.daemon.control_socket, feed.latest(), heard)
    feed.close()
    return 0


def _tell(socket: str, known: NetworkKnowledge | None, heard: bool) -> bool:
    """Pass a report to the daemon, and return whether the daemon took the report.

    `known` is None if there is no report now. `heard` tells whether the daemon took the previous one; the log
    gets a line only when this changes.
    """
    params: dict[str, Json] = {}
    if known is not None:
        params = {"pnc_pkts": known.pnc_pkts, "pna": known.pna, "known": known.known}
    try:
        with ControlClient(socket) as client:
            client.call("network.tell", **params)
    except ControlError as error:
        if heard:
            log.warning("the daemon cannot be told: %s", error)
        return False
    if not heard:
        log.info("the daemon hears again")
    return True
