# SPDX-License-Identifier: Apache-2.0
"""HTTP as uvicorn speaks it, with our own answer to what is no HTTP."""

from __future__ import annotations

import h11
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
