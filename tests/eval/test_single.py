# SPDX-License-Identifier: Apache-2.0
"""The series of the paths with one flow, from results that the repository keeps."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ltp_switcher.eval.run import kept
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.series import read_series
from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.suite.plan import Run, plan
from ltp_switcher.eval.suite.single import single_paths


def result(folder: Path, path: str, scheme: str) -> tuple[Run, RunResult]:
    """The kept run of a scheme, with nothing but its series."""
    (run,) = plan("test", {scheme: 1}, "6.1", quick=False, names=[path])
    (of,) = (kept.FOLDER / "test" / path).glob(f"{scheme}-{run.job.seed}-6.1.*.zip")
    series = read_series(zipfile.ZipFile(of).read("timeseries.csv").decode())
    summary = Summary(path, scheme, run.job.seed, "6.1", 60.0, 1.0, 1.0, 0.0, ())
    return run, RunResult(run.job, summary, folder, True, 0.0, "6.1", series)


def test_the_series_are_grouped_by_path_and_scheme_a_series_a_seed(tmp_path: Path) -> None:
    runs = [("fixed-1", "bbr"), ("fixed-1", "cubic"), ("lossy-1", "bbr"), ("fixed-1", "bbr")]
    found = single_paths([result(tmp_path, *run) for run in runs])
    assert {name: {s: len(of) for s, of in path.series.items()} for name, path in found.items()} == {
        "fixed-1": {"bbr": 2, "cubic": 1},
        "lossy-1": {"bbr": 1},
    }
    assert found["fixed-1"].kind == "static"
    assert found["fixed-1"].arms == found["fixed-1"].series
    assert {one.scheme for one in found["fixed-1"].series["cubic"]} == {"cubic"}


@pytest.mark.parametrize("path", ["coming-1", "beside-vegas-1"])
def test_paths_with_several_flows_are_left_out(tmp_path: Path, path: str) -> None:
    assert not single_paths([result(tmp_path, path, "bbr")])
