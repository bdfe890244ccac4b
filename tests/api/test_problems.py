# SPDX-License-Identifier: Apache-2.0
"""Every failure gets problem details that name the field, its value and the allowed values."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from support.api_client import Ask, asker

from ltp_switcher.api.limits import BODY_BYTES_MAX, RequestLimits
from ltp_switcher.api.problems import MEDIA_TYPE, URN


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, object]:
    """The problem in an answer, with what every problem must have checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    body = answer.json()
    assert (body["type"], body["status"]) == (URN + kind, status)
    assert body["instance"] == answer.request.url.path
    assert body["title"]
    assert body["detail"]
    assert "Traceback" not in answer.text
    return body


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "value", "allowed"),
    [
        ("GET", "/v1/flows?limit=0", None, "limit", "0", "at least 1"),
        ("GET", "/v1/flows?limit=1001", None, "limit", "1001", "at most 1000"),
        ("GET", "/v1/flows?limit=ten", None, "limit", "ten", "a whole number"),
        ("GET", "/v1/flows?offset=-1", None, "offset", "-1", "at least 0"),
        ("GET", "/v1/flows?arm=cubik", None, "arm", "cubik", "one of cubic, bbr, vegas, yeah, dctcp"),
        ("GET", "/v1/flows?arm=" + 16 * "x", None, "arm", 16 * "x", "at most 15 characters"),
        ("GET", "/v1/flows?prefix=10.0.0.1/8", None, "prefix", "10.0.0.1/8", "a network such as"),
        ("GET", "/v1/flows?prefix=here", None, "prefix", "here", "a network such as"),
        ("GET", "/v1/flows/0", None, "cookie", "0", "text that matches"),
        ("GET", "/v1/flows/18446744073709551616", None, "cookie", "18446744073709551616", "from 1 to"),
        ("DELETE", "/v1/flows/-1/pin", None, "cookie", "-1", "text that matches"),
        ("PUT", "/v1/flows/4711/pin", {}, "arm", None, "required"),
        ("PUT", "/v1/flows/4711/pin", {"arm": 7}, "arm", 7, "a string"),
        ("PUT", "/v1/flows/4711/pin", {"arm": "yeah"}, "arm", "yeah", "one of cubic, bbr, vegas"),
        ("PUT", "/v1/flows/4711/pin", {"arm": "bbr", "for": 3}, "for", 3, "no such field"),
        ("PUT", "/v1/pool", {"arms": []}, "arms", "[]", "at least 1"),
        ("PUT", "/v1/pool", {"arms": "cubic"}, "arms", "cubic", "a list"),
        ("PUT", "/v1/pool", {"arms": ["cubic", "cubik"]}, "arms[1]", "cubik", "one of cubic, bbr, vegas"),
        ("PUT", "/v1/pool", {"arms": ["bbr", "dctcp"]}, "arms[1]", "dctcp", "one of cubic, bbr, vegas"),
        ("PUT", "/v1/pool", {"arms": ["bbr", "bbr"]}, "arms[1]", "bbr", "each arm once"),
        ("PUT", "/v1/pool", {"arms": ["bbr", 1]}, "arms[1]", 1, "a string"),
        ("PUT", "/v1/pool", [1], "body", "[1]", "a JSON object"),
        ("PUT", "/v1/k", {"k": 0}, "k", 0, "at least 1"),
        ("PUT", "/v1/k", {"k": 21}, "k", 21, "at most 20"),
        ("PUT", "/v1/k", {"k": "6"}, "k", "6", "a whole number"),
        ("PUT", "/v1/k", {"k": True}, "k", True, "a whole number"),
        ("PUT", "/v1/k", {"k": 2.5}, "k", 2.5, "a whole number"),
        ("PUT", "/v1/mode", {"mode": "on"}, "mode", "on", "'active', 'advise' or 'off'"),
        (
            "POST",
            "/v1/mpts",
            {"prefix": "192.0.2.0/24"},
            "prefix",
            "192.0.2.0/24",
            "a prefix with open flows",
        ),
        (
            "POST",
            "/v1/mpts",
            {"prefix": "192.0.2.0/24", "by": "visits"},
            "visits.learn",
            "off",
            "on, with a current module, for a selection by visits",
        ),
        ("POST", "/v1/mpts", {"by": "flows"}, "by", "flows", "'round-trips' or 'visits'"),
    ],
)
def test_refused_input(
    ask: Ask, method: str, path: str, body: object, field: str, value: object, allowed: str
) -> None:
    options = {} if body is None else {"json": body}
    found = problem(ask(method, path, **options), 422, "invalid-value")
    assert (found["field"], found["value"]) == (field, value)
    assert allowed in str(found["allowed"])


