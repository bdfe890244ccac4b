# SPDX-License-Identifier: Apache-2.0
"""The service itself: mode, status, health and metrics."""

from __future__ import annotations

import asyncio
from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.choices import Runtime, Within, timed
from ltp_switcher.api.metrics import ApiMetrics
from ltp_switcher.api.models import Health, ModeChange, ModeRequest, ModeState, Status
from ltp_switcher.api.problems import ProblemError, problem_responses
from ltp_switcher.daemon.control import bundle

LATE_MS = 2000.0

router = APIRouter(tags=["service"])

_EXAMPLE = """\
# HELP ltp_switcher_flows Flows under mutant.
# TYPE ltp_switcher_flows gauge
ltp_switcher_flows 12.0
"""


@router.get("/v1/mode", summary="Show the mode", responses=problem_responses(503))
def get_mode(daemon: DaemonDep) -> ModeState:
    """The mode, which says whether the daemon carries out its decisions."""
    return daemon.ask(ModeState, "mode.get")


@router.put("/v1/mode", summary="Set the mode", responses=problem_responses(400, 409, 422, 503))
def set_mode(
    daemon: DaemonDep, request: ModeRequest, runtime: Runtime = False, confirm_within_s: Within = None
) -> ModeChange:
    """Carry out decisions, only log them, or make none."""
    return daemon.ask(ModeChange, "mode.set", mode=request.mode, runtime=runtime, **timed(confirm_within_s))


@router.get("/v1/status", summary="Show the status", responses=problem_responses(503))
def get_status(daemon: DaemonDep) -> Status:
    """The daemon's state, and its counters since its start."""
    return daemon.ask(Status, "status")


@router.get("/health", summary="Check health", responses=problem_responses(503))
async def get_health(daemon: DaemonDep) -> Health:
    """The status is 200 while the daemon answers and steps on time, and 503 otherwise. A step is one round of
    measurements and decisions.
    """
    status = await daemon.ask_at_once(Status, "status")
    if status.last_step_age_ms > LATE_MS + max(status.step_ms, status.idle_step_ms):
        raise ProblemError(
            503, "daemon-late", f"the daemon's last step was {status.last_step_age_ms:.0f} ms ago"
        )
    return Health(
        live=True,
        ready=True,
        mode=status.mode,
        faults=status.faults,
        last_step_age_ms=status.last_step_age_ms,
    )


@router.get(
    "/v1/support-bundle",
    summary="Fetch a support bundle",
    response_class=Response,
    responses={200: {"content": {"application/gzip": {}}}, **problem_responses(503)},
)
def get_support_bundle(daemon: DaemonDep) -> Response:
    """A .tar.gz with all that a maintainer needs first to find a fault. Flows' addresses are cut to their
    prefixes.
    """
    # If the daemon cannot be reached, this fails with status 503, so that no bundle is full of errors.
    daemon.call("version")
    headers = {"content-disposition": f'attachment; filename="{bundle.file_name()}"'}
    return Response(bundle.bundle(daemon.told), media_type="application/gzip", headers=headers)


@router.get(
    "/metrics",
    summary="Read metrics",
    response_class=Response,
    responses={
        200: {
            "content": {
                "text/plain": {"example": _EXAMPLE},
                "application/openmetrics-text": {"example": _EXAMPLE + "# EOF\n"},
            }
        }
    },
)
async def get_metrics(request: Request) -> Response:
    """The metrics of daemon and API in Prometheus' text format, or in OpenMetrics if `Accept` asks for it.

    While the daemon does not answer, `ltp_switcher_up` is 0 and only the API's metrics are present.

    The metrics are computed at most once a second.
    """
    metrics, accept = cast(ApiMetrics, request.app.state.metrics), request.headers.get("accept", "")
    # Only one thread waits for the daemon, whatever the number of clients.
    async with cast(asyncio.Lock, request.app.state.scraping):
        made = metrics.ready(accept)
        if made is None:
            made = await run_in_threadpool(metrics.render, accept)
    body, content_type = made
    return Response(body, headers={"content-type": content_type})
