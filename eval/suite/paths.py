# SPDX-License-Identifier: Apache-2.0
"""The paths of the suite, drawn by family; `python -m ltp_switcher.eval.suite.paths` writes their files.

`tuning/` is for choosing thresholds and settings, and `test/` for the reported figures. They are drawn with
different seeds, and a test keeps them apart: they share no rate, RTT or loss, and no second of a trace. The
runs of the two sets have different seeds, too. `ltp-eval draw` draws more paths of the same families.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.requests import KB, KINDS
from ltp_switcher.eval.run.scenario import Scenario, load_scenario

FOLDER: Final = Path(__file__).resolve().parent
DURATION_S: Final = 60.0
WEB_DURATION_S: Final = 25.0
WEB_STOP_S: Final = 20.0
"""Time of the last request on paths with requests, in seconds. Most requests are complete before the run's
end."""
SETS: Final[Mapping[str, int]] = {"tuning": 1, "test": 4}
"""The sets, and the seed that draws each."""
SEEDS: Final[Mapping[str, tuple[int, ...]]] = {
    "tuning": (1, 2, 3, 4, 5),
    "test": (101, 102, 103, 104, 105),
    "tuning-kinds": (1, 2, 3, 4, 5),
    "tuning-applications": (1, 2, 3, 4, 5),
    "applications": (401, 402, 403, 404, 405),
    "held-out": (301, 302, 303, 304, 305),
    "held-out-2": (501, 502, 503, 504, 505),
    "held-out-3": (601, 602, 603, 604, 605),
}
"""Seeds of the runs, by set of paths. A suite with fewer seeds takes the first ones."""
KIND_SETS: Final[Mapping[str, int]] = {
    "tuning-kinds": 21,
    "held-out": 22,
    "held-out-2": 24,
    "held-out-3": 26,
}
"""Sets of the kinds of path in `kinds.toml`, and the seed that draws each set; see the module `kinds`."""
APPLICATIONS: Final = ("tuning-applications", "applications")
"""Names of the sets with applications that pause: video players, and requests over a kept connection.

The first set has links of the tuning set, and the second one has links of the test set. The bitrates of the
videos were chosen by runs of single arms.
"""
OTHER_SEEDS: Final = (201, 202, 203, 204, 205)
"""Seeds of the runs of a user's own set."""

TRACES: Final = (
    "TMobile-LTE-short.down", "TMobile-LTE-short.up", "TMobile-UMTS-driving.down",
    "Verizon-EVDO-driving.down", "Verizon-LTE-short.down", "Verizon-LTE-short.up",
)  # fmt: skip
"""Names of recorded traces in Debian's package mahimahi-traces; see `ltp-eval traces`."""
TRACE_HALF_S: Final = 65.0
"""Length in seconds of a set's own span of a trace. A run of 60 s begins within the first 5 s of this span,
so it ends in the span.
"""


@dataclass(frozen=True, slots=True)
class Draw:
    """Draws the numbers of one set of paths. Their last digits are odd in one set and even in the other."""

    rng: np.random.Generator
    odd: bool

    def between(self, low: float, high: float, unit: float) -> float:
        """Draw a number log-uniformly from `low` to `high`, rounded to a multiple of `unit` that belongs to
        the set.
        """
        steps = round(float(np.exp(self.rng.uniform(np.log(low), np.log(high)))) / unit)
        return round((steps + ((steps % 2 == 1) != self.odd)) * unit, 6)

    def mbps(self, low: float, high: float) -> float:
        return self.between(low, high, 0.1)

    def rtt_ms(self, low: float, high: float) -> float:
        return self.between(low, high, 0.1)

    def bdp(self, low: float, high: float) -> float:
        return self.between(low, high, 0.01)

    def loss(self, low: float, high: float) -> float:
        return self.between(low, high, 0.0001)


Lines = list[str]
"""Lines of a scenario: the table [link] and the tables after it."""


def _link(rate_mbps: float, rtt_ms: float, buffer_bdp: float, *more: str) -> Lines:
    return [f"rate_mbps = {rate_mbps}", f"rtt_ms = {rtt_ms}", f"buffer_bdp = {buffer_bdp}", *more]


