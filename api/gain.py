# SPDX-License-Identifier: Apache-2.0
"""The report about the daemon's gain, and the last figures for the metrics. One report is made at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.config_models import ConfigState
from ltp_switcher.api.problems import ProblemError
from ltp_switcher.daemon.gain import log as decisions
from ltp_switcher.daemon.gain import report as reports
from ltp_switcher.daemon.gain.columns import KeptLog
from ltp_switcher.daemon.gain.effect import Effect
from ltp_switcher.daemon.gain.flows import ALL, KeptFlows
from ltp_switcher.errors import ArtifactError

log = logging.getLogger(__name__)

AGE_S: Final = 7 * 86_400.0
"""Largest age of the decisions that the metrics cover, in seconds."""
REFRESH_S: Final = 900.0
"""Time after which the metrics are computed again, in seconds."""


AGAIN: Final = 10
"""A report that took t seconds to make is served again for `AGAIN` times t seconds. So the reports on one age
of decisions take at most a tenth of a processor.
"""
ANSWERS_MAX: Final = 8
"""Number of reports that are kept. Each covers decisions up to a different age."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """A report, and the time (`time.monotonic`) until which it is given again without a look at the log."""

    report: reports.Report
    counts_until_s: float


class Gain(Collector):
    """Makes reports from the log of the daemon's decisions. The parts of the log that it needs stay in
    memory.
    """

    def __init__(self, daemon: DaemonClient) -> None:
        self._daemon = daemon
        # Other requests wait for the one that computes, and take its answer.
        self._one_at_a_time = threading.Lock()
        self._place: Path | None = None
        self._log, self._flows = KeptLog(Path()), KeptFlows(Path())
        self._answers: OrderedDict[float | None, _Answer] = OrderedDict()
        self._begun_s = float("-inf")
        self._effects: Mapping[str, Effect | None] = {}

    def report(self, age_s: float | None = None, daemon: DaemonClient | None = None) -> reports.Report:
        """Return the report on decisions of the last `age_s` seconds, or on all decisions if `age_s` is None.
        A report that was made a moment ago may be returned again; see `AGAIN`.

        Raises `ProblemError` with status 404 if there is no log.
        """
        values = (daemon or self._daemon).ask(ConfigState, "config.get").values
        folder = values["daemon"]["state_dir"]
        with self._one_at_a_time:
            try:
                if not folder:
                    raise ArtifactError("the daemon has no daemon.state_dir, and so no log of decisions")
                return self._report(Path(str(folder)) / decisions.FOLDER, age_s)
            except ArtifactError as error:
                raise ProblemError(404, "no-decisions", str(error)) from error

    def _report(self, place: Path, age_s: float | None) -> reports.Report:
        if place != self._place:
            self._place, self._log, self._flows = place, KeptLog(place), KeptFlows(place)
            self._answers.clear()
        began_s, kept = time.monotonic(), self._answers.get(age_s)
        if kept is not None and began_s < kept.counts_until_s:
            return kept.report
        # Both calls are made, because each of them reads new rows.
        changed = self._log.refresh() | self._flows.refresh()
        if kept is not None and not changed and age_s is None:
            return kept.report
        since_s = 0.0 if age_s is None else time.time() - age_s
        skipped = self._log.skipped + self._flows.skipped
        found = reports.report(self._log.columns, self._log.names, since_s, skipped, self._flows.rows)
        now_s = time.monotonic()
        self._answers[age_s] = _Answer(found, now_s + AGAIN * (now_s - began_s))
        self._answers.move_to_end(age_s)
        if len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)
        return found

    def refresh(self) -> None:
        """Compute the gain for the metrics anew. Without an experiment of the daemon there are no such
        figures.
        """
        self._begun_s = time.monotonic()
        try:
            design = self._daemon.ask(ConfigState, "config.get").values["gain"]["design"]
            self._effects = _of_metrics(self.report(AGE_S)) if design != "none" else {}
        except ProblemError as error:
            log.info("no figures of the gain: %s", error)

    def describe(self) -> list[Metric]:
        """Return no metrics, so that registering the collector reads no log."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the last figures of the gain. If they are old, a thread computes new ones, so that a scrape
        does not wait.
        """
        if time.monotonic() - self._begun_s > REFRESH_S:
            self._begun_s = time.monotonic()
            threading.Thread(target=self.refresh, name="gain", daemon=True).start()
        known = {name: effect for name, effect in self._effects.items() if effect is not None}
        for part, text in (
            ("", "Change by the daemon's choices, over seven days: relative, retransmits as a difference."),
            ("_lower", "Lower end of the 95 % interval of the gain."),
            ("_upper", "Upper end of the 95 % interval of the gain."),
        ):
            family = GaugeMetricFamily(f"ltp_switcher_gain{part}", text, labels=("measure",))
            for name, effect in known.items():
                value = {"": effect.value, "_lower": effect.lower, "_upper": effect.upper}[part]
                family.add_metric((name,), value)
            yield family


def _of_metrics(found: reports.Report) -> dict[str, Effect | None]:
    """The effects of a report that the metrics have, by measure."""
    return {**found.overall, "flow_reward": found.flow_reward.get(ALL)}
