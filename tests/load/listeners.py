# SPDX-License-Identifier: Apache-2.0
"""The UNIX socket while a crowd without a token scrapes /metrics over TCP as fast as it is answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from load.blocks import SETTLE_S, Load, Process, Tell, blocks_of, cores, probed, probing, told_by
from load.service import Wanted, service

AT_ONCE: float = 1e6
"""Requests a second of a client that pauses for nothing."""


def measure(wanted: Wanted, crowds: Sequence[int], load: Load, tell: Tell) -> dict[str, object]:
    """Milliseconds of GET /v1/status over the UNIX socket, without each crowd and with it."""
    found: dict[str, object] = {}
    with service(wanted, tcp=True) as running:
        for count in crowds:
            target = wanted.folder / f"unix-{count}"
            place = f"127.0.0.1:{running.port}"
            crowd = Process("load.clients", place, count, AT_ONCE, wanted.seed, "/metrics")
            with probing(running, target, "/v1/status"):
                time.sleep(SETTLE_S)
                blocks = list(blocks_of(running, replace(load, clients=count), (crowd,), tell))
            found[f"{count} clients over TCP"] = {
                "/v1/status over the UNIX socket, ms": probed(blocks, target),
                "crowd": told_by(crowd.end()),
                "cores": cores(blocks),
            }
    return found
