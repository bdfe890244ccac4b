# SPDX-License-Identifier: Apache-2.0
"""The control methods by which operators choose: the pool of arms, the size `k` of teams, the mode, pins of
flows, and any setting that a running daemon can change.

A choice outlives the daemon, unless the request has `"runtime": true`. A request may have a list `if_match`
with tags of the values that its author saw. It is refused unless one of the tags belongs to the present
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ltp_switcher.daemon.choose.choice import Cause
from ltp_switcher.daemon.control.answers import Method, Params, Saved, StaleError
from ltp_switcher.daemon.control.audit import change_json
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.controlled import Controlled, cookie_of, slot_of
from ltp_switcher.daemon.control.describe import arm_names, flow_json
from ltp_switcher.daemon.control.overrides import CHANGES_MAX, CONFIRM_MAX_S, Pin, tag
from ltp_switcher.daemon.datapath.arms import arm_id, candidate_ids
from ltp_switcher.daemon.settings.load import as_dict, changed, flatten, key_of
from ltp_switcher.daemon.settings.rules import check
from ltp_switcher.daemon.settings.schema import MODES
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.errors import InvalidValueError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHANGE = frozenset({"runtime", "if_match", "confirm_within_s"})


def expect(params: Params, present: Json) -> None:
    """Raise `StaleError` if the request has a list `if_match` without the tag of the present value.

    Raises `InvalidValueError` if `if_match` is not a list.
    """
    wanted = params.get("if_match")
    if wanted is None:
        return
    if not isinstance(wanted, list):
        raise InvalidValueError("if_match", wanted, "a list of tags")
    if tag(present) not in wanted:
        raise StaleError("it has been changed since; read it again")


class ChoiceMethods:
    """The control methods for the operators' choices, by name, each with the names of its parameters.

    `caller` is a function that returns the author of the request.
    """

    def __init__(self, daemon: Controlled, caller: Callable[[], Caller]) -> None:
        self._daemon = daemon
        self._caller = caller
        self.methods: dict[str, tuple[Method, frozenset[str]]] = {
            "pool.get": (self._pool, frozenset()),
            "pool.set": (self._set_pool, frozenset({"arms"}) | _CHANGE),
            "k.get": (self._k, frozenset()),
            "k.set": (self._set_k, frozenset({"k"}) | _CHANGE),
            "mode.get": (self._mode, frozenset()),
            "mode.set": (self._set_mode, frozenset({"mode", "runtime", "confirm_within_s"})),
            "pin": (self._pin, frozenset({"cookie", "arm", "runtime"})),
            "unpin": (self._unpin, frozenset({"cookie"})),
            "config.get": (self._config, frozenset()),
            "config.set": (self._set_config, frozenset({"values"}) | _CHANGE),
            "overrides.clear": (self._clear, frozenset()),
            "changes.list": (self._changes, frozenset({"limit"})),
            "changes.revert": (self._revert, frozenset({"number"})),
            "changes.confirm": (self._confirm, frozenset()),
        }

    def _pool(self, _: Params) -> dict[str, Json]:
        engine = self._daemon.engine
        found: dict[str, Json] = {
            prefix: arm_names(self._daemon.names, outcome.team)
            for prefix, outcome in engine.teams.found.items()
        }
        return {"arms": arm_names(self._daemon.names, engine.chooser.pool), "teams": found}

    def _set_pool(self, params: Params) -> Saved:
        arms = params.get("arms")
        if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
            raise InvalidValueError("arms", arms, "a list of names of arms")
        candidate_ids(self._daemon.arms, cast("list[str]", arms), "arms")
        return self._set(params, {"pool.arms": arms}, self._pool, "arms")

    def _k(self, _: Params) -> dict[str, Json]:
        return {"k": self._daemon.engine.teams.k}

    def _set_k(self, params: Params) -> Saved:
        """Set the size k of teams. The settings say which sizes are allowed, and no team is larger than the
        pool.
        """
        teams, asked = self._daemon.engine.teams, cast("int", check(key_of("pool.k"), params.get("k"), "k"))
        before = teams.k if teams.found or teams.searches else None
        saved = self._set(params, {"pool.k": asked}, self._k, "k")
        notes = []
        if asked != teams.k:
            notes.append(f"the pool has {len(teams.candidates)} arms, and no team is larger")
        if not teams.automatic:
            notes.append(self._k_note(forgotten=before not in (None, teams.k)))
        return Saved({**saved.result, "note": "; ".join(notes) or None}, saved.save)

    def _k_note(self, *, forgotten: bool) -> str:
        """Why no flow runs arms of a team of the new size yet. `forgotten` says whether there were teams."""
        teams = self._daemon.engine.teams
        effect = "no flow's arms change yet"
        if forgotten:
            effect = "earlier teams are forgotten, and their flows have all arms of the pool again"
        why = "mpts.enabled is false"
        if teams.settings.enabled:
            why = f"the policy {self._daemon.config.daemon.policy} does not learn"
        return (
            f"{effect}: no team selection starts by itself, because {why}; "
            "`ltp-switcher mpts start`, or POST /v1/mpts, picks teams of this size"
        )

    def _mode(self, _: Params) -> dict[str, Json]:
        return {"mode": self._daemon.mode}

    def _set_mode(self, params: Params) -> Saved:
        mode = params.get("mode")
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidValueError("mode", mode, "one of " + ", ".join(MODES))
        return self._set(params, {"daemon.mode": mode}, self._mode, "mode")

    def _config(self, _: Params) -> dict[str, Json]:
        layers, config = self._daemon.choices.layers, self._daemon.config
        # These are the settings of the file that a running daemon cannot take.
        restart: list[Json] = [key.path for key in changed(config, layers.config())]
        return {
            "values": cast("Json", as_dict(config)),
            "origins": cast("Json", layers.origins_by_section()),
            "restart": restart,
        }

    def _set_config(self, params: Params) -> Saved:
        given = params.get("values")
        if not isinstance(given, dict) or not all(isinstance(entry, dict) for entry in given.values()):
            raise InvalidValueError("values", given, "an object of sections, each an object of keys")
        return self._set(params, cast("dict[str, Json]", flatten(given)), self._config, "values")

    def _set(
        self,
        params: Params,
        values: Mapping[str, Json],
        get: Callable[[Params], dict[str, Json]],
        tagged: str,
    ) -> Saved:
        """Set values, and answer as `get` does. The request's `if_match` has tags of the member `tagged` of
        this answer.
        """
        expect(params, get({})[tagged])
        with self._daemon.choices.trying(confirm_within_s(params)):
            save = self._daemon.change(values, self._caller(), runtime=_runtime(params))
        return Saved(get({}), save)

    def _pin(self, params: Params) -> Saved:
        cookie = cookie_of(params)
        arm = params.get("arm")
        if not isinstance(arm, str):
            raise InvalidValueError("arm", arm, "the name of an arm")
        number = arm_id(self._daemon.arms, arm, "arm")
        if number in LEARNED and self._daemon.mode != "active":
            raise RefusedError(
                f"{arm} is a learned arm, which nobody controls in mode {self._daemon.mode}; "
                "`ltp-switcher mode active` comes first"
            )
        slot = slot_of(self._daemon.engine.table, cookie)
        lasts = not _runtime(params)
        engine = self._daemon.engine
        self._daemon.datapath.pin(cookie, number)
        engine.journal.note(engine.table, slot, number, Cause.OPERATOR)
        return self._pinned(cookie, slot, Pin(arm, lasts))

    def _unpin(self, params: Params) -> Saved:
        cookie = cookie_of(params)
        slot = slot_of(self._daemon.engine.table, cookie)
        self._daemon.datapath.unpin(cookie)
        return self._pinned(cookie, slot, None)

    def _pinned(self, cookie: int, slot: int, pin: Pin | None) -> Saved:
        """Record the pin, and answer with the present state of the flow, which is newer than
        its last step.
        """
        table, choices = self._daemon.engine.table, self._daemon.choices
        choices.forget_pins(lambda known: table.slot(known) >= 0)
        save = choices.pinned(cookie, pin, self._caller())
        table.record[slot] = self._daemon.datapath.flow(cookie).record[0]
        return Saved(flow_json(table, slot, self._daemon.names), save)

    def _changes(self, params: Params) -> Json:
        limit = params.get("limit", CHANGES_MAX)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= CHANGES_MAX:
            raise InvalidValueError("limit", limit, f"a whole number from 1 to {CHANGES_MAX}")
        choices = self._daemon.choices
        waiting, present = choices.waiting, reversed(choices.changes[-limit:])
        return [
            {
                **change_json(change),
                "confirm_within_s": waiting.get(change.number),
                "can_revert": change.undo is not None,
            }
            for change in present
        ]

    def _clear(self, _: Params) -> Saved:
        save = self._daemon.clear(self._caller())
        return Saved(self._config({}), save)

    def _revert(self, params: Params) -> Saved:
        number = params.get("number")
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidValueError("number", number, "the number of a change")
        save = self._daemon.revert(number, self._caller())
        return Saved({"change": change_json(self._daemon.choices.changes[-1])}, save)

    def _confirm(self, _: Params) -> Saved:
        numbers, save = self._daemon.choices.confirm(self._caller())
        return Saved({"confirmed": list(numbers)}, save)


def confirm_within_s(params: Params) -> float | None:
    """Time in which a change has to be confirmed, in seconds; None if the change needs no confirmation."""
    value = params.get("confirm_within_s")
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value <= CONFIRM_MAX_S:
        raise InvalidValueError("confirm_within_s", value, f"a number from 1 to {CONFIRM_MAX_S}")
    return float(value)


def _runtime(params: Params) -> bool:
    runtime = params.get("runtime", False)
    if not isinstance(runtime, bool):
        raise InvalidValueError("runtime", runtime, "true or false")
    return runtime
