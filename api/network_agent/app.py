# SPDX-License-Identifier: Apache-2.0
"""The REST API of a measurement agent on a router. It has one resource, the state of the router's queues."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastapi import FastAPI
from pydantic import BaseModel, Field

import ltp_switcher
from ltp_switcher.api import problems
from ltp_switcher.api.head import HeadLikeGet
from ltp_switcher.api.network_agent.allowed import LOOPBACK, AllowList, IpNetwork
from ltp_switcher.api.network_agent.collector import Collector
from ltp_switcher.api.problems import ProblemError, problem_responses
from ltp_switcher.policies.runtime.path_knowledge import WINDOW_S


class Node(BaseModel):
    """The measurements of one node (a queue on the path) over the last second."""

    name: str
    difference_pkts: float = Field(description="Packets received and not sent, |P_in - P_out|", ge=0)
    spare: float = Field(description="Spare share of the link's capacity", ge=0, le=1)


class Network(BaseModel):
    """The congestion of the path, as far as the agent's nodes (queues on the path) show it. The path may have
    other nodes.
    """

    pnc_pkts: float = Field(description="Partial Network Congestion: the largest difference", ge=0)
    pna: float = Field(description="Partial Network Availability: the smallest spare share", ge=0, le=1)
    known: float = Field(description="Known nodes over all nodes of the path", gt=0, le=1)
    window_s: float = Field(description="Length of the window in which packets are counted, in seconds")
    age_s: float = Field(description="Seconds since the window ended")
    nodes: list[Node]


def create_app(collector: Collector, allowed: Sequence[IpNetwork] = LOOPBACK) -> FastAPI:
    """Make the API that serves a collector's readings to hosts of the networks `allowed`."""
    app = FastAPI(
        title="ltp-owl-agent",
        version=ltp_switcher.__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )

    @app.get("/v1/network", summary="Read the network's state", responses=problem_responses(403, 503))
    def get_network() -> Network:
        """The congestion (PNC) and the availability (PNA) of the path in the last second. The status is 503
        while no node has been read twice.
        """
        latest = collector.latest
        if latest is None or latest.knowledge is None:
            raise ProblemError(
                503, "nothing-known", "no node has been read over a whole window; ask again in a second"
            )
        known = latest.knowledge
        return Network(
            pnc_pkts=known.pnc_pkts,
            pna=known.pna,
            known=known.known,
            window_s=WINDOW_S,
            age_s=time.monotonic() - latest.at_s,
            nodes=[
                Node(name=name, difference_pkts=report.difference_pkts, spare=report.spare)
                for name, report in latest.nodes.items()
            ],
        )

    problems.install(app)
    app.add_middleware(HeadLikeGet)
    app.add_middleware(AllowList, allowed=allowed)
    return app
