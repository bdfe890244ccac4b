# SPDX-License-Identifier: Apache-2.0
"""Spine's observations, and the parameters that its actions set (Spine, Sections 3.2, 3.3 and 7.5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Slots
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

STATISTICS: Final = 9
"""Number of statistics that the network sees: the eight of Spine, Table 1, and the interval's length."""
TRIGGERED: Final = 0.0
"""If the last action is above this value, the policy generator has run."""
BURST_S: Final = 0.1
"""Time in seconds over which throughput is averaged before its maximum is taken. Bursts of ACKs in 20 ms
would exceed the link's rate."""
_LARGEST: Final = 5.0
_INTERVALS_S: Final = (0.010, 10.0)


@dataclass(frozen=True)
class Scale:
    """The map from an action within ±1 to a parameter: -1 becomes `low`, and 1 becomes `high`.

    In between, equal steps of the action are equal ratios of the parameter. With `of_rest` they are equal
    ratios of 1 minus the parameter.
    """

    low: float
    high: float
    of_rest: bool = False


SCALES: Final = {
    # These lie within the ranges of Spine, Eq. 3 and 4.
    Law.AIMD: (Scale(0.005, 0.5), Scale(0.01, 0.5), Scale(0.02, 2.0), Scale(0.2, 0.99, of_rest=True)),
    # These contain Linux's values, 0.7 and 0.4, and lie within the executor's ranges. The paper gives none.
    Law.CUBIC: (Scale(0.3, 0.9, of_rest=True), Scale(0.01, 4.0)),
}
"""Scales of each law's parameters, in the order of the parameters."""


class SpineSignals(SlotArrays):
    """Spine's `Signals`. The observations are the statistics of Spine, Table 1, and the sub-policy in force:
    the parameters that the flow has now.

    The actions are a sub-policy and, as the last one, the trigger. If the trigger is above `TRIGGERED`, the
    other actions are a new sub-policy.

    Args:
        law: `Law.AIMD`, or `Law.CUBIC` for Spine-Cubic.
        interval_s: monitor interval, a multiple of 10 ms; Spine works at 20 to 300 ms.

    Raises:
        InvalidValueError: Spine cannot set the parameters of the law, or the interval is out of range.
    """

    _delivered_pps = column(np.float64)
    _delivered_max_pps = column(np.float64)
    _in_force = column(np.float64, "parameters")
    """The sub-policy, as actions within ±1."""

    def __init__(self, law: Law, interval_s: float) -> None:
        if law not in SCALES:
            raise InvalidValueError("law", law, " or ".join(SCALES))
        if not _INTERVALS_S[0] <= interval_s <= _INTERVALS_S[1]:
            raise InvalidValueError("interval_s", interval_s, "0.01 to 10 s")
        scales = SCALES[law]
        self.law = law
        self.interval_s = interval_s
        self.parameters = len(scales)
        self.action_size = len(scales) + 1
        self.observation_size = STATISTICS + len(scales)
        self._low = np.array([scale.low for scale in scales])
        self._high = np.array([scale.high for scale in scales])
        self._of_rest = np.array([scale.of_rest for scale in scales])
        super().__init__()

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Signals`."""
        self.reset(slots)

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`. The last columns are the sub-policy in force, as actions within ±1."""
        delivered_pps = interval.delivered_pps
        steady_pps = self._delivered_pps[slots]
        steady_pps += (delivered_pps - steady_pps) * min(1.0, interval.length_s / BURST_S)
        self._delivered_pps[slots] = steady_pps
        most_pps = np.maximum(self._delivered_max_pps[slots], steady_pps)
        self._delivered_max_pps[slots] = most_pps
        # Before the first ACK neither the largest throughput nor the least RTT is known. Both count as 1.
        most_pps = np.where(most_pps > 0.0, most_pps, 1.0)
        rtt_min_s = np.where(np.isfinite(interval.rtt_min_s), interval.rtt_min_s, 1.0)
        rtt_s = np.maximum(np.nan_to_num(interval.rtt_s), rtt_min_s)
        bdp_pkts = np.maximum(most_pps * rtt_min_s, 1.0)
        resolved_pkts = np.maximum(interval.acked_pkts + interval.lost_pkts, 1e-6)
        statistics = (
            delivered_pps / most_pps,
            rtt_s / rtt_min_s - 1.0,
            np.log10(most_pps) / 4.0,
            np.log10(rtt_min_s) + 1.0,
            np.minimum(interval.window_pkts, 1e9) / bdp_pkts - 1.0,
            10.0 * interval.lost_pkts / resolved_pkts,
            interval.in_flight_pkts / bdp_pkts - 1.0,
            np.minimum(interval.pacing_pps, 1e9) / most_pps - 1.0,
            np.log10(interval.length_s / rtt_min_s),
        )
        seen = np.concatenate((np.stack(statistics, axis=1), self._in_force[slots]), axis=1)
        observations: Float32s = np.clip(seen, -_LARGEST, _LARGEST).astype(np.float32)
        return observations

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """Return the law's parameters, shape (n, parameters); see `Signals`. A row is NaN if the trigger is
        not above `TRIGGERED`, so the flow keeps its sub-policy.
        """
        triggered = actions[:, -1] > TRIGGERED
        chosen = np.clip(actions[:, :-1].astype(np.float64), -1.0, 1.0)
        self._in_force[slots] = np.where(triggered[:, None], chosen, self._in_force[slots])
        first = np.where(self._of_rest, 1.0 - self._low, self._low)
        last = np.where(self._of_rest, 1.0 - self._high, self._high)
        scaled = first * (last / first) ** ((chosen + 1.0) / 2.0)
        parameters = np.where(self._of_rest, 1.0 - scaled, scaled)
        # Rounding must not leave the range, which the kernel checks.
        np.clip(parameters, self._low, self._high, out=parameters)
        return np.where(triggered[:, None], parameters, np.nan)
