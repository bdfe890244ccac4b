# SPDX-License-Identifier: Apache-2.0
"""Requests that schemathesis makes from the OpenAPI document: valid ones, and ones that break its rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode

from fuzz.wire import EVENTS, Answer

Send = Callable[[bytes], Answer | None]
Found = Callable[[bytes, str], None]
_CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
)  # fmt: skip


def run(document: Mapping[str, Any], seed: int, count: int, send: Send, found: Found, only: str = "") -> None:
    """Send about `count` requests, as many of each operation, half of them valid; tell what was `found`.

    `only` names an operation to be the only one.
    """
    schema = schemathesis.openapi.from_dict(dict(document))
    operations = [result.ok() for result in schema.get_all_operations()]
    if only:
        operations = [one for one in operations if one.definition.raw["operationId"] == only]
    each = math.ceil(count / len(operations) / 2)
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                _one(operation.as_strategy(generation_mode=mode), seed, each, send, found)
            except hypothesis.errors.Unsatisfiable:
                # An operation that takes nothing has no rule to break.
                continue


def _one(cases: Any, seed: int, count: int, send: Send, found: Found) -> None:  # noqa: ANN401
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=cases)
    def ask(case: schemathesis.Case) -> None:
        prepared = _prepared(case)
        data = _bytes(prepared)
        answer = send(data)
        if answer is not None and answer.headers.get("content-type", "").partition(";")[0] != EVENTS:
            for fault in _faults(case, prepared, answer):
                found(data, fault)

    ask()


def _prepared(case: schemathesis.Case) -> requests.PreparedRequest:
    kwargs = case.as_transport_kwargs(base_url="http://localhost")
    taken = ("method", "url", "headers", "params", "data", "json", "cookies", "files")
    return requests.Request(**{name: kwargs[name] for name in taken if name in kwargs}).prepare()


def _bytes(request: requests.PreparedRequest) -> bytes:
    lines = [f"{request.method} {request.path_url} HTTP/1.1".encode(), b"Host: localhost"]
    for name, value in request.headers.items():
        lines.append(_octets(name) + b": " + _octets(value))
    body = request.body or b""
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body.encode() if isinstance(body, str) else bytes(body))


def _octets(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogateescape")


def _faults(case: schemathesis.Case, request: requests.PreparedRequest, answer: Answer) -> list[str]:
    """What schemathesis itself says about an answer."""
    headers = {name: [value] for name, value in answer.headers.items()}
    response = schemathesis.Response(
        status_code=answer.status,
        headers=headers,
        content=answer.body,
        request=request,
        elapsed=0.0,
        verify=False,
    )
    try:
        case.validate_response(response, checks=[CHECKS.get_one(name) for name in _CHECKS])
    except FailureGroup as failures:
        return [f"schemathesis: {failure.title}: {failure.message}"[:500] for failure in failures.exceptions]
    return []
