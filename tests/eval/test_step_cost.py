# SPDX-License-Identifier: Apache-2.0
"""Instructions of a step of the daemon, counted in a guest."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from ltp_switcher.errors import LabError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.report import step_cost


@pytest.mark.lab
@pytest.mark.long
def test_more_flows_cost_more_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {}
    for flows in (1, 20):
        assert cli.main(["cost", "--step-flows", str(flows), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["flows"], told["kernel"]) == (flows, "6.1")
        assert told["median"] <= told["most"]
        counts[flows] = told["median"]
    # A step without work costs hundreds of thousands of instructions in Python, and a flow thousands.
    assert 100_000 < counts[1] < counts[20] < 20 * counts[1]


@pytest.mark.lab
def test_a_benchmark_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = step_cost.boot

    def without_python(**given: object) -> object:
        return booted(**given | {"python": False})  # type: ignore[arg-type]

    monkeypatch.setattr(step_cost, "boot", without_python)
    with pytest.raises(LabError, match="python3"):
        step_cost.measure_step(Console(quiet=True), 1, kernel="6.1")


def test_the_number_of_flows_has_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["cost", "--step-flows", "20000"])
    assert "10000" in capsys.readouterr().err
