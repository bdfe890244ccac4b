# SPDX-License-Identifier: Apache-2.0
"""The reports of measurement agents about the network (Owl, Section VI). An agent is a program on a router
that measures the router's queues.

The program `ltp-switcher network` asks the agents and passes their reports on to the daemon. The daemon
itself opens no network socket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ltp_switcher.policies.runtime.path_knowledge import WINDOW_S, NetworkKnowledge

if TYPE_CHECKING:
    from ltp_switcher.daemon.steer.network_agent import Agent

STALE_S: Final = 3.0
"""Age in seconds at which a report no longer counts."""


class ToldNetwork:
    """The last report about the network that the daemon got. It counts until it is `STALE_S` old."""

    def __init__(self) -> None:
        self._told: tuple[float, NetworkKnowledge | None] = (0.0, None)

    def take(self, knowledge: NetworkKnowledge | None) -> None:
        """Keep this report from now on; None if no agent has a report."""
        self._told = time.monotonic(), knowledge

    def latest(self) -> NetworkKnowledge | None:
        """The report if it still counts, or None."""
        at_s, knowledge = self._told
        return knowledge if time.monotonic() - at_s < STALE_S else None


class NetworkFeed:
    """Asks every measurement agent once a second, each in a thread of its own. Without agents no thread runs.

    Args:
        urls: URLs of the agents, http://HOST:PORT.

    Raises:
        ConfigError: a URL has another form.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._agents = _agents(urls)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(agent,), name=f"network {url}", daemon=True)
            for agent, url in zip(self._agents, urls, strict=True)
        ]

    def start(self) -> None:
        """Start the threads that ask."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop asking. Requests under way end by themselves."""
        self._stop.set()

    def latest(self) -> NetworkKnowledge | None:
        """The combined answers of all agents that are less than `STALE_S` old; None if there are none."""
        now_s = time.monotonic()
        answers = [agent.answer for agent in self._agents]
        return NetworkKnowledge.joined(
            knowledge for at_s, knowledge in answers if knowledge is not None and now_s - at_s < STALE_S
        )

    def ask(self) -> None:
        """Ask every agent once, one after the other."""
        for agent in self._agents:
            agent.ask()

    def _run(self, agent: Agent) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            agent.ask()
            self._stop.wait(max(0.0, WINDOW_S - (time.monotonic() - began_s)))


def _agents(urls: Sequence[str]) -> list[Agent]:
    if not urls:
        return []
    from ltp_switcher.daemon.steer.network_agent import Agent

    return [Agent(url) for url in urls]
