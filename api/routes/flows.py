# SPDX-License-Identifier: Apache-2.0
"""Flows: list flows, show one flow, and hold one flow at an arm."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.choices import Runtime
from ltp_switcher.api.models import (
    COOKIE_PATTERN,
    ArmName,
    FlowDetail,
    FlowHistory,
    FlowList,
    FlowPage,
    PinChange,
    PinRequest,
    Totals,
)
from ltp_switcher.api.problems import invalid, problem_responses
from ltp_switcher.daemon.control.client import Json

LIMIT_MAX = 1000
POINTS_MAX = 300
COOKIE_MAX = 2**64 - 1

router = APIRouter(prefix="/v1", tags=["flows"])

Cookie = Annotated[
    str,
    Path(
        description="Socket cookie, a decimal 64-bit number",
        pattern=COOKIE_PATTERN,
        openapi_examples={"a flow": {"value": "4711"}},
    ),
]


def _checked(cookie: str) -> str:
    """Return the cookie if it fits in 64 bits; raise `ProblemError` 422 otherwise.

    The pattern alone also allows larger numbers of 20 digits.
    """
    if int(cookie) > COOKIE_MAX:
        raise invalid("cookie", cookie, f"a whole number from 1 to {COOKIE_MAX}")
    return cookie


@router.get("/flows", summary="List flows", responses=problem_responses(422, 503))
def list_flows(
    daemon: DaemonDep,
    arm: Annotated[ArmName | None, Query(description="Only flows under this arm")] = None,
    prefix: Annotated[
        str | None,
        Query(description="Only flows to this network", examples=["192.0.2.0/24", "2001:db8::/32"]),
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=LIMIT_MAX, description="Largest number of flows in the answer")
    ] = 100,
    offset: Annotated[int, Query(ge=0, le=COOKIE_MAX, description="Number of flows to skip")] = 0,
    cursor: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9]{1,20}$",
            description=(
                "The `next_cursor` of a page. The answer has the flows after that page, whatever "
                "flows came and went meanwhile"
            ),
        ),
    ] = None,
    order: Annotated[
        Literal["cookie", "remote", "goodput", "rtt", "min_rtt", "loss", "switches", "age"],
        Query(
            description=(
                "The order. cookie and remote: the lowest value first; all others: the largest value first"
            )
        ),
    ] = "cookie",
    reverse: Annotated[
        bool, Query(description="Whether to reverse the order. Unknown values stay last")
    ] = False,
    history: Annotated[
        int,
        Query(
            ge=0,
            le=POINTS_MAX,
            description="Number of points of each flow's history in the answer, one for each second",
        ),
    ] = 0,
) -> FlowPage:
    """The flows under `mutant`, page by page."""
    given: dict[str, Json] = {
        name: value
        for name, value in (("arm", arm), ("prefix", prefix), ("cursor", cursor))
        if value is not None
    }
    page = daemon.ask(
        FlowList, "flows.page",
        limit=limit, offset=offset, order=order, reverse=reverse, history=history, **given,
    )  # fmt: skip
    return FlowPage(**dict(page), limit=limit, offset=offset)


@router.get("/flows/{cookie}", summary="Look at a flow", responses=problem_responses(404, 422, 503))
def get_flow(daemon: DaemonDep, cookie: Cookie) -> FlowDetail:
    """One flow in its state at the daemon's last step, and the reason why it runs its arm."""
    return daemon.ask(FlowDetail, "flows.get", cookie=_checked(cookie))


@router.get(
    "/flows/{cookie}/history",
    summary="Look at a flow's last minutes",
    responses=problem_responses(404, 422, 503),
)
def get_flow_history(daemon: DaemonDep, cookie: Cookie) -> FlowHistory:
    """The last five minutes of a flow, with a point for each second."""
    return daemon.ask(FlowHistory, "flows.history", cookie=_checked(cookie))


@router.put("/flows/{cookie}/pin", summary="Pin a flow", responses=problem_responses(400, 404, 409, 422, 503))
def pin_flow(daemon: DaemonDep, cookie: Cookie, request: PinRequest, runtime: Runtime = False) -> PinChange:
    """Switch a flow to an arm and hold it there, whatever the daemon would choose.

    With `runtime`, the flow is unpinned at the next start of the daemon.
    """
    return daemon.ask(PinChange, "pin", cookie=_checked(cookie), arm=request.arm, runtime=runtime)


@router.delete("/flows/{cookie}/pin", summary="Unpin a flow", responses=problem_responses(404, 422, 503))
def unpin_flow(daemon: DaemonDep, cookie: Cookie) -> PinChange:
    """Let the daemon choose for the flow again. A flow that is not pinned stays as it is."""
    return daemon.ask(PinChange, "unpin", cookie=_checked(cookie))


@router.get("/history", summary="Look at the last minutes", responses=problem_responses(503))
def get_history(daemon: DaemonDep) -> Totals:
    """The last five minutes of all flows together, by the arm that the flows ran, with a point for each
    second.
    """
    return daemon.ask(Totals, "history")
