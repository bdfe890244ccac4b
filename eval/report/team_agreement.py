# SPDX-License-Identifier: Apache-2.0
"""Test whether team selection finds the same team again on the same path (Mutant §5.2).

Two teams of k drawn at random from n arms share k²/n on average; the table shows both numbers.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.run import boot_scenario
from ltp_switcher.eval.lab.script import GuestDaemon
from ltp_switcher.eval.run.batch import default_parallel
from ltp_switcher.eval.run.daemon_settings import merged
from ltp_switcher.eval.run.scenario import Scenario

_FOUND: Final = "/run/lab/mpts.json"
_DAEMON: Final = GuestDaemon("mutant", after=(f"python3 -m ltp_switcher.daemon.cli mpts --json >{_FOUND}",))
_PULL_ON_PULL: Final = (("mpts.share", 1.0), ("learning.baseline", "none"))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Teams found on one path, one for each seed, and the number of arms they share."""

    scenario: str
    arms: int
    teams: dict[int, tuple[str, ...]]

    @property
    def k(self) -> int:
        """Members of a team."""
        return len(next(iter(self.teams.values())))

    @property
    def shared(self) -> float:
        """Members that two of the teams have in common, the mean over all pairs."""
        pairs = list(itertools.combinations(self.teams.values(), 2))
        return sum(len(set(one) & set(other)) for one, other in pairs) / len(pairs)

    @property
    def chance(self) -> float:
        """The value of `shared` for teams drawn at random."""
        return self.k**2 / self.arms

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "scenario": self.scenario, "k": self.k, "arms": self.arms, "shared": self.shared,
            "chance": self.chance, "teams": {str(seed): list(team) for seed, team in self.teams.items()},
        }  # fmt: skip


def measure_agreement(
    scenario: Scenario, seeds: Sequence[int], arms: int, progress: Console, *, kernel: str
) -> Agreement:
    """Select a team on the scenario's path once a seed.

    Raises:
        LabError: the lab failed, or the scenario ended before a selection did.
    """
    scenario = scenario.with_scheme("bandit")
    scenario = scenario.with_settings(merged(_PULL_ON_PULL, scenario.settings))

    def select(seed: int) -> tuple[str, ...]:
        result = boot_scenario(scenario, seed=seed, kernel=kernel, daemon=_DAEMON, collect=[_FOUND])
        teams = json.loads(result.files[_FOUND])["teams"]
        if len(teams) != 1:
            raise LabError(f"{scenario.name}: no team was found within {scenario.duration_s:g} s")
        return tuple(sorted(teams[0]["arms"]))

    with Progress(console=progress) as bar, ThreadPoolExecutor(default_parallel()) as pool:
        task = bar.add_task(f"team selections on {scenario.name}", total=len(seeds))
        futures = {seed: pool.submit(select, seed) for seed in seeds}
        for future in futures.values():
            future.add_done_callback(lambda _: bar.advance(task))
        try:
            teams = {seed: future.result() for seed, future in futures.items()}
        except BaseException:
            # Those that have not begun are not waited for.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Agreement(scenario.name, arms, teams)


def agreement_table(found: Agreement) -> Table:
    """The teams, and the number of arms that two of them share on average."""
    table = Table(
        caption=f"{escape(found.scenario)}: two teams share {found.shared:.2f} of {found.k} arms on average; "
        f"by chance {found.chance:.2f}"
    )
    table.add_column("seed", justify="right")
    table.add_column("team")
    for seed, team in found.teams.items():
        table.add_row(str(seed), ", ".join(team))
    return table
