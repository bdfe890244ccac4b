# SPDX-License-Identifier: Apache-2.0
"""Expectations of the arms: worlds where a number tells the best arm, and where none does; the command."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.recorded import Recorded
from support.rule_flows import run

from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.eval.cli import ablate
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.prior.expectations import Choice, Twins, choices, expectations, expected, features
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.ablation import told
from ltp_switcher.eval.suite.paths import FOLDER, KIND_SETS, is_held_out

KINDS, EACH = 16, 3
HELD_OUT = tuple(filter(is_held_out, KIND_SETS))


def world(seed: int, *, tells: bool, noise: float = 0.05) -> Twins:
    """Vegas has twice LTP's reward on short paths and half of it on long ones, or anywhere by chance."""
    rng = np.random.default_rng(seed)
    count = KINDS * EACH
    numbers = np.zeros((count, len(Number)))
    numbers[:, Number.RATE] = np.exp(rng.uniform(12, 16, count))
    numbers[:, Number.PROPAGATION] = np.exp(rng.uniform(8, 12, count))
    numbers[:, Number.VARIATION] = rng.uniform(0, 0.5, count)
    numbers[:, Number.ACK_GAP] = rng.uniform(100, 2000, count)
    numbers[:, Number.QUIET_LOSS] = rng.uniform(0, 0.02, count)
    numbers[:, Number.BUFFER] = np.nan
    short = numbers[:, Number.PROPAGATION] < np.exp(10) if tells else rng.integers(2, size=count) > 0
    logs = rng.normal(scale=noise, size=(count, 4))
    logs[:, 1] += np.where(short, np.log(2), -np.log(2))
    logs[:, 2] -= 1.0
    logs[:, 3] += 3.0
    names = [f"kind{n % KINDS}-{n // KINDS}" for n in range(count)]
    arms = ("ltp", "vegas", "bbr", "cubic")
    return Twins(names, arms, features(numbers), logs, np.full(logs.shape, noise**2))


def choice(of: Twins, way: str) -> Choice:
    return next(one for one in choices(of) if one.way == way)


def without_cubic(of: Twins) -> Twins:
    return Twins(of.paths, of.arms[:3], of.features, of.logs[:, :3], of.noise[:, :3])


@pytest.mark.parametrize("model", ["stump", "ridge"])
def test_a_number_that_tells_the_best_arm_is_found(model: str) -> None:
    of = without_cubic(world(1, tells=True))
    (vegas,) = [one for one in expectations(of) if (one.arm, one.model) == ("vegas", model)]
    assert vegas.r2 > 0.5
    found, best = choice(of, model), choice(of, "best arm")
    assert found.over_baseline.low > 1.1
    assert found.by_kind.low > 1.1
    assert found.over_baseline.value > 0.9 * best.over_baseline.value
    assert choice(of, "mean").over_baseline.value < 1.1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_numbers_that_tell_nothing_earn_nothing(seed: int) -> None:
    """A model that saw the labels of the kind that it is asked about would gain here."""
    of = without_cubic(world(seed, tells=False))
    assert choice(of, "best arm").over_baseline.value > 1.2
    for model in ("stump", "ridge"):
        assert choice(of, model).over_baseline.low < 1.0
        assert choice(of, f"{model}, surely").left < 0.2 * len(of.paths)
    assert all(one.r2 < 0.3 for one in expectations(of) if one.arm == "vegas")


def test_a_kind_is_left_out_whole() -> None:
    """What a kind alone shows is not told of it: its own labels change none of its predictions."""
    of = world(4, tells=True)
    own = np.array(of.kinds) == "kind3"
    other = of.logs.copy()
    other[own, 1] += 5.0
    for model in ("mean", "stump", "ridge"):
        before = expected(of, model).gains
        after = expected(Twins(of.paths, of.arms, of.features, other, of.noise), model).gains
        assert after[own, :3].tolist() == before[own, :3].tolist()
        assert not np.allclose(after[~own, 1], before[~own, 1])


def test_the_other_paths_of_a_kind_tell_what_kinds_have_in_common() -> None:
    of = without_cubic(world(6, tells=False))
    kind = np.unique(of.kinds, return_inverse=True)[1]
    logs = of.logs.copy()
    logs[:, 1] += np.where(kind % 2, 3.0, -3.0)
    shared = Twins(of.paths, of.arms, of.features, logs, of.noise)
    r2 = {one.model: one.r2 for one in expectations(shared) if one.arm == "vegas"}
    assert r2["kind"] > 0.8
    assert max(r2["stump"], r2["ridge"]) < 0.3
    assert choice(shared, "kind").over_best.value > 0.9


