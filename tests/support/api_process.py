# SPDX-License-Identifier: Apache-2.0
"""The program `ltp-switcher-api` as a process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

PROGRAM = [sys.executable, "-m", "ltp_switcher.api.main"]
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ApiProcess:
    """A process that serves the API on `socket`, and on a TCP `port` of the loopback where asked for."""

    process: subprocess.Popen[bytes]
    socket: Path
    port: int | None

    def client(self) -> httpx.Client:
        """An HTTP client of its socket."""
        return httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)),
            base_url="http://localhost",
            timeout=PATIENCE_S,
        )


@contextlib.contextmanager
def api_running(
    folder: Path, control_socket: Path, *, environment: Mapping[str, str] | None = None, tcp: bool = False
) -> Iterator[ApiProcess]:
    """Start the program in `folder`, and wait until it is ready; end it with the context."""
    place = folder / "api.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "api-notify"))
        manager.settimeout(PATIENCE_S)
        variables = {**os.environ, "NOTIFY_SOCKET": str(folder / "api-notify"), **(environment or {})}
        command = [*PROGRAM, "--socket", str(place), "--control", str(control_socket)]
        port = _free_port() if tcp else None
        command += ["--tcp", f"127.0.0.1:{port}"] if tcp else []
        with subprocess.Popen(command, env=variables) as process:
            try:
                assert manager.recv(4096) == b"READY=1"
                yield ApiProcess(process, place, port)
            finally:
                process.terminate()
                process.wait(PATIENCE_S)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
