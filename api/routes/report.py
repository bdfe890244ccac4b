# SPDX-License-Identifier: Apache-2.0
"""Does the daemon pay on this server? The report of its log of decisions."""

from __future__ import annotations

import dataclasses
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.gain import Gain
from ltp_switcher.api.gain_models import GainReport
from ltp_switcher.api.problems import problem_responses

SINCE_MAX_S = 10 * 365 * 86_400

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/report", summary="Report the gain", responses=problem_responses(404, 422, 503))
def get_report(
    request: Request,
    daemon: DaemonDep,
    since_s: Annotated[
        int | None, Query(ge=1, le=SINCE_MAX_S, description="Only decisions of the last seconds")
    ] = None,
) -> GainReport:
    """The change by the daemon's choices, from the experiment under way; in mode advise, the expected change.

    It is read from the log of decisions, as `ltp-switcher report` does. One that took long is given again for
    ten times as long. 404 while there is no log.
    """
    found = cast(Gain, request.app.state.gain).report(since_s, daemon)
    return GainReport.model_validate(dataclasses.asdict(found))
