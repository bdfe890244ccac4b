# SPDX-License-Identifier: Apache-2.0
"""Addresses that open the dashboard once."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from fastapi import APIRouter, Request

from ltp_switcher.api.access import Access
from ltp_switcher.api.models import SessionAddress, SessionRequest
from ltp_switcher.api.problems import ProblemError, problem_responses
from ltp_switcher.api.sessions import CODE_S, Grant
from ltp_switcher.daemon.settings.tokens import Scope

router = APIRouter(prefix="/v1", tags=["service"])


@router.post(
    "/sessions",
    status_code=201,
    summary="Make a one-time address of the dashboard",
    responses=problem_responses(409, 422),
)
def make_session(request: Request, wanted: SessionRequest) -> SessionAddress:
    """Make an address that opens a session of 12 hours in a browser. The address works once, within a minute.

    The session ends earlier if the token or the session that authorised this request ends.
    """
    access = cast(Access, request.app.state.access)
    if not access.address:
        raise ProblemError(
            409,
            "no-tcp",
            "the API does not listen on TCP; set tcp in [api] of the configuration, and restart the API",
        )
    own = Grant(Scope.WRITE, getattr(request.state, "author", None))
    held = cast(Grant, getattr(request.state, "grant", own))
    code = access.sessions.invite(replace(held, scope=Scope(wanted.scope)))
    return SessionAddress(url=f"http://{access.address}/?code={code}", expires_in_s=CODE_S)
