# SPDX-License-Identifier: Apache-2.0
"""What measurement agents tell of the network (Owl §VI), fetched beside the steps, never within one."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

from ltp_switcher.errors import ConfigError, InvalidValueError
from ltp_switcher.policies.network import WINDOW_S, NetworkKnowledge

log = logging.getLogger(__name__)

KEY: Final = "learned.owl_network_urls"
STALE_S: Final = 3.0
"""Age at which knowledge is no knowledge any more."""
TIMEOUT_S: Final = 1.0
RESOURCE: Final = "/v1/network"
_BYTES_MAX: Final = 1 << 16


class NetworkFeed:
    """Asks agents every second, in a thread of its own. Without agents it knows nothing and runs nothing.

    Args:
        urls: of the agents, http://HOST:PORT.

    Raises:
        ConfigError: one of them is no such URL.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._agents = [_Agent(url) for url in urls]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        if self._agents:
            self._thread.start()

    def close(self) -> None:
        """Stop asking. A request under way ends by itself."""
        self._stop.set()

    def latest(self) -> NetworkKnowledge | None:
        """What all agents know that answered in the last `STALE_S`, taken together."""
        now_s = time.monotonic()
        answers = [agent.answer for agent in self._agents]
        return NetworkKnowledge.joined(
            knowledge for at_s, knowledge in answers if knowledge is not None and now_s - at_s < STALE_S
        )

    def ask(self) -> None:
        """Ask every agent once."""
        for agent in self._agents:
            agent.ask()

    def _run(self) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            self.ask()
            self._stop.wait(max(0.0, WINDOW_S - (time.monotonic() - began_s)))


class _Agent:
    """One agent, and its last answer with the time at which its window ended."""

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
        connection = HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", RESOURCE)
            response = connection.getresponse()
            body = response.read(_BYTES_MAX)
            if response.status != 200:
                raise ValueError(f"it answered {response.status}")
            self.answer = _parse(body)
        except (OSError, HTTPException, ValueError) as error:
            # What it said before counts until it is stale.
            if self._answers:
                log.warning("network agent %s: %s; its signals are masked until it answers", self._url, error)
            self._answers = False
        else:
            if not self._answers:
                log.info("network agent %s answers again", self._url)
            self._answers = True
        finally:
            connection.close()


def _parse(body: bytes) -> tuple[float, NetworkKnowledge]:
    """An answer's time and content. Raises `ValueError` where it is none."""
    try:
        told = json.loads(body)
        pnc_pkts, pna, known, age_s = (float(told[key]) for key in ("pnc_pkts", "pna", "known", "age_s"))
        return time.monotonic() - max(0.0, age_s), NetworkKnowledge(pnc_pkts, pna, known)
    except (KeyError, TypeError, InvalidValueError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"its answer cannot be understood ({error})") from error