def steps(*changes: tuple[float, str, float]) -> Lines:
    return [
        line
        for at_s, key, value in changes
        for line in ("", "[[link.step]]", f"at_s = {at_s}", f"{key} = {value}")
    ]


def _lossy(d: Draw, link: Lines, low: float, high: float) -> Lines:
    return [*link, f"loss = {d.loss(low, high)}"]


def _at(d: Draw, count: int) -> list[float]:
    """Times of `count` steps, spread over a run."""
    share = DURATION_S / (count + 1)
    return [round((n + 1) * share + float(d.rng.uniform(-0.2, 0.2)) * share, 1) for n in range(count)]


def _rate_steps(d: Draw) -> Lines:
    low, high = d.mbps(6, 16), d.mbps(22, 48)
    changes = [(at_s, "rate_mbps", high if n % 2 == 0 else low) for n, at_s in enumerate(_at(d, 4))]
    return [*_link(low, d.rtt_ms(20, 70), d.bdp(1, 4)), *steps(*changes)]


def _rtt_steps(d: Draw) -> Lines:
    low, high = d.rtt_ms(15, 45), d.rtt_ms(70, 160)
    changes = [(at_s, "rtt_ms", high if n % 2 == 0 else low) for n, at_s in enumerate(_at(d, 2))]
    return [*_link(d.mbps(10, 40), low, d.bdp(1, 4)), *steps(*changes)]


def _loss_steps(d: Draw) -> Lines:
    first, second = _at(d, 2)
    changes = ((first, "loss", d.loss(0.004, 0.02)), (second, "loss", 0.0))
    return [*_link(d.mbps(10, 40), d.rtt_ms(20, 80), d.bdp(1, 3)), *steps(*changes)]


def _everything(d: Draw) -> Lines:
    at_s = _at(d, 3)
    changes = (
        (at_s[0], "rate_mbps", d.mbps(20, 45)),
        (at_s[1], "rtt_ms", d.rtt_ms(60, 120)),
        (at_s[2], "loss", d.loss(0.003, 0.015)),
    )
    return [*_link(d.mbps(8, 16), d.rtt_ms(20, 45), d.bdp(1, 4)), *steps(*changes)]


def _policed(d: Draw) -> Lines:
    rate_mbps = d.mbps(40, 80)
    policed = f"police_mbps = {d.mbps(8, 25)}"
    burst = f"police_burst_pkts = {int(d.between(40, 300, 1))}"
    return _link(rate_mbps, d.rtt_ms(20, 80), d.bdp(1, 3), policed, burst)


SINGLE: Final[Mapping[str, tuple[int, Callable[[Draw], Lines]]]] = {
    # The paper's six environments (Fig. 1).
    "fixed": (1, lambda d: _link(d.mbps(40, 56), d.rtt_ms(32, 48), d.bdp(1.5, 2.5))),
    "step": (1, _rate_steps),
    "large-queue": (1, lambda d: _link(d.mbps(36, 56), d.rtt_ms(16, 28), d.bdp(14, 24))),
    "low-capacity": (1, lambda d: _link(d.mbps(9, 15), d.rtt_ms(32, 48), d.bdp(1.5, 2.5))),
    "high-rtt": (1, lambda d: _link(d.mbps(30, 48), d.rtt_ms(100, 140), d.bdp(0.8, 1.4))),
    "mixed": (1, lambda d: _link(d.mbps(18, 30), d.rtt_ms(95, 140), d.bdp(7, 13))),
    # Other paths that do not change.
    "lossy": (2, lambda d: _lossy(d, _link(d.mbps(12, 40), d.rtt_ms(20, 80), d.bdp(1, 3)), 0.004, 0.02)),
    "shallow": (1, lambda d: _link(d.mbps(20, 50), d.rtt_ms(20, 60), d.bdp(0.15, 0.4))),
    "satellite": (
        1, lambda d: _lossy(d, _link(d.mbps(12, 30), d.rtt_ms(480, 620), d.bdp(0.6, 1.2)), 0.0005, 0.004)
    ),
    "lan": (1, lambda d: _link(d.mbps(60, 95), d.rtt_ms(2, 4), d.bdp(4, 12))),
    "slow": (2, lambda d: _link(d.mbps(1, 4), d.rtt_ms(40, 120), d.bdp(1, 6))),
    "policed": (1, _policed),
    # Other paths that change.
    "rate-steps": (2, _rate_steps),
    "rtt-steps": (2, _rtt_steps),
    "loss-steps": (1, _loss_steps),
    "everything": (1, _everything),
}  # fmt: skip
"""Families of paths with a single flow: the number of paths, and the function that draws one."""

