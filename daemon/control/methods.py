# SPDX-License-Identifier: Apache-2.0
"""The control methods: they answer the requests of the command line and the API to the running daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

import ltp_switcher
from ltp_switcher.daemon.choose.teams.teams import AGE_NS
from ltp_switcher.daemon.choose.teams.terms import Outcome, Progress, Terms, gaps
from ltp_switcher.daemon.control import listing
from ltp_switcher.daemon.control.answers import JsonList, Method, Params, Result
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choice_methods import ChoiceMethods
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.controlled import Controlled, cookie_of, slot_of
from ltp_switcher.daemon.control.describe import arm_json, arm_names, flow_json
from ltp_switcher.daemon.control.families import to_json
from ltp_switcher.daemon.control.fleet_methods import FleetMethods
from ltp_switcher.daemon.control.metrics import families
from ltp_switcher.daemon.control.policy_methods import PolicyMethods
from ltp_switcher.daemon.control.rollout_methods import RolloutMethods, rollout_families
from ltp_switcher.daemon.control.visit_methods import VisitMethods, known_prefix, visit_families
from ltp_switcher.daemon.control.why import past_json, totals_json, why_json
from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.daemon.steer import can_begin
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

BY: Final = ("round-trips", "visits")
"""The kinds of pulls, the trials of arms, in a team selection by Mutant's Algorithm 2. The first one is the
usual one.
"""
READS: Final = frozenset(
    {"status", "flows.list", "flows.page", "flows.get", "flows.history", "events", "arms.list", "version"}
)
"""Methods that change nothing and take little time. The server may call them within a step, between two parts
of the step.
"""


def knowledge_of(params: Params) -> NetworkKnowledge:
    """The measurement agents' report about the network, from a request's parameters. Raises
    `InvalidValueError`.
    """
    values = []
    for name in ("pnc_pkts", "pna", "known"):
        value = params.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidValueError(name, value, "a number")
        values.append(float(value))
    try:
        return NetworkKnowledge(*values)
    except ValueError as error:
        raise InvalidValueError("pnc_pkts", values[0], str(error)) from error


class Methods:
    """Answers control requests for a daemon. Methods run between two steps. The methods of `READS` may run
    within a step, too.
    """

    def __init__(self, daemon: Controlled) -> None:
        self._daemon = daemon
        self._started_s = time.monotonic()
        self._caller = Caller(0, 0)
        self._fleet = FleetMethods(daemon)
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
            "mpts.start": (self._start_mpts, frozenset({"prefix", "by"})),
            "mpts.status": (self._mpts, frozenset()),
            "mpts.cancel": (self._cancel_mpts, frozenset({"prefix"})),
            "metrics": (self._metrics, frozenset()),
            "network.tell": (self._tell_network, frozenset({"pnc_pkts", "pna", "known"})),
            "reload": (self._reload, frozenset()),
            "version": (self._version, frozenset()),
            **ChoiceMethods(daemon, lambda: self._caller).methods,
            **PolicyMethods(daemon, lambda: self._caller).methods,
            **RolloutMethods(daemon, lambda: self._caller).methods,
            **VisitMethods(daemon).methods,
            **self._fleet.methods,
        }

    def handle(self, method: str, params: Params, caller: Caller) -> Result:
        """Call a method for `caller`, whom the log names. Raises `LtpSwitcherError` if the request is
        refused.
        """
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
            "faults": list(daemon.faults),
            "policy": daemon.config.daemon.policy,
            "step_ms": round(engine.learned.step_s * 1e3, 3),
            "idle_step_ms": daemon.config.daemon.idle_step_ms,
            "flows": len(engine.table),
            "flows_max": count.flows_max,
            "flows_refused": count.flows_refused,
            "median_rtt_ms": listing.median_rtt_ms(engine.table),
            "busy": engine.busy,
            "pool": arm_names(self._daemon.names, engine.chooser.pool),
            "k": engine.teams.k,
            "searches": len(engine.teams.searches) + len(engine.teams.comparisons),
            "teams": len(engine.teams.found),
            "steps": count.steps,
            "missed_steps": count.missed_steps,
            "last_step_age_ms": round((time.monotonic() - count.last_step_s) * 1e3, 3),
            "step_p50_ms": round(count.step_quantile_s(0.5) * 1e3, 3),
            "step_p99_ms": round(count.step_quantile_s(0.99) * 1e3, 3),
            "decisions": count.decisions,
            "changes": count.changes,
            "fallbacks": count.fallbacks,
            "log_rows_written": engine.logged_rows[0],
            "log_rows_dropped": engine.logged_rows[1],
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
        slots, total, after = listing.select(table, query)
        rest: dict[str, Json] = {"total": total, "next_cursor": None if after is None else str(after)}
        return JsonList(self._each_flow(slots.tolist(), query.history), "flows", rest)

    def _each_flow(self, slots: Sequence[int], history: int = 0) -> Iterator[Json]:
        engine, table = self._daemon.engine, self._daemon.engine.table
        # Steps run while the list is made, so a slot may have become free, or belong to another flow.
        for cookie, slot in [(int(table.cookie[slot]), slot) for slot in slots]:
            if table.slot(cookie) == slot:
                flow = flow_json(table, slot, self._daemon.names)
                if history:
                    flow["history"] = past_json(engine, slot, self._daemon.names, history)
                yield flow

    def _flow(self, params: Params) -> Json:
        engine, names = self._daemon.engine, self._daemon.names
        slot = slot_of(engine.table, cookie_of(params))
        return {**flow_json(engine.table, slot, names), "why": why_json(engine, slot, names)}

    def _flow_history(self, params: Params) -> Json:
        engine = self._daemon.engine
        return past_json(engine, slot_of(engine.table, cookie_of(params)), self._daemon.names)

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

    def _tell_network(self, params: Params) -> Json:
        """Take the report about the network. A request without parameters says that there is none."""
        self._daemon.network.take(knowledge_of(params) if params else None)
        return {}

    def _arms(self, _: Params) -> Json:
        return [arm_json(arm) for arm in self._daemon.arms]

    def _load_arm(self, params: Params) -> Json:
        name = params.get("name")
        if not isinstance(name, str) or not 0 < len(name) < protocol.ARM_NAME_MAX:
            raise InvalidValueError("name", name, "the name of a congestion control, 15 characters at most")
        arm = arm_json(self._daemon.load_arm(name))
        self._daemon.choices.tell(f"arm {name}", None, "loaded", self._caller, lasts=False)
        return arm

    def _start_mpts(self, params: Params) -> Json:
        prefix, by = params.get("prefix"), params.get("by", BY[0])
        if by not in BY:
            raise InvalidValueError("by", by, "one of " + ", ".join(BY))
        if by == "visits":
            return self._start_mpts_by_visits(prefix)
        teams = self._daemon.engine.teams
        paths = sorted(teams.prefixes)
        if prefix is not None and prefix not in paths:
            raise InvalidValueError(
                "prefix", prefix, f"a prefix with open flows: {', '.join(paths) or 'none now'}"
            )
        teams.restart(prefix if isinstance(prefix, str) else None)
        where = prefix if isinstance(prefix, str) else "all prefixes"
        self._daemon.choices.tell(f"team selection for {where}", None, "started", self._caller, lasts=False)
        return self._mpts({})

    def _start_mpts_by_visits(self, wanted: Json) -> Json:
        """Start a team selection whose pulls are visits: groups of flows that began near each other on one
        arm.
        """
        daemon, engine, now_s = self._daemon, self._daemon.engine, time.time()
        learner, teams, config = engine.visits, engine.teams, daemon.config
        if learner is None:
            raise InvalidValueError(
                "visits.learn", config.visits.learn, "on, with a current module, for a selection by visits"
            )
        if daemon.mode != "active":
            raise InvalidValueError("daemon.mode", daemon.mode, "active, for a selection by visits")
        if wanted is None:
            raise InvalidValueError("prefix", wanted, "one prefix, for a selection by visits")
        prefix = known_prefix(wanted)
        number = learner.prefixes.find(prefix)
        if number is None:
            raise InvalidValueError("prefix", wanted, "a prefix that `ltp-switcher visits` shows")
        (state,) = learner.of(np.array([number]), now_s)
        if state.ruled:
            raise InvalidValueError("prefix", wanted, "a prefix that no policy and no experiment covers")
        arms = [
            arm.id for arm in daemon.arms
            if arm.available and arm.id in teams.names and can_begin(arm.id, config.learned)
        ]  # fmt: skip
        teams.restart_by_visits(prefix, Terms.of(arms, config.pool.k), now_s)
        daemon.choices.tell(
            f"team selection by visits for {prefix}", None, "started", self._caller, lasts=False
        )
        return self._mpts({})

    def _cancel_mpts(self, params: Params) -> Json:
        prefix, teams = params.get("prefix"), self._daemon.engine.teams
        running = sorted({*teams.searches, *teams.comparisons})
        if prefix is not None and prefix not in running:
            allowed = f"a prefix with a selection under way: {', '.join(running) or 'none now'}"
            raise InvalidValueError("prefix", prefix, allowed)
        if teams.cancel(prefix if isinstance(prefix, str) else None):
            where = prefix if isinstance(prefix, str) else "all prefixes"
            self._daemon.choices.tell(
                f"team selection for {where}", None, "cancelled", self._caller, lasts=False
            )
        return self._mpts({})

    def _mpts(self, _: Params) -> Json:
        teams = self._daemon.engine.teams
        searches: list[Json] = [
            self._search_json(prefix, search.progress)
            for prefix, search in (*teams.searches.items(), *teams.comparisons.items())
        ]
        given_up: list[Json] = [
            {**self._search_json(prefix, one.search.progress), "reason": one.reason}
            for prefix, one in teams.visits.given_up.items()
        ]
        found: list[Json] = [
            {
                "prefix": prefix, "arms": arm_names(self._daemon.names, outcome.team),
                **self._measured(outcome),
                "gaps": self._by_name(gaps(outcome.team, outcome.means or {})),
            }
            for prefix, outcome in teams.found.items()
        ]  # fmt: skip
        preferences: list[Json] = [
            self._preference_json(prefix, outcome) for prefix, outcome in teams.preferred.items()
        ]
        return {
            "running": bool(searches), "searches": searches, "teams": found,
            "preferences": preferences, "given_up": given_up,
        }  # fmt: skip

    def _preference_json(self, prefix: str, outcome: Outcome) -> dict[str, Json]:
        """The outcome of a tournament that binds no flow."""
        left_s = (outcome.found_ns + AGE_NS - time.monotonic_ns()) * 1e-9
        return {
            "prefix": prefix, "arm": self._daemon.names[outcome.team[0]] if outcome.team else None,
            "left_s": round(max(left_s, 0.0), 3),
            "log_ratio": self._by_name(outcome.means or {}),
            "half_width": self._by_name(outcome.half_widths or {}),
        }  # fmt: skip

    def _search_json(self, prefix: str, progress: Progress) -> dict[str, Json]:
        return {
            "prefix": prefix, "k": progress.k, "pulls": progress.pulls, "budget": progress.budget,
            **self._measured(progress),
        }  # fmt: skip

    def _measured(self, of: Progress | Outcome) -> dict[str, Json]:
        """Measurements of a selection, by arm."""
        means, plain = self._by_name(of.means or {}), of.method == "budget"
        return {
            "method": of.method,
            "mean_reward": means if plain else {},
            "log_ratio": {} if plain else means,
            "half_width": self._by_name(of.half_widths or {}),
            "cost_flows": of.cost,
        }

    def _by_name(self, values: Mapping[int, float] | Mapping[int, float | None]) -> dict[str, Json]:
        return {self._daemon.names[arm]: value for arm, value in values.items()}

    def _metrics(self, _: Params) -> Json:
        daemon = self._daemon
        found = families(daemon.engine, daemon.names, len(daemon.faults))
        visits = visit_families(daemon.engine.visits)
        return to_json([*found, *rollout_families(daemon.rollouts), *visits, *self._fleet.families()])

    def _reload(self, _: Params) -> Json:
        keys: list[Json] = list(self._daemon.reload())
        self._daemon.choices.tell("configuration", None, "reloaded", self._caller, lasts=False)
        return {"changed": keys}

    def _version(self, _: Params) -> Json:
        return {"version": ltp_switcher.__version__, "record_version": protocol.RECORD_VERSION}


def _words(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
