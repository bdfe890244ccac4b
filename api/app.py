# SPDX-License-Identifier: Apache-2.0
"""The application: routes, errors and the OpenAPI document, put together."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

import ltp_switcher
from ltp_switcher.api import problems
from ltp_switcher.api.access import OPEN_PATHS, Access, Gate
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.events import EventFeed
from ltp_switcher.api.gain import Gain
from ltp_switcher.api.head import HeadLikeGet
from ltp_switcher.api.limits import RequestLimits
from ltp_switcher.api.metrics import ApiMetrics, CountRequests
from ltp_switcher.api.problems import Problem, problem_responses
from ltp_switcher.api.routes import (
    config,
    dashboard,
    events,
    flows,
    gain,
    learned,
    policies,
    service,
    sessions,
    team,
)

DESCRIPTION = """\
Watch and direct the flows of a server that runs under the congestion control `mutant`.

Every error is a problem details object (RFC 9457, `application/problem+json`). An error in the
input names the `field`, its `value`, and the `allowed` values.
"""
ANYWHERE = (400, 403, 408, 413, 415, 500, 502, 503)
"""HTTP statuses that any request can get, whatever its route: because of its form, its listener or the
daemon.
"""
TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "Over TCP: a token of `ltp-switcher token add`. One made with --read may only read.",
}
TAGS = [
    {"name": "flows", "description": "TCP flows, and holding one at an arm"},
    {"name": "team", "description": "Arms, the pool that the daemon chooses from, and the teams of MPTS"},
    {"name": "service", "description": "Mode, status, health and metrics"},
]


def create_app(
    daemon: DaemonClient, access: Access | None = None, metrics: ApiMetrics | None = None
) -> FastAPI:
    """Make the app of the API for one event loop and one daemon.

    The apps of several event loops in one process may share `access` and `metrics`. Without `access`, no
    token is accepted over TCP.
    """
    app = FastAPI(
        title="ltp-switcher",
        description=DESCRIPTION,
        version=ltp_switcher.__version__,
        openapi_url="/v1/openapi.json",
        openapi_tags=TAGS,
        # A model has the same schema in requests and in answers.
        separate_input_output_schemas=False,
        # The pages of FastAPI load scripts from the network. The document alone does not.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.daemon = daemon
    app.state.access = access = access or Access()
    app.state.metrics = metrics = metrics or ApiMetrics(daemon, Gain(daemon))
    app.state.gain = metrics.gain
    app.state.scraping = asyncio.Lock()
    app.state.events = EventFeed(daemon, metrics)
    for module in (
        flows, team, service, events, config, gain, learned, policies, sessions, dashboard,
    ):  # fmt: skip
        app.include_router(module.router)
    problems.install(app)
    app.add_middleware(RequestLimits)
    app.add_middleware(Gate, access=access)
    app.add_middleware(CountRequests, metrics=metrics)
    app.add_middleware(HeadLikeGet)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's OpenAPI document, with the schema of the problems that routes refer to."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
            separate_input_output_schemas=app.separate_input_output_schemas,
        )
        _, problem = models_json_schema(
            [(Problem, "serialization")], ref_template="#/components/schemas/{model}"
        )
        document["components"]["schemas"].update(problem["$defs"])
        document["components"]["securitySchemes"] = {"token": TOKEN}
        anywhere = {str(status): said for status, said in problem_responses(*ANYWHERE).items()}
        unauthorized = {str(status): said for status, said in problem_responses(401).items()}
        for path, operations in document["paths"].items():
            guarded = path not in OPEN_PATHS
            more = {**anywhere, **unauthorized} if guarded else anywhere
            for operation in operations.values():
                operation["responses"] = dict(sorted({**more, **operation["responses"]}.items()))
                # The empty requirement is for clients of the UNIX socket, which need no token.
                operation["security"] = [{"token": []}, {}] if guarded else []
        app.openapi_schema = document
    return app.openapi_schema
