# SPDX-License-Identifier: Apache-2.0
"""Runs of the rule on paths made of numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Chooser, Draw
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.settings.rule_policy import RuleSection

from .records import record

BBR, LTP, VEGAS = int(ArmId.BBR), int(ArmId.LTP), int(ArmId.VEGAS)
UNCHECKED = replace(RuleSection(), self_check=False, without=("no-queue",))
"""The rule's settings without its self-check, and with paths of numbers, on which BBR has no queue."""
STEP_S = 0.03
RATE_PPS = 2000.0

Rtt = Callable[[float], float]
"""RTT in ms at a time in seconds."""


class Asked(RuleChooser):
    """A rule that keeps the pulses that its first flow was to get, a step each, by the arm that it ran."""

    def __init__(self, settings: RuleSection) -> None:
        super().__init__([BBR, LTP, VEGAS], settings)
        self.pulses: dict[int, list[int]] = {}

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Decide, and keep the pulse."""
        draw = super().step(slots, records, given)
        self.pulses.setdefault(int(records["arm"][0]), []).append(int(self.asks(slots)[0]))
        return draw


def run(
    *rtts: Rtt,
    duration_s: float = 12.0,
    chooser: Chooser | None = None,
    flags: Callable[[float], int] = lambda _: 0,
    rate: Rtt = lambda _: 1.0,
    lost: Rtt = lambda _: 0.0,
    total_lost: Callable[[float], int] = lambda _: 0,
    started_ns: int = 5_000_000_000,
    under: Callable[[float, int], tuple[float, float]] | None = None,
    rate_pps: float = RATE_PPS,
    waits_ms: float = 0.0,
    busy: Callable[[float], bool] = lambda _: True,
    back: Callable[[int], float] = lambda _: 0.0,
) -> np.ndarray:
    """The arms of flows on these paths, shape (steps, flows), each flow on the arm it was told.

    `rate`: share of the full rate that is delivered. `lost`: share of it that is lost, without a queue.
    `total_lost`: packets lost so far behind a queue.
    `rate_pps`: the full rate, packets a second. `waits_ms`: by how much the mean RTT exceeds the lowest.
    `busy`: whether the application has something to send at a time; else there are no records.
    `back`: share of the queue that is on the way back, under an arm.
    `under`: RTT in ms and share of the full rate at a time, under the arm of the one flow.
    """
    if under is not None:
        rtts = (lambda t: under(t, int(arms[0]))[0],)
        rate = lambda t: under(t, int(arms[0]))[1]  # noqa: E731
    chooser = chooser or RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    slots = np.arange(len(rtts))
    chooser.open(slots, [str(slot or "") for slot in slots])
    arms = np.full(len(rtts), int(ArmId.CUBIC))
    switched_s = np.zeros(len(rtts))
    told, floors, delivered, losses = [], np.full(len(rtts), np.inf), 0.0, 0.0
    closed_s = 0.0
    for step in range(1, round(duration_s / STEP_S) + 1):
        now_s = step * STEP_S
        if not busy(now_s):
            told.append(arms)
            continue
        interval_s, closed_s = now_s - closed_s, now_s
        delivered += rate_pps * STEP_S * rate(now_s)
        losses += rate_pps * STEP_S * lost(now_s)
        rows = []
        for i, rtt in enumerate(rtts):
            rtt_us = round(rtt(now_s) * 1e3)
            floors[i] = min(floors[i], rtt_us)
            back_us = round(back(int(arms[i])) * (rtt_us - floors[i]))
            made = record(
                i + 1, time_ns=started_ns + round(now_s * 1e9), interval_ns=round(interval_s * 1e9),
                in_flight=20 if busy(now_s + STEP_S) else 0, samples=5, rtt_samples=5,
                delivered=int(rate_pps * STEP_S), total_delivered=int(delivered),
                srtt_us=rtt_us, mss=1448, arm=int(arms[i]), want_arm=int(arms[i]),
                rtt_floor_us=int(floors[i]), bdp=int(rate_pps * floors[i] * 1e-6),
                round_trips=int((now_s - switched_s[i]) / (rtt_us * 1e-6)), flags=flags(now_s),
                total_lost=total_lost(now_s), back_us=back_us, there_us=int(rtt_us - floors[i]) - back_us,
                lost_without_queue=int(losses) - int(losses - rate_pps * STEP_S * lost(now_s)),
            )  # fmt: skip
            made["rtt_stat"] = made["srtt_stat"] = (rtt_us, rtt_us, 5 * (rtt_us + round(waits_ms * 1e3)))
            rows.append(made)
        before, arms = arms, chooser.step(slots, np.concatenate(rows)).arms.astype(int)
        switched_s[arms != before] = now_s
        told.append(arms)
    return np.array(told)


def times_s(arms: np.ndarray) -> list[tuple[float, int]]:
    """The times at which one flow's arms began, and the arms; `arms` has the shape (steps,)."""
    starts = np.flatnonzero(np.diff(arms, prepend=-1))
    return [((int(at) + 1) * STEP_S, int(arms[at])) for at in starts]


def step_at(at_s: float, before_ms: float, after_ms: float) -> Rtt:
    return lambda t: before_ms if t < at_s else after_ms
