# SPDX-License-Identifier: Apache-2.0
"""The program `ltp-switcher-api` as a process."""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.daemon_process import PATIENCE_S, service_running


@dataclass(frozen=True, slots=True)
class ApiProcess:
    """A process that serves the API on `socket`, and on a TCP `port` of the loopback where asked for."""

    process: subprocess.Popen[bytes]
    socket: Path
    port: int | None

    def client(self) -> httpx.Client:
        """An HTTP client of its socket."""
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE_S)


@contextlib.contextmanager
def api_running(
    folder: Path,
    control_socket: Path,
    *,
    environment: Mapping[str, str] | None = None,
    tcp: bool = False,
    listener: socket.socket | None = None,
    patient: bool = False,
    log: Path | None = None,
) -> Iterator[ApiProcess]:
    """Start the program, and wait until it is ready; end it with the context.

    It serves `listener`, or `api.sock` in `folder`. `patient`: it waits for the daemon longer than a busy
    machine needs to start one.
    """
    place = folder / "api.sock" if listener is None else Path(listener.getsockname())
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "support.api_process" if patient else "ltp_switcher.api.main",
    ]
    command += ["--socket", place, "--control", control_socket]
    port = _free_port() if tcp else None
    command += ["--tcp", f"127.0.0.1:{port}"] if tcp else []
    with service_running(command, folder, listener=listener, environment=environment, log=log) as process:
        yield ApiProcess(process, place, port)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    from ltp_switcher.api import main as program

    program.DaemonClient = functools.partial(program.DaemonClient, timeout_s=PATIENCE_S)  # type: ignore[misc, assignment]
    sys.exit(program.main())