def test_every_refused_field_is_named(ask: Ask) -> None:
    found = problem(ask("GET", "/v1/flows?limit=0&offset=x"), 422, "invalid-value")
    assert [error["field"] for error in found["errors"]] == ["limit", "offset"]
    assert "and 1 more" in found["detail"]


def test_refused_arm_comes_with_the_kernels_reason(ask: Ask) -> None:
    found = problem(ask("PUT", "/v1/flows/4711/pin", json={"arm": "dctcp"}), 422, "invalid-value")
    assert "dctcp is refused: needs ECN from the start" in found["detail"]


def test_long_values_are_cut(ask: Ask) -> None:
    found = problem(ask("PUT", "/v1/mode", json={"mode": 5000 * "x"}), 422, "invalid-value")
    assert len(found["value"]) < 250


def test_unknown_flow(ask: Ask) -> None:
    for method, path, body in (
        ("GET", "/v1/flows/1", None),
        ("PUT", "/v1/flows/1/pin", {"arm": "bbr"}),
        ("DELETE", "/v1/flows/1/pin", None),
    ):
        found = problem(ask(method, path, json=body) if body else ask(method, path), 404, "not-found")
        assert "cookie 1" in found["detail"]


@pytest.mark.parametrize(
    "path", ["/dashboard/../app.py", "/v2/flows", "/v1/flows/", "/docs", "/v1/flows/1/2/3", "/v1/%00"]
)
def test_unknown_path(ask: Ask, path: str) -> None:
    answer = ask("GET", path)
    assert answer.json()["type"] == URN + "unknown-path"
    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/a?b", "/a#b", "/a\nb", "/a\tb", "/a//b", "/\\a"])
def test_a_problem_names_the_path_as_it_was_asked_for(ask: Ask, path: str) -> None:
    answer = ask("GET", quote(path))
    assert answer.status_code == 404
    assert answer.json()["instance"] == path
    assert path in answer.json()["detail"]


def test_unknown_method(ask: Ask) -> None:
    answer = ask("POST", "/v1/flows", json={})
    found = problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    assert (found["field"], found["value"], found["allowed"]) == ("method", "POST", "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/k", "GET, HEAD, PUT"),
        ("/v1/pool", "GET, HEAD, PUT"),
        ("/v1/flows/4711/pin", "DELETE, PUT"),
        ("/v1/mpts", "DELETE, GET, HEAD, POST"),
        ("/v1/openapi.json", "GET, HEAD"),
    ],
)
def test_allow_names_every_method_of_a_path(ask: Ask, path: str, allowed: str) -> None:
    answer = ask("PATCH", path)
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == allowed


def test_head_is_get_without_a_body(ask: Ask) -> None:
    for path, status in (("/health", 200), ("/v1/k", 200), ("/v1/openapi.json", 200), ("/v1/flows/1", 404)):
        head, get = ask("HEAD", path), ask("GET", path)
        assert (head.status_code, head.content) == (status, b"")
        assert head.headers["content-type"] == get.headers["content-type"]


def test_malformed_json(ask: Ask) -> None:
    answer = ask("PUT", "/v1/k", content=b'{"k": 6', headers={"content-type": "application/json"})
    found = problem(answer, 400, "malformed-json")
    assert found["field"] == "body"


NO_JSON = [
    "NaN", "-Infinity", "Infinity", "1e400", "-1e400", r'"\ud800"', r'"\udfff\ud800"', r'{"\ud800": 1}',
    "[" * 5000 + "]" * 5000, "9" * 5000, "9" * 400, "-" + "9" * 310,
]  # fmt: skip


@pytest.mark.parametrize("text", NO_JSON)
@pytest.mark.parametrize("body", ["%s", '{"k": %s}', '{"other": [%s]}'])
def test_what_only_python_takes_for_json(ask: Ask, text: str, body: str) -> None:
    content = (body % text).encode()
    answer = ask("PUT", "/v1/k", content=content, headers={"content-type": "application/json"})
    assert problem(answer, 400, "malformed-json")["field"] == "body"


@pytest.mark.parametrize("depth", [33, 100, 300, 500, 700, 800, 850, 900, 920, 940, 960, 980])
@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_too_deep_is_refused_alike_at_any_depth(
    ask: Ask, depth: int, before: str, after: str
) -> None:
    """Other parsers than the first have another limit, or none."""
    content = '{"values": {"mpts": {"budget": %s}}}' % (before * (depth - 3) + "1" + after * (depth - 3))
    answer = ask("PATCH", "/v1/config", content=content, headers={"content-type": "application/json"})
    assert "nested" in problem(answer, 400, "malformed-json")["detail"]


def test_what_is_nested_a_little_is_judged_by_its_content(ask: Ask) -> None:
    answer = ask("PUT", "/v1/k", json={"k": [[[[[[1]]]]]]})
    problem(answer, 422, "invalid-value")


