# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers. A browser exchanges a code, which works once, for the cookie of a session.

Codes and cookies are kept in memory, as digests. A session ends with the token that opened it, and after
`SESSION_S` seconds at the latest. A session that was opened from another session ends with that session. A
restart of the API ends all sessions.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ltp_switcher.daemon.control.caller import Author
from ltp_switcher.daemon.settings.tokens import Scope, digest

CODE_S: Final = 60.0
SESSION_S: Final = 12 * 3600.0
KEPT_MAX: Final = 100
"""Largest number of unused codes at a time, and largest number of sessions. A new one replaces the oldest."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a client, and the name under which its changes are recorded.

    The author is None if the API itself acts.
    """

    scope: Scope
    author: Author | None
    token: str | None = None
    """Digest of the token that the client showed. The grant is void once this token is removed; None without
    a token.
    """
    until_s: float = float("inf")
    """Time at which the grant ends, in seconds by the clock of `Sessions`."""


class _Secrets:
    """Grants by the digest of a secret. Each ends after `life_s` seconds, or earlier at its own `until_s`."""

    def __init__(self, life_s: float, now_s: Callable[[], float]) -> None:
        self._life_s, self._now_s = life_s, now_s
        self._grants: dict[str, tuple[float, Grant]] = {}
        self._one_at_a_time = threading.Lock()

    def make(self, grant: Grant) -> str:
        secret = secrets.token_urlsafe(32)
        with self._one_at_a_time:
            while len(self._grants) >= KEPT_MAX:
                del self._grants[next(iter(self._grants))]
            self._grants[digest(secret)] = min(self._now_s() + self._life_s, grant.until_s), grant
        return secret

    def find(self, secret: str) -> Grant | None:
        until_s, grant = self._grants.get(digest(secret), (0.0, None))
        return grant if self._now_s() < until_s else None

    def take(self, secret: str) -> Grant | None:
        until_s, grant = self._grants.pop(digest(secret), (0.0, None))
        return grant if self._now_s() < until_s else None


class Sessions:
    """The sessions of one API process.

    Args:
        is_token: returns whether a token with this digest is in force.
        now_s: a clock in seconds that never goes back.
    """

    def __init__(self, is_token: Callable[[str], bool], now_s: Callable[[], float] = time.monotonic) -> None:
        self._is_token, self._now_s = is_token, now_s
        self._codes = _Secrets(CODE_S, now_s)
        self._sessions = _Secrets(SESSION_S, now_s)

    def invite(self, grant: Grant) -> str:
        """Make a code for a client with these rights. It opens one session within `CODE_S` seconds."""
        return self._codes.make(grant)

    def open(self, code: str) -> tuple[str, float] | None:
        """Return the cookie of a new session and its lifetime in s; None if the code is unknown or has
        expired.
        """
        grant = self._codes.take(code)
        if grant is None or not self.holds(grant):
            return None
        until_s = min(grant.until_s, self._now_s() + SESSION_S)
        return self._sessions.make(replace(grant, until_s=until_s)), until_s - self._now_s()

    def find(self, cookie: str) -> Grant | None:
        """Return the rights of the session with this cookie; None if there is no such session."""
        grant = self._sessions.find(cookie)
        return grant if grant is not None and self.holds(grant) else None

    def holds(self, grant: Grant) -> bool:
        """Return whether a grant is still valid: its time is not over, and its token is in force."""
        return self._now_s() < grant.until_s and (grant.token is None or self._is_token(grant.token))
