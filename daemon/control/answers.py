# SPDX-License-Identifier: Apache-2.0
"""One request as a line of JSON, and its answer in parts.

A long answer is a list. The server makes and encodes a few items of the list at a time, between two steps of
the daemon.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ltp_switcher.daemon.control import strict_json
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import INTERNAL, INVALID, NOT_FOUND, REFUSED, STALE, UNAVAILABLE, Json
from ltp_switcher.daemon.control.keeper import Save
from ltp_switcher.daemon.datapath import FlowNotFoundError
from ltp_switcher.daemon.settings.tokens import is_name
from ltp_switcher.errors import InvalidValueError, LtpSwitcherError, RefusedError

log = logging.getLogger(__name__)

BATCH: Final = 8
"""Number of list items in one part of an answer. A part of a list of flows takes 0.2 ms to make."""

Params = dict[str, Json]


@dataclass(frozen=True, slots=True)
class JsonList:
    """A result that is a list, whose items are made one by one.

    With a `name`, the result is an object. Its member `name` is the list, and its other members are those of
    `rest`.
    """

    items: Iterator[Json]
    name: str = ""
    rest: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saved:
    """A result that waits for a write to disk. The server sends the result when the write has ended, with or
    without success.

    The members `saved` and `save_error` of the result tell whether the change is on disk. The change is in
    force in either case.
    """

    result: dict[str, Json]
    save: Save


class StaleError(LtpSwitcherError):
    """The request names the value that its author saw, and that value has been changed since."""


Result = Json | JsonList | Saved
Method = Callable[[Params], Result]
Handler = Callable[[str, Params, Caller], Result]


def answer(
    handler: Handler,
    line: bytes,
    peer: Caller,
    may_run: Callable[[str], bool] = lambda _: True,
    *,
    speaks_for_others: bool = False,
) -> Iterator[bytes]:
    """The parts of the answer to one request. The method is called when the first part is requested.

    A request that names another author is refused, unless its peer may speak for others. An empty part means
    that the caller has to ask again later, for example because the method may not run now.
    """
    number: Json = None
    try:
        request = _parsed(line)
        method = request.get("method") if isinstance(request, dict) else None
        if not isinstance(request, dict) or not isinstance(method, str):
            raise InvalidValueError("method", request, 'a JSON object with "method"')
        number = request.get("id")
        params = request.get("params") or {}
        if not isinstance(params, dict):
            raise InvalidValueError("params", params, "a JSON object")
        while not may_run(method):
            yield b""
        result = handler(method, params, _caller(request.get("for"), peer, speaks_for_others))
        if isinstance(result, Saved):
            while not result.save.done:
                yield b""
            error_text = result.save.error
            result = {**result.result, "saved": not error_text, "save_error": error_text or None}
        if isinstance(result, JsonList):
            before, after = _around(result)
            yield b'{"id":%b,"result":%b[' % (json.dumps(number).encode(), before)
            separator = b""
            while batch := list(itertools.islice(result.items, BATCH)):
                yield separator + json.dumps(batch)[1:-1].encode()
                separator = b", "
            yield b"]%b}\n" % after
        else:
            yield json.dumps({"id": number, "result": result}).encode() + b"\n"
    except InvalidValueError as refusal:
        yield error(
            number,
            INVALID,
            str(refusal),
            field=refusal.field,
            value=_plain(refusal.value),
            allowed=refusal.allowed,
        )
    except StaleError as stale:
        yield error(number, STALE, str(stale))
    except RefusedError as refusal:
        yield error(number, REFUSED, str(refusal))
    except FlowNotFoundError as missing:
        yield error(number, NOT_FOUND, str(missing))
    except LtpSwitcherError as failure:
        yield error(number, UNAVAILABLE, str(failure))
    except Exception:
        # A method that fails must not end the decision loop.
        log.exception("control request failed: %s", line[:200])
        yield error(number, INTERNAL, "the daemon failed to answer; its log says why")


def _caller(claim: Json, peer: Caller, speaks_for_others: bool) -> Caller:
    """The author of a request: the peer itself, or the process or token for which the peer speaks. Raises
    `InvalidValueError` if the peer may not speak for others.
    """
    if claim is None:
        return peer
    if not speaks_for_others:
        raise InvalidValueError(
            "for", claim, "nothing: only the user of the API or of the daemon speaks for others"
        )
    number = range(2**32)
    if isinstance(claim, dict) and claim.keys() == {"uid", "pid"}:
        uid, pid = claim["uid"], claim["pid"]
        if type(uid) is int and type(pid) is int and uid in number and pid in number:
            return Caller(uid, pid, via=peer)
    if isinstance(claim, dict) and claim.keys() == {"token"}:
        token = claim["token"]
        if isinstance(token, str) and is_name(token):
            return replace(peer, token=token)
    raise InvalidValueError(
        "for", claim, 'a JSON object with "uid" and "pid", whole numbers, or with "token", a name'
    )


def _around(result: JsonList) -> tuple[bytes, bytes]:
    """The text before the opening bracket of a list and after its closing one."""
    if not result.name:
        return b"", b""
    members = "".join(f"{json.dumps(name)}:{json.dumps(value)}," for name, value in result.rest.items())
    return f"{{{members}{json.dumps(result.name)}:".encode(), b"}"


def _parsed(line: bytes) -> Json:
    try:
        return strict_json.parse(line)
    except ValueError as error:
        raise InvalidValueError("request", line[:200].decode(errors="replace"), f"JSON ({error})") from error


def error(number: Json, code: str, message: str, **details: Json) -> bytes:
    """The answer to a request that was refused or that failed."""
    told: dict[str, Json] = {"code": code, "message": message, **details}
    return json.dumps({"id": number, "error": told}).encode() + b"\n"


def _plain(value: object) -> Json:
    return value if isinstance(value, None | bool | int | float | str) else repr(value)
