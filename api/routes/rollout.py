# SPDX-License-Identifier: Apache-2.0
"""A rollout in stages: begin it, see how it stands, abort it."""

from __future__ import annotations

from fastapi import APIRouter

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.problems import problem_responses
from ltp_switcher.api.rollout_models import RolloutChange, RolloutRequest, RolloutStatus

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/rollout", summary="Show the rollout", responses=problem_responses(503))
def get_rollout(daemon: DaemonDep) -> RolloutStatus:
    """The rollout under way, or the last one, and what is proven about its effect."""
    return daemon.ask(RolloutStatus, "rollout.get")


@router.post(
    "/rollout", status_code=202, summary="Begin a rollout", responses=problem_responses(400, 409, 422, 503)
)
def start_rollout(daemon: DaemonDep, request: RolloutRequest) -> RolloutChange:
    """Let the daemon steer 5, 20, 50 and then 100 % of the traffic, in the mode active.

    It goes back to the mode advise where harm is proven. There is one rollout at a time, and no experiment
    of `[gain]` beside it.
    """
    if request.units is None:
        return daemon.ask(RolloutChange, "rollout.start")
    return daemon.ask(RolloutChange, "rollout.start", units=request.units)


@router.delete("/rollout", summary="Abort the rollout", responses=problem_responses(409, 503))
def abort_rollout(daemon: DaemonDep) -> RolloutChange:
    """End the rollout under way, and go back to the mode advise."""
    return daemon.ask(RolloutChange, "rollout.abort")
