# SPDX-License-Identifier: Apache-2.0
"""One request to an API that runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
from fastapi import FastAPI

from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient as Backend

Ask = Callable[..., httpx.Response]


def asker(control_socket: Path, *, raise_app_exceptions: bool = True) -> Ask:
    """A function that sends one request to an API in front of a control socket."""
    return asker_of(
        create_app(Backend(control_socket, timeout_s=5)), raise_app_exceptions=raise_app_exceptions
    )


def asker_of(app: FastAPI, *, raise_app_exceptions: bool = True) -> Ask:
    """A function that sends one request to an application."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=raise_app_exceptions)

    async def send(method: str, path: str, **options: object) -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return lambda method, path, **options: asyncio.run(send(method, path, **options))
