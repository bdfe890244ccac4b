# SPDX-License-Identifier: Apache-2.0
"""Clients of the API, as a process: `python -m load.clients SOCKET CLIENTS RATE SEED`.

Each client has a connection, and asks `RATE` times a second, but never twice at once. The process obeys lines
on its standard input (on, off, end), and prints its measurements, as JSON, at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter

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

    def __init__(self, api: str, count: int, rate: float, seed: int) -> None:
        self._api = api
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
        async with httpcore.AsyncConnectionPool(uds=self._api) as client:
            while True:
                if not self._on.is_set():
                    await self._on.wait()
                    # Not all at once.
                    await asyncio.sleep(self._rng.uniform(0, self._period_s))
                cookie = FIRST_COOKIE + self._rng.randrange(STANDING_FLOWS)
                path = PATHS[number % len(PATHS)].format(cookie=cookie)
                number += 1
                began_s = time.perf_counter()
                try:
                    answer = await client.request(
                        "GET", f"http://localhost{path}", extensions={"timeout": {"read": PATIENCE_S}}
                    )
                    self.statuses[str(answer.status)] += 1
                except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
                    self.statuses[type(error).__name__] += 1
                spent_s = time.perf_counter() - began_s
                self.took_s.append(spent_s)
                await asyncio.sleep(max(self._period_s * self._rng.uniform(0.9, 1.1) - spent_s, 0))


async def main(api: str, count: int, rate: float, seed: int) -> None:
    """Run, then print."""
    clients = Clients(api, count, rate, seed)
    await clients.run()
    took_ms = sorted(round(1e3 * took_s, 3) for took_s in clients.took_s)
    print(json.dumps({"statuses": clients.statuses, "took_ms": took_ms}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
