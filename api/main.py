# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher-api`: the program that serves the API until it is stopped."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from anyio import to_thread
from fastapi import FastAPI

import ltp_switcher
from ltp_switcher.api.access import Access
from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.events import EventFeed
from ltp_switcher.api.listen import tcp_socket, unix_socket
from ltp_switcher.api.protocol import server_config
from ltp_switcher.daemon.service import log as logs
from ltp_switcher.daemon.service.systemd import ServiceManager, inherited
from ltp_switcher.daemon.settings.load import load
from ltp_switcher.daemon.settings.rules import Value
from ltp_switcher.daemon.settings.schema import DEFAULT_PATH, Config
from ltp_switcher.errors import LtpSwitcherError

GRACE_S = 5
THREADS = 8
"""Number of threads that send requests to the daemon. The daemon answers one request at a time, so more
threads would only compete with the event loop.
"""
TCP_THREADS = 4
"""Number of threads that send requests to the daemon for clients over TCP. These clients have their own event
loop, so that clients of the UNIX socket never wait for them.
"""
SWITCH_S = 0.001
"""Time in seconds for which one thread may keep the Python interpreter while the event loop waits for it."""
log = logging.getLogger("ltp_switcher.api")


class _Server(uvicorn.Server):
    """Serves an app on an event loop of its own, with `threads` threads for calls that block."""

    def __init__(self, app: FastAPI, threads: int) -> None:
        super().__init__(server_config(app, grace_s=GRACE_S))
        self._events: EventFeed = app.state.events
        self._threads = threads

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        to_thread.current_default_thread_limiter().total_tokens = self._threads

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._events.close()
        await super().shutdown(sockets)


class _MainServer(_Server):
    """Tells the service manager when the server is ready, and when it stops. uvicorn has no hook for this."""

    manager = ServiceManager()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # The objects that exist now are kept for good. A garbage collection over all of them would stop every
        # request for 60 ms.
        gc.collect()
        gc.freeze()
        self.manager.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.manager.stopping()
        await super().shutdown(sockets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parser().parse_args(arguments)
    if options.openapi:
        document = create_app(DaemonClient(Path(os.devnull))).openapi()
        print(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False))
        return 0
    overrides: dict[str, Value] = {
        key: value
        for key, value in (
            ("api.socket", options.socket),
            ("api.tcp", options.tcp),
            ("daemon.control_socket", options.control),
        )
        if value is not None
    }
    try:
        config = load(options.config, os.environ, overrides)
        logs.set_up(config.daemon.log_level)
        serve(config, options.group)
    except LtpSwitcherError as error:
        print(f"ltp-switcher-api: {error}", file=sys.stderr)
        return 1
    return 0


def serve(config: Config, group: str | None) -> None:
    """Listen and answer until SIGTERM or SIGINT. After the signal, requests under way get `GRACE_S` seconds
    to finish.

    If the service manager passes listening sockets, they replace the sockets that the settings name. Raises
    `ControlError` if a socket cannot be opened.
    """
    control, access = Path(config.daemon.control_socket), Access(Path(config.api.token_file))
    app = create_app(DaemonClient(control), access)
    sys.setswitchinterval(SWITCH_S)
    # uvicorn raises the signal again when it has shut down. By then our work is done.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with contextlib.ExitStack() as sockets:
        listeners = [sockets.enter_context(listener) for listener in inherited()]
        if not any(listener.family == socket.AF_UNIX for listener in listeners):
            listeners.append(sockets.enter_context(unix_socket(Path(config.api.socket), group)))
        if config.api.tcp and all(listener.family == socket.AF_UNIX for listener in listeners):
            listeners.append(sockets.enter_context(tcp_socket(config.api.tcp)))
        access.address = next(filter(None, map(_address, listeners)), "")
        log.info("API on %s", ", ".join(str(listener.getsockname()) for listener in listeners))
        unix = [listener for listener in listeners if listener.family == socket.AF_UNIX]
        tcp = [listener for listener in listeners if listener.family != socket.AF_UNIX]
        server = _MainServer(app, THREADS)
        with _serving(create_app(DaemonClient(control), access, app.state.metrics), tcp, server):
            server.run(sockets=unix)


@contextlib.contextmanager
def _serving(app: FastAPI, listeners: list[socket.socket], main: _Server) -> Iterator[None]:
    """Serve an app in a thread of its own, if there are listeners. If this server fails, `main` ends, too."""
    if not listeners:
        yield
        return
    server = _Server(app, TCP_THREADS)

    def work() -> None:
        try:
            server.run(sockets=listeners)
        finally:
            main.should_exit = True

    with ThreadPoolExecutor(1, "tcp") as threads:
        worker = threads.submit(work)
        try:
            yield
        finally:
            server.should_exit = True
        worker.result()


def _address(listener: socket.socket) -> str:
    """Host and port of a TCP listener as in a URL; "" for a UNIX socket."""
    if listener.family == socket.AF_UNIX:
        return ""
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{host}:{port}"


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="ltp-switcher-api", description="REST API of ltp-switcher, on a UNIX socket."
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {ltp_switcher.__version__}")
    made.add_argument("--config", type=Path, metavar="FILE", help=f"settings (default {DEFAULT_PATH})")
    made.add_argument("--socket", metavar="PATH", help="listen on this UNIX socket (api.socket)")
    made.add_argument("--tcp", metavar="HOST:PORT", help="also listen here; needs tokens (api.tcp)")
    made.add_argument("--control", metavar="PATH", help="the daemon's socket (daemon.control_socket)")
    made.add_argument("--openapi", action="store_true", help="print the OpenAPI document and end")
    made.add_argument("--group", help="group of the UNIX socket (default: the one of this process)")
    return made


if __name__ == "__main__":
    sys.exit(main())
