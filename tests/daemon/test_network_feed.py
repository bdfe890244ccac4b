# SPDX-License-Identifier: Apache-2.0
"""The daemon's side of network knowledge: from agents that answer, fall silent, and talk nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ltp_switcher.daemon.learned import network
from ltp_switcher.daemon.learned.network import NetworkFeed
from ltp_switcher.errors import ConfigError
from ltp_switcher.policies.network import NetworkKnowledge

GOOD = {"pnc_pkts": 12.0, "pna": 0.25, "known": 0.2, "age_s": 0.5}


class Agent(HTTPServer):
    """Answers whatever it was told to."""

    status, body = 200, json.dumps(GOOD).encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Agent

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_knowledge_counts_until_it_is_stale(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(network.time, "monotonic", lambda: now_s)
    feed = NetworkFeed([agent.url])
    assert feed.latest() is None
    feed.ask()
    assert feed.latest() == NetworkKnowledge(12.0, 0.25, 0.2)
    now_s += 2.4
    assert feed.latest() is not None
    now_s += 0.2
    assert feed.latest() is None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"pnc_pkts": 1}', json.dumps({**GOOD, "pna": 7}).encode()]
)
def test_nonsense_is_no_knowledge(agent: Agent, body: bytes) -> None:
    agent.body = body
    feed = NetworkFeed([agent.url])
    feed.ask()
    assert feed.latest() is None


def test_silence_is_told_once_and_the_others_count(agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    feed = NetworkFeed([agent.url, "http://127.0.0.1:1"])
    feed.ask()
    feed.ask()
    assert feed.latest() == NetworkKnowledge(12.0, 0.25, 0.2)
    assert len(caplog.records) == 1
    agent.status = 503
    feed.ask()
    assert "503" in caplog.text


def test_a_feed_runs_until_it_is_closed(agent: Agent) -> None:
    feed = NetworkFeed([agent.url])
    feed.start()
    while feed.latest() is None:
        threading.Event().wait(0.001)
    feed.close()
    feed._thread.join()


@pytest.mark.parametrize("url", ["router:9481", "https://router", "http://", "http://router:x", "http://r/y"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="owl_network_urls"):
        NetworkFeed([url])