TRACE: Final = "trace"
WEB: Final = ("short", "pages")
"""Families of paths with short flows and web pages. Schemes are compared there by completion time."""
SEVERAL: Final = ("two", "eight", "beside-cubic", "beside-bbr")
COMING: Final = 6
"""Number of flows on the path on which flows come and go."""


def is_held_out(set_name: str) -> bool:
    """Return whether the paths of this set are held out, so that nobody may choose settings by them. The
    names of such sets begin with `held-out`.
    """
    return set_name.startswith("held-out")


def family(name: str) -> str:
    """Return the family of a path from its name, such as `family-1`. A name without a number is its own
    family.
    """
    of, _, number = name.rpartition("-")
    return of if of and number.isdecimal() else name


def kind(scenario: Scenario) -> str:
    """Return the kind of a path: `static`, `changing`, `trace`, `several` or `web`.

    The kind depends on the path's requests, flows and link.
    """
    if scenario.requests is not None:
        return "web"
    if len(scenario.flows) > 1:
        return "several"
    if scenario.link.trace:
        return TRACE
    road = scenario.link.road
    return "changing" if scenario.link.steps or road.walk or road.handovers else "static"


def flows(*schemes: str, apart_s: float = 0.0) -> Lines:
    lines = []
    for n, scheme in enumerate(schemes):
        lines += ["", "[[flow]]", f'scheme = "{scheme}"', f"start_s = {round(n * apart_s, 1)}"]
    return lines


def _several(d: Draw, schemes: tuple[str, ...]) -> Lines:
    """A link, and flows of these schemes that come within 8 s and stay; all go to one destination prefix."""
    link = _link(d.mbps(30, 60), d.rtt_ms(25, 60), d.bdp(1, 3))
    return [*link, *flows(*schemes, apart_s=round(8.0 / len(schemes), 1))]


def _coming(d: Draw) -> Lines:
    """A link, one flow that stays, and others that stay for 10 to 25 s; all go to one destination prefix."""
    lines = [*_link(d.mbps(30, 60), d.rtt_ms(25, 60), d.bdp(1, 3)), *flows("switcher")]
    for n in range(COMING - 1):
        start_s = round(5.0 + 7.0 * n + float(d.rng.uniform(0.0, 4.0)), 1)
        stop_s = round(min(DURATION_S, start_s + float(d.rng.uniform(10.0, 25.0))), 1)
        lines += ["", "[[flow]]", 'scheme = "switcher"', f"start_s = {start_s}", f"stop_s = {stop_s}"]
    return lines


def _managed(d: Draw) -> Lines:
    """A link with fq_codel, whose buffer is deep enough that the discipline decides which packets are
    dropped.
    """
    return _link(d.mbps(8, 50), d.rtt_ms(15, 80), d.bdp(8, 16), 'queue = "fq_codel"')


def _requests(d: Draw, kind: str, load: float, *, deep: bool) -> Lines:
    """A link and requests that ask for this share of its rate; with `deep`, over a buffer that can fill."""
    rate_mbps = d.mbps(20, 40)
    link = _link(rate_mbps, *((d.rtt_ms(20, 60), d.bdp(4, 8)) if deep else (d.rtt_ms(30, 100), d.bdp(1, 2))))
    low_kb, high_kb = KINDS[kind].smallest_kb, KINDS[kind].largest_kb
    # The mean of sizes that are log-uniform between the two.
    file_kb = (high_kb - low_kb) / np.log(high_kb / low_kb)
    per_s = load * rate_mbps * 1e6 / 8 / (file_kb * KB * (1 + KINDS[kind].objects))
    return [
        *link, "", "[requests]", f'kind = "{kind}"', 'scheme = "switcher"', f"per_s = {per_s:.2f}",
        f"stop_s = {WEB_STOP_S:g}",
    ]  # fmt: skip


