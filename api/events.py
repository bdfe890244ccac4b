# SPDX-License-Identifier: Apache-2.0
"""The daemon's events for many clients: one task polls the daemon, and keeps the last events in a ring of
bounded size.

All clients read the same ring, each from its own place. No client has a buffer of its own. A client that
reads too slowly is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.metrics import ApiMetrics
from ltp_switcher.api.problems import ProblemError
from ltp_switcher.api.protocol import ABORT

POLL_S: Final = 0.25
HEARTBEAT_S: Final = 15.0
"""Time in seconds without an event after which the stream sends a comment, which shows whether the connection
is dead.
"""
LOOK_S: Final = 1.0
"""Longest time in seconds for which a stream goes on after its client has lost the right to listen."""
SEND_S: Final = 10.0
"""Time after which a client that reads nothing is dropped, in seconds."""
STREAMS_MAX: Final = 32
KEPT: Final = 4096
RETRY_MS: Final = 2000
"""Time after which a client should connect again, in ms."""


class Event(BaseModel):
    """One event. Which other fields an event has depends on its `kind`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    number: int
    time: float
    kind: str


class _Page(BaseModel):
    next: int
    missed: bool
    events: list[Event]


class EventFeed:
    """The daemon's events for all listeners. The daemon is polled while at least one client listens."""

    def __init__(self, daemon: DaemonClient, metrics: ApiMetrics) -> None:
        self._daemon = daemon
        self._metrics = metrics
        self._ring: deque[Event] = deque(maxlen=KEPT)
        self._next = 0
        self._news = asyncio.Condition()
        self._asking = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._streams = 0
        self._closed = False

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        async with self._news:
            self._news.notify_all()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Reserve a place for a listener. Raises `ProblemError` 503 if `STREAMS_MAX` clients listen
        already.
        """
        if self._streams >= STREAMS_MAX:
            raise ProblemError(503, "too-many-streams", f"{STREAMS_MAX} clients listen to events; try later")
        self._streams += 1
        self._metrics.streams.inc()
        try:
            yield
        finally:
            self._streams -= 1
            self._metrics.streams.dec()
            if not self._streams and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    async def listen(
        self, last_id: int | None, backlog: int, may_listen: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield the text of an event stream. The caller holds a `place`.

        The stream begins with the event after `last_id`. If `last_id` is None, it begins with the last
        `backlog` events. It asks `may_listen` before it sends anything, and ends when the answer is no.

        Raises `ProblemError` 503 if the daemon cannot be reached.
        """
        await self._catch_up()
        place = self._next - min(backlog, len(self._ring)) if last_id is None else last_id + 1
        return self._texts(place, may_listen)

    async def _texts(self, place: int, may_listen: Callable[[], bool]) -> AsyncIterator[bytes]:
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll())
        yield b"retry: %d\n\n" % RETRY_MS
        quiet_s = 0.0
        while not self._closed and may_listen():
            events, place, missed = self._since(place)
            if missed:
                yield b"event: events-missed\ndata: {}\n\n"
            if events:
                yield b"".join(map(_text, events))
                quiet_s = 0.0
                continue
            if quiet_s >= HEARTBEAT_S:
                yield b": nothing new\n\n"
                quiet_s = 0.0
            async with self._news:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._news.wait()
                except TimeoutError:
                    quiet_s += LOOK_S

    def _since(self, place: int) -> tuple[list[Event], int, bool]:
        """The events from a place on, the place after these events, and whether events before them are
        missing.
        """
        after = self._next
        first = self._ring[0].number if self._ring else after
        missed = not first <= place <= after
        events = [event for event in self._ring if missed or event.number >= place]
        return events, after, missed

    async def _catch_up(self) -> None:
        """Take in the events that came while nobody listened. If a poller runs, there are none."""
        if self._poller is not None:
            return
        while await self._ask():
            pass

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            with contextlib.suppress(ProblemError):
                await self._ask()

    async def _ask(self) -> bool:
        """Take in a page of events. Returns whether there may be more."""
        async with self._asking:
            page = await run_in_threadpool(self._page)
            if page.missed:
                self._ring.clear()
            self._ring.extend(page.events)
            self._next = page.next
        if page.events or page.missed:
            async with self._news:
                self._news.notify_all()
        return bool(page.events)

    def _page(self) -> _Page:
        return self._daemon.ask(_Page, "events", since=self._next)


class EventStream(StreamingResponse):
    """The response that streams events. It ends if its client reads nothing for `SEND_S` seconds.

    As long as it has sent nothing, it raises the errors of `EventFeed.place` and `EventFeed.listen`.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        feed: EventFeed,
        metrics: ApiMetrics,
        last_id: int | None,
        backlog: int,
        may_listen: Callable[[], bool],
    ) -> None:
        super().__init__((), headers={"cache-control": "no-store"})
        self._feed, self._metrics = feed, metrics
        self._from, self._may_listen = (last_id, backlog), may_listen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the client or the feed ends the stream."""
        with self._feed.place():
            self.body_iterator = await self._feed.listen(*self._from, self._may_listen)
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:

        async def in_time(message: object) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)  # type: ignore[arg-type]

        try:
            await super().__call__(scope, receive, in_time)
        except* TimeoutError:
            self._metrics.streams_dropped.inc()
            # A close would wait until the client has read the rest.
            scope[ABORT]()
            await asyncio.sleep(0)


def _text(event: Event) -> bytes:
    data = event.model_dump(exclude={"number", "kind"})
    return f"id: {event.number}\nevent: {event.kind}\ndata: {json.dumps(data)}\n\n".encode()
