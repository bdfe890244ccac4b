# SPDX-License-Identifier: Apache-2.0
"""The outcomes of team selections as arrays, by which they outlive the daemon.

Arrays tell Unix time, because CLOCK_MONOTONIC begins anew when the machine boots. So outcomes grow old even
while no daemon runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan

import numpy as np

from ltp_switcher.daemon.choose.teams.terms import METHODS, Outcome
from ltp_switcher.daemon.datapath import protocol


def arrays_of(found: Mapping[str, Outcome], ahead_ns: int) -> dict[str, np.ndarray]:
    """Return outcomes, by prefix, as arrays by name.

    `ahead_ns` is how far Unix time is ahead of CLOCK_MONOTONIC.
    """
    teams = np.zeros((len(found), protocol.ARMS_MAX), np.uint8)
    means, halves = (np.full((len(found), protocol.ARMS_MAX + 1), np.nan) for _ in range(2))
    for row, outcome in enumerate(found.values()):
        teams[row, : len(outcome.team)] = outcome.team
        for values, of in ((means, outcome.means), (halves, outcome.half_widths)):
            for arm, value in (of or {}).items():
                values[row, arm] = value
    outcomes = found.values()
    return {
        "prefixes": np.array(list(found), np.str_),
        "teams": teams,
        "methods": np.array([outcome.method for outcome in outcomes], np.str_),
        "means": means,
        "half_widths": halves,
        "costs": np.array([nan if one.cost is None else one.cost for one in outcomes], np.float64),
        "found_ns": np.array([one.found_ns and one.found_ns + ahead_ns for one in outcomes], np.int64),
    }


def outcomes_of(arrays: Mapping[str, np.ndarray], ahead_ns: int) -> dict[str, Outcome]:
    """Return the outcomes of `arrays_of`, by prefix. `ahead_ns` is as there, at the present time.

    Raises:
        KeyError, TypeError, ValueError: the arrays have another form.
    """
    prefixes = [str(prefix) for prefix in arrays["prefixes"].tolist()]
    count = len(prefixes)
    # The states of earlier releases lack methods, means, half widths, costs and times.
    methods = arrays.get("methods", np.full(count, "budget")).tolist()
    means, halves = (
        [_by_arm(row) for row in arrays.get(name, np.zeros((count, 0))).astype(np.float64).tolist()]
        for name in ("means", "half_widths")
    )
    costs = arrays.get("costs", np.full(count, nan)).astype(np.float64).tolist()
    times = arrays.get("found_ns", np.zeros(count)).astype(np.int64).tolist()
    rows = zip(prefixes, arrays["teams"].tolist(), methods, means, halves, costs, times, strict=True)
    return {
        prefix: Outcome(
            tuple(arm for arm in team if arm), METHODS[METHODS.index(method)], mean, half,
            None if isnan(cost) else cost, found_ns and found_ns - ahead_ns,
        )
        for prefix, team, method, mean, half, cost, found_ns in rows
    }  # fmt: skip


def usable(found: Mapping[str, Outcome], arms: Container[int]) -> OrderedDict[str, Outcome]:
    """Return the outcomes whose teams this machine can run; `arms` has the ids of its arms.

    An arm that was loaded for a policy may be absent now. Measurements that name such an arm are left out,
    and so are measurements that lack an arm of the team.
    """
    return OrderedDict(
        (prefix, outcome if _knows(outcome, arms) else replace(outcome, means=None, half_widths=None))
        for prefix, outcome in found.items()
        if all(arm in arms for arm in outcome.team)
    )


def _knows(outcome: Outcome, arms: Container[int]) -> bool:
    means, halves = outcome.means or {}, outcome.half_widths or {}
    return all(arm in arms for arm in (*means, *halves)) and all(arm in means for arm in outcome.team)


def _by_arm(row: Sequence[float]) -> dict[int, float]:
    return {arm: value for arm, value in enumerate(row) if not isnan(value)}
