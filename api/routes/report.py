# SPDX-License-Identifier: Apache-2.0
"""Does the daemon pay on this server? The report of its log of decisions."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.config_models import ConfigState
from ltp_switcher.api.gain_models import GainReport
from ltp_switcher.api.problems import ProblemError, problem_responses
from ltp_switcher.daemon.gain import log, report
from ltp_switcher.daemon.gain.rows import ROW_DTYPE
from ltp_switcher.errors import ArtifactError

SINCE_MAX_S = 10 * 365 * 86_400

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/report", summary="Report the gain", responses=problem_responses(404, 422, 503))
def get_report(
    daemon: DaemonDep,
    since_s: Annotated[
        int | None, Query(ge=1, le=SINCE_MAX_S, description="Only decisions of the last seconds")
    ] = None,
) -> GainReport:
    """What the daemon's choices changed, by the experiment under way; in mode advise, what they would.

    It is read from the log of decisions, as `ltp-switcher report` does. 404 while there is no log.
    """
    folder = daemon.ask(ConfigState, "config.get").values["daemon"]["state_dir"]
    place = Path(str(folder)) / log.FOLDER
    begin_s = 0.0 if since_s is None else time.time() - since_s
    try:
        if not folder:
            raise ArtifactError("the daemon has no daemon.state_dir, and so no log of decisions")
        parts = list(log.read(place))
        names = log.read_names(place)
    except ArtifactError as error:
        raise ProblemError(404, "no-decisions", str(error)) from error
    found = report.report(np.concatenate([np.zeros(0, ROW_DTYPE), *parts]), names, begin_s)
    return GainReport.model_validate(dataclasses.asdict(found))
