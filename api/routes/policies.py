# SPDX-License-Identifier: Apache-2.0
"""Policies: rules of operators for flows to a prefix or a port, or of a namespace."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Query, Response

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.choices import TAGGED, IfMatch, Within, expected, put_tag, timed
from ltp_switcher.api.policy_models import PolicyChange, PolicyList, PolicyRequest
from ltp_switcher.api.problems import problem_responses
from ltp_switcher.daemon.control.client import Json

router = APIRouter(prefix="/v1/policies", tags=["team"])


@router.get("", summary="List policies", responses={**TAGGED, **problem_responses(503)})
def list_policies(daemon: DaemonDep, response: Response) -> PolicyList:
    """The policies, the most specific first. The first policy that matches a flow decides."""
    found = daemon.call("policies.get")
    put_tag(response, _entries(found))
    return PolicyList.model_validate(found)


@router.put(
    "", summary="Set the policies", responses={**TAGGED, **problem_responses(400, 409, 412, 422, 503)}
)
def set_policies(
    daemon: DaemonDep,
    response: Response,
    request: PolicyRequest,
    dry_run: Annotated[bool, Query(description="Only return the difference, and change nothing")] = False,
    confirm_within_s: Within = None,
    if_match: IfMatch = None,
) -> PolicyChange:
    """Replace all policies by these. If they are the same as before, nothing changes."""
    given: Json = [policy.model_dump(exclude_none=True) for policy in request.policies]
    found = daemon.call(
        "policies.set", policies=given, dry_run=dry_run, **timed(confirm_within_s), **expected(if_match)
    )
    if not dry_run:
        put_tag(response, _entries(found))
    return PolicyChange.model_validate(found)


def _entries(found: Json) -> Json:
    return cast("dict[str, Json]", found)["policies"]
