# SPDX-License-Identifier: Apache-2.0
"""The control methods: the requests of the command line and the API to the running daemon."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

import ltp_switcher
from ltp_switcher.daemon.control import listing
from ltp_switcher.daemon.control.answers import JsonList, Params
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.describe import arm_json, flow_json
from ltp_switcher.daemon.control.metrics import families
from ltp_switcher.daemon.control.openmetrics import to_json
from ltp_switcher.daemon.control.why import past_json, totals_json, why_json
from ltp_switcher.daemon.datapath import ArmInfo, Datapath, FlowNotFoundError, protocol
from ltp_switcher.daemon.datapath.arms import arm_id, candidate_ids
from ltp_switcher.daemon.settings.load import as_dict
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.daemon.settings.schema import MODES, Config
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import UNKNOWN
from ltp_switcher.daemon.step.journal import Cause
from ltp_switcher.errors import InvalidValueError

log = logging.getLogger(__name__)

Method = Callable[[Params], "Json | JsonList"]
COOKIE_RULE = "a socket cookie: a decimal number from 1 to 2^64 - 1, written as a text"


class Controlled(Protocol):
    """The daemon as the methods need it."""

    @property
    def config(self) -> Config:
        """The settings in force."""
        ...

    @property
    def engine(self) -> Engine:
        """Flows, chooser and counters."""
        ...

    @property
    def datapath(self) -> Datapath:
        """The kernel module."""
        ...

    @property
    def arms(self) -> list[ArmInfo]:
        """Every arm, available or not."""
        ...

    @property
    def names(self) -> dict[int, str]:
        """The arms' names by id."""
        ...

    @property
    def mode(self) -> str:
        """active, advise or off."""
        ...

    def set_mode(self, mode: str) -> None:
        """Change the mode."""
        ...

    def load_arm(self, name: str) -> ArmInfo:
        """Load a congestion control of this kernel as an arm."""
        ...

    def reload(self) -> Sequence[str]:
        """Read the settings anew, and return the keys that changed."""
        ...


