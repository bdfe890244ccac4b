# SPDX-License-Identifier: Apache-2.0
"""The promises of docs/openapi.json and docs/api.md for each answer: its status, its type and its body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from fuzz.wire import EVENTS, Answer, Asked

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PROBLEM: Final = "application/problem+json"
URN: Final = "urn:ltp-switcher:problem:"
UNAVAILABLE: Final = (502, 503)
PAGES: Final = {"/": "text/html", "/v1/openapi.json": "application/json"}
"""Paths beside those of the OpenAPI document, and their types. Files of the dashboard come with them."""
DASHBOARD_TYPES: Final = ("text/html", "text/javascript", "text/css", "image/svg+xml")


class Contract:
    """The promises. `faults` says where an answer breaks one."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text())
        self._paths = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), operations)
            for path, operations in self.document["paths"].items()
        ]
        self._kinds = _kinds((DOCS / "api.md").read_text())
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def faults(self, asked: Asked, answer: Answer, *, away: bool) -> list[str]:
        """What is undocumented or wrong; `away`: the daemon does not run."""
        found = []
        if answer.status == 500:
            found.append("status 500")
        if answer.status in UNAVAILABLE and not away:
            found.append(f"status {answer.status} though the daemon runs: {answer.body[:300]!r}")
        if asked.method == "HEAD" and answer.body:
            found.append("HEAD got a body")
        if answer.media_type == PROBLEM:
            found += self._problem(asked, answer)
        return found + self._documented(asked, answer)

    def _documented(self, asked: Asked, answer: Answer) -> list[str]:
        operations = self._operations(asked.path)
        # Methods are told apart by case (RFC 9110, 9.1).
        method = "GET" if asked.method == "HEAD" else asked.method
        if method.isupper() and method.lower() in operations:
            return self._by_operation(operations[method.lower()], asked, answer)
        if not asked.method or answer.status not in (200, 304):
            # Not of an operation: only a problem can come, and each has its line in docs/api.md.
            return (
                []
                if answer.media_type == PROBLEM
                else [f"{answer.status} {answer.media_type!r} is no problem"]
            )
        types = DASHBOARD_TYPES if asked.path.startswith("/dashboard/") else (PAGES.get(asked.path),)
        if method != "GET" or answer.media_type not in types:
            return [f"status {answer.status} with {answer.media_type!r} where there is no operation"]
        return []

    def _operations(self, path: str) -> Mapping[str, Any]:
        return next((operations for pattern, operations in self._paths if pattern.fullmatch(path)), {})

    def _by_operation(self, operation: Mapping[str, Any], asked: Asked, answer: Answer) -> list[str]:
        name, response = operation["operationId"], operation["responses"].get(str(answer.status))
        if response is None:
            return [f"status {answer.status} is undocumented for {name}"]
        content = response.get("content", {})
        if answer.media_type not in content and (content or answer.body):
            return [f"type {answer.media_type!r} of {answer.status} is undocumented for {name}"]
        if asked.method == "HEAD" or answer.media_type == EVENTS or not answer.media_type.endswith("json"):
            return []
        return self._schema(f"{name} {answer.status}", content[answer.media_type]["schema"], answer.body)

    def _problem(self, asked: Asked, answer: Answer) -> list[str]:
        if asked.method == "HEAD":
            return []
        found = self._schema("a problem", {"$ref": "#/components/schemas/Problem"}, answer.body)
        if found:
            return found
        body = json.loads(answer.body)
        kind = body["type"].removeprefix(URN)
        if body["status"] != answer.status or (kind, answer.status) not in self._kinds:
            found.append(f"problem {kind!r} of status {answer.status} is not in docs/api.md")
        if asked.path and asked.whole and body["instance"] not in (asked.path, ""):
            found.append(f"the problem is of {body['instance']!r}, the request of {asked.path!r}")
        if answer.status == 405:
            found += self._allow(asked, answer)
        return found

    def _allow(self, asked: Asked, answer: Answer) -> list[str]:
        page = {"GET"} if asked.path in PAGES else set()
        wanted = {method.upper() for method in self._operations(asked.path)} | page
        wanted |= {"HEAD"} if "GET" in wanted else set()
        told = {method.strip() for method in answer.headers.get("allow", "").split(",")}
        return [f"Allow is {sorted(told)}, not {sorted(wanted)}"] if wanted and told != wanted else []

    def _schema(self, name: str, schema: Mapping[str, Any], body: bytes) -> list[str]:
        if name not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[name] = jsonschema_rs.validator_for(whole)
        try:
            value = json.loads(body, parse_constant=_refuse)
        except ValueError as error:
            return [f"the body of {name} is not JSON: {error}"]
        return [
            f"{name} at {list(e.instance_path)}: {e.message}"[:500]
            for e in self._validators[name].iter_errors(value)
        ]


def _kinds(page: str) -> set[tuple[str, int]]:
    """The problems of the table in docs/api.md: the end of the type, and the status."""
    rows = re.findall(r"^\| (`[^|]+`) \| (\d{3}) \|", page, re.MULTILINE)
    return {(kind, int(status)) for kinds, status in rows for kind in re.findall(r"`([a-z-]+)`", kinds)}


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
