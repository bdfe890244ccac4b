# SPDX-License-Identifier: Apache-2.0
"""HEAD for every path that has GET: the same status and headers without a body (RFC 9110, 9.3.2)."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LAST: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}


class HeadLikeGet:
    """ASGI middleware that lets the application answer HEAD as GET, and leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        started, ended = asyncio.Event(), False

        async def without_body(message: Message) -> None:
            nonlocal ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)
            started.set()

        async def until_started() -> Message:
            """The client's next message. After the headers of the answer it is a disconnect, so that a stream
            ends.
            """
            heard, begun = asyncio.ensure_future(receive()), asyncio.ensure_future(started.wait())
            try:
                await asyncio.wait((heard, begun), return_when=asyncio.FIRST_COMPLETED)
                return heard.result() if heard.done() else {"type": "http.disconnect"}
            finally:
                heard.cancel()
                begun.cancel()

        await self.app({**scope, "method": "GET"}, until_started, without_body)
        if started.is_set() and not ended:
            # A stream that knows that its client is gone sends no last part.
            await send(_LAST)
