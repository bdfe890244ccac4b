# SPDX-License-Identifier: Apache-2.0
"""The API while it has much to do. How long that takes, `make bench-api` tells."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import threading
from pathlib import Path

import httpx
import pytest
from anyio import to_thread
from support.api_process import api_running

from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.main import THREADS, _MainServer
from ltp_switcher.daemon.cli.main import main

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


def test_clients_over_tcp_take_no_thread_from_the_unix_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The daemon of this test never answers anybody who asks for its arms."""
    place, held = tmp_path / "control.sock", threading.Semaphore(0)

    def answer(connection: socket.socket) -> None:
        with connection:
            request = json.loads(connection.recv(10_000))
            if request["method"] == "arms.list":
                held.release()
                connection.recv(1)
            else:
                connection.sendall(json.dumps({"id": request["id"], "result": {"k": 3}}).encode() + b"\n")

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    monkeypatch.setenv("LTP_SWITCHER_API_TOKEN_FILE", str(tmp_path / "tokens.json"))
    assert main(["token", "add", "crowd", "--read"]) == 0
    headers = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    waiting: list[httpx.Response] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(100)
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        with api_running(tmp_path, place, tcp=True, patient=True) as api:

            def crowd() -> None:
                with contextlib.suppress(httpx.HTTPError):
                    path = f"http://127.0.0.1:{api.port}/v1/arms"
                    waiting.append(httpx.get(path, headers=headers, timeout=PATIENCE_S))

            threads = [threading.Thread(target=crowd) for _ in range(40)]
            for thread in threads:
                thread.start()
            assert held.acquire(timeout=PATIENCE_S)
            with api.client() as client:
                answers = [client.get("/v1/k").json() for _ in range(20)]
            assert answers == [{"k": 3}] * 20
            assert waiting == [], "the crowd waits still"
            api.process.kill()
        for thread in threads:
            thread.join()


def test_few_threads_compete_with_the_loop_and_no_collection_looks_at_the_application() -> None:
    async def start() -> tuple[float, int]:
        server = _MainServer(create_app(DaemonClient(Path("/nowhere"))), THREADS)
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
