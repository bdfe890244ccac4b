# SPDX-License-Identifier: Apache-2.0
"""A set's traces from other places on."""

from pathlib import Path

import pytest

from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.suite import paths


def drawn(folder: Path, *options: str) -> dict[str, Scenario]:
    assert cli.main(["draw", "--offsets", *options, "--out", str(folder)]) == 0
    return paths.load(str(folder))


@pytest.mark.parametrize(("set_name", "first_s"), [("tuning", 0.0), ("test", 65.0)])
def test_the_offsets_of_a_set_are_in_its_own_span(set_name: str, first_s: float, tmp_path: Path) -> None:
    found = drawn(tmp_path, "10", "--set", set_name)
    assert len(found) == 60
    known = paths.load(set_name)
    for name, one in found.items():
        before = known[name.rpartition("-")[0]]
        assert first_s <= one.link.offset_s <= first_s + 65.0 - one.duration_s
        assert one.duration_s == 30.0
        assert (one.link.trace, one.link.rtt_ms) == (before.link.trace, before.link.rtt_ms)
        assert one.link.buffer_pkts == before.link.buffer_pkts
        assert paths.kind(one) == "trace"
    assert len({(one.link.trace, one.link.offset_s) for one in found.values()}) == 60


def test_one_offset_is_the_spans_beginning(tmp_path: Path) -> None:
    assert sorted(drawn(tmp_path, "1")) == [f"trace-{n}-065" for n in range(1, 7)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--offsets", "3", "--wide", "5"], "--wide"),
        (["--seed", "3", "--set", "test"], "--set"),
        (["--offsets", "3", "--set", "mine"], "tuning or test"),
    ],
)
def test_options_that_do_not_fit_are_told(
    options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["draw", *options, "--out", str(tmp_path / "out")]) == 1
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [["--offsets", "37"], ["--offsets", "3", "--seed", "3"], []])
def test_a_wrong_number_is_told(options: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli.main(["draw", *options, "--out", str(tmp_path)])
