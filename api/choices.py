# SPDX-License-Identifier: Apache-2.0
"""Common parts of the routes that change something: the lifetime of a change, and entity tags of the state
before it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Header, Query, Response

from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.overrides import CONFIRM_MAX_S, tag

_TAG = r'(?:W/)?"[\x21\x23-\x7e]*"'

Runtime = Annotated[
    bool,
    Query(
        description=(
            "Limit the change to the time until the daemon ends. Without this parameter the "
            "change outlives restart and upgrade"
        )
    ),
]
Within = Annotated[
    int | None,
    Query(
        ge=1,
        le=CONFIRM_MAX_S,
        description=(
            "Time in seconds after which the daemon undoes the change, unless `POST "
            "/v1/changes/confirm` comes first. The daemon's next start undoes it, too"
        ),
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        pattern=rf"^\s*(?:\*|{_TAG}(?:\s*,\s*{_TAG})*)\s*$",
        description=(
            "Entity tags of the state that the change is for, or *. The status is 412 if the "
            "state has another tag"
        ),
    ),
]
TAGGED: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "ETag": {"description": "Entity tag of what PUT or PATCH sets", "schema": {"type": "string"}}
        }
    }
}
"""The OpenAPI `responses` of a route whose answer has an entity tag."""


def expected(if_match: str | None) -> dict[str, Json]:
    """Turn the header If-Match into the parameter `if_match` of a control method, a list of tags. Without the
    header, or for *, there is no parameter.
    """
    if if_match is None or if_match.strip() == "*":
        return {}
    # A weak tag never matches (RFC 9110, 13.1.1).
    tags: list[Json] = [found[1:-1] for found in re.findall(_TAG, if_match) if found.startswith('"')]
    return {"if_match": tags}


def timed(confirm_within_s: int | None) -> dict[str, Json]:
    """Turn the query parameter `confirm_within_s` into the parameter of a control method; none if the query
    has none.
    """
    return {} if confirm_within_s is None else {"confirm_within_s": confirm_within_s}


def put_tag(response: Response, value: Json) -> None:
    """Put the entity tag of the present state into the response's header ETag."""
    response.headers["ETag"] = f'"{tag(value)}"'
