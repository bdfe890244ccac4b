# SPDX-License-Identifier: Apache-2.0
"""Clients of the API, as a process: `python -m load.clients PLACE CLIENTS RATE SEED [PATH...]`.

`PLACE` is a UNIX socket or HOST:PORT. Each client has a connection, and asks `RATE` times a second, but never
twice at once. The process obeys lines on its standard input (on, off, end), and prints its measurements, as
JSON, at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

import httpcore

from load.orders import Orders
from load.stream import FIRST_COOKIE

PATIENCE_S = 60.0
STANDING_FLOWS = 100
PATHS = (
    "/v1/flows?limit=100&order=goodput",
    "/v1/flows/{cookie}",
    "/v1/status",
    "/v1/flows?limit=20&prefix=10.0.0.0/16",
    "/metrics",
)


class Clients:
    """What `count` clients saw."""

    def __init__(self, place: str, count: int, rate: float, seed: int, paths: Sequence[str] = PATHS) -> None:
        self._unix = place if place.startswith("/") else None
        self._base = "http://localhost" if self._unix else f"http://{place}"
        self._paths = paths
        self._count = count
        self._period_s = 1 / rate
        self._rng = random.Random(seed)
        self._on = asyncio.Event()
        self.statuses: Counter[str] = Counter()
        self.took_s: list[float] = []

    async def run(self) -> None:
        """Ask until told to end."""
        asks = [asyncio.create_task(self._ask(number)) for number in range(self._count)]
        async for order in Orders():
            if order == "on":
                self._on.set()
            else:
                self._on.clear()
        for task in asks:
            task.cancel()
        await asyncio.gather(*asks, return_exceptions=True)

    async def _ask(self, number: int) -> None:
        # The engine of httpx alone: 200 of the latter take half a core for themselves.
        async with httpcore.AsyncConnectionPool(uds=self._unix) as client:
            while True:
                if not self._on.is_set():
                    await self._on.wait()
                    # Not all at once.
                    await asyncio.sleep(self._rng.uniform(0, self._period_s))
                cookie = FIRST_COOKIE + self._rng.randrange(STANDING_FLOWS)
                path = self._paths[number % len(self._paths)].format(cookie=cookie)
                number += 1
                began_s = time.perf_counter()
                try:
                    answer = await client.request(
                        "GET", f"{self._base}{path}", extensions={"timeout": {"read": PATIENCE_S}}
                    )
                    self.statuses[str(answer.status)] += 1
                except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
                    self.statuses[type(error).__name__] += 1
                spent_s = time.perf_counter() - began_s
                self.took_s.append(spent_s)
                await asyncio.sleep(max(self._period_s * self._rng.uniform(0.9, 1.1) - spent_s, 0))


async def main(place: str, count: int, rate: float, seed: int, *paths: str) -> None:
    """Run, then print."""
    clients = Clients(place, count, rate, seed, paths or PATHS)
    await clients.run()
    took_ms = sorted(round(1e3 * took_s, 3) for took_s in clients.took_s)
    print(json.dumps({"statuses": clients.statuses, "took_ms": took_ms}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
