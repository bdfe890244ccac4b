# SPDX-License-Identifier: Apache-2.0
"""Access control: which clients may send requests.

The file mode of the UNIX socket says who may use it. Every local user reaches a TCP port, so a request over
TCP needs a bearer token (RFC 6750) or the cookie of a browser's session. `/health` and `/metrics` need
neither.
"""

from __future__ import annotations

import logging
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ltp_switcher.api.problems import FieldProblem, ProblemError, send_problem
from ltp_switcher.api.sessions import Grant, Sessions
from ltp_switcher.daemon.settings import tokens
from ltp_switcher.errors import ArtifactError

log = logging.getLogger(__name__)

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
OPEN_PATHS: Final = ("/health", "/metrics")
"""URL paths that every local user may read without a token."""
COOKIE: Final = "ltp_switcher"
CHALLENGE: Final = 'Bearer realm="ltp-switcher"'


class TokenFile:
    """The API tokens in a file. The file is read again when it has changed. A damaged file gives nobody
    access.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[tokens.Token, ...] = ()

    def find(self, shown: str) -> Grant | None:
        """Return the rights that a token gives its client; None if the file does not have the token."""
        self._look()
        found = tokens.find(self._tokens, shown)
        return None if found is None else Grant(found.scope, found.name, found.sha256)

    def has(self, sha256: str) -> bool:
        """Return whether the file has the token with this digest."""
        self._look()
        return any(token.sha256 == sha256 for token in self._tokens)

    def _look(self) -> None:
        try:
            status = self._path.stat()
        except OSError:
            self._seen, self._tokens = None, ()
            return
        now = status.st_ino, status.st_mtime_ns, status.st_size
        if now == self._seen:
            return
        try:
            self._tokens = tokens.load(self._path)
        except ArtifactError as error:
            self._tokens = ()
            log.error("%s; no token is taken until it is mended", error)
        # This comes last: once `_seen` fits the file, other threads take the tokens without reading the file.
        self._seen = now


class Access:
    """The secrets that one API process accepts: tokens, and sessions of browsers. `address` is the address of
    the process's TCP listener, or "" without one.
    """

    def __init__(self, token_file: Path | None = None) -> None:
        self.tokens = None if token_file is None else TokenFile(token_file)
        self.sessions = Sessions(lambda sha256: self.tokens is not None and self.tokens.has(sha256))
        self.address = ""


class Gate:
    """ASGI middleware that refuses requests without the right to them, and notes the author of all others.

    A request over TCP or from a browser must name the local host (`localhost` or a loopback address) in its
    header Host. So no web page reaches the API under the page's own host name (DNS rebinding). A browser can
    reach the UNIX socket, too, if a program such as ssh forwards a port to the socket.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        server, headers = scope.get("server"), Headers(scope=scope)
        tcp = server is not None and server[1] is not None  # A UNIX socket has no port.
        try:
            if tcp or "origin" in headers or "sec-fetch-site" in headers:
                _check_names(headers)
            if tcp:
                code = parse_qs(scope["query_string"].decode("latin-1")).get("code")
                if code and scope["path"] == "/" and scope["method"] == "GET":
                    await self._enter(code[0], headers)(scope, receive, send)
                    return
                self._authorize(scope, headers)
        except ProblemError as problem:
            await send_problem(problem, scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _enter(self, code: str, headers: Headers) -> Response:
        """Open a session, and send the browser on to the page without the code in the URL."""
        opened = self._access.sessions.open(code)
        if opened is None:
            raise _unauthorized("the code was used or is too old; `ltp-switcher dashboard` prints another")
        answer = Response(status_code=303, headers={"location": "/", "cache-control": "no-store"})
        cookie, life_s = opened
        answer.set_cookie(
            _cookie_name(headers), cookie, max_age=int(life_s), path="/", httponly=True, samesite="strict"
        )
        return answer

    def _authorize(self, scope: Scope, headers: Headers) -> None:
        safe = scope["method"] in SAFE_METHODS
        if safe and scope["path"] in OPEN_PATHS:
            return
        grant = self._granted(headers)
        if not safe and grant.scope is not tokens.Scope.WRITE:
            raise ProblemError(
                403,
                "read-only",
                "this token may only read; `ltp-switcher token add NAME --write` makes one for changes",
                title="Read-only",
                fields=[FieldProblem(field="method", value=scope["method"], allowed="GET")],
                headers={"www-authenticate": f'{CHALLENGE}, error="insufficient_scope"'},
            )
        state = scope.setdefault("state", {})
        state["grant"] = grant
        if grant.author is not None:
            state["author"] = grant.author

    def _granted(self, headers: Headers) -> Grant:
        """The grant of the shown token or of the session. Raises `ProblemError` 401."""
        shown = headers.get("authorization")
        if shown is not None:
            scheme, _, secret = shown.partition(" ")
            found = self._access.tokens
            grant = found.find(secret.strip()) if found and scheme.lower() == "bearer" else None
            if grant is None:
                raise _unauthorized("the token is not known; `ltp-switcher token list` shows those that are",
                                    ', error="invalid_token"')  # fmt: skip
            return grant
        grant = self._access.sessions.find(_cookie(headers))
        if grant is None:
            raise _unauthorized(
                "over TCP this needs a token (`ltp-switcher token add`), or for a browser the address that "
                "`ltp-switcher dashboard` prints"
            )
        return grant


def _unauthorized(detail: str, error: str = "") -> ProblemError:
    return ProblemError(401, "unauthorized", detail, headers={"www-authenticate": CHALLENGE + error})


def _cookie(headers: Headers) -> str:
    """The session's cookie; "" if there is none, or if it must not count.

    A browser counts a page on another port of this address as the same site, and sends our cookies with the
    page's requests. The cookie does not count for such a request, unless the request opens a page.
    """
    elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if elsewhere and headers.get("sec-fetch-mode") != "navigate":
        return ""
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(_cookie_name(headers))
    return "" if found is None else found.value


def _cookie_name(headers: Headers) -> str:
    """The name of the session's cookie. It contains the port, because browsers keep one set of cookies for
    all ports of an address.
    """
    _, _, port = headers.get("host", "").rpartition(":")
    return f"{COOKIE}_{port}" if port.isascii() and port.isdecimal() else COOKIE


def _check_names(headers: Headers) -> None:
    host, origin = headers.get("host", ""), headers.get("origin")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in LOOPBACK_NAMES:
        allowed = "one of: " + ", ".join(LOOPBACK_NAMES)
        raise ProblemError(
            403,
            "forbidden-host",
            f"the request is for the host {host!r}, and this API is served for the loopback alone",
            fields=[FieldProblem(field="Host", value=host, allowed=allowed)],
        )
    if origin is not None and origin.partition("://")[2] != host:
        raise ProblemError(
            403,
            "forbidden-origin",
            f"the request comes from a page of {origin!r}",
            fields=[FieldProblem(field="Origin", value=origin, allowed=f"http://{host}")],
        )
