# SPDX-License-Identifier: Apache-2.0
"""Server-sent events from the real daemon and API processes, over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.api_client import Ask
from support.api_process import ApiProcess, api_running
from support.fake_kernel import CUBIC, Kernel
from support.records import flow

from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.daemon.datapath import EventBatch, FlowEvent
from ltp_switcher.daemon.datapath.protocol import Cmd, FallbackReason

PATIENCE_S = 60

Told = dict[str, object]


@pytest.fixture
def api(control_socket: Path, tmp_path: Path) -> Iterator[ApiProcess]:
    with api_running(tmp_path, control_socket, tcp=True) as process:
        yield process


@contextlib.contextmanager
def listening(api: ApiProcess, backlog: int = 0, **headers: str) -> Iterator[Iterator[Told]]:
    """The events of one stream: number, kind and data."""
    with (
        api.client() as client,
        client.stream("GET", f"/v1/events?backlog={backlog}", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield parsed(answer.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[Told]:
    found: Told = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and "event" in found:
            yield found
            found = {}
        elif name == "data":
            found |= json.loads(value)
        elif name in ("id", "event"):
            found[name] = value


def first(stream: Iterator[Told], kind: str) -> Told:
    """The next event of a kind; the policy `random` advises all the time."""
    return next(told for told in stream if told["event"] == kind)


def change(api: ApiProcess, path: str, body: object) -> None:
    with api.client() as client:
        assert client.put(path, json=body).is_success


def test_changes_are_told_as_they_happen(api: ApiProcess) -> None:
    with listening(api) as stream:
        change(api, "/v1/mode", {"mode": "off"})
        told = first(stream, "mode-changed")
        assert (told["before"], told["after"]) == ("advise", "off")
        change(api, "/v1/k", {"k": 2})
        assert first(stream, "configuration-changed")["what"] == "daemon.mode is off now, was advise"
        told = first(stream, "configuration-changed")
        assert told["what"] == "pool.k is 2 now, was 6"
        assert str(told["who"]).startswith("uid ")


def test_switches_births_deaths_and_fallbacks_are_told(api: ApiProcess, kernel: Kernel) -> None:
    change(api, "/v1/mode", {"mode": "off"})
    with listening(api) as stream:
        born, fallen = flow(99, "192.0.2.99"), flow(4711, arm=CUBIC)
        object.__setattr__(fallen, "reason", FallbackReason.SILENCE)
        change(api, "/v1/flows/4711/pin", {"arm": "bbr"})
        told = first(stream, "flow-switched")
        assert (told["cookie"], told["before"], told["after"]) == ("4711", "cubic", "bbr")
        assert told["reason"] == "an operator pinned the flow"
        kernel.table[99] = born
        kernel.pending.append(EventBatch([FlowEvent(Cmd.FLOW_BIRTH, born)], lost=False))
        kernel.pending.append(EventBatch([FlowEvent(Cmd.FLOW_FALLBACK, fallen)], lost=False))
        kernel.pending.append(EventBatch([FlowEvent(Cmd.FLOW_DEATH, born)], lost=False))
        for _ in kernel.pending[:]:
            kernel._ends[1].send(b"x")
        assert first(stream, "flow-opened")["remote"] == "192.0.2.99:443"
        told = first(stream, "flow-fallback")
        assert (told["after"], told["reason"]) == ("cubic", "the daemon was silent for too long")
        assert first(stream, "flow-closed")["cookie"] == "99"


def test_a_client_that_comes_back_misses_nothing(api: ApiProcess) -> None:
    change(api, "/v1/mode", {"mode": "off"})
    with listening(api) as stream:
        change(api, "/v1/mode", {"mode": "advise"})
        last = first(stream, "mode-changed")
    for mode in ("off", "active", "off"):
        change(api, "/v1/mode", {"mode": mode})
    with listening(api, **{"Last-Event-ID": str(last["id"])}) as stream:
        seen = [first(stream, "mode-changed") for _ in range(3)]
    assert [told["after"] for told in seen] == ["off", "active", "off"]
    assert all(int(str(told["id"])) > int(str(last["id"])) for told in seen)


def test_a_new_client_gets_the_latest_events_that_nobody_heard(api: ApiProcess) -> None:
    change(api, "/v1/mode", {"mode": "off"})
    for k in (2, 1, 3, 2):
        change(api, "/v1/k", {"k": k})
    with listening(api, backlog=3) as stream:
        events = [next(stream) for _ in range(3)]
    # One of them may be the summary of what was left out before.
    told = [str(one["what"]).partition(" now")[0] for one in events if one["event"] != "events-left-out"]
    assert len(told) >= 2
    assert told == ["pool.k is 1", "pool.k is 3", "pool.k is 2"][-len(told) :]
    with listening(api, backlog=1000) as stream:
        assert next(stream)["event"] == "flow-opened", "the first since the daemon's start"
        last = [first(stream, "configuration-changed") for _ in range(2)][-1]
    with listening(api, backlog=1000, **{"Last-Event-ID": str(last["id"])}) as stream:
        assert int(str(next(stream)["id"])) == int(str(last["id"])) + 1


@pytest.mark.parametrize("number", ["-1", "1001", "x"])
def test_a_backlog_that_cannot_be_is_refused(ask: Ask, number: str) -> None:
    answer = ask("GET", f"/v1/events?backlog={number}")
    assert (answer.status_code, answer.json()["field"]) == (422, "backlog")


def test_a_client_of_an_earlier_daemon_is_told_so(api: ApiProcess) -> None:
    with listening(api, **{"Last-Event-ID": "17"}) as stream:
        assert next(stream)["event"] == "events-missed"


@pytest.mark.parametrize("number", ["x", "-1", "99999999999999999999"])
def test_a_number_that_cannot_be_is_refused(ask: Ask, number: str) -> None:
    answer = ask("GET", "/v1/events", headers={"Last-Event-ID": number})
    assert (answer.status_code, answer.json()["field"]) == (422, "last-event-id")


def test_head_ends_though_the_stream_would_not(api: ApiProcess) -> None:
    with api.client() as client:
        answer = client.head("/v1/events")
    assert (answer.status_code, answer.content) == (200, b"")


def test_the_end_does_not_wait_for_listeners(api: ApiProcess) -> None:
    with listening(api) as stream:
        change(api, "/v1/mode", {"mode": "off"})
        first(stream, "mode-changed")
        api.process.send_signal(signal.SIGTERM)
        assert list(stream) is not None
    assert api.process.wait(PATIENCE_S) == 0


def test_of_many_that_come_at_once_no_more_than_allowed_may_listen(api: ApiProcess) -> None:
    count = "ltp_switcher_api_event_streams 32.0"

    async def crowd() -> list[int]:
        transport = httpx.AsyncHTTPTransport(uds=str(api.socket))
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client,
            contextlib.AsyncExitStack() as stack,
        ):
            requests = [stack.enter_async_context(client.stream("GET", "/v1/events")) for _ in range(60)]
            answers = await asyncio.gather(*requests)
            with api.client() as other:
                assert count in other.get("/metrics").text
            return [answer.status_code for answer in answers]

    assert sorted(asyncio.run(crowd())) == [200] * 32 + [503] * 28
    with api.client() as client:
        # A place is free once the server has seen that its listener left.
        end_s = time.monotonic() + PATIENCE_S
        while "ltp_switcher_api_event_streams 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < end_s
        assert client.head("/v1/events").status_code == 200


def test_a_client_that_never_reads_is_dropped_and_others_go_on(
    control_socket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own that gives slow clients little time and tells much."""
    starter = tmp_path / "sitecustomize.py"
    starter.write_text(
        "import os\n"
        "if os.environ.get('LTP_TEST_SLOW'):\n"
        "    from ltp_switcher.api import events\n"
        "    events.SEND_S = 2.0\n"
        "    text = events._text\n"
        "    events._text = lambda event: text(event) + b': ' + b'x' * 300000 + b'\\n\\n'\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("LTP_TEST_SLOW", "1")
    with api_running(tmp_path, control_socket, tcp=True) as api, socket.socket(socket.AF_UNIX) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(str(api.socket))
        deaf.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        end_s = time.monotonic() + PATIENCE_S
        dropped = "ltp_switcher_api_event_streams_dropped_total 1.0"
        while dropped not in httpx.get(f"http://127.0.0.1:{api.port}/metrics").text:
            assert time.monotonic() < end_s
            time.sleep(0.1)
        deaf.settimeout(PATIENCE_S)
        with contextlib.suppress(ConnectionResetError):
            while deaf.recv(1 << 20):
                pass
        with listening(api) as stream:
            assert any(event["event"] == "flow-advised" for event in stream)


def test_head_of_a_stream_ends_as_an_answer_must(control_socket: Path) -> None:
    """Else the server logs an error, and hangs up."""
    app = create_app(DaemonClient(control_socket, timeout_s=5))
    sent: list[dict[str, object]] = []

    async def ask() -> None:
        never = asyncio.Event()

        async def receive() -> dict[str, object]:
            if not sent:
                return {"type": "http.request", "body": b"", "more_body": False}
            await never.wait()
            raise AssertionError

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "HEAD", "path": "/v1/events", "raw_path": b"/v1/events", "headers": [],
            "query_string": b"", "root_path": "", "scheme": "http", "server": ("localhost", None),
        }  # fmt: skip
        await app(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 200
    assert [bool(message["more_body"]) for message in sent[1:]][-1:] == [False]
    assert b"".join(message["body"] for message in sent[1:]) == b""
