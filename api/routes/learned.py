# SPDX-License-Identifier: Apache-2.0
"""The knowledge about destination prefixes, from earlier flows and from other hosts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ltp_switcher.api.backend import DaemonDep
from ltp_switcher.api.fleet_models import Fleet
from ltp_switcher.api.problems import problem_responses
from ltp_switcher.api.visit_models import Visits

router = APIRouter(prefix="/v1", tags=["service"])


@router.get(
    "/visits", summary="Show what was learned from flow to flow", responses=problem_responses(422, 503)
)
def get_visits(
    daemon: DaemonDep,
    prefix: Annotated[str | None, Query(description="Limit the answer to this address or network")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Largest number of prefixes in the answer")] = 100,
) -> Visits:
    """The arms on which flows to each destination prefix begin, the known effects of the arms, and the cost
    of the trials that taught them.
    """
    if prefix is None:
        return daemon.ask(Visits, "visits.get", limit=limit)
    return daemon.ask(Visits, "visits.get", limit=limit, prefix=prefix)


@router.get("/fleet", summary="Show the exchange with other hosts", responses=problem_responses(503))
def get_fleet(daemon: DaemonDep) -> Fleet:
    """The hosts of the site, their knowledge about prefixes, and the state of the exchange with the store
    that they share.
    """
    return daemon.ask(Fleet, "fleet.get")
