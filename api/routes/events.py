# SPDX-License-Identifier: Apache-2.0
"""The stream of the daemon's events, such as switches of flows and changes of settings."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from ltp_switcher.api.access import Access
from ltp_switcher.api.events import EventFeed, EventStream
from ltp_switcher.api.metrics import ApiMetrics
from ltp_switcher.api.problems import problem_responses

BACKLOG_MAX = 1000

router = APIRouter(tags=["service"])

_EXAMPLE = """\
id: 1735689600000042
event: flow-switched
data: {"time": 1735689612.345, "cookie": "4711", "remote": "198.51.100.7:443", "before": "bbr", \
"after": "vegas", "cause": "policy", \
"reason": "the highest RTT was 7.3 times the lowest, more than 6: the rate varied"}

"""


@router.get(
    "/v1/events",
    summary="Listen to events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"example": _EXAMPLE}}}, **problem_responses(422, 503)},
)
async def listen_to_events(
    request: Request,
    last_event_id: Annotated[
        int | None,
        Header(
            ge=0,
            le=2**53,
            description="The last event that the client has. The stream begins with the next one",
        ),
    ] = None,
    backlog: Annotated[
        int,
        Query(
            ge=0,
            le=BACKLOG_MAX,
            description="Number of latest events with which the stream begins if no last event is named",
        ),
    ] = 0,
) -> Response:
    """Server-sent events: flows' switches, advice to switch, moves to the fallback arm, births and deaths of
    flows, and changes of settings.

    Over TCP the stream ends when the token or the session of its request ends.
    """
    feed = cast(EventFeed, request.app.state.events)
    access, grant = cast(Access, request.app.state.access), getattr(request.state, "grant", None)
    return EventStream(
        feed,
        cast(ApiMetrics, request.app.state.metrics),
        last_event_id,
        backlog,
        lambda: grant is None or access.sessions.holds(grant),
    )
