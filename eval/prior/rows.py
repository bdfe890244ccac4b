# SPDX-License-Identifier: Apache-2.0
"""One row for each path: features of BBR's first seconds, and each arm's reward on the same path afterwards.

The runs are twins: each arm runs alone on the same path, at the same times. The first seconds are called the
look. A label is the log of the ratio of an arm's reward to BBR's after the look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.suite.over_time import rewards
from ltp_switcher.eval.suite.single import SinglePath

LOOKS_WITH: Final = "bbr"
FEATURES: Final = (
    "log lowest RTT", "log mean RTT / lowest", "log largest RTT / lowest", "log last second's RTT / lowest",
    "spread of the log RTT", "log rate", "log last second's rate / mean", "spread of the log rate",
    "log of the rate's 90 % / 10 % quantile", "loss, %", "loss near the lowest RTT, %",
    "log bandwidth-delay product", "log round trips",
)  # fmt: skip
QUEUE_FACTOR: Final = 1.25
"""An RTT of more than this multiple of the lowest RTT shows a queue."""
LEAST: Final = 1e-3
"""Smallest reward, as a share of the best reward. A smaller one is raised to it, because zero has no
logarithm.
"""
BATCHES: Final = 5
"""Number of equal parts into which each run is cut. The spread of the parts' means gives the variance of a
label, a log ratio of rewards.
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """The features of a set of paths, and the rewards of the schemes there after a look at the first seconds.

    Attributes:
        paths: names of the paths.
        kinds: kinds of the paths, from `paths.kind`.
        features: features of the look, in the order of `FEATURES`, shape (paths, features).
        schemes: schemes that ran on all paths; the first is `LOOKS_WITH`.
        logs: log of the mean reward of each scheme after the look, shape (paths, schemes).
        noise: variance of the difference of each log from `LOOKS_WITH`'s, shape (paths, schemes).
    """

    paths: tuple[str, ...]
    kinds: tuple[str, ...]
    features: Floats
    schemes: tuple[str, ...]
    logs: Floats
    noise: Floats

    def only(self, wanted: Callable[[str], bool]) -> Rows:
        """Return the rows with the wanted schemes; `LOOKS_WITH` has to be among them."""
        at = [n for n, scheme in enumerate(self.schemes) if wanted(scheme)]
        schemes = tuple(self.schemes[n] for n in at)
        return replace(self, schemes=schemes, logs=self.logs[:, at], noise=self.noise[:, at])


def rows(paths: Mapping[str, SinglePath], schemes: Sequence[str], look_s: float) -> Rows:
    """Make the rows of the paths on which all schemes ran, with the first seed of each.

    Args:
        paths: paths by name.
        schemes: names of the schemes; the first has to be `LOOKS_WITH`.
        look_s: length in seconds of the look at BBR's start.

    Raises:
        ConfigError: no path has runs of all schemes.
    """
    whole = {name: path for name, path in paths.items() if path.series.keys() >= set(schemes)}
    if not whole:
        raise ConfigError("--schemes", list(schemes), "schemes that all ran on one path at least")
    made = [measured([of.series[scheme][0] for scheme in schemes], look_s) for of in whole.values()]
    return Rows(
        tuple(whole),
        tuple(path.kind for path in whole.values()),
        np.array([features(path.series[LOOKS_WITH][0], look_s) for path in whole.values()]),
        tuple(schemes),
        np.array([logs for logs, _ in made]),
        np.array([noise for _, noise in made]),
    )


def features(series: FlowSeries, look_s: float) -> Floats:
    """Return features of the flow's first `look_s` seconds, in order of `FEATURES`, shape (features,). All
    are 0 if the flow has no RTT in this time.
    """
    seen = series.life(float(series.t_s[0]), float(series.t_s[0]) + look_s) & ~np.isnan(series.rtt_ms)
    if not seen.any():
        return np.zeros(len(FEATURES))
    rtt_ms, rate_mbps = series.rtt_ms[seen], np.maximum(series.goodput_mbps[seen], 1e-3)
    lowest_ms = float(np.nanmin(series.rtt_min_ms[seen]))
    last = slice(-round(1.0 / BIN_S), None)
    sent = series.delivered_pkts[seen] + series.lost_pkts[seen]
    near = rtt_ms <= QUEUE_FACTOR * lowest_ms
    low_mbps, high_mbps = np.quantile(rate_mbps[rate_mbps.size // 3 :], [0.1, 0.9])
    mean_mbps = float(rate_mbps.mean())
    return np.array([
        np.log(lowest_ms),
        np.log(rtt_ms.mean() / lowest_ms),
        np.log(np.nanmax(series.rtt_max_ms[seen]) / lowest_ms),
        np.log(rtt_ms[last].mean() / lowest_ms),
        np.log(rtt_ms).std(),
        np.log(mean_mbps),
        np.log(rate_mbps[last].mean() / mean_mbps),
        np.log(rate_mbps).std(),
        np.log(high_mbps / low_mbps),
        100 * series.lost_pkts[seen].sum() / max(1.0, float(sent.sum())),
        100 * series.lost_pkts[seen][near].sum() / max(1.0, float(sent[near].sum())),
        np.log(mean_mbps * lowest_ms),
        np.log(1e3 * look_s / rtt_ms.mean()),
    ])  # fmt: skip


def measured(of: Sequence[FlowSeries], look_s: float) -> tuple[Floats, Floats]:
    """Return the logs of the mean rewards after the first `look_s` seconds, and the variances of their
    differences from the first log. Both have the shape (schemes,). `of` has the flow under each scheme.
    """
    bins = min(one.t_s.size for one in of)
    earned = np.array([rewards(one)[:bins] for one in of])[:, round(look_s / BIN_S) :]
    means = earned.mean(axis=1)
    least = LEAST * max(float(means.max()), 1e-12)
    logs = np.log(np.maximum(means, least))
    parts = np.array([part.mean(axis=1) for part in np.array_split(earned, BATCHES, axis=1)])
    relative = np.log(np.maximum(parts, least)) - np.log(np.maximum(parts[:, :1], least))
    return logs, relative.var(axis=0, ddof=1) / BATCHES