@pytest.mark.parametrize("path", ["/health", "/v1/k", "/v1/flows/4711", "/"])
def test_a_path_with_a_line_s_end_is_another_one(ask: Ask, path: str) -> None:
    answer = ask("GET", path + "%0A")
    assert (answer.status_code, answer.json()["type"]) == (404, URN + "unknown-path")


@pytest.mark.parametrize("content", [b'{"k": "\xff"}', '{"k": 2}'.encode("utf-16"), b'\xef\xbb\xbf{"k": 2}'])
def test_json_is_utf_8_without_a_mark(ask: Ask, content: bytes) -> None:
    answer = ask("PUT", "/v1/k", content=content, headers={"content-type": "application/json"})
    problem(answer, 400, "malformed-json")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_media_types(ask: Ask, media_type: str) -> None:
    answer = ask("PUT", "/v1/k", content=b'{"k": 6}', headers={"content-type": media_type})
    found = problem(answer, 415, "unsupported-media-type")
    assert (found["value"], found["allowed"]) == (media_type, "application/json")


def test_a_request_whose_client_is_gone_before_its_end_is_not_carried_out() -> None:
    """The part of the body that came may be JSON by itself."""
    messages = [
        {"type": "http.request", "body": b'{"mode": "off"}', "more_body": True},
        {"type": "http.disconnect"},
    ]
    called = []

    async def app(*_: object) -> None:
        called.append(1)

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"40")]
    scope = {"type": "http", "method": "PUT", "path": "/v1/mode", "headers": headers}
    asyncio.run(RequestLimits(app)(scope, receive, app))
    assert not messages
    assert not called


def test_too_large(ask: Ask) -> None:
    declared = ask("PUT", "/v1/pool", json={"arms": [BODY_BYTES_MAX * "x"]})
    problem(declared, 413, "content-too-large")

    async def pieces() -> Iterator[bytes]:
        for _ in range(10):
            yield (BODY_BYTES_MAX // 8) * b" "

    chunked = ask("PUT", "/v1/pool", content=pieces(), headers={"content-type": "application/json"})
    problem(chunked, 413, "content-too-large")


def test_largest_body_is_taken(ask: Ask) -> None:
    body = json.dumps({"k": 2}).encode().ljust(BODY_BYTES_MAX)
    assert ask("PUT", "/v1/k", content=body, headers={"content-type": "application/json"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/flows", "/v1/status", "/health", "/v1/events", "/v1/mode", "/v1/arms"])
def test_no_daemon(tmp_path: Path, path: str) -> None:
    answer = asker(tmp_path / "nobody.sock")("GET", path)
    found = problem(answer, 503, "daemon-unavailable")
    assert "is it running?" in found["detail"]
    assert answer.headers["retry-after"] == "1"


@pytest.fixture
def garbled(tmp_path: Path) -> Iterator[Path]:
    """A control socket whose server answers in another daemon's words."""
    path = tmp_path / "garbled.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as peer:
                peer.recv(4096)
                peer.sendall(b'{"id": 1, "result": {"mode": 7}}\n')

        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join()


def test_answer_of_another_version(garbled: Path) -> None:
    found = problem(asker(garbled)("GET", "/v1/mode"), 502, "unexpected-answer")
    assert "same version" in found["detail"]


def test_bug_shows_no_traceback(control_socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ltp_switcher.api.metrics.from_json", lambda _: 1 / 0)
    ask = asker(control_socket, raise_app_exceptions=False)
    found = problem(ask("GET", "/metrics"), 500, "internal")
    assert "division" not in json.dumps(found)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"sec-fetch-site": "same-origin", "host": "evil.example:9480"}, "forbidden-host"),
        ({"origin": "http://evil.example:9480", "host": "evil.example:9480"}, "forbidden-host"),
        ({"origin": "http://evil.example", "host": "localhost:9480"}, "forbidden-origin"),
        ({"origin": "null", "host": "localhost:9480"}, "forbidden-origin"),
        ({"origin": "http://localhost:9481", "host": "localhost:9480"}, "forbidden-origin"),
    ],
)
def test_a_page_of_another_site_changes_nothing_even_through_the_unix_socket(
    ask: Ask, headers: dict[str, str], kind: str
) -> None:
    problem(ask("PUT", "/v1/mode", json={"mode": "active"}, headers=headers), 403, kind)
    assert ask("GET", "/v1/mode").json()["mode"] == "advise"


def test_our_own_page_may_change_things_through_the_unix_socket(ask: Ask) -> None:
    headers = {"origin": "http://localhost:9480", "host": "localhost:9480", "sec-fetch-site": "same-origin"}
    assert ask("PUT", "/v1/mode", json={"mode": "off"}, headers=headers).is_success
    assert ask("PUT", "/v1/mode", json={"mode": "off"}, headers={"host": "anything"}).is_success, "curl"
