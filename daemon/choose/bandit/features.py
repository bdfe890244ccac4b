# SPDX-License-Identifier: Apache-2.0
"""The 55 features of a flow's state (Mutant Table 1), for all flows of a step at once.

Ten features are current values. The other 45 are the mean, minimum and maximum of five signals (bold in Table
1) over three windows of 10, 200 and 1000 steps. As in the paper, the windows skip a step without a record (no
ACK).

A window is a ring of blocks of steps: 10 blocks of 1 step, 20 of 10, 20 of 50. The window includes the block
in progress. It has its full size at the last step of each block, and before that it is shorter by up to one
block (191 to 200 steps, 951 to 1000). A flow's state is about 800 numbers, and a step is a few array
operations.

The encoder needs inputs of order 1 on every path from 0.1 Mbit/s to 10 Gbit/s. So `FEATURES` divides each
feature by a reference from its own flow: the minimum RTT, the highest throughput in the long window, or their
product. The scaled value is gain * (log2(value / (reference * unit) + floor) + offset), cut at ±4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Ints, Slots
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.performance import known_rtt
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.measures import loss_rate
from ltp_switcher.slots import SlotArrays, column

SIGNALS: Final = ("srtt_us", "mdev_us", "lost_out", "in_flight", "throughput")
WINDOWS: Final = (("short", 10, 1), ("medium", 20, 10), ("long", 20, 50))
STATISTICS: Final = ("mean", "min", "max")
N_FEATURES: Final = 55
_LIMIT: Final = 4.0

Reference = Literal["unit", "min_rtt", "bdp", "max_throughput", "max_delivered"]
_REFERENCES: Final[tuple[Reference, ...]] = ("unit", "min_rtt", "bdp", "max_throughput", "max_delivered")


@dataclass(frozen=True, slots=True)
class Feature:
    """The scale that brings one feature to order 1.

    `reference` names the flow's own value by which the feature is divided:

    - `min_rtt` is the kernel's minimum RTT, in µs.
    - `max_throughput` is the highest rate sample in the long window, in bytes/s.
    - `bdp` is the product of `min_rtt` and `max_throughput`, in packets.
    - `max_delivered` is the number of packets that `max_throughput` would deliver in the step.
    - `unit` is 1, so that `Feature.unit` alone sets the scale.

    The field `unit` is a constant factor on the reference. The field `floor` keeps the logarithm finite at 0.
    """

    name: str
    reference: Reference
    unit: float = 1.0
    floor: float = 1 / 64
    gain: float = 0.5
    offset: float = 0.0


_BOLD: Final[dict[str, Reference]] = {
    "srtt_us": "min_rtt",
    "mdev_us": "min_rtt",
    "lost_out": "bdp",
    "in_flight": "bdp",
    "throughput": "max_throughput",
}
FEATURES: Final[tuple[Feature, ...]] = (
    Feature("snd_cwnd", "bdp"),
    Feature("rtt_us", "min_rtt"),
    Feature("min_rtt", "unit", unit=32_000.0),
    Feature("advmss", "unit", unit=1448.0),
    Feature("delivered", "max_delivered"),
    Feature("retrans_out", "bdp"),
    Feature("rate", "unit", unit=5e6, floor=1e-6, gain=0.25),
    # Identities have no scale: id / ARMS_MAX. The encoder also gets the active arm one-hot.
    Feature("prev_proto", "unit"),
    Feature("crt_proto", "unit"),
    Feature("loss_rate", "unit", floor=1 / 1024, gain=0.25, offset=8.0),
    *(
        Feature(f"{signal}_{statistic}_{window}", _BOLD[signal])
        for signal in SIGNALS
        for window, _, _ in WINDOWS
        for statistic in STATISTICS
    ),
)
_IDENTITY: Final = [7, 8]
_REFERENCE_OF: Final = np.array([_REFERENCES.index(f.reference) for f in FEATURES])
_UNIT: Final = np.array([f.unit for f in FEATURES])
_FLOOR: Final = np.array([f.floor for f in FEATURES])
_GAIN: Final = np.array([f.gain for f in FEATURES])
_OFFSET: Final = np.array([f.offset for f in FEATURES])


_STATS: Final = ("srtt_stat", "mdev_stat", "lost_out_stat", "in_flight_stat", "throughput_stat")
_FIELDS: Final = Columns(
    "interval_ns", "samples", "delivered", "lost",
    *(f"{stat}.{part}" for part in ("min", "max", "sum") for stat in _STATS),
    "delivery_rate", "srtt_us", "mdev_us", "lost_out", "in_flight",
    "snd_cwnd", "rtt_us", "min_rtt_us", "advmss", "retrans_out", "mss",
)  # fmt: skip
_NOW: Final = [20, 21, 22, 23, 19]
"""Columns of `_FIELDS` with the present values of the five signals."""


class _Ring(SlotArrays):
    """The complete blocks of one window."""

    extreme = column(np.float64, "blocks", 2 * len(SIGNALS), initial=np.inf)
    total = column(np.float64, "blocks", len(SIGNALS))

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        super().__init__()


class BlockWindows(SlotArrays):
    """Mean, minimum and maximum of five signals in three windows, for each slot. A window is a ring of blocks
    of steps. All windows advance together.

    The cost of a step with few flows depends on the number of array operations, not on their size. So maxima
    are stored negated beside the minima, and one reduction serves both.
    """

    _LENGTH: Final = np.array([length for _, _, length in WINDOWS])
    # The block in progress is not in the ring.
    _KEPT: Final = np.array([blocks - 1 for _, blocks, _ in WINDOWS])

    # Extremes and totals of the complete blocks, and of the block in progress.
    _complete_extreme = column(np.float64, len(WINDOWS), 2 * len(SIGNALS), initial=np.inf)
    _complete_total = column(np.float64, len(WINDOWS), len(SIGNALS))
    _begun_extreme = column(np.float64, len(WINDOWS), 2 * len(SIGNALS), initial=np.inf)
    _begun_total = column(np.float64, len(WINDOWS), len(SIGNALS))

    def __init__(self) -> None:
        super().__init__()
        self._rings = [self.part(_Ring(int(kept))) for kept in self._KEPT]

    def push(self, slots: Slots, steps: Ints, extreme: Floats, mean: Floats, out: Floats) -> None:
        """Add one step, and write the statistics of the windows to `out`.

        Args:
            slots: slots of the flows, shape (n,), each at most once.
            steps: number of earlier steps of each slot, shape (n,).
            extreme: minima of the five signals, then their negated maxima, shape (n, 10).
            mean: means of the five signals, shape (n, 5).
            out: mean, minimum and maximum by signal and window, shape (n, 5 signals, 3 windows, 3).
        """
        width = mean.shape[1]
        complete, begun = np.divmod(steps[:, None], self._LENGTH)
        running = np.minimum(self._begun_extreme[slots], extreme[:, None])
        total = self._begun_total[slots] + mean[:, None]
        count = np.minimum(complete, self._KEPT) * self._LENGTH + begun + 1
        low = np.minimum(self._complete_extreme[slots], running)
        by_window = out.transpose(0, 2, 1, 3)
        by_window[..., 0] = (self._complete_total[slots] + total) / count[..., None]
        by_window[..., 1] = low[..., :width]
        np.negative(low[..., width:], out=by_window[..., 2])
        full = begun == self._LENGTH - 1
        for window in np.flatnonzero(full.any(axis=0)).tolist():
            flows = np.flatnonzero(full[:, window])
            at = complete[flows, window] % self._KEPT[window]
            self._close(window, slots[flows], at, running[flows, window], total[flows, window])
            running[flows, window] = np.inf
            total[flows, window] = 0.0
        self._begun_extreme[slots] = running
        self._begun_total[slots] = total

    def _close(self, window: int, slots: Slots, at: Ints, extreme: Floats, total: Floats) -> None:
        ring = self._rings[window]
        ring.extreme[slots, at] = extreme
        ring.total[slots, at] = total
        self._complete_extreme[slots, window] = ring.extreme[slots].min(axis=1)
        self._complete_total[slots, window] = ring.total[slots].sum(axis=1)


class FeatureWindows(SlotArrays):
    """The last steps of all flows, from which their features are computed."""

    _steps = column(np.int64)

    def __init__(self) -> None:
        super().__init__()
        self._windows = self.part(BlockWindows())

    def push(self, slots: Slots, records: RecordArray) -> Float32s:
        """Add one step's records and return the scaled features, shape (n, 55), each within ±4."""
        return scale(*self.push_raw(slots, records))

    def push_raw(self, slots: Slots, records: RecordArray) -> tuple[Floats, Floats]:
        """Add one step's records.

        Args:
            slots: slots of the flows, shape (n,), each at most once.
            records: `RECORD_DTYPE`, shape (n,), one for each slot.

        Returns:
            The unscaled features, shape (n, 55), in the order and the units of Table 1 (µs, packets,
            bytes/s), and the references that `scale` needs, shape (n, 5).
        """
        n = len(records)
        values = _FIELDS.read(records)
        interval_ns, samples, delivered, lost = values[:, :4].T
        stats = values[:, 4:19].reshape(n, 3, len(SIGNALS))
        rate_Bps = values[:, 19]
        cwnd_pkts, rtt_us, min_rtt_us, advmss, retrans_out, mss = values[:, 24:].T
        now = values[:, _NOW]
        silent = samples[:, None] == 0
        low = np.where(silent, now, stats[:, 0])
        high = np.where(silent, now, stats[:, 1])
        mean = np.where(silent, now, stats[:, 2] / np.maximum(samples, 1)[:, None])

        steps = self._steps[slots]
        self._steps[slots] = steps + 1
        extreme = np.concatenate([low, -high], axis=1)
        raw = np.empty((n, N_FEATURES))
        bold = raw[:, 10:].reshape(n, len(SIGNALS), len(WINDOWS), 3)
        self._windows.push(slots, steps, extreme, mean, bold)

        min_rtt_us = np.maximum(np.where(known_rtt(min_rtt_us), min_rtt_us, rtt_us), 1.0)
        raw[:, 0] = cwnd_pkts
        raw[:, 1] = rtt_us
        raw[:, 2] = min_rtt_us
        raw[:, 3] = advmss
        raw[:, 4] = delivered
        raw[:, 5] = retrans_out
        raw[:, 6] = rate_Bps
        raw[:, 7] = records["prev_arm"]
        raw[:, 8] = records["arm"]
        raw[:, 9] = loss_rate(lost, delivered)

        references = np.empty((n, len(_REFERENCES)))
        mss = np.maximum(mss, 1.0)
        top = np.maximum(bold[:, 4, 2, 2], 1.0)
        references[:, 0] = 1.0
        references[:, 1] = min_rtt_us
        references[:, 2] = np.maximum(top * min_rtt_us / (1e6 * mss), 1.0)
        references[:, 3] = top
        references[:, 4] = np.maximum(top * interval_ns / (1e9 * mss), 1.0)
        return raw, references


def scale(raw: Floats, references: Floats) -> Float32s:
    """Scale raw features, shape (n, 55), to order 1 by the formula of this module. `references`, shape (n,
    5), comes from `FeatureWindows.push_raw`.
    """
    ratio = raw / (references[:, _REFERENCE_OF] * _UNIT) + _FLOOR
    scaled = (np.log2(ratio) + _OFFSET) * _GAIN
    scaled[:, _IDENTITY] = raw[:, _IDENTITY] / ARMS_MAX
    return np.asarray(np.clip(scaled, -_LIMIT, _LIMIT), np.float32)
