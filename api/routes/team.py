# SPDX-License-Identifier: Apache-2.0
"""The arms, the pool from which the daemon chooses, and MPTS, the team selection of Mutant. It picks teams of
k arms.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Response

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.choices import TAGGED, IfMatch, Runtime, Within, expected, put_tag, timed
from ltp_switcher.api.models import (
    Arm,
    ArmList,
    ArmRequest,
    Pool,
    PoolChange,
    PoolRequest,
    TeamSize,
    TeamSizeChange,
    TeamSizeRequest,
)
from ltp_switcher.api.problems import problem_responses
from ltp_switcher.api.team_models import TeamSearches, TeamSearchRequest
from ltp_switcher.daemon.control.client import Json

P = TypeVar("P", bound=Pool)
S = TypeVar("S", bound=TeamSize)
router = APIRouter(prefix="/v1", tags=["team"])


@router.get("/arms", summary="List arms", responses=problem_responses(503))
def list_arms(daemon: DaemonDep) -> ArmList:
    """Every congestion control that `mutant` knows. If this kernel cannot run one, the answer says why."""
    return ArmList(arms=daemon.ask(list[Arm], "arms.list"))


@router.post("/arms", summary="Load an arm", responses=problem_responses(400, 422, 503))
def load_arm(daemon: DaemonDep, request: ArmRequest) -> Arm:
    """Load another congestion control of this kernel as an arm. It stays until the module is removed.

    To load it at every start, name it in `pool.extra` of the configuration.
    """
    return daemon.ask(Arm, "arms.load", name=request.name)


@router.get("/pool", summary="Show the pool", responses={**TAGGED, **problem_responses(503)})
def get_pool(daemon: DaemonDep, response: Response) -> Pool:
    """The arms among which the daemon chooses now. The entity tag belongs to the list `arms`."""
    return _tagged_pool(daemon.ask(Pool, "pool.get"), response)


@router.put(
    "/pool", summary="Set the pool", responses={**TAGGED, **problem_responses(400, 409, 412, 422, 503)}
)
def set_pool(
    daemon: DaemonDep,
    response: Response,
    request: PoolRequest,
    runtime: Runtime = False,
    confirm_within_s: Within = None,
    if_match: IfMatch = None,
) -> PoolChange:
    """Choose among these arms. The daemon forgets its teams (the best k arms by prefix); the policy `mutant`
    picks new ones.

    The policy `rule` runs only bbr, ltp and vegas, or cubic if the pool has none of the three.

    If the arms are the same as before, nothing changes. With `mpts.enabled = false` only `POST /v1/mpts`
    picks teams.
    """
    how = {**timed(confirm_within_s), **expected(if_match)}
    pool = daemon.ask(PoolChange, "pool.set", arms=[*request.arms], runtime=runtime, **how)
    return _tagged_pool(pool, response)


@router.get("/k", summary="Show k", responses={**TAGGED, **problem_responses(503)})
def get_k(daemon: DaemonDep, response: Response) -> TeamSize:
    """The size k of teams: the number of arms that MPTS, the team selection of Mutant, picks for a prefix."""
    return _tagged_k(daemon.ask(TeamSize, "k.get"), response)


@router.put("/k", summary="Set k", responses={**TAGGED, **problem_responses(400, 409, 412, 422, 503)})
def set_k(
    daemon: DaemonDep,
    response: Response,
    request: TeamSizeRequest,
    runtime: Runtime = False,
    confirm_within_s: Within = None,
    if_match: IfMatch = None,
) -> TeamSizeChange:
    """Set the size of teams, at most the number of arms in the pool.

    The daemon forgets teams of another size; the policy `mutant` picks new ones.

    The default policy `rule` picks no team, so no flow gets another arm, and `note` says so. With this
    policy, or with `mpts.enabled = false`, only `POST /v1/mpts` picks teams.
    """
    how = {**timed(confirm_within_s), **expected(if_match)}
    size = daemon.ask(TeamSizeChange, "k.set", k=request.k, runtime=runtime, **how)
    return _tagged_k(size, response)


@router.get("/mpts", summary="Show team selections", responses=problem_responses(503))
def get_mpts(daemon: DaemonDep) -> TeamSearches:
    """The progress of the team selections under way, and the teams that were found."""
    return daemon.ask(TeamSearches, "mpts.status")


@router.post("/mpts", status_code=202, summary="Pick teams", responses=problem_responses(400, 422, 503))
def start_mpts(daemon: DaemonDep, request: TeamSearchRequest) -> TeamSearches:
    """Forget the teams that were found, and pick teams again. Arms are tried on the open flows, or on whole
    visits of later flows (`"by": "visits"`).
    """
    given: dict[str, Json] = {} if request.prefix is None else {"prefix": request.prefix}
    if request.by != "round-trips":
        given["by"] = request.by
    return daemon.ask(TeamSearches, "mpts.start", **given)


@router.delete("/mpts", summary="Cancel team selections", responses=problem_responses(422, 503))
def cancel_mpts(
    daemon: DaemonDep,
    prefix: Annotated[
        str | None,
        Query(max_length=128, description="Limit the request to this prefix", examples=["192.0.2.0/24"]),
    ] = None,
) -> TeamSearches:
    """End team selections under way. Their flows go on with all arms of the pool. Teams that were found
    before stay.

    With `mpts.enabled` the next flow to a prefix without a team starts a selection again.
    """
    given: dict[str, Json] = {} if prefix is None else {"prefix": prefix}
    return daemon.ask(TeamSearches, "mpts.cancel", **given)


def _tagged_pool(pool: P, response: Response) -> P:
    put_tag(response, [*pool.arms])
    return pool


def _tagged_k(size: S, response: Response) -> S:
    put_tag(response, size.k)
    return size
