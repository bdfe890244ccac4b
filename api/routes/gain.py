# SPDX-License-Identifier: Apache-2.0
"""The gain on this server: the report from the log of decisions, and the rollout of the daemon's choices in
stages.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.gain import Gain
from ltp_switcher.api.gain_models import GainReport
from ltp_switcher.api.problems import problem_responses
from ltp_switcher.api.rollout_models import RolloutChange, RolloutRequest, RolloutStatus

SINCE_MAX_S = 10 * 365 * 86_400

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/report", summary="Report the gain", responses=problem_responses(404, 422, 503))
def get_report(
    request: Request,
    daemon: DaemonDep,
    since_s: Annotated[
        int | None,
        Query(
            ge=1,
            le=SINCE_MAX_S,
            description="Time in seconds. The report covers the decisions of this time before now",
        ),
    ] = None,
) -> GainReport:
    """The change that the daemon's choices cause, measured by the experiment under way. In mode advise it is
    the change to expect.

    The report is made from the log of decisions, as `ltp-switcher report` makes it. It is served again for
    ten times the time that it took to make. The status is 404 if there is no log.
    """
    found = cast(Gain, request.app.state.gain).report(since_s, daemon)
    return GainReport.model_validate(dataclasses.asdict(found))


@router.get("/rollout", summary="Show the rollout", responses=problem_responses(503))
def get_rollout(daemon: DaemonDep) -> RolloutStatus:
    """The rollout under way or the last one, with the proven bounds of its effect."""
    return daemon.ask(RolloutStatus, "rollout.get")


@router.post(
    "/rollout", status_code=202, summary="Begin a rollout", responses=problem_responses(400, 409, 422, 503)
)
def start_rollout(daemon: DaemonDep, request: RolloutRequest) -> RolloutChange:
    """Let the daemon steer 5, 20, 50 and then 100 % of the traffic, in the mode active.

    If harm is proven, the daemon returns to the mode advise. One rollout runs at a time, and none runs beside
    an experiment of the section `[gain]`.
    """
    if request.units is None:
        return daemon.ask(RolloutChange, "rollout.start")
    return daemon.ask(RolloutChange, "rollout.start", units=request.units)


@router.delete("/rollout", summary="Abort the rollout", responses=problem_responses(409, 503))
def abort_rollout(daemon: DaemonDep) -> RolloutChange:
    """End the rollout under way, and go back to the mode advise."""
    return daemon.ask(RolloutChange, "rollout.abort")
