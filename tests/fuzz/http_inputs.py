# SPDX-License-Identifier: Apache-2.0
"""HTTP requests for the API, whole ones of each operation of the OpenAPI document, and changed ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final
from urllib.parse import quote

from fuzz import mutate

BODIES: Final[Mapping[str, tuple[object, ...]]] = {
    "change_config": (
        {"values": {"mpts": {"budget": 200, "share": 0.5}, "daemon": {"mode": None}}},
        {"values": {"pool": {"arms": ["bbr", "cubic"], "k": 2}, "kernel": {"watchdog_ms": 2000}}},
    ),
    "load_arm": ({"name": "yeah"}, {"name": "nothere"}),
    "pin_flow": ({"arm": "bbr"}, {"arm": "vegas"}),
    "set_k": ({"k": 2}, {"k": 1}),
    "set_mode": ({"mode": "active"}, {"mode": "advise"}),
    "start_rollout": ({}, {"units": "blocks"}, {"units": "prefixes"}),
    "start_mpts": (
        {},
        {"prefix": "198.51.100.0/24"},
        {"prefix": "198.51.100.0/24", "by": "visits"},
    ),
    "set_policies": (
        {"policies": [{"prefix": "198.51.100.0/24", "pool": ["bbr", "vegas"], "k": 1, "start": "bbr"}]},
        {"policies": [{"netns": "web", "exclude": True}, {"local_port": 443, "pin": "cubic"}]},
    ),
    "set_pool": ({"arms": ["cubic", "bbr", "vegas"]}, {"arms": ["bbr", "vegas"]}),
    "make_session": ({"scope": "read"}, {"scope": "write"}),
}
"""Bodies by operation. Each operation that has a body needs one here."""
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "arm": ("bbr", "cubik"), "prefix": ("198.51.100.0/24", "2001:db8::/32"), "limit": ("1", "100"),
    "cursor": ("0", "815"),
    "offset": ("0", "2"), "order": ("goodput", "cookie"), "history": ("0", "300"), "since_s": ("604800",),
    "confirm_within_s": ("1", "86400"), "reverse": ("true", "false"), "backlog": ("0", "50"),
    "runtime": ("true", "false"), "dry_run": ("true", "false"),
}  # fmt: skip
COOKIES: Final = ("4711", "815", "18446744073709551615", "1")
NUMBERS: Final = ("1", "2", "99")
PAGES: Final = ("/", "/dashboard/main.js", "/v1/openapi.json")
"""What the API serves beside the operations of its document."""
_HEADERS: Final = (
    "Accept: application/openmetrics-text; version=1.0.0", "Accept: */*", "Accept-Encoding: gzip",
    "Connection: close", "Connection: keep-alive", "Cookie: ltp_switcher_9480=x; a=b",
    "Authorization: Bearer ltps_unknown", "Authorization: Basic eDp5", "Origin: http://localhost",
    "Sec-Fetch-Site: same-origin", "Last-Event-ID: 0", "Last-Event-ID: 9007199254740992", 'If-Match: "x"',
    "If-Match: *", 'If-None-Match: "x"', "Expect: 100-continue", "Upgrade: websocket",
    "Connection: Upgrade", "Range: bytes=0-1", "X-Forwarded-For: ::1", "Content-Encoding: gzip",
)  # fmt: skip
_ODD: Final = (
    b"Host: [\r\n", b"Host: a/b?c#d\r\n", b"Host: \xff\r\n", b"Host: localhost:99999\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 70000\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
    b"Content-Type: application/json; charset=utf-16\r\n", b"Content-Type:\r\n", b"HTTP/1.0", b"HTTP/2.0",
    b"CONNECT ", b"OPTIONS * ", b"TRACE ", b"HEAD ", b"PATCH ", b"DELETE ", b"%09", b"%0a", b"%3f", b"%23",
    b"%5c", b"http://[/", b"Cookie: ltp_switcher=\x80; =;;\r\n", b'If-Match: W/"a", "\r\n',
    b"Expect: 100-continue\r\n",
)  # fmt: skip
_SAFE: Final = "%/?&=:;,.#[]@!$'()*+~-_\\{}|^`\"<>"
_CONTROL: Final = bytes(number for number in (*range(32), 127))


class HttpInputs:
    """Draws inputs for the API's sockets."""

    def __init__(self, document: Mapping[str, Any], token: str) -> None:
        self._operations = [
            (method.upper(), path, operation)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        ]
        self._bodied = [found for found in self._operations if "requestBody" in found[2]]
        self._token = token
        lacking = {
            operation["operationId"] for _, _, operation in self._operations if "requestBody" in operation
        } - BODIES.keys()
        if lacking:
            raise AssertionError(f"BODIES has no example for {', '.join(sorted(lacking))}")
        random = Random("others")
        self._others = [self.whole(random) for _ in range(100)]

    def whole(self, random: Random, *, tcp: bool = False) -> bytes:
        """One request as a client should send it."""
        head, body = self._parts(random, tcp)
        return _request(head, body, random)

    def changed(self, random: Random, *, tcp: bool = False) -> bytes:
        """A request that is changed somewhere; now and then another one follows on the same connection."""
        head, body = self._parts(random, tcp)
        kind = random.random()
        if kind < 0.45 and body:
            body = mutate.with_other_value(body, random)
            if random.random() < 0.3:
                body = mutate.changed(body, random, self._others)
            data = _request(head, body, random)
        elif kind < 0.52 and body:
            data = _request(head, mutate.changed(body, random, self._others), random)
        elif kind < 0.62:
            line, _, rest = head.partition(b"\r\n")
            data = _request(self._line(line, random) + b"\r\n" + rest, body, random)
        elif kind < 0.9:
            line, _, rest = head.partition(b"\r\n")
            data = _request(line + b"\r\n" + self._headers(rest, random), body, random)
        else:
            data = mutate.changed(_request(head, body, random), random, self._others, _ODD)
        if random.random() < 0.01:
            data = _request(head, b" " * random.choice((65_536, 65_537, 70_000)), random)
        return data + random.choice(self._others) if random.random() < 0.05 else data

    def _line(self, line: bytes, random: Random) -> bytes:
        """The request line with changes; mostly of the target alone, which stays one word of ASCII."""
        if random.random() < 0.25:
            return mutate.changed(line, random, self._others, _ODD)
        method, target, version = line.split(b" ")
        changed = mutate.changed(target, random, self._others, _ODD)
        return b" ".join((method, quote(changed, safe=_SAFE).encode() or b"/", version))

    def _headers(self, lines: bytes, random: Random) -> bytes:
        """The headers with changes; mostly of the value of one, which stays on its line."""
        if random.random() < 0.3:
            return mutate.changed(lines, random, self._others, _ODD)
        found = lines.splitlines(keepends=True)
        at = random.randrange(len(found))
        name, _, value = found[at].partition(b": ")
        changed = mutate.changed(value.strip(), random, self._others, _ODD).translate(None, _CONTROL).strip()
        found[at] = name + b": " + changed + b"\r\n"
        return b"".join(found)

    def _parts(self, random: Random, tcp: bool) -> tuple[bytes, bytes]:
        """Request line and headers, without those that tell the body's length; and the body."""
        # Those with a body have more to get wrong.
        method, path, operation = random.choice(self._operations if random.random() < 0.5 else self._bodied)
        body = b""
        if "requestBody" in operation:
            body = json.dumps(random.choice(BODIES[operation["operationId"]])).encode()
        if random.random() < 0.03:
            method, path, body, operation = "GET", random.choice(PAGES), b"", {}
        if random.random() < 0.05:
            method = random.choice(("HEAD", "OPTIONS", "POST", "PATCH", "TRACE", "DELETE"))
        target = path.replace("{cookie}", random.choice(COOKIES)).replace("{number}", random.choice(NUMBERS))
        names = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
        query = [f"{name}={random.choice(QUERIES[name])}" for name in names if random.random() < 0.4]
        if query:
            target += "?" + "&".join(query)
        host = "localhost" if tcp or random.random() < 0.9 else random.choice(("x", "127.0.0.1:9", ""))
        lines = [f"{method} {target} HTTP/1.{int(random.random() < 0.95)}", f"Host: {host}"]
        if tcp and random.random() < 0.9:
            lines.append(f"Authorization: Bearer {self._token}")
        if body or random.random() < 0.1:
            lines.append("Content-Type: application/json")
        lines += random.sample(_HEADERS, random.choice((0, 0, 0, 1, 1, 2, 4)))
        return "\r\n".join(lines).encode() + b"\r\n", body


def _request(head: bytes, body: bytes, random: Random) -> bytes:
    """The request whose body has the length that it says, by Content-Length or in chunks."""
    if body and random.random() < 0.1:
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + _chunks(body, random)
    length = b"Content-Length: %d\r\n" % len(body) if body or random.random() < 0.2 else b""
    return head + length + b"\r\n" + body


def _chunks(body: bytes, random: Random) -> bytes:
    size = random.randint(1, max(1, len(body)))
    parts: Sequence[bytes] = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
