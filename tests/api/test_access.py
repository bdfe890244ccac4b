# SPDX-License-Identifier: Apache-2.0
"""The rights of clients over TCP: real requests to the program on a port of the loopback."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api_process import ApiProcess, api_running

from ltp_switcher.api.problems import MEDIA_TYPE, URN
from ltp_switcher.api.sessions import Grant, Sessions
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.settings.tokens import Scope

GUARDED = [
    "/",
    "/dashboard/app.js",
    "/v1/flows",
    "/v1/mode",
    "/v1/config",
    "/v1/events",
    "/v1/openapi.json",
    "/no",
]

PATIENCE_S = 60

Cli = Callable[..., str]


@pytest.fixture(scope="module")
def control_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def tokens(control_folder: Path) -> Path:
    return control_folder / "tokens.json"


@pytest.fixture(scope="module")
def api(control_folder: Path, tokens: Path) -> Iterator[ApiProcess]:
    """The API on TCP, for all tests."""
    settings = {"LTP_SWITCHER_API_TOKEN_FILE": str(tokens)}
    with api_running(
        control_folder, control_folder / "control.sock", environment=settings, tcp=True
    ) as found:
        yield found


@pytest.fixture
def place(
    api: ApiProcess, control_socket: Path, tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ApiProcess]:
    """The API on TCP before the test's own daemon, without tokens. This process has the same settings."""
    monkeypatch.setenv("LTP_SWITCHER_API_TOKEN_FILE", str(tokens))
    monkeypatch.setenv("LTP_SWITCHER_API_SOCKET", str(api.socket))
    monkeypatch.setenv("LTP_SWITCHER_SOCKET", str(control_socket))
    yield api
    tokens.unlink(missing_ok=True)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """What a command prints."""

    def run(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out.strip()

    return run


def over_tcp(place: ApiProcess, method: str, path: str, token: str = "", **options: object) -> httpx.Response:
    headers = {**({"authorization": f"Bearer {token}"} if token else {}), **options.pop("headers", {})}
    return httpx.request(
        method, f"http://127.0.0.1:{place.port}{path}", headers=headers, timeout=60, **options
    )


def refused(answer: httpx.Response, status: int, kind: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE), answer.text
    assert answer.json()["type"] == URN + kind


def test_without_a_token_metrics_and_health_alone_are_served(place: ApiProcess) -> None:
    for path in ("/health", "/metrics"):
        for method in ("GET", "HEAD"):
            assert over_tcp(place, method, path).status_code == 200
        refused(over_tcp(place, "PUT", path), 401, "unauthorized")
    for path in GUARDED:
        answer = over_tcp(place, "GET", path)
        refused(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="ltp-switcher"'
        assert "ltp-switcher dashboard" in answer.json()["detail"]
    refused(over_tcp(place, "PUT", "/v1/mode", json={"mode": "off"}), 401, "unauthorized")
    refused(over_tcp(place, "POST", "/v1/sessions", json={"scope": "write"}), 401, "unauthorized")
    with place.client() as unix:
        assert unix.get("/v1/mode").json() == {"mode": "advise"}


def test_a_token_that_nobody_gave_is_refused(place: ApiProcess, cli: Cli) -> None:
    token = cli("token", "add", "backup", "--write")
    for shown in ("x", token[:-1], token + "x", token.upper(), token.replace("ltps_", ""), "\xe4"):
        headers = {"authorization": f"Bearer {shown}".encode("latin-1")}
        answer = over_tcp(place, "GET", "/v1/mode", headers=headers)
        refused(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].endswith('error="invalid_token"')
    for header in (token, f"Basic {token}", "Bearer", ""):
        refused(over_tcp(place, "GET", "/v1/mode", headers={"authorization": header}), 401, "unauthorized")


def test_a_read_token_reads_and_a_write_token_writes(place: ApiProcess, cli: Cli) -> None:
    read, write = cli("token", "add", "scraper", "--read"), cli("token", "add", "deploy", "--write")
    assert over_tcp(place, "GET", "/v1/flows", read).json()["total"] == 3
    answer = over_tcp(place, "PUT", "/v1/mode", read, json={"mode": "off"})
    refused(answer, 403, "read-only")
    assert answer.headers["www-authenticate"].endswith('error="insufficient_scope"')
    refused(over_tcp(place, "POST", "/v1/sessions", read, json={"scope": "read"}), 403, "read-only")
    assert over_tcp(place, "GET", "/v1/mode", read).json() == {"mode": "advise"}
    assert over_tcp(place, "PUT", "/v1/mode", write, json={"mode": "off"}).json()["mode"] == "off"


def test_a_change_names_the_token_and_a_removed_token_is_worth_nothing(place: ApiProcess, cli: Cli) -> None:
    token = cli("token", "add", "deploy", "--write")
    assert over_tcp(place, "PUT", "/v1/k", token, json={"k": 2}).status_code == 200
    (change,) = over_tcp(place, "GET", "/v1/changes", token).json()["changes"]
    api = {"uid": os.getuid(), "pid": place.process.pid}
    assert change["caller"] == {**api, "token": "deploy", "via": None}
    cli("token", "remove", "deploy")
    refused(over_tcp(place, "GET", "/v1/changes", token), 401, "unauthorized")


def test_a_token_does_not_help_under_another_host(place: ApiProcess, cli: Cli) -> None:
    token = cli("token", "add", "deploy", "--write")
    for host in ("evil.example", "evil.example:9480", "localhost.evil.example", "", "[::2]"):
        for path in ("/health", "/v1/mode", "/?code=x"):
            refused(over_tcp(place, "GET", path, token, headers={"host": host}), 403, "forbidden-host")
    for host in ("localhost", "localhost:9480", "127.0.0.1:9480", "[::1]:9480", "[::1]"):
        assert over_tcp(place, "GET", "/v1/mode", token, headers={"host": host}).status_code == 200


def test_nor_does_it_from_a_page_of_another_origin(place: ApiProcess, cli: Cli) -> None:
    token = cli("token", "add", "deploy", "--write")
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"http://localhost:{place.port}"):
        answer = over_tcp(place, "PUT", "/v1/mode", token, json={"mode": "off"}, headers={"origin": origin})
        refused(answer, 403, "forbidden-origin")
    own = {"origin": f"http://127.0.0.1:{place.port}"}
    assert over_tcp(place, "PUT", "/v1/mode", token, json={"mode": "off"}, headers=own).status_code == 200


def test_a_one_time_address_opens_one_session(place: ApiProcess, cli: Cli) -> None:
    url = cli("dashboard")
    assert url.startswith(f"http://127.0.0.1:{place.port}/?code=")
    opened = httpx.get(url)
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    told = {part.strip().lower() for part in opened.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= told
    cookie = {"cookie": opened.headers["set-cookie"].partition(";")[0]}
    own = {**cookie, "origin": f"http://127.0.0.1:{place.port}", "sec-fetch-site": "same-origin"}

    assert over_tcp(place, "GET", "/", headers=cookie).headers["content-type"].startswith("text/html")
    assert over_tcp(place, "PUT", "/v1/mode", json={"mode": "off"}, headers=own).status_code == 200
    (change,) = over_tcp(place, "GET", "/v1/changes", headers=cookie).json()["changes"]
    assert change["caller"]["pid"] == os.getpid(), "the process that asked for the address"

    again = httpx.get(url)
    refused(again, 401, "unauthorized")
    assert "set-cookie" not in again.headers
    refused(httpx.get(url.partition("=")[0] + "=x"), 401, "unauthorized")
    refused(
        over_tcp(place, "GET", "/v1/mode", headers={"cookie": cookie["cookie"][:-1]}), 401, "unauthorized"
    )


def test_a_session_serves_no_page_of_another_port(place: ApiProcess, cli: Cli) -> None:
    """To a browser they are the same site, so it sends the cookie along."""
    opened = httpx.get(cli("dashboard"))
    cookie = {"cookie": opened.headers["set-cookie"].partition(";")[0]}
    for site in ("same-site", "cross-site"):
        elsewhere = {**cookie, "sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        refused(over_tcp(place, "GET", "/v1/flows", headers=elsewhere), 401, "unauthorized")
    visit = {**cookie, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert over_tcp(place, "GET", "/", headers=visit).status_code == 200


def test_a_reading_session_changes_nothing(place: ApiProcess, cli: Cli) -> None:
    opened = httpx.get(cli("dashboard", "--read"))
    cookie = {"cookie": opened.headers["set-cookie"].partition(";")[0]}
    assert over_tcp(place, "GET", "/v1/mode", headers=cookie).json() == {"mode": "advise"}
    refused(over_tcp(place, "PUT", "/v1/mode", json={"mode": "off"}, headers=cookie), 403, "read-only")


def cookie_of(sessions: Sessions, grant: Grant) -> str:
    opened = sessions.open(sessions.invite(grant))
    assert opened is not None
    return opened[0]


def test_codes_and_sessions_end() -> None:
    now_s = 1000.0
    sessions = Sessions(lambda _: False, lambda: now_s)
    grant = Grant(Scope.WRITE, None)
    late, code = sessions.invite(grant), sessions.invite(grant)
    opened = sessions.open(code)
    assert opened is not None
    cookie, life_s = opened
    assert life_s == 12 * 3600
    assert sessions.open(code) is None
    now_s += 61
    assert sessions.open(late) is None
    found = sessions.find(cookie)
    assert found is not None
    assert (found.scope, found.author) == (Scope.WRITE, None)
    now_s += 12 * 3600
    assert sessions.find(cookie) is None


@given(hops_s=st.lists(st.floats(0, 5 * 3600), max_size=9))
def test_a_session_that_a_session_opened_ends_with_it(hops_s: list[float]) -> None:
    now_s = 1000.0
    sessions = Sessions(lambda _: False, lambda: now_s)
    cookie = cookie_of(sessions, Grant(Scope.WRITE, None))
    for hop_s in hops_s:
        now_s += hop_s
        grant = sessions.find(cookie)
        if grant is None:
            break
        cookie = cookie_of(sessions, grant)
    now_s = 1000.0 + 12 * 3600
    assert sessions.find(cookie) is None


def test_a_session_ends_with_its_token_and_not_with_another_of_the_name() -> None:
    known = {"a"}
    sessions = Sessions(known.__contains__)
    cookies = {
        name: cookie_of(sessions, Grant(Scope.WRITE, "deploy", digest))
        for name, digest in (("own", "a"), ("nobody's", None))
    }
    code = sessions.invite(Grant(Scope.WRITE, "deploy", "a"))
    known.symmetric_difference_update({"a", "b"})
    assert sessions.find(cookies["own"]) is None
    assert sessions.find(cookies["nobody's"]) is not None
    assert sessions.open(code) is None


def test_the_session_of_a_removed_token_neither_reads_writes_nor_renews_itself(
    place: ApiProcess, cli: Cli
) -> None:
    token = cli("token", "add", "deploy", "--write")

    def address(**options: object) -> str:
        made = over_tcp(place, "POST", "/v1/sessions", json={"scope": "write"}, **options)
        assert made.status_code == 201
        return str(made.json()["url"])

    def cookie(url: str) -> dict[str, str]:
        return {"cookie": httpx.get(url).headers["set-cookie"].partition(";")[0]}

    first = cookie(address(token=token))
    second, unused = cookie(address(headers=first)), address(headers=first)
    other = cookie(cli("dashboard"))
    for session in (first, second):
        assert over_tcp(place, "PUT", "/v1/k", headers=session, json={"k": 2}).status_code == 200
    streams = [
        httpx.stream("GET", f"http://127.0.0.1:{place.port}/v1/events", timeout=60, headers=headers)
        for headers in (first, second, {"authorization": f"Bearer {token}"})
    ]
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(stream) for stream in streams]
        cli("token", "remove", "deploy")
        cli("token", "add", "deploy", "--write")
        give_up_s = time.monotonic() + PATIENCE_S
        for answer in answers:
            assert answer.status_code == 200
            for _ in answer.iter_lines():
                assert time.monotonic() < give_up_s, "the stream goes on"
    for session in (first, second):
        for method, path, body in (
            ("PUT", "/v1/k", {"k": 3}),
            ("GET", "/v1/k", None),
            ("POST", "/v1/sessions", {"scope": "write"}),
        ):
            refused(over_tcp(place, method, path, headers=session, json=body), 401, "unauthorized")
    refused(httpx.get(unused), 401, "unauthorized")
    assert over_tcp(place, "GET", "/v1/k", headers=other).json()["k"] == 2


def test_without_tcp_there_is_no_address(
    api_process: ApiProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTP_SWITCHER_API_SOCKET", str(api_process.socket))
    assert main(["dashboard"]) == 1
    assert "set tcp in [api]" in capsys.readouterr().err
    monkeypatch.setenv("LTP_SWITCHER_API_SOCKET", "/nowhere/api.sock")
    assert main(["dashboard"]) == 3
    assert "cannot reach ltp-switcher-api" in capsys.readouterr().err


def test_a_damaged_file_allows_nobody_and_is_not_overwritten(
    place: ApiProcess, cli: Cli, tokens: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = cli("token", "add", "deploy", "--write")
    assert over_tcp(place, "GET", "/v1/mode", token).status_code == 200
    whole = tokens.read_bytes()
    for damaged in (
        whole[:-5],
        b"[]",
        b'{"version": 2, "tokens": []}',
        whole.replace(b"write", b"wheel"),
        b"\xff",
    ):
        tokens.write_bytes(damaged)
        refused(over_tcp(place, "GET", "/v1/mode", token), 401, "unauthorized")
        assert main(["token", "add", "other", "--read"]) == 1
        assert "tokens.json cannot be read" in capsys.readouterr().err
        assert tokens.read_bytes() == damaged
    tokens.write_bytes(whole)
    assert over_tcp(place, "GET", "/v1/mode", token).status_code == 200


def test_the_file_tells_no_token_and_only_its_group_reads_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.json"
    monkeypatch.setenv("LTP_SWITCHER_API_TOKEN_FILE", str(path))
    before = os.umask(0)
    try:
        token = cli("token", "add", "deploy", "--write")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert token not in path.read_text()
    assert len(token) > 40
    assert json.loads(cli("token", "list", "--json"))[0].keys() == {"name", "scope", "created"}
    assert token not in cli("token", "list")
    for arguments in (
        ["add", "deploy", "--read"],
        ["add", "a b", "--read"],
        ["remove", "other"],
        ["add", "x"],
    ):
        assert main(["token", *arguments]) == 2
        assert "allowed" in capsys.readouterr().err
