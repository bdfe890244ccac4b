# SPDX-License-Identifier: Apache-2.0
"""Checks of a request before the app sees it: the path, and the size, time and type of the body."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ltp_switcher.api.problems import FieldProblem, ProblemError, send_problem
from ltp_switcher.daemon.control import strict_json

BODY_BYTES_MAX = 64 * 1024
BODY_TIMEOUT_S = 10.0


class RequestLimits:
    """ASGI middleware that checks the path, and reads the whole body before the app is called: at most
    `BODY_BYTES_MAX` bytes of JSON.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            _check_path(scope["path"])
            body = await _read_body(scope, receive)
        except ProblemError as problem:
            await send_problem(problem, scope, receive, send)
            return
        except _GoneError:
            # The received part of the request may be valid JSON, but not what the client wanted.
            return

        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)


class _GoneError(Exception):
    """The client hung up before its request was whole."""


def _check_path(path: str) -> None:
    """Raise `ProblemError` 404 for a path that ends with a line break, which the routes would overlook."""
    if path.endswith("\n"):
        raise ProblemError(404, "unknown-path", f"no resource at {path!r}; /v1/openapi.json lists all")


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    """The request's body; raises `ProblemError` 400, 408, 413 or 415, or `_GoneError`."""
    headers = Headers(scope=scope)
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise _too_large(int(declared))
    body = b""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > BODY_BYTES_MAX:
                    raise _too_large(len(body))
    except TimeoutError:
        raise ProblemError(
            408,
            "request-timeout",
            f"the body did not arrive within {BODY_TIMEOUT_S:g} s",
            headers={"connection": "close"},
        ) from None
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and media_type != "application/json":
        raise ProblemError(
            415,
            "unsupported-media-type",
            "the body must be JSON and say so",
            fields=[FieldProblem(field="Content-Type", value=media_type, allowed="application/json")],
        )
    if body:
        _check_json(body)
    return body


def _check_json(body: bytes) -> None:
    try:
        strict_json.parse(body)
    except ValueError as error:
        raise ProblemError(
            400,
            "malformed-json",
            f"the body is not JSON: {error}",
            title="Malformed JSON",
            fields=[FieldProblem(field="body", allowed="a JSON document")],
        ) from error


def _too_large(size: int) -> ProblemError:
    return ProblemError(
        413,
        "content-too-large",
        f"the body has {size} bytes or more; at most {BODY_BYTES_MAX} are taken",
        fields=[FieldProblem(field="body", value=size, allowed=f"at most {BODY_BYTES_MAX} bytes")],
        headers={"connection": "close"},
    )
