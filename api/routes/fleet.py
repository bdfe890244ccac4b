# SPDX-License-Identifier: Apache-2.0
"""The exchange with other hosts of the site."""

from __future__ import annotations

from fastapi import APIRouter

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.fleet_models import Fleet
from ltp_switcher.api.problems import problem_responses

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/fleet", summary="Show the exchange with other hosts", responses=problem_responses(503))
def get_fleet(daemon: DaemonDep) -> Fleet:
    """The hosts of the site, their word on prefixes, and how the exchange with the store stands."""
    return daemon.ask(Fleet, "fleet.get")
