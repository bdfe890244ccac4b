# SPDX-License-Identifier: Apache-2.0
"""The service with faults planted, so that a test can see the fuzzer find them.

Run as a module, it takes "api" or "daemon" and then the arguments of that program.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.routing import Route
from support.daemon_process import make_kernel

from fuzz.service import Service
from ltp_switcher.api import main as api
from ltp_switcher.daemon.cli.main import main as daemon_main
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.service import daemon as service


def _undocumented(_: Request) -> JSONResponse:
    return JSONResponse({}, 418)


def _raises(_: Request) -> JSONResponse:
    raise RuntimeError("planted")


FAULTS = {
    "get_version": "status 418 is undocumented for get_version",
    "get_history": "status 500",
    "list_arms": "status 502 though the daemon runs",
}
"""Operations with a fault, and what has to be said of each."""


def faulty_service(folder: Path) -> Service:
    """The API answers one operation with a status of its own, and raises at one; so does the daemon."""
    return Service(folder, api=("fuzz.planted", "api"), daemon=("fuzz.planted", "daemon"))


def main(program: str, arguments: list[str]) -> int:
    """Plant, and run the program."""
    if program == "daemon":
        Methods._arms = lambda self, params: 1 // 0  # type: ignore[method-assign]
        service.Datapath = make_kernel  # type: ignore[assignment, misc]
        return daemon_main(arguments)
    create = api.create_app

    def planted(*given: object) -> FastAPI:
        app = create(*given)  # type: ignore[arg-type]
        app.router.routes[:0] = [Route("/v1/version", _undocumented), Route("/v1/history", _raises)]
        return app

    api.create_app = planted
    return api.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
