# SPDX-License-Identifier: Apache-2.0
"""Kinds of path, some of which are held out; `python -m ltp_switcher.eval.suite.kinds` writes their files.

`kinds.toml` lists the kinds, and says of each which set has it and why. The set `tuning-kinds` is for tuning;
`held-out`, `held-out-2` and `held-out-3` are not. A set has two paths of 40 s of each of its kinds. Each set
is drawn with a seed of its own. The set for tuning shares no rate and no loss with the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher import toml_file
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.checked_table import Table
from ltp_switcher.eval.suite import link_parts as parts
from ltp_switcher.eval.suite import second_kinds, third_kinds
from ltp_switcher.eval.suite.paths import (
    FOLDER,
    KIND_SETS,
    Draw,
    Lines,
    family,
    flows,
    is_held_out,
    steps,
    write,
)

LIST: Final = FOLDER / "kinds.toml"
USES: Final[Mapping[str, str]] = {name: name.removesuffix("-kinds") for name in KIND_SETS}
"""The use of the kinds of path in each set: settings are chosen on `tuning` kinds alone."""
PATHS: Final = 2
"""Number of paths of each kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of path: its use, a description, and the reason for this use."""

    use: str
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
        use = table.text("use")
        if use not in USES.values():
            raise ConfigError(table.field("use"), use, " or ".join(USES.values()))
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
    return is_held_out(use_of(path))


def _ack_turns(d: Draw) -> Lines:
    rtt_ms = d.rtt_ms(4, 20)
    link = parts.queued(d.mbps(8, 45), rtt_ms, d.bdp(4, 12))
    return [*link, f"jitter_ms = {d.between(rtt_ms * 1.5, rtt_ms * 6, 0.1)}"]


def _cellular(d: Draw) -> Lines:
    mean = d.mbps(35, 75)
    rates = [
        (float(at_s), "rate_mbps", d.mbps(mean / 2.5, mean * 1.8))
        for at_s in np.arange(1.0, parts.DURATION_S, 0.5)
    ]
    link = [f"rate_mbps = {d.mbps(6, 10)}", f"rtt_ms = {d.rtt_ms(30, 55)}"]
    return [*link, f"buffer_pkts = {int(d.between(250, 600, 1))}", *steps(*rates)]


def _leo_walk(d: Draw) -> Lines:
    rate, rtt = (10.0, 50.0), (30.0, 50.0)
    lines = [*parts.link(d, rate, rtt, (2, 5)), *parts.walk(d, 0.2, (2, 6), (15, 35))]
    for low_s, high_s in ((8.0, 16.0), (22.0, 32.0)):
        lines += parts.handover(d, round(float(d.rng.uniform(low_s, high_s)), 1), rate, rtt, 60.0)
    return lines


def _mmwave(d: Draw) -> Lines:
    rate_mbps = d.mbps(60, 110)
    changes: list[tuple[float, str, float]] = []
    for at_s in parts.times_s(d, 5.0, 10.0):
        blocked_s = round(float(d.rng.uniform(0.3, 1.5)), 2)
        changes.append((at_s, "rate_mbps", d.mbps(1, 4)))
        changes.append((round(at_s + blocked_s, 2), "rate_mbps", rate_mbps))
    return [*parts.queued(rate_mbps, d.rtt_ms(12, 30), d.bdp(1, 4)), *steps(*changes)]


def _rate_hops(d: Draw) -> Lines:
    hops = parts.rate_hops(d, (8, 60), 1.0, 3.0)
    link = parts.link(d, (8, 60), (20, 60), (2, 5))
    return [*link, f"jitter_ms = {d.between(2, 6, 0.1)}", *hops]


def _on_off(d: Draw) -> Lines:
    rate_mbps = d.mbps(20, 50)
    link = parts.queued(rate_mbps, d.rtt_ms(20, 60), d.bdp(1, 4))
    times_s = parts.times_s(d, 3.0, 7.0)
    spans_s = zip(times_s[::2], times_s[1::2], strict=False)
    others = parts.others(spans_s, lambda: f"fixed:{round(rate_mbps * d.between(0.2, 0.7, 0.01), 1)}")
    return [*link, *flows("switcher"), *others]


def _access_change(d: Draw) -> Lines:
    slow, fast = ((4.0, 10.0), (50.0, 90.0)), ((30.0, 70.0), (15.0, 35.0))
    before, after = (slow, fast) if d.rng.integers(2) else (fast, slow)
    at_s = round(float(d.rng.uniform(12.0, 28.0)), 1)
    link = parts.link(d, *before, (2, 4))
    return [*link, *parts.handover(d, at_s, *after, float(d.rng.uniform(200.0, 800.0)))]


def _fading(d: Draw) -> Lines:
    mean, factor = d.mbps(12, 40), d.between(1.6, 2.3, 0.01)
    period_s, phase = d.between(8, 20, 0.1), float(d.rng.uniform(0.0, 2.0 * math.pi))

    def rate_mbps(at_s: float) -> float:
        swing: float = factor ** math.sin(2.0 * math.pi * at_s / period_s + phase)
        return mean * swing

    return parts.gradual(d, rate_mbps, (20, 70), (2, 5))


def _duty_cycle(d: Draw) -> Lines:
    low, high, half_s = d.mbps(3, 10), d.mbps(25, 60), d.between(0.3, 0.8, 0.1)
    times_s = [round(float(at_s), 1) for at_s in np.arange(half_s, parts.DURATION_S, half_s)]
    return [*parts.queued(high, d.rtt_ms(20, 60), d.bdp(2, 5)), *parts.turns("rate_mbps", times_s, low, high)]


DRAWN: Final[Mapping[str, Callable[[Draw], Lines]]] = {
    "ack-turns": _ack_turns,
    "cellular-5g": _cellular,
    "leo-steps": lambda d: parts.satellites(d, (15, 90), (30, 60), 90.0),
    "leo-walk": _leo_walk,
    "mmwave": _mmwave,
    "rate-hops": _rate_hops,
    "burst-heavy": lambda d: [
        *parts.link(d, (10, 50), (20, 80), (1, 4)),
        *parts.bursts(d, (100, 400), (0.2, 0.3), (0.004, 0.02)),
    ],
    "six-packets": lambda d: [
        f"rate_mbps = {d.mbps(8, 50)}", f"rtt_ms = {d.rtt_ms(10, 60)}", "buffer_pkts = 6"
    ],
    "on-off": _on_off,
    "acks-lost": lambda d: [
        *parts.link(d, (15, 60), (20, 70), (1, 4)), *parts.acks_lost(d, (0.1, 0.35))
    ],
    "codel": lambda d: parts.managed(d, "codel"),
    "deep-lossy": lambda d: [
        *parts.link(d, (15, 50), (5, 30), (10, 20)), f"loss = {d.loss(0.003, 0.01)}"
    ],
    "slow-uplink": lambda d: parts.back(d, (0.15, 0.6)),
    "thinned-acks": lambda d: parts.back(d, (0.05, 0.3), thin=True),
    "burst-short": lambda d: [
        *parts.link(d, (10, 50), (20, 80), (1, 4)),
        *parts.bursts(d, (3, 8), (0.6, 0.95), (0.002, 0.01)),
    ],
    "access-change": _access_change,
    "scans": lambda d: [
        *parts.link(d, (10, 60), (15, 60), (1, 5)),
        *parts.silences(d, parts.times_s(d, 3.0, 8.0), 60.0, 250.0),
    ],
    "walk-wide": lambda d: [
        *parts.link(d, (8, 40), (60, 150), (1, 3)), *parts.walk(d, 1.0, (15, 30), (60, 120))
    ],
    "narrow": lambda d: [
        f"rate_mbps = {d.mbps(0.3, 0.9)}", f"rtt_ms = {d.rtt_ms(60, 200)}",
        f"buffer_pkts = {int(d.between(15, 60, 1))}",
    ],
    "fading": _fading,
    "duty-cycle": _duty_cycle,
    "pie": lambda d: parts.managed(d, "pie"),
    "geo-bursts": lambda d: [
        *parts.link(d, (8, 30), (500, 620), (0.6, 1.2)),
        *parts.bursts(d, (5, 30), (0.3, 0.8), (0.0005, 0.003)),
    ],
    "policed-walk": lambda d: [
        *parts.link(d, (40, 80), (25, 60), (1, 3)),
        *parts.policed(d, (8, 25), (40, 300)),
        *parts.walk(d, 0.5, (3, 8), (20, 40)),
    ],
    **second_kinds.DRAWN,
    **third_kinds.DRAWN,
}  # fmt: skip
"""Functions that draw one path, by kind."""


def draw_kinds(set_name: str) -> dict[str, str]:
    """Return the files of a set of `KIND_SETS`: TOML by path's name, the same at every call."""
    seed = KIND_SETS[set_name]
    drawn: dict[str, str] = {}
    for place, (name, kind) in enumerate(kinds().items()):
        if kind.use != USES[set_name]:
            continue
        for n in range(1, PATHS + 1):
            d = Draw(np.random.default_rng((seed, place, n)), odd=seed % 2 == 1)
            lines = DRAWN[name](d)
            more = [] if "[[flow]]" in lines else flows("switcher")
            head = [f'name = "{name}-{n}"', f"duration_s = {parts.DURATION_S:g}", "", "[link]"]
            drawn[f"{name}-{n}"] = "\n".join([*head, *lines, *more, ""])
    return drawn


def main() -> None:
    """Write the files of the tuning set and the held-out sets."""
    for set_name in KIND_SETS:
        write(draw_kinds(set_name), FOLDER / set_name)


if __name__ == "__main__":
    main()
