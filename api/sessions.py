# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers: a code that works once, and the cookie that it is exchanged for.

Both are kept in memory, as digests. A restart of the API ends all sessions.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ltp_switcher.daemon.control.caller import Author
from ltp_switcher.daemon.settings.tokens import Scope, digest

CODE_S: Final = 60.0
SESSION_S: Final = 12 * 3600.0
KEPT_MAX: Final = 100
"""Codes, and sessions, at a time. The oldest makes room for a new one."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client may do, and in whose name. The author None is the process of the API itself."""

    scope: Scope
    author: Author | None


class _Secrets:
    """Grants by the digest of a secret, for `life_s` each."""

    def __init__(self, life_s: float, now_s: Callable[[], float]) -> None:
        self._life_s, self._now_s = life_s, now_s
        self._grants: dict[str, tuple[float, Grant]] = {}

    def make(self, grant: Grant) -> str:
        while len(self._grants) >= KEPT_MAX:
            del self._grants[next(iter(self._grants))]
        secret = secrets.token_urlsafe(32)
        self._grants[digest(secret)] = self._now_s() + self._life_s, grant
        return secret

    def find(self, secret: str) -> Grant | None:
        until_s, grant = self._grants.get(digest(secret), (0.0, None))
        return grant if self._now_s() < until_s else None

    def take(self, secret: str) -> Grant | None:
        grant = self.find(secret)
        self._grants.pop(digest(secret), None)
        return grant


class Sessions:
    """The sessions of one API process. `now_s` is a clock in seconds that never goes back."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._codes = _Secrets(CODE_S, now_s)
        self._sessions = _Secrets(SESSION_S, now_s)

    def invite(self, grant: Grant) -> str:
        """Make a code that opens one session within `CODE_S`."""
        return self._codes.make(grant)

    def open(self, code: str) -> str | None:
        """The cookie of a new session; None where the code was used, is too old, or never was one."""
        grant = self._codes.take(code)
        return None if grant is None else self._sessions.make(grant)

    def find(self, cookie: str) -> Grant | None:
        """What the session of a cookie allows; None where there is none."""
        return self._sessions.find(cookie)
