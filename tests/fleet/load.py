# SPDX-License-Identifier: Apache-2.0
"""A large site's load on one store: 1,000 hosts with 100 prefixes each, of which each changes once a minute.

A generator speaks for the hosts one after the other, through the same client. The store's processor time of
each part is measured, and multiplied by the rate of that part in the whole site.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Final

import numpy as np
from support.site_store import site_store

from ltp_switcher.daemon.fleet.exchange import FRESH
from ltp_switcher.daemon.fleet.hosts import Presence
from ltp_switcher.daemon.fleet.lesson import ARMS, pack
from ltp_switcher.daemon.fleet.merge import HOSTS_MAX
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.settings.fleet import FleetSection

HOSTS, PREFIXES = 1000, 100
PERIOD_S: Final = 1.5
"""The default of fleet.period_s."""
SOME: Final = 400
"""Exchanges that are measured."""


def load(folder: Path, seed: int = 1) -> dict[str, object]:
    """Fill the store, then measure exchanges that look only, writes, and reads."""
    rng = np.random.default_rng(seed)
    every = HOSTS * PREFIXES // HOSTS_MAX
    names = [f"10.{number >> 8}.{number & 255}.0/24" for number in range(every)]
    with site_store(folder) as server:
        store = Store(FleetSection(store=(str(server.socket),)))
        of_host = [rng.choice(every, PREFIXES, replace=False) for _ in range(HOSTS)]
        mean = np.full(ARMS, 0.5)
        value = pack(1, time.time(), 9, mean, np.abs(mean))
        presence = Presence("0" * 16, "0.0.0", 1, time.time(), 1).packed()
        stamp = int(time.time() * 1e3) * 1024
        for number, own in enumerate(of_host):
            store.write(f"host-{number:04}", {names[at]: value for at in own.tolist()}, stamp + number, 1e6)
            store.greet(f"host-{number:04}", presence)
        memory = int(server.client.info("memory")["used_memory"])  # type: ignore[index]
        looks, writes, reads = _Part(server.pid), _Part(server.pid), _Part(server.pid)
        began_bytes = _traffic(server.client)
        for number in range(SOME):
            host, own = f"host-{number:04}", of_host[number].tolist()
            with looks:
                store.newest(FRESH)
                store.look([*(names[at] for at in own), *names[:FRESH]], host)
                store.greet(host, presence)
        look_bytes = _traffic(server.client) - began_bytes
        for number in range(SOME):
            chosen = {names[at]: value for at in of_host[number].tolist()}
            with writes:
                store.write(f"host-{number:04}", chosen, stamp + number + 5000, 1e6)
        write_bytes = _traffic(server.client) - began_bytes - look_bytes
        for number in range(SOME):
            chosen_names = [names[at] for at in of_host[number].tolist()]
            with reads:
                store.read(chosen_names)
        read_bytes = _traffic(server.client) - began_bytes - look_bytes - write_bytes
        store.close()
    a_minute = {"looks": HOSTS * 60 / PERIOD_S, "writes": HOSTS, "reads": HOSTS}
    cpu_s = {"looks": looks.cpu_s, "writes": writes.cpu_s, "reads": reads.cpu_s}
    sent = {"looks": look_bytes, "writes": write_bytes, "reads": read_bytes}
    parts = {name: cpu_s[name] / SOME * rate / 60 for name, rate in a_minute.items()}
    return {
        "what": f"{HOSTS} hosts x {PREFIXES} prefixes, each written and read once a minute; a look every "
        f"{PERIOD_S:g} s",
        "target": "<= 50 % of one core's store",
        "share of the core": {name: f"{share:.1%}" for name, share in parts.items()},
        "share of the core, all": f"{sum(parts.values()):.1%}",
        "commands a second": round(HOSTS * (5 / PERIOD_S + PREFIXES * 4 / 60)),
        "Mbyte a second": round(
            sum(sent[name] / SOME * rate / 60 for name, rate in a_minute.items()) / 1e6, 2
        ),
        "memory, Mbyte": round(memory / 1e6, 1),
        "p50 and p99 of 100 prefixes, ms": {
            name: [round(float(np.percentile(part.took_s, q)) * 1e3, 2) for q in (50, 99)]
            for name, part in (("look", looks), ("write", writes), ("read", reads))
        },
        "generator, core-seconds": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime, 1),
    }  # fmt: skip


class _Part:
    """Processor time of the store, and wall time of calls."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.cpu_s = 0.0
        self.took_s: list[float] = []

    def __enter__(self) -> None:
        self._began = self._cpu_s(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.took_s.append(time.perf_counter() - self._began[1])
        self.cpu_s += self._cpu_s() - self._began[0]

    def _cpu_s(self) -> float:
        # In nanoseconds; /proc/PID/stat counts in hundredths of a second.
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) * 1e-9


def _traffic(client: object) -> int:
    stats = client.info("stats")  # type: ignore[attr-defined]
    return int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])
