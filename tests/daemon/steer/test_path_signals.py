# SPDX-License-Identifier: Apache-2.0
"""The daemon's side of network knowledge: from agents that answer, fall silent, and talk nonsense."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.steer import network_agent
from ltp_switcher.daemon.steer import path_signals as network
from ltp_switcher.daemon.steer.path_signals import NetworkFeed
from ltp_switcher.errors import ConfigError
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

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
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"pnc_pkts": 1}',
        json.dumps({**GOOD, "pna": 7}).encode(),
        json.dumps({**GOOD, "pnc_pkts": int("9" * 400)}).encode(),
        b"[" * 60_000,
        json.dumps({**GOOD, "more": "x" * 70_000}).encode(),
    ],
    ids=["empty", "list", "bytes", "missing", "range", "digits", "nested", "long"],
)
def test_nonsense_is_no_knowledge(agent: Agent, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    agent.body = body
    feed = NetworkFeed([agent.url])
    feed.ask()
    assert feed.latest() is None
    (line,) = caplog.messages
    assert "masked until it answers" in line
    assert len(line) < 400


@given(
    st.one_of(
        st.binary(),
        st.fixed_dictionaries(
            dict.fromkeys(GOOD, st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.booleans()))
        ).map(lambda told: json.dumps(told).encode()),
    )
)
def test_whatever_the_body_it_is_knowledge_or_refused(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        network_agent._parse(body)


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
    for thread in feed._threads:
        thread.join()


@pytest.mark.parametrize("url", ["router:9481", "https://router", "http://", "http://router:x", "http://r/y"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="owl_network_urls"):
        NetworkFeed([url])


class Talker:
    """An agent that gives each who asks these pieces, with a pause before each, and then is silent."""

    def __init__(self, pieces: Iterator[bytes], pause_s: float = 0.0) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pieces, self._pause_s = pieces, pause_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._talk)

    def __enter__(self) -> Talker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        # Who waits to be asked is asked.
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()

    def _talk(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            for piece in self._pieces:
                if self._end.wait(self._pause_s):
                    return
                connection.sendall(piece)
            self._end.wait()


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [b"", HEAD, HEAD[:-2] + b"Content-Length: 99999999999999999999\r\n\r\n"],
    ids=["status", "body", "length"],
)
def test_an_agent_that_trickles_is_given_up(
    head: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network_agent, "TIMEOUT_S", 0.3)
    pieces = iter([head, *(b" " for _ in range(80))])
    with Talker(pieces, 0.05) as slow:
        NetworkFeed([slow.url]).ask()
    assert next(pieces, None) is not None, "it was heard to its end"
    assert "masked until it answers" in caplog.text


def test_what_an_agent_says_makes_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with Talker(iter([b"no\rstatus " + b"!" * 1000 + b"\n"])) as odd:
        NetworkFeed([odd.url]).ask()
    (line,) = caplog.messages
    assert len(line) < 400
    assert len(line.splitlines()) == 1


def test_an_agent_that_talks_without_end_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Header upon header: http.client itself bounds their number, not their bytes in all."""
    lines = (b"x%d: " % i + b"y" * 60_000 + b"\r\n" for i in range(90))
    with Talker(iter([b"HTTP/1.1 200 OK\r\n", *lines])) as loud:
        NetworkFeed([loud.url]).ask()
    assert "longer than" in caplog.text


def test_one_that_hangs_holds_up_no_other(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_agent, "TIMEOUT_S", 20.0)
    with Talker(iter([])) as silent:
        feed = NetworkFeed([silent.url, agent.url])
        feed.start()
        deadline_s = time.monotonic() + 10.0
        while feed.latest() is None and time.monotonic() < deadline_s:
            time.sleep(0.005)
        assert feed.latest() == NetworkKnowledge(12.0, 0.25, 0.2)
        feed.close()
        assert feed._threads[0].is_alive(), "it waited for the one that hangs"
    for thread in feed._threads:
        thread.join()


def test_the_daemon_does_not_even_import_http() -> None:
    code = (
        "import sys, ltp_switcher.daemon.service.daemon;"
        "sys.exit(bool({'http.client', 'ssl', 'email'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
