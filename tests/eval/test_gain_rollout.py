# SPDX-License-Identifier: Apache-2.0
"""Few simulated rollouts, and faults that they would show. `ltp-eval gain-rollout` has thousands."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.gain.evidence import Evidence, Round
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.gain.rollouts import Design, Outcome, judge

N = 30
FALSE_MAX = 5
"""Where one in twenty rollouts without a harm goes back, more than 5 of 30 do so once in 300 times."""
BLOCKS = Design("blocks", 10, 28)
LONG = Design("blocks", 10, 28, stage_min_s=2 * 86_400.0)
"""Many rounds are looked at."""
PREFIXES = Design("prefixes", 300, 4)


def outcome(design: Design, effect: float, runs: int = N, judged_by: type[Evidence] = Evidence) -> Outcome:
    *_, found = judge(design, effect, runs, 1, None, judged_by)
    assert isinstance(found, Outcome)
    print(found)
    return found


@pytest.mark.parametrize("design", [BLOCKS, PREFIXES], ids=["blocks", "prefixes"])
def test_a_harm_of_10_percent_goes_back_before_half_of_the_traffic_has_it(design: Design) -> None:
    found = outcome(design, -0.1, 12)
    assert found.early.count >= 11
    assert found.hours[2] < 24 * 14


@pytest.mark.parametrize("design", [LONG, PREFIXES], ids=["blocks", "prefixes"])
def test_without_harm_few_go_back(design: Design) -> None:
    found = outcome(design, 0.0)
    assert found.back.count <= FALSE_MAX
    assert found.wrong.count <= FALSE_MAX


class Repeated(Evidence):
    """The fault: after each round one looks whether a plain 95 % interval holds the effect.

    It contradicts the truth far more often than in 5 % of all rollouts.
    """

    def __init__(self, effects: tuple[float, ...]) -> None:
        super().__init__(effects)
        self._seen: list[float] = []

    def take(self, found: Round, at: int) -> None:
        values, treated = found.values()
        if at == 0:
            with np.errstate(invalid="ignore"):
                means = [np.nanmean(np.where(part, values, np.nan), axis=1) for part in (treated, ~treated)]
            differences = means[0] - means[1]
            self._seen += differences[np.isfinite(differences)].tolist()
        seen, effect = np.array(self._seen), math.log1p(self.effects[at])
        if seen.size < 4:
            return
        error = 1.96 * seen.std(ddof=1) / math.sqrt(seen.size)
        self._most[at, 0] = max(self._most[at, 0], 99.0 * (seen.mean() + error < effect))
        self._most[at, 1] = max(self._most[at, 1], 99.0 * (seen.mean() - error > effect))


def test_looking_again_and_again_at_a_plain_interval_would_be_noticed() -> None:
    assert outcome(LONG, 0.0, N, Repeated).wrong.count > FALSE_MAX


class NoLots(Evidence):
    """The fault: blocks are compared as if the treated ones had not been drawn by lot in each round."""

    def take(self, found: Round, at: int) -> None:
        shifted = Round(found.logs, np.roll(found.treated, 1, axis=1), found.together)
        super().take(shifted, at)


def test_a_verdict_about_other_blocks_would_be_noticed() -> None:
    """It finds no harm in blocks that had none."""
    assert outcome(BLOCKS, -0.3, 8, NoLots).early.count < 4


def test_the_same_seed_is_the_same_rollout() -> None:
    assert outcome(PREFIXES, -0.1, 3) == outcome(PREFIXES, -0.1, 3)


def test_the_command_prints_how_they_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rollouts.json"
    args = ["gain-rollout", "--runs", "1", "--jobs", "1", "--effect", "-0.5", "--seed", "3"]
    assert main([*args, "--json", "--out", str(out)]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made == json.loads(out.read_text())
    assert made["command"] == "ltp-eval gain-rollout --runs 1 --effect -0.5 --seed 3"
    assert [one["effect"] for one in made["outcomes"]] == [-0.5, 0.0, -0.5, 0.0]
    assert made["outcomes"][0]["early"]["count"] == 1
    assert main(args) == 0
    printed = capsys.readouterr().out
    assert "Simulated rollouts" in printed
    assert "100.0%" in printed
