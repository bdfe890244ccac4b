# SPDX-License-Identifier: Apache-2.0
"""The settings with their origins, the changes that operators made, and the versions."""

from __future__ import annotations

from typing import Annotated, TypeVar, cast

from fastapi import APIRouter, Path, Query, Response

import ltp_switcher
from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.choices import TAGGED, IfMatch, Runtime, Within, expected, put_tag, timed
from ltp_switcher.api.config_models import (
    Changed,
    ChangeList,
    ConfigChange,
    ConfigPatch,
    ConfigState,
    Confirmed,
    Reverted,
    Versions,
)
from ltp_switcher.api.problems import problem_responses
from ltp_switcher.daemon.control.client import Json

CHANGES_MAX = 100

S = TypeVar("S", bound=ConfigState)
router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/config", summary="Show the settings", responses={**TAGGED, **problem_responses(503)})
def get_config(daemon: DaemonDep, response: Response) -> ConfigState:
    """The settings in force, and the origin of each value."""
    return _tagged(daemon.ask(ConfigState, "config.get"), response)


@router.patch(
    "/config", summary="Change settings", responses={**TAGGED, **problem_responses(400, 409, 412, 422, 503)}
)
def change_config(
    daemon: DaemonDep,
    response: Response,
    request: ConfigPatch,
    runtime: Runtime = False,
    confirm_within_s: Within = None,
    if_match: IfMatch = None,
) -> ConfigChange:
    """Set these values over the configuration: all of them, or none if one is refused. A null drops a value
    that was set in this way before.

    Only settings that a running daemon can change are allowed. All others need the file and a restart.
    """
    values = cast("Json", request.values)
    return _tagged(
        daemon.ask(
            ConfigChange,
            "config.set",
            values=values,
            runtime=runtime,
            **timed(confirm_within_s),
            **expected(if_match),
        ),
        response,
    )


@router.get("/changes", summary="List changes", responses=problem_responses(422, 503))
def list_changes(
    daemon: DaemonDep,
    limit: Annotated[
        int, Query(ge=1, le=CHANGES_MAX, description="Largest number of changes in the answer")
    ] = CHANGES_MAX,
) -> ChangeList:
    """The last changes that operators made, the latest first. The audit file on disk goes back for months."""
    return ChangeList(changes=daemon.ask(list[Changed], "changes.list", limit=limit))


@router.post("/changes/confirm", summary="Confirm changes", responses=problem_responses(409, 503))
def confirm_changes(daemon: DaemonDep) -> Confirmed:
    """Keep the changes that wait for a confirmation. Without it the daemon undoes them in time."""
    return daemon.ask(Confirmed, "changes.confirm")


@router.post(
    "/changes/{number}/revert", summary="Revert a change", responses=problem_responses(409, 412, 422, 503)
)
def revert_change(
    daemon: DaemonDep, number: Annotated[int, Path(ge=1, le=2**53, description="The number of a change")]
) -> Reverted:
    """Restore the value from before a change. The status is 412 if the value has been changed again since.

    The last 20 changes of settings and of the policies can be reverted.
    """
    return daemon.ask(Reverted, "changes.revert", number=number)


@router.delete("/overrides", summary="Drop what was set", responses={**TAGGED, **problem_responses(503)})
def clear_overrides(daemon: DaemonDep, response: Response) -> ConfigChange:
    """Drop all settings that were set over the configuration. Policies and pins stay."""
    return _tagged(daemon.ask(ConfigChange, "overrides.clear"), response)


@router.get("/version", summary="Show the versions", responses=problem_responses(503))
def get_version(daemon: DaemonDep) -> Versions:
    """The versions of the API, of the daemon, and of the records that module and daemon exchange."""
    found = cast("dict[str, Json]", daemon.call("version"))
    return Versions.model_validate(
        {"api": ltp_switcher.__version__, "daemon": found["version"], "records": found["record_version"]}
    )


def _tagged(state: S, response: Response) -> S:
    put_tag(response, cast("Json", state.values))
    return state
