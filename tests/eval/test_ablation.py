# SPDX-License-Identifier: Apache-2.0
"""The ablation of the rule's special cases: those that act on a recording, and the ratios."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.recorded import Recorded
from support.rule_flows import Rtt, run

from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.errors import ArtifactError, ConfigError
from ltp_switcher.eval.cli import ablate
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.suite.ablation import acting, worth
from ltp_switcher.eval.suite.paths import FOLDER, KIND_SETS, is_held_out


@functools.cache
def recording(path: str) -> np.ndarray:
    """The rule's recording of four seconds of a flow on this path."""
    chooser = Recorded()
    run(PATHS[path], chooser=chooser, duration_s=4.0)
    return np.concatenate(chooser.rows)


PATHS: dict[str, Rtt] = {"steady": lambda _: 40.0, "varying": lambda t: 400.0 if 0.5 < t < 0.9 else 40.0}


def test_a_case_acts_where_it_decides_and_nowhere_else() -> None:
    assert acting(recording("steady"), ["varies", "lossy"]) == []
    assert acting(recording("varying"), ["varies", "lossy"]) == ["varies"]


def test_a_recording_of_another_rule_is_refused() -> None:
    rows = recording("steady").copy()
    rows["chosen"][-1] += 1
    with pytest.raises(ArtifactError, match="decides otherwise"):
        acting(rows)


class Run:
    """A run of this reward."""

    def __init__(self, reward: float) -> None:
        flow = type("Flow", (), {"scheme": "rule", "reward": reward})
        other = type("Flow", (), {"scheme": "cubic", "reward": 1e9})
        self.summary = type("Summary", (), {"flows": (flow, other)})


def test_the_ratio_is_over_the_whole_rule_and_one_where_nothing_differs() -> None:
    whole = {"a": Run(10.0), "b": Run(3.0)}
    found = worth("varies", ["b"], whole, {"b": Run(1.5)})
    assert found.ratios == {"a": 1.0, "b": 0.5}
    assert found.mean.value == pytest.approx(0.5**0.5)
    assert worth("varies", ["b"], whole, {}).mean is None


def test_an_unknown_case_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"rule\.without: 'varis'.*varies"):
        RuleSection(without=("varis",))


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """A lab that leaves recordings at once; the runs that it made, as path and cases left out."""
    made: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))

    def run_batch(jobs: Sequence[Job], *_: object, **__: object) -> list[Run]:
        for job in jobs:
            settings = dict(job.scenario.settings)
            made.append((job.scenario.name, settings.get("rule.without", ())))
            if "daemon.record" in settings:
                with Path(settings["daemon.record"]).open("wb") as file:
                    np.lib.format.write_array(file, recording(job.scenario.name), version=(2, 0))
        return [Run(2.0 if "rule.without" in dict(job.scenario.settings) else 4.0) for job in jobs]

    monkeypatch.setattr(ablate, "run_batch", run_batch)
    return made


def paths(folder: Path) -> str:
    """A set of the two paths."""
    folder.mkdir()
    for name in PATHS:
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nduration_s = 12\n[link]\nrate_mbps = 10\nrtt_ms = 40\n'
            'buffer_bdp = 1\n[[flow]]\nscheme = "switcher"\n'
        )
    return str(folder)


def test_only_the_paths_on_which_a_case_acts_are_run_without_it(
    lab: list[tuple[str, tuple[str, ...]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["ablate", "--set", paths(tmp_path / "set"), "--cases", "varies,drain"]
    assert main([*command, "--json"]) == 0
    varies, drain = json.loads(capsys.readouterr().out)
    assert lab == [("steady", ()), ("varying", ()), ("varying", ("varies",))]
    assert (varies["acts_on"], varies["ratios"]) == (["varying"], {"steady": 1.0, "varying": 0.5})
    assert varies["mean"]["value"] == pytest.approx(0.7071, abs=1e-3)
    assert (drain["acts_on"], drain["mean"]["value"]) == ([], 1.0)
    assert main([*command, "--replay"]) == 0
    assert "not run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cases", "varis"], "varies"),
        *((["--set", name], "nobody chooses by paths") for name in KIND_SETS if is_held_out(name)),
    ],
)
def test_a_wrong_word_is_refused_before_a_run(
    words: list[str], said: str, lab: list[tuple[str, tuple[str, ...]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ablate", *words]) == 1
    assert said in " ".join(capsys.readouterr().err.split())
    assert lab == []


@pytest.mark.parametrize("set_name", [*filter(is_held_out, KIND_SETS)])
def test_held_out_paths_in_a_folder_are_refused(
    set_name: str, lab: list[tuple[str, tuple[str, ...]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The set's own folder has another name on the command line than the set."""
    assert main(["ablate", "--set", str(FOLDER / set_name)]) == 1
    assert "nobody chooses by paths" in " ".join(capsys.readouterr().err.split())
    assert lab == []
