# SPDX-License-Identifier: Apache-2.0
"""Kinds of path, half of which are held out; `python -m ltp_switcher.eval.suite.kinds` writes their files.

`kinds.toml` lists the kinds, and says which half is for tuning and why. Each half has a set of 24 paths of 40
s: `tuning-kinds/` and `held-out/`. The two sets are drawn with different seeds, and share no rate and no
loss.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from ltp_switcher import toml_file
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table
from ltp_switcher.eval.run.scenario import PACKET_BYTES
from ltp_switcher.eval.suite.paths import FOLDER, KIND_SETS, Draw, Lines, family, flows, steps, write

Use = Literal["tuning", "held-out"]
LIST: Final = FOLDER / "kinds.toml"
USED_BY: Final[Mapping[str, Use]] = {"tuning-kinds": "tuning", "held-out": "held-out"}
"""The use of the kinds of path in each set: settings are chosen on `tuning` kinds and never on `held-out`
ones.
"""
DURATION_S: Final = 40.0
PATHS: Final = 2
"""Number of paths of each kind."""
ACK_BYTES: Final = 52
"""Size of an ACK with time stamps in bytes. A receiver sends one ACK for two packets."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of path: its use, a description, and the reason for this use."""

    use: Use
    tells: str
    why: str


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Return the kinds of `kinds.toml` by name.

    Raises:
        ConfigError: the file breaks a rule.
    """
    document = toml_file.read(LIST, "list of kinds")
    found: dict[str, Kind] = {}
    for name in document:
        table = Table("", document, tuple(document)).table(name, ("use", "tells", "why"))
        use = next((use for use in get_args(Use) if use == table.text("use")), None)
        if use is None:
            raise ConfigError(table.field("use"), table.text("use"), " or ".join(get_args(Use)))
        found[name] = Kind(use, table.text("tells"), table.text("why"))
    return found


def use_of(path: str) -> str:
    """Return the use of the kind to which a path belongs by its name; empty if the path's family is not in
    `kinds.toml`.
    """
    kind = kinds().get(family(path))
    return kind.use if kind else ""


def holds_out(path: str) -> bool:
    """Return whether a path of this name is held out, so that nobody may choose settings by it. The place of
    its file does not matter.
    """
    return use_of(path) == "held-out"


def _link(d: Draw, rate: tuple[float, float], rtt: tuple[float, float], bdp: tuple[float, float]) -> Lines:
    return _queued(d.mbps(*rate), d.rtt_ms(*rtt), d.bdp(*bdp))


def _queued(rate_mbps: float, rtt_ms: float, bdp: float) -> Lines:
    """Return a link whose buffer, `bdp` bandwidth-delay products, is given in packets: ten at least."""
    pkts = max(10, round(bdp * rate_mbps * 1e6 / 8 * rtt_ms / 1e3 / PACKET_BYTES))
    return [f"rate_mbps = {rate_mbps}", f"rtt_ms = {rtt_ms}", f"buffer_pkts = {pkts}"]


def _table(name: str, **values: object) -> Lines:
    """A table of the link; `[[link.NAME]]` for a handover."""
    head = f"[[link.{name}]]" if name == "handover" else f"[link.{name}]"
    shown = {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
    return ["", head, *(f"{key} = {value}" for key, value in shown.items())]


def _every(d: Draw, low_s: float, high_s: float) -> list[float]:
    """Draw the times of changes in seconds, each `low_s` to `high_s` after the one before. The first one
    counts from 0, and the last one comes a second before the end at the latest.
    """
    at_s, times = 0.0, []
    while (at_s := round(at_s + float(d.rng.uniform(low_s, high_s)), 2)) < DURATION_S - 1.0:
        times.append(at_s)
    return times


def _ack_turns(d: Draw) -> Lines:
    rtt_ms = d.rtt_ms(4, 20)
    link = _queued(d.mbps(8, 45), rtt_ms, d.bdp(4, 12))
    return [*link, f"jitter_ms = {d.between(rtt_ms * 1.5, rtt_ms * 6, 0.1)}"]


def _cellular(d: Draw) -> Lines:
    mean = d.mbps(35, 75)
    rates = [
        (float(at_s), "rate_mbps", d.mbps(mean / 2.5, mean * 1.8)) for at_s in np.arange(1.0, DURATION_S, 0.5)
    ]
    link = [f"rate_mbps = {d.mbps(6, 10)}", f"rtt_ms = {d.rtt_ms(30, 55)}"]
    return [*link, f"buffer_pkts = {int(d.between(250, 600, 1))}", *steps(*rates)]


def _handover(
    d: Draw, at_s: float, rate: tuple[float, float], rtt: tuple[float, float], silence_ms: float
) -> Lines:
    return _table(
        "handover", at_s=at_s, rate_mbps=d.mbps(*rate), rtt_ms=d.rtt_ms(*rtt), silence_ms=round(silence_ms, 1)
    )


def _leo_steps(d: Draw) -> Lines:
    rate, rtt = (15.0, 90.0), (30.0, 60.0)
    lines = _link(d, rate, rtt, (2, 6))
    first_s = round(float(d.rng.uniform(3.0, 12.0)), 1)
    for at_s in np.arange(first_s, DURATION_S - 1.0, 15.0):
        lines += _handover(d, round(float(at_s), 1), rate, rtt, 90.0)
    return lines


def _walk(d: Draw, every_s: float, step: tuple[float, float], far: tuple[float, float]) -> Lines:
    return _table(
        "walk",
        every_s=every_s,
        step_ms=d.rtt_ms(*step),
        range_ms=d.rtt_ms(*far),
        seed=int(d.rng.integers(1, 10_000)),
    )


def _leo_walk(d: Draw) -> Lines:
    rate, rtt = (10.0, 50.0), (30.0, 50.0)
    lines = [*_link(d, rate, rtt, (2, 5)), *_walk(d, 0.2, (2, 6), (15, 35))]
    for low_s, high_s in ((8.0, 16.0), (22.0, 32.0)):
        lines += _handover(d, round(float(d.rng.uniform(low_s, high_s)), 1), rate, rtt, 60.0)
    return lines


def _mmwave(d: Draw) -> Lines:
    rate_mbps = d.mbps(60, 110)
    changes: list[tuple[float, str, float]] = []
    for at_s in _every(d, 5.0, 10.0):
        blocked_s = round(float(d.rng.uniform(0.3, 1.5)), 2)
        changes.append((at_s, "rate_mbps", d.mbps(1, 4)))
        changes.append((round(at_s + blocked_s, 2), "rate_mbps", rate_mbps))
    return [*_queued(rate_mbps, d.rtt_ms(12, 30), d.bdp(1, 4)), *steps(*changes)]


def _rate_hops(d: Draw) -> Lines:
    changes = [(at_s, "rate_mbps", d.mbps(8, 60)) for at_s in _every(d, 1.0, 3.0)]
    link = _link(d, (8, 60), (20, 60), (2, 5))
    return [*link, f"jitter_ms = {d.between(2, 6, 0.1)}", *steps(*changes)]


def _bursts(
    d: Draw, length: tuple[float, float], loss_bad: tuple[float, float], mean: tuple[float, float]
) -> Lines:
    """Draw bursts of losses from ranges of three numbers: a burst's length in packets, the loss in the burst,
    and the mean loss of all packets.
    """
    to_good = round(1.0 / d.between(*length, 0.1), 6)
    bad = d.between(*loss_bad, 0.01)
    share = d.loss(*mean) / bad
    return _table(
        "burst_loss", to_bad=round(to_good * share / (1.0 - share), 6), to_good=to_good, loss_bad=bad
    )


def _on_off(d: Draw) -> Lines:
    rate_mbps = d.mbps(20, 50)
    lines = [*_queued(rate_mbps, d.rtt_ms(20, 60), d.bdp(1, 4)), *flows("switcher")]
    times_s = _every(d, 3.0, 7.0)
    for start_s, stop_s in zip(times_s[::2], times_s[1::2], strict=False):
        share = d.between(0.2, 0.7, 0.01)
        scheme = f'scheme = "fixed:{round(rate_mbps * share, 1)}"'
        lines += ["", "[[flow]]", scheme, f"start_s = {start_s}", f"stop_s = {stop_s}"]
    return lines


def _back(d: Draw, share: tuple[float, float], *, thin: bool) -> Lines:
    """Draw a link whose way back has a rate of its own: a share of the ACKs' rate, drawn from the range
    `share`.
    """
    rate_mbps = d.mbps(15, 60)
    acks_mbps = rate_mbps / PACKET_BYTES / 2 * ACK_BYTES
    back_mbps = round(acks_mbps * d.between(*share, 0.01), 3)
    link = _queued(rate_mbps, d.rtt_ms(20, 70), d.bdp(1, 4))
    more: dict[str, object] = {"thin": True} if thin else {}
    return [*link, *_table("back", rate_mbps=back_mbps, buffer_pkts=int(d.between(15, 80, 1)), **more)]


def _acks_lost(d: Draw) -> Lines:
    link = _link(d, (15, 60), (20, 70), (1, 4))
    return [*link, *_table("back", rate_mbps=20.0, loss=d.between(0.1, 0.35, 0.01))]


def _access_change(d: Draw) -> Lines:
    slow, fast = ((4.0, 10.0), (50.0, 90.0)), ((30.0, 70.0), (15.0, 35.0))
    before, after = (slow, fast) if d.rng.integers(2) else (fast, slow)
    at_s = round(float(d.rng.uniform(12.0, 28.0)), 1)
    return [*_link(d, *before, (2, 4)), *_handover(d, at_s, *after, float(d.rng.uniform(200.0, 800.0)))]


def _scans(d: Draw) -> Lines:
    lines = _link(d, (10, 60), (15, 60), (1, 5))
    for at_s in _every(d, 3.0, 8.0):
        lines += _table("handover", at_s=at_s, silence_ms=round(float(d.rng.uniform(60.0, 250.0)), 1))
    return lines


def _fading(d: Draw) -> Lines:
    mean, factor = d.mbps(12, 40), d.between(1.6, 2.3, 0.01)
    period_s, phase = d.between(8, 20, 0.1), float(d.rng.uniform(0.0, 2.0 * math.pi))

    def rate_mbps(at_s: float) -> float:
        # The number of tenths is even, like all rates of this set.
        swing: float = factor ** math.sin(2.0 * math.pi * at_s / period_s + phase)
        return round(mean * swing / 0.2) * 0.2

    changes = [(float(at_s), "rate_mbps", round(rate_mbps(at_s), 1)) for at_s in range(1, int(DURATION_S))]
    return [*_queued(round(rate_mbps(0.0), 1), d.rtt_ms(20, 70), d.bdp(2, 5)), *steps(*changes)]


def _duty_cycle(d: Draw) -> Lines:
    low, high, half_s = d.mbps(3, 10), d.mbps(25, 60), d.between(0.3, 0.8, 0.1)
    times_s = np.arange(half_s, DURATION_S, half_s)
    changes = [
        (round(float(at_s), 1), "rate_mbps", low if n % 2 == 0 else high) for n, at_s in enumerate(times_s)
    ]
    return [*_queued(high, d.rtt_ms(20, 60), d.bdp(2, 5)), *steps(*changes)]


def _policed_walk(d: Draw) -> Lines:
    link = _link(d, (40, 80), (25, 60), (1, 3))
    policed = [f"police_mbps = {d.mbps(8, 25)}", f"police_burst_pkts = {int(d.between(40, 300, 1))}"]
    return [*link, *policed, *_walk(d, 0.5, (3, 8), (20, 40))]


def _managed(d: Draw, queue: str) -> Lines:
    """A link with a queue discipline, whose buffer is deep enough that the discipline decides."""
    return [*_link(d, (8, 50), (15, 80), (8, 16)), f'queue = "{queue}"']


DRAWN: Final[Mapping[str, Callable[[Draw], Lines]]] = {
    "ack-turns": _ack_turns,
    "cellular-5g": _cellular,
    "leo-steps": _leo_steps,
    "leo-walk": _leo_walk,
    "mmwave": _mmwave,
    "rate-hops": _rate_hops,
    "burst-heavy": lambda d: [
        *_link(d, (10, 50), (20, 80), (1, 4)), *_bursts(d, (100, 400), (0.2, 0.3), (0.004, 0.02))
    ],
    "six-packets": lambda d: [
        f"rate_mbps = {d.mbps(8, 50)}", f"rtt_ms = {d.rtt_ms(10, 60)}", "buffer_pkts = 6"
    ],
    "on-off": _on_off,
    "acks-lost": _acks_lost,
    "codel": lambda d: _managed(d, "codel"),
    "deep-lossy": lambda d: [*_link(d, (15, 50), (5, 30), (10, 20)), f"loss = {d.loss(0.003, 0.01)}"],
    "slow-uplink": lambda d: _back(d, (0.15, 0.6), thin=False),
    "thinned-acks": lambda d: _back(d, (0.05, 0.3), thin=True),
    "burst-short": lambda d: [
        *_link(d, (10, 50), (20, 80), (1, 4)), *_bursts(d, (3, 8), (0.6, 0.95), (0.002, 0.01))
    ],
    "access-change": _access_change,
    "scans": _scans,
    "walk-wide": lambda d: [*_link(d, (8, 40), (60, 150), (1, 3)), *_walk(d, 1.0, (15, 30), (60, 120))],
    "narrow": lambda d: [
        f"rate_mbps = {d.mbps(0.3, 0.9)}", f"rtt_ms = {d.rtt_ms(60, 200)}",
        f"buffer_pkts = {int(d.between(15, 60, 1))}",
    ],
    "fading": _fading,
    "duty-cycle": _duty_cycle,
    "pie": lambda d: _managed(d, "pie"),
    "geo-bursts": lambda d: [
        *_link(d, (8, 30), (500, 620), (0.6, 1.2)), *_bursts(d, (5, 30), (0.3, 0.8), (0.0005, 0.003))
    ],
    "policed-walk": _policed_walk,
}  # fmt: skip
"""Functions that draw one path, by kind."""


def draw_kinds(set_name: str) -> dict[str, str]:
    """Return the files of a set of `KIND_SETS`: TOML by path's name, the same at every call."""
    seed = KIND_SETS[set_name]
    drawn: dict[str, str] = {}
    for place, (name, kind) in enumerate(kinds().items()):
        if kind.use != USED_BY[set_name]:
            continue
        for n in range(1, PATHS + 1):
            d = Draw(np.random.default_rng((seed, place, n)), odd=seed % 2 == 1)
            lines = DRAWN[name](d)
            more = [] if "[[flow]]" in lines else flows("switcher")
            head = [f'name = "{name}-{n}"', f"duration_s = {DURATION_S:g}", "", "[link]"]
            drawn[f"{name}-{n}"] = "\n".join([*head, *lines, *more, ""])
    return drawn


def main() -> None:
    """Write the files of the tuning set and the held-out set."""
    for set_name in KIND_SETS:
        write(draw_kinds(set_name), FOLDER / set_name)


if __name__ == "__main__":
    main()
