# SPDX-License-Identifier: Apache-2.0
"""LTP's variants (LTP, Sections 2.2 and 7.2): inputs of other policies with LTP's action, reward and trainer.

Each variant's signals follow LTP, Table 1. Where the original policy stacks its last measurements, LTP's
recurrent layer remembers them here. The unit of rates is 100 Mbit/s of full packets, and the unit of times
100 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Slots
from ltp_switcher.policies.ltp.signals import LtpSignals, WindowSignals
from ltp_switcher.policies.ltp.task import ORACLE
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import column

_PPS: Final = 100e6 / 12_000
_SECONDS: Final = 0.1
_LIMIT: Final = 10.0
"""Largest absolute value of an observation. Ratios of small numbers need this bound."""


@dataclass(frozen=True)
class _Measured:
    """The measurements from which the other policies build their inputs, shape (n,) each."""

    delivered_pps: Floats
    sent_pps: Floats
    loss: Floats
    rtt_s: Floats
    rtt_min_s: Floats
    in_flight: Floats
    """Packets in flight relative to the window."""


def _measured(interval: Interval) -> _Measured:
    resolved = interval.acked_pkts + interval.lost_pkts
    loss = np.divide(interval.lost_pkts, resolved, out=np.zeros_like(resolved), where=resolved > 0.0)
    return _Measured(
        delivered_pps=interval.delivered_pps,
        sent_pps=interval.sent_pkts / interval.length_s,
        loss=loss,
        rtt_s=interval.rtt_s,
        rtt_min_s=np.minimum(interval.rtt_min_s, interval.rtt_s),
        in_flight=interval.in_flight_pkts / np.maximum(interval.window_pkts, 1.0),
    )


class _Baseline(WindowSignals):
    """The base of the signals of other policies. It keeps the largest throughput and the last RTT of each
    slot.
    """

    _largest_pps = column(np.float64)
    _last_rtt_s = column(np.float64)

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`."""
        seen = _measured(interval)
        largest_pps = np.maximum(self._largest_pps[slots], seen.delivered_pps)
        last_rtt_s = np.where(self._last_rtt_s[slots] > 0.0, self._last_rtt_s[slots], seen.rtt_s)
        self._largest_pps[slots], self._last_rtt_s[slots] = largest_pps, seen.rtt_s
        columns = self.columns(slots, seen, np.maximum(largest_pps, 1e-9), last_rtt_s)
        return np.clip(np.stack(columns, axis=1), -_LIMIT, _LIMIT).astype(np.float32)

    def columns(
        self, slots: Slots, seen: _Measured, largest_pps: Floats, last_rtt_s: Floats
    ) -> tuple[Floats, ...]:
        """Return the observation's columns, shape (n,) each."""
        raise NotImplementedError


class AuroraSignals(_Baseline):
    """Latency gradient, latency ratio, sending ratio (Jay et al. 2019)."""

    observation_size = 3

    def columns(
        self, slots: Slots, seen: _Measured, largest_pps: Floats, last_rtt_s: Floats
    ) -> tuple[Floats, ...]:
        """See `_Baseline`."""
        sending_ratio = seen.sent_pps / np.maximum(seen.delivered_pps, 1.0)
        gradient = (seen.rtt_s - last_rtt_s) / self.interval_s
        return gradient, seen.rtt_s / seen.rtt_min_s - 1.0, sending_ratio - 1.0


class OrcaSignals(_Baseline):
    """Throughput, sending rate, loss, packets in flight and latency, all as ratios (Abbasloo et al. 2020)."""

    observation_size = 5

    def columns(
        self, slots: Slots, seen: _Measured, largest_pps: Floats, last_rtt_s: Floats
    ) -> tuple[Floats, ...]:
        """See `_Baseline`."""
        return (
            seen.delivered_pps / largest_pps,
            seen.sent_pps / largest_pps,
            10.0 * seen.loss,
            seen.in_flight,
            seen.rtt_min_s / seen.rtt_s,
        )


class AstraeaSignals(OrcaSignals):
    """Orca's ratios, and the largest throughput and the smallest RTT, which are not normalised (Liao et al.
    2024).
    """

    observation_size = 7

    def columns(
        self, slots: Slots, seen: _Measured, largest_pps: Floats, last_rtt_s: Floats
    ) -> tuple[Floats, ...]:
        """See `_Baseline`."""
        ratios = super().columns(slots, seen, largest_pps, last_rtt_s)
        return (*ratios, largest_pps / _PPS, seen.rtt_min_s / _SECONDS)


class SageSignals(_Baseline):
    """Mean, least and largest value of six measurements over three windows of time, and Astraea's seven
    features (Yen et al. 2023).

    Sage has 69 features. Its windows have 10, 200 and 1000 samples; here they have 0.12, 0.5 and 2 s.
    """

    WINDOWS: Final = (4, 16, 64)
    QUANTITIES: Final = 6
    observation_size = 3 * len(WINDOWS) * QUANTITIES + 7

    _history = column(np.float32, WINDOWS[-1], QUANTITIES, initial=np.nan)

    def __init__(self) -> None:
        super().__init__()
        self._ratios = AstraeaSignals()

    def columns(
        self, slots: Slots, seen: _Measured, largest_pps: Floats, last_rtt_s: Floats
    ) -> tuple[Floats, ...]:
        """See `_Baseline`."""
        now = np.stack(
            (
                seen.rtt_s / _SECONDS,
                seen.delivered_pps / _PPS,
                seen.rtt_s / last_rtt_s,
                np.abs(seen.rtt_s - last_rtt_s) / _SECONDS,
                seen.in_flight,
                10.0 * seen.loss,
            )
        ).astype(np.float32)
        history = np.moveaxis(self._history[slots], 0, -1).copy()
        history[:-1] = history[1:]
        # A flow has no earlier measurements at first. They count as equal to the first one.
        history[:-1] = np.where(np.isnan(history[:-1]), now, history[:-1])
        history[-1] = now
        self._history[slots] = np.moveaxis(history, -1, 0)
        statistics = [
            statistic(history[-window:], axis=0)
            for window in self.WINDOWS
            for statistic in (np.mean, np.min, np.max)
        ]
        flat = np.concatenate(statistics).astype(np.float64)
        return (*flat, *self._ratios.columns(slots, seen, largest_pps, last_rtt_s))


@dataclass(frozen=True)
class Variant:
    """A variant of LTP to train.

    Attributes:
        signals: function that makes the policy's observations.
        probe: whether the probe reward counts. It counts for all policies except LTP-no-probe, because the
            paper compares inputs under "the same reward function" (LTP, Sections 2.2 and 7.2).
        truths: number of true values that the policy sees, too.
    """

    signals: Callable[[], WindowSignals]
    probe: bool = True
    truths: int = 0


VARIANTS: Final[Mapping[str, Variant]] = {
    "ltp": Variant(LtpSignals),
    "ltp-no-probe": Variant(LtpSignals, probe=False),
    "oracle": Variant(AstraeaSignals, truths=ORACLE),
    "astraea": Variant(AstraeaSignals),
    "sage": Variant(SageSignals),
    "orca": Variant(OrcaSignals),
    "aurora": Variant(AuroraSignals),
}
