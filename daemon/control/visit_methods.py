# SPDX-License-Identifier: Apache-2.0
"""The control method for learning from flow to flow, and the metrics of this learning.

A visit is a group of flows to a prefix that began near each other on one arm. The decision is the policy that
chooses arms while flows run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.daemon.control.answers import Method, Params
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.controlled import Controlled
from ltp_switcher.daemon.control.families import Family, counter, gauge
from ltp_switcher.daemon.settings.prefixes import PREFIX_BITS_V4, PREFIX_BITS_V6, prefix_of
from ltp_switcher.daemon.step.learning.live import LiveLearner, PrefixState
from ltp_switcher.daemon.step.learning.lots import DECISION
from ltp_switcher.errors import InvalidValueError

PREFIX: Final = "ltp_switcher_visits"
LIMIT: Final = 100
LIMIT_MAX: Final = 1000
DECISION_NAME: Final = "decision"
"""The name of the decision's own choice in answers, where other entries have the name of an arm."""


class VisitMethods:
    """The control methods for visits, by name, each with the names of its parameters. See the module for the
    meaning of a visit.
    """

    def __init__(self, daemon: Controlled) -> None:
        self._daemon = daemon
        self.methods: dict[str, tuple[Method, frozenset[str]]] = {
            "visits.get": (self._get, frozenset({"prefix", "limit"})),
        }

    def _get(self, params: Params) -> Json:
        prefix, limit = params.get("prefix"), params.get("limit", LIMIT)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= LIMIT_MAX:
            raise InvalidValueError("limit", limit, f"a whole number from 1 to {LIMIT_MAX}")
        within = None if prefix is None else known_prefix(prefix)
        visits = self._daemon.engine.visits
        if visits is None:
            return {"learn": False, **_totals(None), "arms": [], "prefixes": []}
        names = self._daemon.names
        numbers = visits.prefixes.numbers()
        if within is None:
            order = np.argsort(-visits.prefixes.seen_s[numbers], kind="stable")
            numbers = numbers[order[:limit]]
        else:
            found = visits.prefixes.find(within)
            numbers = np.zeros(0, np.int64) if found is None else visits.prefixes.and_hosts(found)
        states = visits.of(numbers, time.time())
        return {
            "learn": True,
            **_totals(visits),
            "arms": [names[arm] for arm in visits.arms[1:].tolist()],
            "prefixes": [_prefix_json(state, names) for state in states],
        }


def visit_families(visits: LiveLearner | None) -> list[Family]:
    """The metrics of learning from flow to flow. All are 0 if `visits` is None, because the daemon does not
    learn.
    """
    told = _totals(visits)
    return [
        counter(PREFIX, "Visits from which the daemon learned.", told["visits"]),
        counter(f"{PREFIX}_trials", "Visits among them that drew a trial.", told["trials"]),
        counter(f"{PREFIX}_aborted_flows", "Flows that left the arm of their visit.", told["aborted_flows"]),
        counter(
            f"{PREFIX}_path_changes", "Changes of paths that visits have shown (ADWIN).", told["path_changes"]
        ),
        counter(
            f"{PREFIX}_surprises", "Times that a starving arm of the decision opened a prefix's exploration.",
            told["surprises"],
        ),
        counter(
            f"{PREFIX}_left_out", "Outcomes of visits for which there was no room.", told["left_out"]
        ),
        gauge(f"{PREFIX}_prefixes", "Destination prefixes that the daemon has learned about.", told["known"]),
        gauge(f"{PREFIX}_hosts", "Hosts of these prefixes that are known by themselves.", told["hosts"]),
        gauge(f"{PREFIX}_open", "Visits that have not ended.", told["open"]),
        gauge(f"{PREFIX}_spent_share", "Share of all flows' reward that trials have cost.", told["share"]),
    ]  # fmt: skip


def _totals(visits: LiveLearner | None) -> dict[str, float]:
    """The numbers of all prefixes together."""
    purse = None if visits is None else visits.learner.purse
    flows, spent = purse.totals if purse else (0.0, 0.0)
    hosts = 0 if visits is None else visits.prefixes.single_hosts
    return {
        "known": 0 if visits is None else len(visits.prefixes) - hosts,
        "hosts": hosts,
        "open": 0 if visits is None else len(visits.tally),
        "visits": 0 if visits is None else visits.visits,
        "trials": 0 if visits is None else visits.trials,
        "aborted_flows": 0 if visits is None else visits.aborted,
        "path_changes": 0 if visits is None else visits.path_changes,
        "surprises": 0 if visits is None else visits.surprises,
        "left_out": 0 if visits is None else visits.tally.left_out,
        "flows": flows,
        "spent": spent,
        "share": purse.share if purse else 0.0,
        "balance": purse.balance if purse else 0.0,
    }


def effects_json(state: PrefixState, names: Mapping[int, str]) -> Json:
    """The known effects of a prefix's arms, by the names of the arms.

    An effect is the gain over the decision's own choice in the logarithm of the reward, with the ends of its
    interval.
    """
    return {
        names[one.arm]: {"mean": one.mean, "lower": one.lower, "upper": one.upper} for one in state.effects
    }


def _prefix_json(state: PrefixState, names: Mapping[int, str]) -> Json:
    def named(arm: int) -> str:
        return DECISION_NAME if arm == DECISION else names[arm]

    return {
        "prefix": state.prefix,
        "incumbent": named(state.incumbent),
        "trial": named(state.trial) if state.chance else None,
        "chance": round(state.chance, 6),
        "visits": state.visits,
        "flows": state.flows,
        "spent": state.spent,
        "path_changes": state.path_changes,
        "surprises": state.surprises,
        "ruled": state.ruled,
        "effects": effects_json(state, names),
    }


def known_prefix(text: object) -> str:
    """The prefix whose flows share their knowledge, from an address or a longer prefix in it.

    Raises `InvalidValueError` for a shorter prefix.
    """
    network = prefix_of(text, "prefix")
    bits = PREFIX_BITS_V4 if network.version == 4 else PREFIX_BITS_V6
    if network.prefixlen < bits:
        raise InvalidValueError("prefix", text, f"an address, or a network of at least {bits} bits")
    return str(network.supernet(new_prefix=bits))