class Methods:
    """Answers control requests for a daemon. Every method runs between two steps."""

    def __init__(self, daemon: Controlled) -> None:
        self._daemon = daemon
        self._started_s = time.monotonic()
        self._caller = ""
        self._methods: dict[str, tuple[Method, frozenset[str]]] = {
            "status": (self._status, frozenset()),
            "flows.list": (self._flows, frozenset()),
            "flows.page": (self._flow_page, listing.PARAMS),
            "flows.get": (self._flow, frozenset({"cookie"})),
            "flows.history": (self._flow_history, frozenset({"cookie"})),
            "history": (self._history, frozenset()),
            "events": (self._events, frozenset({"since"})),
            "arms.list": (self._arms, frozenset()),
            "arms.load": (self._load_arm, frozenset({"name"})),
            "pool.get": (self._pool, frozenset()),
            "pool.set": (self._set_pool, frozenset({"arms"})),
            "k.get": (self._k, frozenset()),
            "k.set": (self._set_k, frozenset({"k"})),
            "pin": (self._pin, frozenset({"cookie", "arm"})),
            "unpin": (self._unpin, frozenset({"cookie"})),
            "mode.get": (self._mode, frozenset()),
            "mode.set": (self._set_mode, frozenset({"mode"})),
            "mpts.start": (self._start_mpts, frozenset({"prefix"})),
            "mpts.status": (self._mpts, frozenset()),
            "metrics": (self._metrics, frozenset()),
            "config.get": (self._config, frozenset()),
            "reload": (self._reload, frozenset()),
            "version": (self._version, frozenset()),
        }

    def handle(self, method: str, params: Params, caller: str) -> Json | JsonList:
        """Call a method for `caller`, whom the log names. Raises `InvalidValueError`, `DatapathError`."""
        if method not in self._methods:
            names = list(self._methods)
            raise InvalidValueError("method", method, ", ".join(names) + did_you_mean(method, names))
        call, allowed = self._methods[method]
        unknown = sorted(set(params) - allowed)
        if unknown:
            raise InvalidValueError(
                unknown[0], params[unknown[0]], f"parameters of {method}: {_words(allowed)}"
            )
        self._caller = caller
        return call(params)

    def _status(self, _: Params) -> Json:
        engine, daemon = self._daemon.engine, self._daemon
        count = engine.statistics
        return {
            "version": ltp_switcher.__version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started_s, 3),
            "mode": daemon.mode,
            "policy": daemon.config.daemon.policy,
            "step_ms": daemon.config.daemon.step_ms,
            "idle_step_ms": daemon.config.daemon.idle_step_ms,
            "flows": len(engine.table),
            "busy": engine.busy,
            "pool": self._names(engine.chooser.pool),
            "k": engine.teams.k,
            "searches": len(engine.teams.searches),
            "teams": len(engine.teams.known),
            "steps": count.steps,
            "missed_steps": count.missed_steps,
            "last_step_age_ms": round((time.monotonic() - count.last_step_s) * 1e3, 3),
            "step_p50_ms": round(count.step_quantile_s(0.5) * 1e3, 3),
            "step_p99_ms": round(count.step_quantile_s(0.99) * 1e3, 3),
            "decisions": count.decisions,
            "changes": count.changes,
            "fallbacks": count.fallbacks,
            "learned": {
                daemon.names[arm]: {
                    "intervals": done.count,
                    "decisions": done.flows,
                    "controls": done.controls,
                    "seconds": round(done.seconds, 6),
                }
                for arm, done in engine.learned.batches.items()
            },
        }

    def _flows(self, _: Params) -> JsonList:
        return JsonList(self._each_flow(self._daemon.engine.table.slots()))

    def _flow_page(self, params: Params) -> JsonList:
        table = self._daemon.engine.table
        query = listing.Query.of(params, self._daemon.arms)
        slots, total = listing.select(table, query)
        return JsonList(self._each_flow(slots.tolist(), query.history), "flows", {"total": total})

    def _each_flow(self, slots: Sequence[int], history: int = 0) -> Iterator[Json]:
        engine, table = self._daemon.engine, self._daemon.engine.table
        # Steps run while the list is made: a slot may have become free, or another flow's.
        for cookie, slot in [(int(table.cookie[slot]), slot) for slot in slots]:
            if table.slot(cookie) == slot:
                flow = flow_json(table, slot, self._daemon.names)
                if history:
                    flow["history"] = past_json(engine, slot, self._daemon.names, history)
                yield flow

    def _flow(self, params: Params) -> Json:
        slot = self._slot(_cookie(params))
        engine, names = self._daemon.engine, self._daemon.names
        return {**flow_json(engine.table, slot, names), "why": why_json(engine, slot, names)}

    def _flow_history(self, params: Params) -> Json:
        slot = self._slot(_cookie(params))
        return past_json(self._daemon.engine, slot, self._daemon.names)

    def _history(self, _: Params) -> Json:
        return totals_json(self._daemon.engine, self._daemon.names)

    def _events(self, params: Params) -> Json:
        ring, since = self._daemon.engine.events, params.get("since")
        if since is None:
            return {"next": ring.next, "missed": False, "events": []}
        if not isinstance(since, int) or isinstance(since, bool):
            raise InvalidValueError("since", since, "a whole number")
        replay = ring.since(since)
        events: list[Json] = [dict(event) for event in replay.events]
        return {"next": replay.next, "missed": replay.missed, "events": events}

    def _arms(self, _: Params) -> Json:
        return [arm_json(arm) for arm in self._daemon.arms]

    def _load_arm(self, params: Params) -> Json:
        name = params.get("name")
        if not isinstance(name, str) or not 0 < len(name) < protocol.ARM_NAME_MAX:
            raise InvalidValueError("name", name, "the name of a congestion control, 15 characters at most")
        arm = arm_json(self._daemon.load_arm(name))
        self._tell("arm %s loaded", name)
        return arm

    def _pool(self, _: Params) -> Json:
        teams = self._daemon.engine.teams
        found: dict[str, Json] = {prefix: self._names(team) for prefix, team in teams.known.items()}
        return {"arms": self._names(self._daemon.engine.chooser.pool), "teams": found}

    def _set_pool(self, params: Params) -> Json:
        arms = params.get("arms")
        if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
            raise InvalidValueError("arms", arms, "a list of names of arms")
        teams = self._daemon.engine.teams
        ids = candidate_ids(self._daemon.arms, cast("list[str]", arms), "arms")
        before = teams.candidates
        teams.configure(teams.settings, teams.k, ids)
        self._tell("pool is %s now, was %s", self._words(ids), self._words(before))
        return self._pool({})

    def _k(self, _: Params) -> Json:
        return {"k": self._daemon.engine.teams.k}

    def _set_k(self, params: Params) -> Json:
        k = params.get("k")
        teams = self._daemon.engine.teams
        largest = len(teams.candidates)
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= largest:
            raise InvalidValueError("k", k, f"a whole number from 1 to {largest}, the arms of the pool")
        before = teams.k
        teams.configure(teams.settings, k, teams.candidates)
        self._tell("k is %d now, was %d", k, before)
        return self._k({})

    def _pin(self, params: Params) -> Json:
        cookie = _cookie(params)
        arm = params.get("arm")
        if not isinstance(arm, str):
            raise InvalidValueError("arm", arm, "the name of an arm")
        number = arm_id(self._daemon.arms, arm, "arm")
        if number in LEARNED and self._daemon.mode != "active":
            raise InvalidValueError(
                "arm", arm, "a learned arm only in mode active: otherwise nobody controls it"
            )
        slot = self._slot(cookie)
        engine = self._daemon.engine
        self._daemon.datapath.pin(cookie, number)
        engine.journal.note(engine.table, slot, number, Cause.OPERATOR)
        self._tell("flow %d is pinned to %s", cookie, arm)
        return self._look_again(cookie, slot)

    def _unpin(self, params: Params) -> Json:
        cookie = _cookie(params)
        slot = self._slot(cookie)
        self._daemon.datapath.unpin(cookie)
        self._tell("flow %d is no longer pinned", cookie)
        return self._look_again(cookie, slot)

    def _look_again(self, cookie: int, slot: int) -> Json:
        """The flow as it is now, not as of its last step."""
        table = self._daemon.engine.table
        table.record[slot] = self._daemon.datapath.flow(cookie).record[0]
        return flow_json(table, slot, self._daemon.names)

    def _slot(self, cookie: int) -> int:
        slot = self._daemon.engine.table.slot(cookie)
        if slot == UNKNOWN:
            raise FlowNotFoundError(cookie)
        return slot

    def _mode(self, _: Params) -> Json:
        return {"mode": self._daemon.mode}

    def _set_mode(self, params: Params) -> Json:
        mode = params.get("mode")
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidValueError("mode", mode, "one of " + ", ".join(MODES))
        self._tell("mode is set to %s", mode)
        self._daemon.set_mode(mode)
        return self._mode({})

    def _start_mpts(self, params: Params) -> Json:
        prefix = params.get("prefix")
        teams = self._daemon.engine.teams
        paths = sorted(teams.prefixes)
        if prefix is not None and prefix not in paths:
            raise InvalidValueError(
                "prefix", prefix, f"a prefix with open flows: {', '.join(paths) or 'none now'}"
            )
        teams.restart(prefix if isinstance(prefix, str) else None)
        self._tell("teams are picked anew for %s", prefix or "all prefixes")
        return self._mpts({})

    def _mpts(self, _: Params) -> Json:
        teams = self._daemon.engine.teams
        searches: list[Json] = [
            {
                "prefix": prefix,
                "k": search.bandit.k,
                "pulls": int(search.bandit.pulls.sum()),
                "budget": search.bandit.budget,
                "mean_reward": {
                    self._daemon.names[arm]: float(mean) if pulls else None
                    for arm, mean, pulls in zip(
                        search.arms, search.bandit.means, search.bandit.pulls, strict=True
                    )
                },
            }
            for prefix, search in teams.searches.items()
        ]
        found: list[Json] = [
            {"prefix": prefix, "arms": self._names(team)} for prefix, team in teams.known.items()
        ]
        return {"running": bool(searches), "searches": searches, "teams": found}

    def _metrics(self, _: Params) -> Json:
        return to_json(families(self._daemon.engine, self._daemon.names))

    def _config(self, _: Params) -> Json:
        daemon, teams = self._daemon, self._daemon.engine.teams
        values = cast("dict[str, dict[str, Json]]", as_dict(daemon.config))
        values["daemon"]["mode"] = daemon.mode
        values["pool"]["k"] = teams.k
        values["pool"]["arms"] = self._names(teams.candidates)
        return cast("Json", values)

    def _reload(self, _: Params) -> Json:
        self._tell("settings are read anew")
        return {"changed": list(self._daemon.reload())}

    def _version(self, _: Params) -> Json:
        return {"version": ltp_switcher.__version__, "record_version": protocol.RECORD_VERSION}

    def _tell(self, text: str, *values: object) -> None:
        """Log a change and who asked for it."""
        log.info(text + " (%s)", *values, self._caller)
        self._daemon.engine.events.tell("configuration-changed", what=text % values, who=self._caller)

    def _words(self, arms: tuple[int, ...]) -> str:
        return ", ".join(self._daemon.names[arm] for arm in arms)

    def _names(self, arms: tuple[int, ...]) -> list[Json]:
        return [self._daemon.names[arm] for arm in arms]


def _cookie(params: Params) -> int:
    text = params.get("cookie")
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**64:
        raise InvalidValueError("cookie", text, COOKIE_RULE)
    return int(text)


def _words(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
