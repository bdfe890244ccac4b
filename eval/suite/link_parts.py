# SPDX-License-Identifier: Apache-2.0
"""Parts of a scenario's link from which the kinds of path are drawn.

Ranges are pairs of the least and the largest number. Rates are in Mbit/s, RTTs in ms, and buffers in
bandwidth-delay products (`bdp`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from ltp_switcher.eval.run.scenario import PACKET_BYTES
from ltp_switcher.eval.suite.paths import Draw, Lines, steps

DURATION_S: Final = 40.0
"""Length in seconds of a path of each kind."""
ACK_BYTES: Final = 52
"""Size of an ACK with time stamps in bytes. A receiver sends one ACK for two packets."""
EVEN_MBPS: Final = 0.2
"""Difference between rates in Mbit/s whose number of tenths is even. The sets that are held out have no
others.
"""
Range = tuple[float, float]


def link(d: Draw, rate: Range, rtt: Range, bdp: Range) -> Lines:
    """Draw a link that does not change and has a plain queue."""
    return queued(d.mbps(*rate), d.rtt_ms(*rtt), d.bdp(*bdp))


def queued(rate_mbps: float, rtt_ms: float, bdp: float) -> Lines:
    """Return a link whose buffer, `bdp` bandwidth-delay products, is given in packets: ten at least."""
    pkts = max(10, round(bdp * rate_mbps * 1e6 / 8 * rtt_ms / 1e3 / PACKET_BYTES))
    return [f"rate_mbps = {rate_mbps}", f"rtt_ms = {rtt_ms}", f"buffer_pkts = {pkts}"]


def managed(d: Draw, queue: str) -> Lines:
    """Draw a link with a queue discipline, whose buffer is deep enough that the discipline decides."""
    return [*link(d, (8, 50), (15, 80), (8, 16)), f'queue = "{queue}"']


def policed(d: Draw, rate: Range, burst_pkts: Range) -> Lines:
    """Draw a policer: its rate, and the number of packets that it lets pass at once."""
    return [f"police_mbps = {d.mbps(*rate)}", f"police_burst_pkts = {int(d.between(*burst_pkts, 1))}"]


def table(name: str, **values: object) -> Lines:
    """Return a table of the link, `[[link.NAME]]` for a handover."""
    head = f"[[link.{name}]]" if name == "handover" else f"[link.{name}]"
    shown = {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
    return ["", head, *(f"{key} = {value}" for key, value in shown.items())]


def times_s(d: Draw, low_s: float, high_s: float, *, rest_s: float = 1.0) -> list[float]:
    """Draw the times of changes in seconds, each `low_s` to `high_s` after the one before. The first one
    counts from 0, and the last one comes `rest_s` before the end at the latest.
    """
    at_s, times = 0.0, []
    while (at_s := round(at_s + float(d.rng.uniform(low_s, high_s)), 2)) < DURATION_S - rest_s:
        times.append(at_s)
    return times


def rate_hops(d: Draw, rate: Range, low_s: float, high_s: float) -> Lines:
    """Draw new rates of a link, each `low_s` to `high_s` seconds after the one before."""
    return steps(*[(at_s, "rate_mbps", d.mbps(*rate)) for at_s in times_s(d, low_s, high_s)])


def turns(key: str, at_s: Iterable[float], first: float, second: float) -> Lines:
    """Return steps at these times, in which the link's property `key` has the two values in turn."""
    return steps(*[(one_s, key, second if n % 2 else first) for n, one_s in enumerate(at_s)])


def gradual(d: Draw, rate_mbps: Callable[[float], float], rtt: Range, bdp: Range) -> Lines:
    """Draw a link whose rate in each second is `rate_mbps(at_s)`, rounded to `EVEN_MBPS`."""
    rates = [round(round(rate_mbps(at_s) / EVEN_MBPS) * EVEN_MBPS, 1) for at_s in range(int(DURATION_S))]
    changes = [(float(at_s), "rate_mbps", rate) for at_s, rate in enumerate(rates)]
    return [*queued(rates[0], d.rtt_ms(*rtt), d.bdp(*bdp)), *steps(*changes[1:])]


