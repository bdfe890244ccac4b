# SPDX-License-Identifier: Apache-2.0
"""The API while it has much to do. How long that takes, `make bench-api` tells."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from pathlib import Path

import httpx
from anyio import to_thread
from fastapi import FastAPI

from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.main import _Server
from ltp_switcher.api.protocol import server_config

PATIENCE_S = 60.0


def test_health_is_answered_while_every_thread_has_a_request(control_socket: Path) -> None:
    async def ask() -> httpx.Response:
        limiter, end = to_thread.current_default_thread_limiter(), threading.Event()
        busy = [asyncio.create_task(to_thread.run_sync(end.wait)) for _ in range(int(limiter.total_tokens))]
        while limiter.available_tokens:
            await asyncio.sleep(0)
        transport = httpx.ASGITransport(create_app(DaemonClient(control_socket, timeout_s=PATIENCE_S)))
        try:
            async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(transport=transport) as client:
                return await client.get("http://localhost/health")
        finally:
            end.set()
            await asyncio.gather(*busy)

    assert asyncio.run(ask()).json()["live"] is True


def test_many_health_checks_at_once_need_no_more_places_than_the_daemon_has(control_socket: Path) -> None:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app(DaemonClient(control_socket, timeout_s=PATIENCE_S)))
        async with httpx.AsyncClient(transport=transport) as client:
            return await asyncio.gather(*(client.get("http://localhost/health") for _ in range(250)))

    assert {answer.status_code for answer in asyncio.run(ask())} == {200}


def test_health_waits_for_the_next_daemon(tmp_path: Path) -> None:
    """The first one hangs up without an answer, as one that ends does."""
    place, status = (
        tmp_path / "control.sock",
        b'{"id":1,"error":{"code":"unavailable","message":"not yet"}}\n',
    )

    def serve(listener: socket.socket) -> None:
        for answer in (b"", status):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(DaemonClient(place, timeout_s=PATIENCE_S)))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.get("http://localhost/health")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        answer = asyncio.run(ask())
        thread.join()
    assert (answer.status_code, answer.json()["detail"]) == (503, "not yet")


def test_few_threads_compete_with_the_loop_and_no_collection_looks_at_the_application() -> None:
    async def start() -> tuple[float, int]:
        server = _Server(server_config(FastAPI()))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server.config.load()
            server.lifespan = server.config.lifespan_class(server.config)
            await server.startup(sockets=[listener])
            threads = to_thread.current_default_thread_limiter().total_tokens
            for made in server.servers:
                made.close()
        return threads, gc.get_freeze_count()

    try:
        threads, frozen = asyncio.run(start())
    finally:
        gc.unfreeze()
    assert threads <= 8
    assert frozen > 10_000
