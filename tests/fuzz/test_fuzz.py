# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer, and planted faults that it must find. `make fuzz` is the long run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from fuzz import control_inputs, mutate, wire
from fuzz.contract import Contract
from fuzz.control_inputs import ControlInputs
from fuzz.http_inputs import HttpInputs
from fuzz.planted import FAULTS, faulty_service
from fuzz.run import Run
from fuzz.service import Service
from fuzz.wire import Answer, Asked
from ltp_switcher.daemon.control.controlled import Controlled
from ltp_switcher.daemon.control.methods import Methods

SEED = 1


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        outcome = Run(service, SEED).run(300, cycles=1)
    assert [(finding.part, finding.fault, finding.data) for finding in outcome.findings] == []
    assert outcome.inputs.total() >= 270
    # Each kind of answer is there, so the inputs are not all refused at the door.
    for part, wanted in {"schemathesis": "200", "http": "200", "control": "result", "away": "503"}.items():
        assert outcome.statuses[part][wanted], outcome.statuses


def test_planted_faults_are_found(tmp_path: Path) -> None:
    with faulty_service(tmp_path) as service:
        run = Run(service, SEED)
        for operation in FAULTS:
            run.documented(2, only=operation)
    found = " ".join(finding.fault for finding in run.outcome.findings)
    for told in FAULTS.values():
        assert told in found
    assert "log of the api" in found
    assert "log of the daemon" in found


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract()


def problem(kind: str, status: int, path: str = "/v1/k", **headers: str) -> Answer:
    kind = f"urn:ltp-switcher:problem:{kind}"
    body = {"type": kind, "title": "T", "status": status, "detail": "d", "instance": path}
    return Answer(status, {"content-type": "application/problem+json", **headers}, json.dumps(body).encode())


def answer(status: int, body: object, media_type: str = "application/json") -> Answer:
    return Answer(status, {"content-type": media_type}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("method", "path", "given", "told"),
    [
        ("GET", "/v1/k", answer(200, {"k": 6}), None),
        ("GET", "/v1/k", answer(200, {"k": "6"}), "get_k 200 at ['k']"),
        ("GET", "/v1/k", answer(200, {}), '"k" is a required property'),
        ("GET", "/v1/k", answer(204, {"k": 6}), "status 204 is undocumented"),
        ("GET", "/v1/k", answer(200, {"k": 6}, "text/html"), "'text/html' of 200 is undocumented"),
        ("GET", "/v1/k", Answer(200, {"content-type": "application/json"}, b'{"k": NaN}'), "is not JSON"),
        (
            "GET",
            "/metrics",
            Answer(200, {"content-type": "application/openmetrics-text; v=1"}, b"# EOF"),
            None,
        ),
        ("HEAD", "/v1/k", answer(200, {"k": 6}), "HEAD got a body"),
        ("POST", "/v1/k", answer(200, {"k": 6}), "where there is no operation"),
        ("GET", "/v1/k", problem("daemon-failed", 502), "502 though the daemon runs"),
        ("GET", "/v1/k", problem("internal", 500), "status 500"),
        ("PUT", "/v1/k", problem("invalid-value", 422), None),
        (
            "PUT",
            "/v1/k",
            problem("invalid-value", 400),
            "'invalid-value' of status 400 is not in docs/api.md",
        ),
        ("PUT", "/v1/k", problem("no-such-kind", 422), "'no-such-kind' of status 422 is not in docs/api.md"),
        ("PUT", "/v1/k", problem("invalid-value", 422, "/v1/pool"), "the problem is of '/v1/pool'"),
        ("PUT", "/v1/k", answer(422, {}, "application/problem+json"), "is a required property"),
        ("PATCH", "/v1/k", problem("method-not-allowed", 405, allow="GET, PUT, HEAD"), None),
        ("PATCH", "/v1/k", problem("method-not-allowed", 405, allow="GET, PUT"), "Allow is ['GET', 'PUT']"),
        ("GEt", "/v1/k", problem("method-not-allowed", 405, allow="GET, PUT, HEAD"), None),
        ("GET", "/nowhere", problem("unknown-path", 404, "/nowhere"), None),
        ("GET", "/nowhere", answer(200, {}), "where there is no operation"),
    ],
)
def test_the_contract(contract: Contract, method: str, path: str, given: Answer, told: str | None) -> None:
    found = contract.faults(Asked(method, path, whole=True), given, away=False)
    assert found == [] if told is None else told in " ".join(found)


def test_away_the_daemon_may_be_unavailable_but_nothing_may_fail(contract: Contract) -> None:
    asked = Asked("GET", "/v1/k", whole=True)
    assert contract.faults(asked, problem("daemon-unavailable", 503), away=True) == []
    assert contract.faults(asked, problem("internal", 500), away=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"id": 1, "result": {"k": 2}}\n', None),
        (b'{"id": 1, "error": {"code": "stale", "message": "m"}}\n', None),
        (b'{"id": 1, "error": {"code": "refused", "message": "m"}}\n', None),
        (b'{"id": 1, "error": {"code": "internal", "message": "m"}}\n', "the daemon failed: internal"),
        (b'{"id": 1, "error": {"code": "unavailable", "message": "m"}}\n', "the daemon failed: unavailable"),
        (b'{"id": 1, "error": {"code": "invalid", "message": "m"}}\n', "does not name field"),
        (b'{"id": 1, "result": NaN}\n', "not JSON"),
        (b'{"id": 1, "result": {"k": 2}}', "no end"),
        (b"", "1 requests, 0 answers"),
    ],
)
def test_the_rules_for_the_control_socket(line: bytes, told: str | None) -> None:
    found = control_inputs.faults(b'{"id": 1, "method": "k.get"}\n', line)
    assert found == [] if told is None else told in " ".join(found)


def test_every_method_of_the_control_socket_is_asked() -> None:
    asked = {method for method, _ in control_inputs.REQUESTS}
    assert asked == Methods(cast("Controlled", SimpleNamespace()))._methods.keys()


def test_inputs_repeat_with_their_seed(contract: Contract) -> None:
    http, control = HttpInputs(contract.document, "token"), ControlInputs()

    def drawn() -> Iterator[bytes]:
        for number in range(200):
            random = Random(f"{SEED}:{number}")
            yield http.changed(random)
            yield control.changed(random)

    first = list(drawn())
    assert first == list(drawn())
    assert len(set(first)) > 390


def test_requests_are_found_as_the_server_finds_them() -> None:
    get = b"GET /v1/k?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"
    put = b"PUT /v1/%6b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    assert wire.requests_in(get + put + b"null") == [Asked("GET", "/v1/k", True), Asked("PUT", "/v1/k", True)]
    assert wire.requests_in(get + put + b"nul") == [Asked("GET", "/v1/k", True), Asked("PUT", "/v1/k", False)]
    assert wire.requests_in(b"GIBBERISH\r\n\r\n") == [Asked("", "", True)]
    assert wire.requests_in(get[:-1]) == []


def test_pieces_are_the_whole() -> None:
    for number in range(50):
        assert b"".join(mutate.pieces(b"some bytes", Random(number))) == b"some bytes"
