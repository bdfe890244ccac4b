# SPDX-License-Identifier: Apache-2.0
"""HTTP by uvicorn. A request that is not HTTP gets an answer of our own."""

from __future__ import annotations

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ltp_switcher.api.problems import MEDIA_TYPE, ProblemError


class ProblemProtocol(H11Protocol):
    """Answers a malformed request, which never reaches the app, with a problem too."""

    def send_400_response(self, msg: str) -> None:
        """Answer 400 and close."""
        body = bytes(ProblemError(400, "malformed-request", msg).response("").body)
        headers = [
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def server_config(app: FastAPI, *, grace_s: int | None = None) -> uvicorn.Config:
    """How our programs serve `app`; at the end, requests under way get `grace_s` (None: all they need)."""
    return uvicorn.Config(
        app,
        http=ProblemProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=grace_s,
    )
