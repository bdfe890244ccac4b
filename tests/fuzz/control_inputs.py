# SPDX-License-Identifier: Apache-2.0
"""Requests for the daemon's control socket, whole ones and changed ones, and the rules for its answers."""

from __future__ import annotations

import json
from random import Random
from typing import Final

from fuzz import mutate

REQUESTS: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("status", {}), ("flows.list", {}), ("flows.get", {"cookie": "4711"}),
    ("flows.history", {"cookie": "815"}),
    ("flows.page", {"arm": "bbr", "prefix": "198.51.100.0/24", "limit": 2, "offset": 0, "history": 3}),
    ("flows.page", {"order": "goodput"}),
    ("flows.page", {"cursor": "815", "limit": 1}),
    ("history", {}), ("events", {}), ("events", {"since": 3}), ("arms.list", {}), ("visits.get", {}),
    ("fleet.get", {}), ("fleet.lessons", {}), ("fleet.lessons", {"since": "1:2"}),
    ("fleet.tell", {"lessons": [{"prefix": "198.51.100.0/24", "from": ["b"], "arms": {"bbr": [0.5, 0.1]}}]}),
    ("arms.load", {"name": "cubic"}), ("mpts.start", {}), ("mpts.start", {"prefix": "198.51.100.0/24"}),
    ("mpts.start", {"prefix": "198.51.100.0/24", "by": "visits"}),
    ("mpts.status", {}), ("mpts.cancel", {}), ("metrics", {}),
    ("network.tell", {"pnc_pkts": 100, "pna": 0.5, "known": 1}),
    ("network.tell", {}), ("reload", {}), ("version", {}), ("pool.get", {}),
    ("pool.set", {"arms": ["bbr", "vegas"], "runtime": True}), ("k.get", {}),
    ("k.set", {"k": 2, "if_match": ["x"]}), ("k.set", {"k": 1, "runtime": False}), ("mode.get", {}),
    ("mode.set", {"mode": "active", "runtime": True}),
    ("pin", {"cookie": "4711", "arm": "bbr", "runtime": True}), ("unpin", {"cookie": "4711"}),
    ("config.get", {}), ("changes.list", {"limit": 5}),
    ("config.set", {"values": {"mpts": {"budget": 200, "share": 0.5, "measure_ms": 50}, "pool": {"k": 2}}}),
    ("config.set", {"values": {"kernel": {"watchdog_ms": 2000, "flows_max": 9}, "daemon": {"mode": None}}}),
    ("k.set", {"k": 2, "confirm_within_s": 1.5}), ("mode.set", {"mode": "off", "confirm_within_s": 60}),
    ("changes.confirm", {}), ("changes.revert", {"number": 1}), ("overrides.clear", {}),
    ("rollout.get", {}), ("rollout.start", {"units": "blocks"}), ("rollout.abort", {}),
    ("policies.get", {}), ("policies.set", {"policies": [{"port": 22, "exclude": True}], "dry_run": True}),
    ("policies.set", {"policies": [{"prefix": "198.51.100.0/24", "pool": ["bbr", "vegas"], "k": 1}]}),
    ("policies.set", {"policies": [{"prefix": "2001:db8::/32", "start": "bbr"}]}),
)  # fmt: skip
CODES: Final = frozenset({"invalid", "not-found", "refused", "stale"})
"""Codes of a refusal, of those that docs/ and the client know. The others say that the daemon failed."""
LINE_MAX: Final = 65_536
_ODD: Final = (
    b"\n",
    b"\n\n",
    b'"id":1,',
    b'"for":{"uid":0,"pid":1},',
    b'"for":{"token":"x"},',
    b'"params":[],',
    b"\r\n",
)


class ControlInputs:
    """Draws inputs for the control socket."""

    def __init__(self) -> None:
        self._others = [_line(method, params, number) for number, (method, params) in enumerate(REQUESTS)]

    def whole(self, random: Random) -> bytes:
        """One request as a client should send it."""
        method, params = random.choice(REQUESTS)
        return _line(method, params, random.randrange(1000))

    def changed(self, random: Random) -> bytes:
        """A request that is changed somewhere, and now and then others after it."""
        kind, line = random.random(), self.whole(random)
        if kind < 0.6:
            head, mark, params = line.rstrip(b"\n").partition(b'"params": ')
            params = mutate.with_other_value(params[:-1], random)
            if random.random() < 0.2:
                params = mutate.with_other_value(params, random)
            data = head + mark + params + b"}\n"
        elif kind < 0.7:
            data = mutate.with_other_value(line.rstrip(b"\n"), random) + b"\n"
        else:
            data = mutate.changed(line, random, self._others, _ODD)
        if random.random() < 0.005:
            data = b" " * random.choice((LINE_MAX - 1, LINE_MAX, LINE_MAX + 1)) + data
        return data + random.choice(self._others) if random.random() < 0.1 else data


def faults(data: bytes, answer: bytes) -> list[str]:
    """What is wrong with the bytes that the control socket answered to `data`, sent until its end."""
    lines = answer.split(b"\n")
    if lines.pop():
        return ["the last answer has no end"]
    found = [fault for line in lines for fault in _faults(line)]
    asked = [line for line in data.split(b"\n")[:-1] if line.strip()]
    if all(len(line) < LINE_MAX for line in data.split(b"\n")) and len(lines) != len(asked):
        found.append(f"{len(asked)} requests, {len(lines)} answers")
    return found


def outcomes(answer: bytes) -> list[str]:
    """How each request ended: "result", or the code of the error."""
    found = []
    for line in answer.splitlines():
        error = json.loads(line).get("error")
        found.append("result" if error is None else str(error.get("code")))
    return found


def _faults(line: bytes) -> list[str]:
    try:
        answer = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        return [f"the answer is not JSON: {error}"]
    if not isinstance(answer, dict) or answer.keys() not in ({"id", "result"}, {"id", "error"}):
        return ["the answer has other members than id and result or error"]
    error = answer.get("error")
    if "result" in answer:
        return []
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return ["the error has no message"]
    if error.get("code") not in CODES:
        return [f"the daemon failed: {error.get('code')}"]
    if (
        error["code"] == "invalid"
        and not {"field", "value", "allowed"} <= error.keys()
        and "65536" not in error["message"]
    ):
        return ["the refusal does not name field, value and allowed"]
    return []


def _line(method: str, params: dict[str, object], number: int) -> bytes:
    return json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
