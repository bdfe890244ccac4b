# SPDX-License-Identifier: Apache-2.0
"""The sets of paths that `ltp-eval traffic` runs at once, and the scenario of a run.

`traffic.toml` names the paths. Each path is a file of the suite, of which only the link is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, get_args

from ltp_switcher import toml_file
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.lab.traffic import arrivals
from ltp_switcher.eval.run.checked_table import LIMITS, Table
from ltp_switcher.eval.run.requests import KINDS, TRAFFIC, Requests
from ltp_switcher.eval.run.scenario import Path, Scenario, load_scenario
from ltp_switcher.eval.run.traffic import Traffic
from ltp_switcher.eval.suite.paths import FOLDER

Set = Literal["tuning", "held-out"]
SETS: Final[tuple[Set, ...]] = get_args(Set)
SEEDS: Final[Mapping[Set, tuple[int, ...]]] = {"tuning": (1, 2), "held-out": (301, 302)}
"""Seeds of the runs if the command names none."""
LIST: Final = FOLDER / "traffic.toml"


def paths_of(set_name: Set) -> list[Path]:
    """Return the paths of a set, in order. Raises `ConfigError` if a file breaks a rule."""
    document = toml_file.read(LIST, "list of paths")
    names = Table("", document, SETS).table(set_name, ("paths",)).texts("paths")
    scenarios = [load_scenario(FOLDER / f"{name}.toml") for name in names]
    return [Path(scenario.name, scenario.link) for scenario in scenarios]


def chosen(set_name: Set, wanted: Sequence[str]) -> list[Path]:
    """Return the paths of a set that are wanted: names, or one number n for the first n paths. If `wanted` is
    empty, return all.

    Raises:
        ConfigError: there is no such path.
    """
    known = paths_of(set_name)
    if not wanted:
        return known
    if len(wanted) == 1 and wanted[0].isdecimal() and 1 <= int(wanted[0]) <= len(known):
        return known[: int(wanted[0])]
    by_name = {path.name: path for path in known}
    for name in wanted:
        if name not in by_name:
            raise ConfigError(
                "--paths", name, f"a number up to {len(known)}, or some of {', '.join(by_name)}"
            )
    return [path for path in known if path.name in wanted]


def scenario_of(set_name: Set, paths: Sequence[Path], traffic: Traffic, scheme: str, seed: int) -> Scenario:
    """Return the scenario of a run of this seed. It ends a second or two after the last flow of all paths
    comes.

    Raises:
        ConfigError: a trace is missing, or the flows come too slowly.
    """
    longest_s = LIMITS["duration_s"][1]
    kind = KINDS[TRAFFIC]
    requests = Requests(TRAFFIC, scheme, 0.0, kind.smallest_kb, kind.largest_kb, longest_s, traffic=traffic)
    whole = Scenario(
        f"traffic-{set_name}", longest_s, paths[0].link, (), requests=requests, paths=tuple(paths)
    )
    coming = arrivals(whole, seed)
    if len(coming) < traffic.flows * len(paths):
        allowed = f"so many that all come within {longest_s:g} s; seed {seed} has {len(coming)} in all"
        raise ConfigError("--flows", traffic.flows, allowed)
    end_s = math.ceil(coming[-1].at_us / 1e6 + 1.0)
    return replace(whole, duration_s=float(end_s), requests=replace(requests, stop_s=float(end_s)))