def exponential(d: Draw, first: Range, last: Range, rtt: Range, bdp: Range) -> Lines:
    """Draw a link whose rate changes by the same factor each second, from a rate in the range `first` to one
    in the range `last`.
    """
    first_mbps, last_mbps = d.mbps(*first), d.mbps(*last)

    def rate_mbps(at_s: float) -> float:
        rate: float = first_mbps * (last_mbps / first_mbps) ** (at_s / (DURATION_S - 1.0))
        return rate

    return gradual(d, rate_mbps, rtt, bdp)


def handover(d: Draw, at_s: float, rate: Range, rtt: Range, silence_ms: float) -> Lines:
    """Draw another cell or satellite at `at_s` seconds, where a silence begins."""
    return table(
        "handover", at_s=at_s, rate_mbps=d.mbps(*rate), rtt_ms=d.rtt_ms(*rtt), silence_ms=round(silence_ms, 1)
    )


def satellites(d: Draw, rate: Range, rtt: Range, silence_ms: float) -> Lines:
    """Draw a link that goes to another satellite each 15 s."""
    lines = link(d, rate, rtt, (2, 6))
    first_s = round(float(d.rng.uniform(3.0, 12.0)), 1)
    for at_s in np.arange(first_s, DURATION_S - 1.0, 15.0):
        lines += handover(d, round(float(at_s), 1), rate, rtt, silence_ms)
    return lines


def silences(d: Draw, at_s: Iterable[float], low_ms: float, high_ms: float) -> Lines:
    """Draw a silence of `low_ms` to `high_ms` at each of these times."""
    lines: Lines = []
    for one_s in at_s:
        lines += table("handover", at_s=one_s, silence_ms=round(float(d.rng.uniform(low_ms, high_ms)), 1))
    return lines


def walk(d: Draw, every_s: float, step: Range, far: Range) -> Lines:
    """Draw a random walk of the RTT: its largest step and its range in ms, and its seed."""
    return table(
        "walk",
        every_s=every_s,
        step_ms=d.rtt_ms(*step),
        range_ms=d.rtt_ms(*far),
        seed=int(d.rng.integers(1, 10_000)),
    )


def bursts(d: Draw, length: Range, loss_bad: Range, mean: Range) -> Lines:
    """Draw bursts of losses: a burst's length in packets, the loss in the burst, and the mean loss of all
    packets.
    """
    to_good = round(1.0 / d.between(*length, 0.1), 6)
    bad = d.between(*loss_bad, 0.01)
    share = d.loss(*mean) / bad
    return table(
        "burst_loss", to_bad=round(to_good * share / (1.0 - share), 6), to_good=to_good, loss_bad=bad
    )


def back(d: Draw, share: Range, *, pkts: Range = (15, 80), thin: bool = False) -> Lines:
    """Draw a link whose way back has a rate of its own: a share of the ACKs' rate, and a queue of `pkts`
    ACKs.
    """
    rate_mbps = d.mbps(15, 60)
    acks_mbps = rate_mbps / PACKET_BYTES / 2 * ACK_BYTES
    back_mbps = round(acks_mbps * d.between(*share, 0.01), 3)
    lines = queued(rate_mbps, d.rtt_ms(20, 70), d.bdp(1, 4))
    more: dict[str, object] = {"thin": True} if thin else {}
    return [*lines, *table("back", rate_mbps=back_mbps, buffer_pkts=int(d.between(*pkts, 1)), **more)]


def acks_lost(d: Draw, loss: Range) -> Lines:
    """Draw a way back that is fast enough for all ACKs, and loses a share of them."""
    return table("back", rate_mbps=20.0, loss=d.between(*loss, 0.01))


def spans_s(d: Draw, apart: Range, length: Range) -> list[tuple[float, float]]:
    """Draw starts and stops in seconds. Starts are `apart` seconds from the one before, and each stop is
    `length` seconds after its start.
    """
    starts_s = times_s(d, *apart, rest_s=length[1])
    return [(start_s, round(start_s + float(d.rng.uniform(*length)), 2)) for start_s in starts_s]


def others(spans: Iterable[tuple[float, float]], scheme: Callable[[], str]) -> Lines:
    """Return a flow for each span from its start to its stop, under the scheme that the function gives."""
    lines: Lines = []
    for start_s, stop_s in spans:
        lines += ["", "[[flow]]", f'scheme = "{scheme()}"', f"start_s = {start_s}", f"stop_s = {stop_s}"]
    return lines
