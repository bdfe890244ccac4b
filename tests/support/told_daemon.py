# SPDX-License-Identifier: Apache-2.0
"""The daemon as the service of a fleet sees it: lessons by hand, and all that it was told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ltp_switcher.daemon.control.client import Json

Effects = Mapping[str, tuple[float, float]]
"""Mean and variance by arm."""


class ToldDaemon:
    """Answers `fleet.lessons` and `fleet.tell`."""

    def __init__(self, model: int = 7) -> None:
        self.model = model
        self.epoch = 1
        self._lessons: dict[str, tuple[int, int, Effects]] = {}
        self._number = 0
        self.told: dict[str, dict[str, list[float]]] = {}
        """What others know, by prefix and arm: mean and variance."""
        self.sources: dict[str, list[str]] = {}
        self.tells = 0
        """Prefixes that were told of, each time counted."""
        self.status: dict[str, Any] = {}
        self.hosts: dict[str, dict[str, Any]] = {}

    def learn(self, prefix: str, visits: int = 20, **effects: tuple[float, float]) -> None:
        """A visit has taught this."""
        self._number += 1
        self._lessons[prefix] = (self._number, visits, effects)

    def call(self, method: str, **params: Json) -> Json:
        if method == "fleet.lessons":
            epoch, _, number = str(params["since"] or "0:-1").partition(":")
            since = int(number) if int(epoch) == self.epoch else -1
            lessons: list[Json] = [
                {"prefix": prefix, "visits": visits, "arms": {arm: list(pair) for arm, pair in told.items()}}
                for prefix, (at, visits, told) in self._lessons.items()
                if at > since
            ]
            cursor = f"{self.epoch}:{self._number}"
            return {"learn": True, "model": self.model, "cursor": cursor, "lessons": lessons}
        assert method == "fleet.tell"
        for lesson in params.get("lessons", []):  # type: ignore[union-attr]
            assert isinstance(lesson, dict)
            prefix = str(lesson["prefix"])
            self.told[prefix] = lesson["arms"]  # type: ignore[assignment]
            self.sources[prefix] = lesson["from"]  # type: ignore[assignment]
            self.tells += 1
        if "status" in params:
            self.status = params["status"]  # type: ignore[assignment]
            self.hosts = {host["name"]: host for host in params["hosts"]}  # type: ignore[index, union-attr, misc, call-overload]
        return {"learn": True}