def test_an_arm_that_needs_a_number_which_was_not_observed_is_unknown_and_ltp_runs() -> None:
    """Cubic is the best arm of this world by far, but no path shows its buffer."""
    of = world(5, tells=True)
    assert np.isnan(expected(of, "ridge").gains[:, 3]).all()
    (cubic,) = [one for one in expectations(of) if (one.arm, one.model) == ("cubic", "ridge")]
    assert cubic.known == 0
    assert np.isnan(cubic.r2)
    assert choice(of, "ridge").over_best.value < 0.2
    alone = Twins(of.paths, ("ltp", "cubic"), of.features, of.logs[:, [0, 3]], of.noise[:, [0, 3]])
    assert choice(alone, "ridge").left == 0
    assert choice(alone, "ridge").worst_ratio == 1.0


def test_nothing_that_comes_after_the_look_is_told() -> None:
    def rows(later_ms: float) -> np.ndarray:
        chooser = Recorded()
        run(lambda t: 40.0 if t < 2.1 else later_ms, chooser=chooser, duration_s=4.0)
        return np.concatenate(chooser.rows)

    first = told(rows(40.0), 2.0)
    assert first[Number.PROPAGATION] == pytest.approx(40_000, rel=0.05)
    assert np.array_equal(first, told(rows(20.0), 2.0), equal_nan=True)
    assert not np.array_equal(told(rows(40.0), 3.5), told(rows(20.0), 3.5), equal_nan=True)


class Result:
    """A run in which the flow had this goodput."""

    def __init__(self, goodput_mbps: float) -> None:
        one = np.ones(60)
        self.series = (
            FlowSeries(
                0, "", np.arange(60) * 0.1, goodput_mbps * one, 40 * one, 40 * one, 40 * one, one, one,
                0 * one, 100 * one, 0 * one, one, one, ("",) * 60,
            ),
        )  # fmt: skip


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A lab that is done at once; the schemes that it ran."""
    ran: list[str] = []
    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))
    chooser = Recorded()
    run(lambda _: 40.0, chooser=chooser, duration_s=2.5)

    def run_batch(jobs: Sequence[Job], *_: object, **__: object) -> list[Result]:
        for job in jobs:
            ran.append(job.scheme)
            if job.scheme == "rule":
                with Path(dict(job.scenario.settings)["daemon.record"]).open("wb") as file:
                    np.lib.format.write_array(file, np.concatenate(chooser.rows), version=(2, 0))
        return [Result({"ltp": 10.0, "vegas": 20.0}.get(job.scheme, 1.0)) for job in jobs]

    monkeypatch.setattr(ablate, "run_batch", run_batch)
    return ran


def test_the_command_runs_twins_and_tells_what_a_choice_would_earn(
    lab: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("one", "two", "three"):
        (tmp_path / f"{kind}-1.toml").write_text(
            f'name = "{kind}-1"\nduration_s = 6\n[link]\nrate_mbps = 30\nrtt_ms = 40\n'
            'buffer_bdp = 1\n[[flow]]\nscheme = "switcher"\n'
        )
    command = ["expectations", str(tmp_path), "--schemes", "ltp,vegas"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(lab) == ["ltp"] * 3 + ["rule"] * 3 + ["vegas"] * 3
    assert found["paths"]["one-1"]["numbers"]["propagation"] == pytest.approx(40_000, rel=0.05)
    (mean,) = [one for one in found["choices"] if one["way"] == "mean"]
    assert mean["over_baseline"]["value"] == pytest.approx(4.0)
    assert main(command) == 0
    assert "R² over the mean of the other kinds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(([name], "nobody chooses by paths") for name in HELD_OUT),
        *(([str(FOLDER / name)], "nobody chooses by paths") for name in HELD_OUT),
        (["--schemes", "ltp"], "one other arm or more"),
        (["--schemes", "ltp,rule"], "one other arm or more"),
        (["--paths", "codel-1"], "3 kinds or more"),
        (["--look", "39"], "below 38.5 s"),
        (["--look", "nan"], "above 0"),
    ],
)
def test_a_wrong_word_is_refused_before_a_run(
    words: list[str], said: str, lab: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["expectations", *words]) == 1
    assert said in " ".join(capsys.readouterr().err.split())
    assert lab == []
