# SPDX-License-Identifier: Apache-2.0
"""Clients of the API that ask without a pause, each request over a connection of its own."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

import httpx

from support.daemon_process import PATIENCE_S

REQUESTS: Final = [
    ("GET", "/v1/k", None),
    ("GET", "/v1/flows?limit=2", None),
    ("PUT", "/v1/mode", {"mode": "off"}),
    ("GET", "/v1/status", None),
]


class SteadyClients:
    """Clients that ask from the start of the context to its end.

    `answers` are the statuses and the errors that came, `slowest_s` is the longest wait for one.
    """

    def __init__(self, api: Path, count: int) -> None:
        self._api = api
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(count)]
        self.answers: list[int | str] = []
        self.slowest_s = 0.0

    def __enter__(self) -> SteadyClients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the clients, each after its answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        """Let the clients get so many answers more."""
        wanted = len(self.answers) + more
        while len(self.answers) < wanted:
            self._stop.wait(0.01)

    def _ask(self, number: int) -> None:
        while not self._stop.is_set():
            method, path, body = REQUESTS[number % len(REQUESTS)]
            number += 1
            transport = httpx.HTTPTransport(uds=str(self._api), verify=False)
            began_s = time.monotonic()
            with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
                try:
                    answer = client.request(method, f"http://localhost{path}", json=body)
                    self.answers.append(answer.status_code)
                except httpx.HTTPError as error:
                    self.answers.append(repr(error))
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
