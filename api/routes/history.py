# SPDX-License-Identifier: Apache-2.0
"""All flows together over the last minutes."""

from __future__ import annotations

from fastapi import APIRouter

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.models import Totals
from ltp_switcher.api.problems import problem_responses

router = APIRouter(tags=["flows"])


@router.get("/v1/history", summary="Look at the last minutes", responses=problem_responses(503))
def get_history(daemon: DaemonDep) -> Totals:
    """The last five minutes of all flows by the arm that they ran, a point a second."""
    return daemon.ask(Totals, "history")