def _jittery(d: Draw) -> Lines:
    """A link to a client on Wi-Fi."""
    return _link(d.mbps(8, 80), d.rtt_ms(10, 100), d.bdp(1, 3), f"jitter_ms = {d.between(4, 30, 0.1)}")


def trace_begin_s(seed: int) -> float:
    """Return the start, in seconds, of the span of a trace that belongs to the set with this seed."""
    return 0.0 if seed % 2 == 1 else TRACE_HALF_S


def draw(seed: int) -> dict[str, str]:
    """Return the files of the set with this seed: TOML by path's name, the same at every call."""
    d = Draw(np.random.default_rng(seed), odd=seed % 2 == 1)
    drawn: dict[str, Lines] = {}
    for name, (count, one) in SINGLE.items():
        for n in range(1, count + 1):
            drawn[f"{name}-{n}"] = [*one(d), *flows("switcher")]
    for n, trace in enumerate(TRACES, start=1):
        offset_s = round(float(d.rng.uniform(0.0, 5.0)) + trace_begin_s(seed), 1)
        lines = [f'trace = "{trace}"', f"offset_s = {offset_s}", f"rtt_ms = {d.rtt_ms(25, 70)}"]
        drawn[f"{TRACE}-{n}"] = [*lines, f"buffer_pkts = {int(d.between(150, 900, 1))}", *flows("switcher")]
    several = (("switcher",) * 2, ("switcher",) * 8, ("switcher", "cubic"), ("switcher", "bbr"))
    for name, schemes in zip(SEVERAL, several, strict=True):
        drawn[f"{name}-1"] = _several(d, schemes)
    drawn["short-1"] = _requests(d, "downloads", 0.55, deep=False)
    drawn["short-2"] = [*_requests(d, "downloads", 0.45, deep=True), *flows("switcher")]
    drawn["pages-1"] = _requests(d, "pages", 0.4, deep=False)
    drawn["pages-2"] = [*_requests(d, "pages", 0.25, deep=True), *flows("cubic")]
    # These paths are newer than the others. They are drawn last, so that the others stay as they were.
    drawn["four-1"] = _several(d, ("switcher",) * 4)
    for n in (1, 2):
        drawn[f"fq-codel-{n}"] = [*_managed(d), *flows("switcher")]
    drawn["beside-vegas-1"] = _several(d, ("switcher", "vegas"))
    drawn["coming-1"] = _coming(d)
    for n in (1, 2):
        drawn[f"jitter-{n}"] = [*_jittery(d), *flows("switcher")]
    return {name: file_text(name, lines) for name, lines in drawn.items()}


def file_text(name: str, lines: Lines) -> str:
    duration_s = WEB_DURATION_S if family(name) in WEB else DURATION_S
    return "\n".join([f'name = "{name}"', f"duration_s = {duration_s:g}", "", "[link]", *lines, ""])


def load(set_name: str) -> dict[str, Scenario]:
    """Return the paths of a set by name, from their files.

    Args:
        set_name: one of `SETS` or `KIND_SETS`, `APPLICATIONS`, or a folder of scenario files.

    Raises:
        ConfigError: there is no such set, or one of its files breaks a rule.
    """
    ours = (*SETS, *KIND_SETS, *APPLICATIONS)
    folder = FOLDER / set_name if set_name in ours else Path(set_name)
    found: dict[str, Scenario] = {}
    for path in sorted(folder.glob("*.toml")):
        scenario = load_scenario(path)
        if scenario.name in found:
            raise ConfigError("name", scenario.name, f"a name that no other file of {folder} has")
        found[scenario.name] = scenario
    if not found:
        raise ConfigError("--set", set_name, f"{', '.join(ours)}, or a folder with scenario files (*.toml)")
    return found


def write(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the `files` of a set, as `draw` gives them, into a folder, which is made if it is missing. Return
    the files' paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = {folder / f"{name}.toml": text for name, text in files.items()}
    for path, text in made.items():
        path.write_text(text)
    return list(made)


def main() -> None:
    """Write the files of the tuning set and the test set."""
    for set_name, seed in SETS.items():
        write(draw(seed), FOLDER / set_name)


if __name__ == "__main__":
    main()
