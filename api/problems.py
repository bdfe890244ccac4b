# SPDX-License-Identifier: Apache-2.0
"""Every error of the API as problem details (RFC 9457).

A problem always has `type`, `title`, `status`, `detail` and `instance`. An error in the input also
has `field`, `value` and `allowed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from ltp_switcher.errors import LtpSwitcherError

MEDIA_TYPE = "application/problem+json"
URN = "urn:ltp-switcher:problem:"
VALUE_CHARS_MAX = 200

_INT = "a whole number"
# The allowed values in words, by pydantic's type of the error. Parts in {…} come from the error's context.
_ALLOWED = {
    "missing": "this field is required",
    "extra_forbidden": "no such field",
    "json_invalid": "a JSON document",
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "an object",
    "model_attributes_type": "a JSON object",
    "model_type": "a JSON object",
    "int_type": _INT,
    "int_parsing": _INT,
    "int_from_float": _INT,
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "value_error": "{error}",
}


class FieldProblem(BaseModel):
    """One field that was refused."""

    field: str = Field(
        description="Place of the field: a parameter's name, or a path into the body", examples=["arms[1]"]
    )
    value: JsonValue = Field(default=None, description="The given value", examples=["cubik"])
    allowed: str = Field(description="The allowed values", examples=["one of: bbr, cubic, vegas"])


class Problem(BaseModel):
    """A problem details object (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": URN + "invalid-value",
                    "title": "Invalid value",
                    "status": 422,
                    "detail": "arms[1]: 'cubik' is not an arm of this kernel",
                    "instance": "/v1/pool",
                    "field": "arms[1]",
                    "value": "cubik",
                    "allowed": "one of: bbr, cubic, vegas",
                }
            ]
        }
    )
    type: str = Field(description="URN of the kind of problem")
    title: str = Field(description="The kind of problem in words; the same for every problem of a type")
    status: int = Field(description="The HTTP status code")
    detail: str = Field(description="The cause of this problem, and its remedy")
    instance: str = Field(description="Path of the request")
    field: str | None = Field(default=None, description="The field that was refused")
    value: JsonValue = Field(default=None, description="The refused value")
    allowed: str | None = Field(default=None, description="The allowed values of the field")
    errors: list[FieldProblem] | None = Field(
        default=None, description="All refused fields, if there are several"
    )


class ProblemError(LtpSwitcherError):
    """An exception that ends a request with a problem (RFC 9457).

    `kind` is the last part of the URN in the problem's `type`; `status` is the HTTP status code.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        title: str | None = None,
        fields: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.title = title or kind.replace("-", " ").capitalize()
        self.fields = tuple(fields)
        self.headers = headers

    def body(self, instance: str) -> Problem:
        """Return the problem for a request to the path `instance`."""
        first = self.fields[0] if self.fields else None
        return Problem(
            type=URN + self.kind,
            title=self.title,
            status=self.status,
            detail=str(self),
            instance=instance,
            field=first.field if first else None,
            value=first.value if first else None,
            allowed=first.allowed if first else None,
            errors=list(self.fields) if len(self.fields) > 1 else None,
        )

    def response(self, instance: str) -> JSONResponse:
        """Return the HTTP response that carries the problem."""
        body = self.body(instance).model_dump(mode="json", exclude_none=True)
        if self.fields and self.fields[0].value is None:
            body["value"] = None
        return JSONResponse(body, self.status, self.headers, MEDIA_TYPE)


def invalid(field: str, value: JsonValue, allowed: str, detail: str | None = None) -> ProblemError:
    """Make a problem of status 422 (invalid value) for one field."""
    return ProblemError(
        422,
        "invalid-value",
        detail or f"{field}: {value!r} is not valid; allowed: {allowed}",
        fields=[FieldProblem(field=field, value=value, allowed=allowed)],
    )


async def send_problem(problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a problem. This is for ASGI code that runs outside of the app."""
    await problem.response(scope["path"])(scope, receive, send)


def _path(request: Request) -> str:
    """The path as the client sent it. `request.url` parses a text, and may find another path."""
    return cast(str, request.scope["path"])


def _field_name(location: Sequence[int | str]) -> str:
    """The place of a pydantic error as people write it: ("body", "arms", 1) is `arms[1]`."""
    name = ""
    for part in location[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += f".{part}" if name else part
    return name or str(location[0])


def _shown(value: object) -> JsonValue:
    """A refused value, cut to a length that is fit for an error message."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "…"


def _from_validation(error: RequestValidationError) -> ProblemError:
    found = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        context = cast(Mapping[str, object], found[0].get("ctx") or {})
        return ProblemError(
            400,
            "malformed-json",
            f"the body is not JSON: {context.get('error', 'it cannot be parsed')}",
            title="Malformed JSON",
            fields=[FieldProblem(field="body", allowed="a JSON document")],
        )
    fields = [
        FieldProblem(
            field=_field_name(item["loc"]),
            value=None if item["type"] == "missing" else _shown(item.get("input")),
            allowed=_ALLOWED.get(item["type"], item["msg"]).format_map(item.get("ctx") or {}),
        )
        for item in found
    ]
    first = fields[0]
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    if found[0]["type"] == "missing":
        detail = f"{first.field} is missing{more}"
    else:
        detail = f"{first.field}: {first.value!r} is not valid; allowed: {first.allowed}{more}"
    return ProblemError(422, "invalid-value", detail, fields=fields)


def _from_http(error: HTTPException, request: Request) -> ProblemError:
    if error.status_code == 404:
        return ProblemError(
            404,
            "unknown-path",
            f"no resource at {_path(request)}; /v1/openapi.json lists all",
            headers=error.headers,
        )
    if error.status_code == 405:
        allow = ", ".join(_methods(error, request))
        return ProblemError(
            405,
            "method-not-allowed",
            f"{request.method} is not possible on {_path(request)}; allowed: {allow}",
            fields=[FieldProblem(field="method", value=request.method, allowed=allow)],
            headers={"allow": allow},
        )
    phrase = HTTPStatus(error.status_code).phrase
    return ProblemError(
        error.status_code, phrase.lower().replace(" ", "-"), error.detail or phrase, headers=error.headers
    )


def _methods(error: HTTPException, request: Request) -> list[str]:
    """The methods of the request's path. If several routes have the path, the error's header `Allow` names
    the methods of only one.
    """
    told = {name.lower(): value for name, value in (error.headers or {}).items()}.get("allow", "")
    found = {method.strip() for method in told.split(",") if method}
    for path, operations in request.app.openapi()["paths"].items():
        if compile_path(path)[0].fullmatch(_path(request)):
            found |= {method.upper() for method in operations}
    return sorted(found | {"HEAD"} if "GET" in found else found)


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a problem (RFC 9457)."""

    async def on_problem(request: Request, error: Exception) -> JSONResponse:
        return cast(ProblemError, error).response(_path(request))

    async def on_validation(request: Request, error: Exception) -> JSONResponse:
        return _from_validation(cast(RequestValidationError, error)).response(_path(request))

    async def on_http(request: Request, error: Exception) -> JSONResponse:
        return _from_http(cast(HTTPException, error), request).response(_path(request))

    async def on_bug(request: Request, _error: Exception) -> JSONResponse:
        # The server logs the traceback; the client gets none of it.
        problem = ProblemError(
            500, "internal", "an unexpected error; the log of ltp-switcher-api has the details"
        )
        return problem.response(_path(request))

    app.add_exception_handler(Exception, on_bug)
    app.add_exception_handler(ProblemError, on_problem)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI `responses` of a route that can end in problems of these HTTP statuses."""
    schema = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": schema} for status in statuses}
