# SPDX-License-Identifier: Apache-2.0
"""Tables that compare our side with theirs, from the results that `ltp-eval traffic` has written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rich.table import Table

from ltp_switcher.eval.report.traffic_flows import CLASSES
from ltp_switcher.eval.report.traffic_pairs import Comparison, Ratios
from ltp_switcher.eval.report.traffic_tables import number, plain_table
from ltp_switcher.eval.suite.score import Mean

_PARTS: Final[Mapping[str, Callable[[Mean], float]]] = {
    "mean over paths": lambda mean: mean.value,
    "lower bound": lambda mean: mean.low,
    "upper bound": lambda mean: mean.high,
}
"""Rows below the paths: the mean, and the bounds of its interval."""


def pair_tables(found: Comparison) -> Iterator[Table]:
    """Yield tables by path: ratios of rewards, ratios of completion times, and packets sent again."""
    yield _ratios("Rewards, ours over theirs", found, found.reward, lambda of: (of.valued, of.reward))
    yield _ratios("Completion times, ours over theirs", found, found.time, lambda of: (of.flows, of.time))
    yield _sent_again(found)


def _ratios(
    title: str, found: Comparison, means: Mapping[str, Mean | None], of: Callable[[Ratios], tuple[int, float]]
) -> Table:
    table = plain_table(title, "path", "flows", *CLASSES)
    for path, pair in found.paths.items():
        flows, _ = of(pair.sizes[CLASSES[0]])
        table.add_row(path, str(flows), *(number(of(pair.sizes[size])[1]) for size in CLASSES))
    for name, part in _PARTS.items():
        table.add_row(
            name, "", *("-" if mean is None else number(part(mean)) for mean in map(means.get, CLASSES))
        )
    return table


def _sent_again(found: Comparison) -> Table:
    arms = bool(found.chosen) and any(any(pair.arms) for pair in found.paths.values())
    table = plain_table(
        "Packets sent again, and unfinished flows",
        "path", *(["best arm"] if arms else []), "ours", "theirs", "points", "unfinished", "theirs",
    )  # fmt: skip
    for path, pair in found.paths.items():
        points = 100 * (pair.sent_again[0] - pair.sent_again[1])
        table.add_row(
            path,
            *(["/".join(filter(None, pair.arms))] if arms else []),
            *(number(share, "%") for share in pair.sent_again),
            "-" if math.isnan(points) else f"{points:+.2f}",
            *map(str, pair.unfinished),
        )
    if mean := found.sent_again_points:
        for name, part in _PARTS.items():
            table.add_row(name, *[""] * (3 if arms else 2), f"{part(mean):+.2f}")
    return table
