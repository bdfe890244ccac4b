# SPDX-License-Identifier: Apache-2.0
"""Tests whether team selection finds the same team again on the same path (Mutant §5.2).

A team has the k arms among which the learned policy chooses. The agreement is the share of the runs that pick
the most frequent team. Two teams of k drawn at random from n arms share k²/n arms on average; the table shows
this number, too.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.run import boot_scenario
from ltp_switcher.eval.lab.script import GuestDaemon
from ltp_switcher.eval.run.daemon_settings import Settings, merged
from ltp_switcher.eval.run.executor import default_parallel
from ltp_switcher.eval.run.scenario import Scenario

_FOUND: Final = "/run/lab/mpts.json"
_CLI: Final = "python3 -m ltp_switcher.daemon.cli mpts"
_AFTER: Final = (f"{_CLI} --json >{_FOUND}",)
_LOGGED: Final = "team for"
"""Text that the daemon logs when a selection ends. The traffic ends then, too."""
Method = Literal["tournament", "budget"]
_DAEMONS: Final[dict[Method, GuestDaemon]] = {
    "tournament": GuestDaemon("mutant", after=_AFTER, until=_LOGGED),
    "budget": GuestDaemon(
        "mutant",
        after=_AFTER,
        beside=(f"(sleep 1 && exec {_CLI} start >/run/lab/start.log) &",),
        until=_LOGGED,
    ),
}
_PULL_ON_PULL: Final[dict[Method, Settings]] = {
    "tournament": (("mpts.share", 1.0), ("pool.k", 1)),
    # With the rule as baseline there would be only three arms to pick a team of six from.
    "budget": (("mpts.share", 1.0), ("learning.baseline", "none")),
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """The teams that were found on one path, one for each seed, with the means of the arms."""

    scenario: str
    method: Method
    teams: dict[int, tuple[str, ...]]
    """Team by seed; empty if the run ended before the selection. An empty team counts as a
    team of its own.
    """
    means: dict[int, dict[str, float]]
    """Mean score of each arm, by seed. With the method `tournament` the score is the log ratio to the
    incumbent's reward, and with `budget` (Mutant's Algorithm 2) it is the reward.
    """

    @property
    def arms(self) -> int:
        """Number of arms to pick from."""
        return len({arm for means in self.means.values() for arm in means})

    @property
    def agreement(self) -> float:
        """Share of the runs that pick the most frequent team."""
        counts = Counter(frozenset(team) for team in self.teams.values())
        return counts.most_common(1)[0][1] / len(self.teams)

    @property
    def k(self) -> int:
        """Number of members of a team."""
        return max(len(team) for team in self.teams.values())

    @property
    def shared(self) -> float:
        """Number of members that two teams have in common, as a mean over all pairs of teams."""
        pairs = list(itertools.combinations(self.teams.values(), 2))
        return sum(len(set(one) & set(other)) for one, other in pairs) / len(pairs)

    @property
    def chance(self) -> float:
        """The expected value of `shared` for teams drawn at random."""
        return self.k**2 / self.arms

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "scenario": self.scenario, "method": self.method, "k": self.k, "arms": self.arms,
            "agreement": self.agreement, "shared": self.shared, "chance": self.chance,
            "teams": {str(seed): list(team) for seed, team in self.teams.items()},
            "means": {str(seed): means for seed, means in self.means.items()},
        }  # fmt: skip


def measure_agreement(
    scenario: Scenario, seeds: Sequence[int], method: Method, progress: Console, *, kernel: str
) -> Agreement:
    """Select a team on the scenario's path once for each seed. The trials of arms (pulls) follow each other
    without a pause.

    Raises:
        LabError: the lab failed, or no selection ended.
    """
    scenario = scenario.with_scheme("bandit")
    scenario = scenario.with_settings(merged(_PULL_ON_PULL[method], scenario.settings))

    def select(seed: int) -> tuple[tuple[str, ...], dict[str, float]]:
        result = boot_scenario(scenario, seed=seed, kernel=kernel, daemon=_DAEMONS[method], collect=[_FOUND])
        teams = json.loads(result.files[_FOUND])["teams"]
        if len(teams) != 1:
            return (), {}
        return tuple(sorted(teams[0]["arms"])), teams[0]["log_ratio"] or teams[0]["mean_reward"]

    with Progress(console=progress) as bar, ThreadPoolExecutor(default_parallel()) as pool:
        task = bar.add_task(f"team selections on {scenario.name}", total=len(seeds))
        futures = {seed: pool.submit(select, seed) for seed in seeds}
        for future in futures.values():
            future.add_done_callback(lambda _: bar.advance(task))
        try:
            found = {seed: future.result() for seed, future in futures.items()}
        except BaseException:
            # Runs that have not begun are cancelled.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    teams = {seed: team for seed, (team, _) in found.items()}
    if not any(teams.values()):
        raise LabError(f"{scenario.name}: no team was found within {scenario.duration_s:g} s")
    return Agreement(scenario.name, method, teams, {seed: means for seed, (_, means) in found.items()})


def agreement_table(found: Agreement) -> Table:
    """Return a table with the team of each seed and the means of the arms. The caption says how far teams
    agree.
    """
    table = Table(
        caption=f"{escape(found.scenario)}, {found.method}: {found.agreement:.0%} of the runs agree; two "
        f"teams share {found.shared:.2f} of {found.k} arms on average; by chance {found.chance:.2f}"
    )
    table.add_column("seed", justify="right")
    table.add_column("team")
    table.add_column("mean log ratio" if found.method == "tournament" else "mean reward")
    for seed, team in found.teams.items():
        ranked = sorted(found.means[seed].items(), key=lambda entry: -entry[1])
        table.add_row(
            str(seed),
            ", ".join(team) or "none in time",
            ", ".join(f"{arm} {mean:.3g}" for arm, mean in ranked),
        )
    return table
