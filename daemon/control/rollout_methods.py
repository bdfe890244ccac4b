# SPDX-License-Identifier: Apache-2.0
"""The control methods for a rollout, which lets the daemon steer a growing share of the traffic. They begin a
rollout, report it, or abort it. The rollout's metrics are here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, get_args

from ltp_switcher.daemon.control.answers import Method, Params, Saved
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.families import Family, Sample, gauge, labelled
from ltp_switcher.daemon.gain.rollout import End, Units
from ltp_switcher.errors import InvalidValueError

if TYPE_CHECKING:
    from ltp_switcher.daemon.control.controlled import Controlled
    from ltp_switcher.daemon.control.rollouts import Rollouts

PREFIX = "ltp_switcher_rollout"


class RolloutMethods:
    """The control methods for rollouts, by name, each with the names of its parameters.

    `caller` is a function that returns the author of the request.
    """

    def __init__(self, daemon: Controlled, caller: Callable[[], Caller]) -> None:
        self._daemon = daemon
        self._caller = caller
        self.methods: dict[str, tuple[Method, frozenset[str]]] = {
            "rollout.get": (self._get, frozenset()),
            "rollout.start": (self._start, frozenset({"units"})),
            "rollout.abort": (self._abort, frozenset()),
        }

    def _get(self, _: Params) -> Json:
        return self._daemon.rollouts.status()

    def _start(self, params: Params) -> Saved:
        units = params.get("units")
        if units is not None and units not in get_args(Units):
            raise InvalidValueError("units", units, "one of " + ", ".join(get_args(Units)))
        save = self._daemon.rollouts.start(cast("Units | None", units), self._caller())
        return Saved(self._daemon.rollouts.status(), save)

    def _abort(self, _: Params) -> Saved:
        save = self._daemon.rollouts.abort(self._caller())
        return Saved(self._daemon.rollouts.status(), save)


def rollout_families(rollouts: Rollouts) -> list[Family]:
    """The metrics of the rollout under way, or of the last one."""
    told = rollouts.status()
    found = cast("dict[str, Json]", told["rollout"] or {})

    def known(name: str, text: str) -> Family:
        value = found.get(name)
        samples = [Sample(float(value))] if isinstance(value, int | float) else []
        return Family(f"{PREFIX}_{name}", "gauge", text, "", samples)

    states = ("none", "running", *get_args(End))
    running = told["state"] == "running"
    return [
        labelled(
            PREFIX, "gauge", "1 for the state of the rollout.", "state",
            {state: float(state == told["state"]) for state in states},
        ),
        gauge(
            f"{PREFIX}_share", "Share of the traffic that the rollout under way treats.",
            float(cast("float", found["share"])) if running else 0.0,
        ),
        known("lower", "Relative change of goodput that the truth is proven to be above, if any is."),
        known("upper", "Relative change of goodput that the truth is proven to be below, if any is."),
    ]  # fmt: skip
