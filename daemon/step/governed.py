# SPDX-License-Identifier: Apache-2.0
"""The operators' policies, applied to the flows of a step. They exclude flows, hold flows at an arm, or name
the arms among which the daemon may choose.

Without policies this costs a step nothing. With policies, it costs a few operations on arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Slots
from ltp_switcher.daemon.choose.choice import Cause, Causes, Choice
from ltp_switcher.daemon.choose.teams.terms import Terms
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.settings.policies import Policies, Policy
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.slots import SlotArrays, column

NONE: Final = Policies()


class Governed(SlotArrays):
    """The operators' policies, as they apply to each flow.

    A policy excludes a flow from the daemon's choice, holds it at an arm, or limits the choice. Team
    selection picks the k best arms for a path out of some candidates. A policy may give other terms, which
    are the candidates and k.
    """

    _held = column(np.uint8)
    """The id of the arm at which a policy holds the flow; 0 if no policy holds it."""
    _excluded = column(np.bool_)
    _limited = column(np.bool_)
    """Whether a policy holds the flow, excludes it, or names the arms for it."""

    def __init__(self) -> None:
        super().__init__()
        self.policies = NONE
        self._ids: Mapping[str, int] = {}
        self._default = 0
        self.terms: dict[str, Terms] = {}
        """The terms of team selection by the name of a path, as `open` returns it. A path has terms while it
        has flows.
        """
        self._paths: dict[int, str] = {}
        """The name in `terms` of each flow's path, by slot."""
        self._flows: Counter[str] = Counter()

    def govern(self, policies: Policies, ids: Mapping[str, int], default_arm: int) -> None:
        """Put policies in force. `ids` has the arms' ids by name, and `default_arm` is the id of the module's
        arm for new flows.
        """
        self.policies, self._ids, self._default = policies, ids, default_arm
        self.terms, self._paths, self._flows = {}, {}, Counter()

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended. When the last flow of a path ends, the path's terms are dropped."""
        for slot in slots.tolist() if self._paths else ():
            name = self._paths.pop(slot, None)
            if name is not None:
                self._flows[name] -= 1
                if not self._flows[name]:
                    del self._flows[name], self.terms[name]

    def open(self, slots: Slots, table: FlowTable, terms: Terms) -> tuple[Slots, list[str]]:
        """Look up the policies of new flows.

        `terms` applies to flows whose policy gives no terms. Returns the slots of the flows for which the
        daemon chooses, and for each of these flows the name by which team selection knows its path.
        """
        self.reset(slots)
        self.close(slots)
        if not self.policies:
            return slots, [table.prefix[slot] for slot in slots.tolist()]
        namespaces = self.policies.namespaces()
        chosen, paths = [], []
        for slot in slots.tolist():
            flow = table.info[slot]
            policy = None if flow is None else self.policies.of(flow, namespaces)
            path = table.prefix[slot]
            if policy is not None:
                self._excluded[slot] = policy.exclude
                self._limited[slot] = policy.exclude or policy.pin is not None or bool(policy.pool)
                self._held[slot] = 0 if policy.pin is None else self._ids[policy.pin]
                if policy.exclude or policy.pin is not None:
                    continue
                path = self._path_under(policy, path, terms, slot)
            chosen.append(slot)
            paths.append(path)
        return np.array(chosen, np.int64), paths

    def step(self, slots: Slots, records: RecordArray, choice: Choice) -> Choice:
        """Return the choice of arms, changed where flows are held, excluded or pinned. All arrays have the
        shape (n,).
        """
        if self.policies:
            held = self._held[slots]
            choice = choice.but(held != 0, held, Cause.HELD)
            choice = choice.but(self._excluded[slots], records["want_arm"], Cause.EXCLUDED)
        pinned = (records["flags"] & PINNED) != 0
        if not pinned.any():
            return choice
        return choice.but(pinned, records["want_arm"], Cause.OPERATOR)

    def causes(self, slots: Slots) -> Causes:
        """`Cause.HELD` or `Cause.EXCLUDED` for flows whose arms a policy alone decides, and `Cause.NONE` for
        all others, shape (n,).
        """
        if not self.policies:
            return np.zeros(slots.shape, np.uint8)
        ruled = np.where(self._held[slots] != 0, Cause.HELD, Cause.NONE)
        return np.where(self._excluded[slots], Cause.EXCLUDED, ruled).astype(np.uint8)

    def free(self, slots: Slots) -> Bools | None:
        """True for flows that may take part in experiments, shape (n,); None if all may. A policy that holds
        a flow, excludes it, or names its arms keeps the flow out of experiments.
        """
        return ~self._limited[slots] if self.policies else None

    def unruled(self, prefixes: Sequence[str]) -> Bools:
        """True for prefixes of the daemon's own namespace that no policy covers, shape (n,)."""
        if not self.policies:
            return np.ones(len(prefixes), np.bool_)
        return np.array([self.policies.start_of(prefix) is None for prefix in prefixes], np.bool_)

    def starts(self, learned: Mapping[str, int]) -> dict[str, int]:
        """Return the id of the arm on which new flows to each prefix start; 0 if there is none. The arm of a
        policy takes precedence over the arm in `learned`.
        """
        return {prefix: self._start(prefix, arm) for prefix, arm in learned.items()}

    def own_starts(self) -> dict[str, int]:
        """Return the id of the arm on which policies start new flows, by prefix. Learned arms are left out,
        because no flow can start on one.
        """
        found = {prefix: self._ids[arm] for prefix, arm in self.policies.starts().items()}
        for policy in self.policies.entries:
            if policy.exclude and policy.for_whole_prefix:
                # Without an entry of its own, the excluded prefix would get the arm of a shorter prefix.
                found[str(policy.prefix)] = self._default
        return {prefix: arm for prefix, arm in found.items() if arm not in LEARNED}

    def _start(self, prefix: str, arm: int) -> int:
        policy = self.policies.start_of(prefix) if self.policies and "@" not in prefix else None
        if policy is None:
            return arm
        if policy.exclude:
            return self._default
        if policy.start or policy.pin:
            return self._ids[policy.start or policy.pin or ""]
        return arm if not policy.pool or arm in self._pool(policy) else 0

    def _pool(self, policy: Policy) -> tuple[int, ...]:
        return tuple(self._ids[name] for name in policy.pool)

    def _path_under(self, policy: Policy, path: str, terms: Terms, slot: int) -> str:
        if not policy.pool and policy.k is None:
            return path
        name = f"{path} under {policy.match}"
        self.terms[name] = Terms.of(self._pool(policy) or terms.candidates, policy.k or terms.k)
        self._paths[slot] = name
        self._flows[name] += 1
        return name
