# SPDX-License-Identifier: Apache-2.0
"""The control methods for policies, the operators' rules for flows. They read the policies, replace them, or
only compare them with others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ltp_switcher.daemon.control.answers import Method, Params, Result, Saved
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choice_methods import confirm_within_s, expect
from ltp_switcher.daemon.control.choices import entries
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.controlled import Controlled
from ltp_switcher.daemon.settings.policies import Policies, difference, parse
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.errors import ConfigError, InvalidValueError


class PolicyMethods:
    """The control methods for policies, by name, each with the names of its parameters.

    `caller` is a function that returns the author of the request.
    """

    def __init__(self, daemon: Controlled, caller: Callable[[], Caller]) -> None:
        self._daemon = daemon
        self._caller = caller
        self.methods: dict[str, tuple[Method, frozenset[str]]] = {
            "policies.get": (self._get, frozenset()),
            "policies.set": (self._set, frozenset({"policies", "dry_run", "if_match", "confirm_within_s"})),
        }

    def _get(self, _: Params) -> Json:
        return {"policies": entries(self._daemon.choices.policies)}

    def _set(self, params: Params) -> Result:
        dry_run = params.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise InvalidValueError("dry_run", dry_run, "true or false")
        names = [arm.name for arm in self._daemon.arms if arm.available]
        wanted = parse(params.get("policies"), arms=names)
        self._check(wanted, params)
        before = self._daemon.choices.policies
        expect(params, entries(before))
        gone, come = difference(before, wanted)
        answer: dict[str, Json] = {
            "policies": entries(wanted),
            "removed": [str(policy) for policy in gone],
            "added": [str(policy) for policy in come],
        }
        within_s = confirm_within_s(params)
        if dry_run:
            return answer
        with self._daemon.choices.trying(within_s):
            return Saved(answer, self._daemon.set_policies(wanted, self._caller()))

    def _check(self, policies: Policies, params: Params) -> None:
        """Refuse policies that only the daemon can know to be impossible."""
        learned = {arm.name for arm in self._daemon.arms if arm.id in LEARNED}
        given = cast("list[dict[str, Json]]", params["policies"])
        teams = self._daemon.engine.teams
        for number, entry in enumerate(given):
            if entry.get("start") in learned:
                allowed = "an arm of the kernel, because nobody controls a learned one yet when a flow starts"
                raise ConfigError(f"policies[{number}].start", entry["start"], allowed)
        for policy in policies.entries:
            arms = tuple(range(len(policy.pool))) or teams.candidates
            teams.check(teams.settings, policy.k or teams.k, arms)
