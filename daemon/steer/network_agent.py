# SPDX-License-Identifier: Apache-2.0
"""The HTTP client of a measurement agent on a router. The program `ltp-switcher network` asks agents with it,
and keeps their answers.

The code is a module of its own because importing HTTP takes an eighth of the daemon's start. Only the learned
arm Owl needs agents.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ltp_switcher.errors import ConfigError, reason
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

log = logging.getLogger(__name__)

KEY: Final = "learned.owl_network_urls"
TIMEOUT_S: Final = 1.0
"""Longest time in seconds to reach an agent. The whole answer may then take as long again."""
RESOURCE: Final = "/v1/network"
BYTES_MAX: Final = 1 << 16
"""Size of the largest answer in bytes, headers included."""
REASON_MAX: Final = 200
"""Largest number of characters that the log shows of the reason for a failure."""


class Agent:
    """A measurement agent. `answer` has the time at which the agent's last measurements ended
    (`time.monotonic`), and their content; (0.0, None) before the first answer.
    """

    def __init__(self, url: str) -> None:
        allowed = "URLs of measurement agents, such as http://192.0.2.1:9481"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigError(KEY, url, allowed) from None
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/", RESOURCE):
            raise ConfigError(KEY, url, allowed)
        self._url = url
        self._address = parts.hostname, port or 80
        self._answers = True
        self.answer: tuple[float, NetworkKnowledge | None] = (0.0, None)

    def ask(self) -> None:
        """Ask the agent, and keep its answer. If the agent fails several times in a row, only the first
        failure is logged.
        """
        connection = HTTPConnection(*self._address, timeout=TIMEOUT_S)
        connection.response_class = _BoundedResponse
        try:
            connection.request("GET", RESOURCE)
            with connection.getresponse() as response:
                # The answer is not read all at once, because that would reserve as much memory as the agent
                # announces.
                body = response.read(BYTES_MAX)
            if response.status != 200:
                raise ValueError(f"it answered {response.status}")
            self.answer = _parse(body)
        except (OSError, HTTPException, ValueError) as error:
            # The earlier answer counts until it is stale.
            if self._answers:
                # The reason may quote the agent's answer, which may be long and have line breaks.
                told = " ".join(reason(error).split())[:REASON_MAX]
                log.warning("network agent %s: %s; its signals are masked until it answers", self._url, told)
            self._answers = False
        else:
            if not self._answers:
                log.info("network agent %s answers again", self._url)
            self._answers = True
        finally:
            connection.close()


class _BoundedResponse(HTTPResponse):
    """An HTTP answer of at most `BYTES_MAX` bytes, whose reads together have `TIMEOUT_S` seconds."""

    def __init__(
        self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        self.fp = io.BufferedReader(_Bounded(sock, self.fp.detach()))


class _Bounded(io.RawIOBase):
    """The stream of `sock` with the bounds of `_BoundedResponse`. Reads beyond them raise `TimeoutError` or
    `HTTPException`.
    """

    def __init__(self, sock: socket.socket, stream: io.RawIOBase) -> None:
        self._sock, self._stream = sock, stream
        self._until_s = time.monotonic() + TIMEOUT_S
        self._bytes_left = BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0.0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)
        count = self._stream.readinto(buffer)
        self._bytes_left -= count or 0
        if self._bytes_left < 0:
            raise HTTPException(f"its answer is longer than {BYTES_MAX} bytes")
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _parse(body: bytes) -> tuple[float, NetworkKnowledge]:
    """Return the time at which the measurements of an agent's answer ended (`time.monotonic`), and their
    content. Raises `ValueError` for any other text.
    """
    try:
        told = json.loads(body)
        pnc_pkts, pna, known, age_s = (float(told[key]) for key in ("pnc_pkts", "pna", "known", "age_s"))
        return time.monotonic() - max(0.0, age_s), NetworkKnowledge(pnc_pkts, pna, known)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"its answer cannot be understood ({error})") from error
