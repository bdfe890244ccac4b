# SPDX-License-Identifier: Apache-2.0
"""One run: the inputs of a seed, sent one after the other, and the faults found."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import h11

from fuzz import control_inputs, documented, mutate, wire
from fuzz.contract import Contract
from fuzz.control_inputs import ControlInputs
from fuzz.http_inputs import HttpInputs
from fuzz.service import Service
from fuzz.wire import Answer, Asked

CYCLES: Final = 4
"""Times that the daemon is killed, and started again on the state that the inputs have left."""
SHARES: Final = {"schemathesis": 0.25, "http": 0.45, "control": 0.25, "away": 0.05}
"""Shares of the inputs; `away` is HTTP while the daemon does not run."""
TCP_SHARE: Final = 0.3
_ALIVE: Final = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(slots=True)
class Finding:
    """A fault, with the first input that showed it; `times` counts alike ones."""

    part: str
    number: int
    fault: str
    data: bytes
    times: int = 1

    def entry(self) -> dict[str, object]:
        """Return the input for JSON. The bytes are in base64."""
        data = base64.b64encode(self.data).decode()
        return {
            "part": self.part,
            "input": self.number,
            "fault": self.fault,
            "times": self.times,
            "data": data,
        }


@dataclass(slots=True)
class Outcome:
    """What was sent, what came back, and what was wrong with it."""

    inputs: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


class Run:
    """Sends the inputs of a seed to a service. `step` is called after each."""

    def __init__(self, service: Service, seed: int, step: Callable[[], None] = lambda: None) -> None:
        self._service = service
        self._seed = seed
        self._step = step
        self._contract = Contract()
        self._http = HttpInputs(self._contract.document, service.token)
        self._control = ControlInputs()
        self._alike: dict[str, Finding] = {}
        self.outcome = Outcome(statuses={part: Counter() for part in SHARES})

    def run(self, count: int, cycles: int = CYCLES) -> Outcome:
        """Send at least `count` inputs, in as many cycles with a crash of the daemon at the end of each."""
        self.documented(round(count * SHARES["schemathesis"]))
        # Some operations take nothing, and have no rule to break: schemathesis sends less than it was asked.
        rest = (count - self.outcome.inputs["schemathesis"]) / (1 - SHARES["schemathesis"])
        for _ in range(cycles):
            self.mutated(math.ceil(rest * (SHARES["http"] + SHARES["control"]) / cycles))
            self.crash(math.ceil(rest * SHARES["away"] / cycles))
        return self.outcome

    def documented(self, count: int, only: str = "") -> None:
        """Send about `count` requests that schemathesis makes of the document, or of the operation `only`."""
        documented.run(
            self._contract.document,
            self._seed,
            count,
            lambda data: self._ask("schemathesis", data, (data,), tcp=False),
            lambda data, fault: self._found("schemathesis", data, [fault]),
            only,
        )
        self._found("schemathesis", _ALIVE, self._alive())

    def mutated(self, count: int) -> None:
        """Send `count` changed requests to both sockets, in turn and by their shares."""
        http = SHARES["http"] / (SHARES["http"] + SHARES["control"])
        for number in range(count):
            if int(number * http) < int((number + 1) * http):
                self._ask_http("http")
            else:
                self._ask_control()
        self._found("http", _ALIVE, self._alive())

    def crash(self, count: int) -> None:
        """Kill the daemon, send `count` requests, and start it again on the state that was left."""
        self._service.kill_daemon()
        for _ in range(count):
            self._ask_http("away")
        self._service.start_daemon()
        self._found("away", _ALIVE, self._alive())

    def _alive(self) -> list[str]:
        asked = [Asked("GET", "/health", whole=True)]
        with self._service.unix() as connection:
            (answer,) = wire.exchange(connection, [_ALIVE], asked)
        found = [] if answer.status == 200 else [f"/health answers {answer.status}: {answer.body!r}"]
        return found + self._service.faults()

    def _random(self, part: str) -> Random:
        return Random(f"{self._seed}:{part}:{self.outcome.inputs[part]}")

    def _ask_http(self, part: str) -> None:
        random = self._random(part)
        tcp = random.random() < TCP_SHARE
        data = self._http.changed(random, tcp=tcp)
        self._ask(part, data, mutate.pieces(data, random), tcp=tcp)

    def _ask(self, part: str, data: bytes, parts: tuple[bytes, ...], *, tcp: bool) -> Answer | None:
        """Send HTTP, judge the answers, and return the first."""
        asked, answers, faults = wire.requests_in(data), [], []
        try:
            with self._service.tcp() if tcp else self._service.unix() as connection:
                answers = wire.exchange(connection, parts, asked)
        except (OSError, h11.RemoteProtocolError) as error:
            faults.append(f"no answer: {error!r}")
        else:
            wanted = sum(request.whole for request in asked)
            if len(answers) < wanted and not (answers and answers[-1].last):
                faults.append(f"{wanted} requests, {len(answers)} answers")
        for request, answer in zip(asked, answers, strict=False):
            self.outcome.statuses[part][str(answer.status)] += 1
            faults += self._contract.faults(request, answer, away=part == "away")
        self._done(part, data, faults)
        return answers[0] if answers else None

    def _ask_control(self) -> None:
        random = self._random("control")
        data = self._control.changed(random)
        try:
            with self._service.control() as connection:
                answer = wire.until_end(connection, mutate.pieces(data, random))
            faults = control_inputs.faults(data, answer)
            self.outcome.statuses["control"].update(control_inputs.outcomes(answer))
        except OSError as error:
            faults = [f"no answer: {error!r}"]
        self._done("control", data, faults)

    def _done(self, part: str, data: bytes, faults: list[str]) -> None:
        faults += self._service.faults(daemon=part != "away")
        self._found(part, data, faults)
        self.outcome.inputs[part] += 1
        self._step()

    def _found(self, part: str, data: bytes, faults: list[str]) -> None:
        for fault in faults:
            # Alike but for numbers and quoted texts.
            like = part + re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "#", fault)[:200]
            if like in self._alike:
                self._alike[like].times += 1
            else:
                self._alike[like] = Finding(part, self.outcome.inputs[part], fault, data)
                self.outcome.findings.append(self._alike[like])
