# SPDX-License-Identifier: Apache-2.0
"""One client that asks again and again: `python -m load.health SOCKET FILE PERIOD [PATH]`, until SIGTERM.

It writes a line for each request: when it began (ns, CLOCK_MONOTONIC), how long it took (ns), the status.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx

PATIENCE_S = 60.0


def main(api: str, target: Path, period_s: float, path: str = "/health") -> None:
    """Ask, one request after the other."""
    transport = httpx.HTTPTransport(uds=api, verify=False)
    with (
        httpx.Client(transport=transport, timeout=PATIENCE_S) as client,
        target.open("w", buffering=1) as file,
    ):
        while True:
            began_ns = time.monotonic_ns()
            try:
                status = str(client.get(f"http://localhost{path}").status_code)
            except httpx.HTTPError as error:
                status = type(error).__name__
            took_ns = time.monotonic_ns() - began_ns
            file.write(f"{began_ns} {took_ns} {status}\n")
            time.sleep(max(period_s - took_ns / 1e9, 0))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
