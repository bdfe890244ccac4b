# SPDX-License-Identifier: Apache-2.0
"""The report about the daemon's gain, one at a time; and its last figures, for the metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.config_models import ConfigState
from ltp_switcher.api.problems import ProblemError
from ltp_switcher.daemon.gain import log as decisions
from ltp_switcher.daemon.gain import report as reports
from ltp_switcher.daemon.gain.effect import Effect
from ltp_switcher.errors import ArtifactError

log = logging.getLogger(__name__)

AGE_S: Final = 7 * 86_400.0
"""The metrics are about decisions of this time."""
REFRESH_S: Final = 900.0
"""They are made anew after so long, because a full log takes seconds to read."""


class Gain(Collector):
    """Reads the log of the daemon's decisions."""

    def __init__(self, daemon: DaemonClient) -> None:
        self._daemon = daemon
        # A report of a full log takes some hundred MB.
        self._one_at_a_time = threading.Lock()
        self._begun_s = float("-inf")
        self._overall: Mapping[str, Effect | None] = {}

    def report(self, since_s: float = 0.0, daemon: DaemonClient | None = None) -> reports.Report:
        """The report from Unix time `since_s` on. Raises `ProblemError`: 404 while there is no log."""
        values = (daemon or self._daemon).ask(ConfigState, "config.get").values
        folder = values["daemon"]["state_dir"]
        with self._one_at_a_time:
            try:
                if not folder:
                    raise ArtifactError("the daemon has no daemon.state_dir, and so no log of decisions")
                place = Path(str(folder)) / decisions.FOLDER
                skipped = decisions.Skipped()
                rows = decisions.load(place, reports.FIELDS, skipped)
                return reports.report(rows, decisions.read_names(place), since_s, skipped)
            except ArtifactError as error:
                raise ProblemError(404, "no-decisions", str(error)) from error

    def refresh(self) -> None:
        """Make the metrics' figures anew, where the daemon carries out an experiment."""
        self._begun_s = time.monotonic()
        try:
            design = self._daemon.ask(ConfigState, "config.get").values["gain"]["design"]
            self._overall = self.report(time.time() - AGE_S).overall if design != "none" else {}
        except ProblemError as error:
            log.info("no figures of the gain: %s", error)

    def describe(self) -> list[Metric]:
        """Nothing, so that registering reads no log."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The last figures. A scrape does not wait for others."""
        if time.monotonic() - self._begun_s > REFRESH_S:
            self._begun_s = time.monotonic()
            threading.Thread(target=self.refresh, name="gain", daemon=True).start()
        known = {name: effect for name, effect in self._overall.items() if effect is not None}
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
