# SPDX-License-Identifier: Apache-2.0
"""Clients that mean harm, as a process: `python -m load.abuse API_PORT API_SOCKET CONTROL_SOCKET HALF_OPEN`.

- So many connections over TCP that never finish their headers. One that is hung up on comes
  again after five seconds.
- One client each of API and control socket that asks for all flows, again and again, and reads nothing.
- After the order `garbage`, also clients of both sockets that send no valid request. They pause for 10 ms
  after each answer. And another user holds as many connections to the control socket as it can.

It obeys lines on its standard input (on, garbage, off, end).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from multiprocessing.process import BaseProcess

from load import crowd
from load.orders import Orders

AGAIN_S = 5.0
PAUSE_S = 0.01
GARBAGE = (
    b"\x00\xff\xfe\n", b"GET / HTTP/9.9\r\n\r\n", b"{}\n", b'{"id":1e999}\n', b"[" * 500 + b"\n",
    b'{"id":1,"method":"\\ud800"}\n', b'{"id":1,"method":"pin","params":{"cookie":"1\\u0000"}}\n',
    b"PUT /v1/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
    b'{"k":1e',
    b"GET /v1/flows/99999999999999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)  # fmt: skip


class Abuse:
    """Tasks that run until they are cancelled."""

    def __init__(self, port: int, api: str, control: str, half_open: int) -> None:
        self._port, self._api, self._control = port, api, control
        self._half_open = half_open
        self._tasks: list[asyncio.Task[None]] = []
        self._crowd: BaseProcess | None = None
        self.done: Counter[str] = Counter()

    def start(self, *, garbage: bool) -> None:
        """Begin."""
        calls: list[Callable[[], Coroutine[None, None, None]]] = [self._half] * self._half_open
        calls += [self._never_read_api, self._never_read_control]
        if garbage:
            calls += [lambda: self._garble(self._api)] * 4 + [lambda: self._garble(self._control)] * 4
            self._crowd = crowd.start(self._control)
        self._tasks = [asyncio.create_task(self._again(call)) for call in calls]

    async def stop(self) -> None:
        """Leave."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._crowd is not None:
            self._crowd.terminate()
            self._crowd.join()
            self._crowd = None

    async def _again(self, call: Callable[[], Coroutine[None, None, None]]) -> None:
        await asyncio.sleep(random.random() * AGAIN_S)
        while True:
            with contextlib.suppress(OSError):
                await call()
            await asyncio.sleep(AGAIN_S)

    async def _half(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.done["half-open requests"] += 1
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-")
            await reader.read()
        finally:
            writer.close()

    async def _never_read_api(self) -> None:
        await self._never_read(self._api, b"GET /v1/flows?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    async def _never_read_control(self) -> None:
        await self._never_read(self._control, b'{"id":1,"method":"flows.list"}\n')

    async def _never_read(self, path: str, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            await loop.sock_connect(client, path)
            self.done["clients that never read"] += 1
            while True:
                await loop.sock_sendall(client, request * 100)

    async def _garble(self, path: str) -> None:
        while True:
            reader, writer = await asyncio.open_unix_connection(path)
            self.done["garbage"] += 1
            try:
                writer.write(random.choice(GARBAGE))
                writer.write_eof()
                async with asyncio.timeout(5):
                    await reader.read()
            except TimeoutError:
                pass
            finally:
                writer.close()
            await asyncio.sleep(PAUSE_S)


async def main(port: int, api: str, control: str, half_open: int) -> None:
    """Run, then print what was done."""
    abuse = Abuse(port, api, control, half_open)
    async for order in Orders():
        await abuse.stop()
        if order in ("on", "garbage"):
            abuse.start(garbage=order == "garbage")
    await abuse.stop()
    print(json.dumps(abuse.done))


if __name__ == "__main__":
    limit = int(sys.argv[4]) + 1024
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (limit, max(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    )
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])))  # type: ignore[call-arg]
