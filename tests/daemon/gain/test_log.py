# SPDX-License-Identifier: Apache-2.0
"""The log on disk."""

from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.gain import log
from ltp_switcher.daemon.gain.rows import ROW_DTYPE
from ltp_switcher.errors import ArtifactError

SIZE = ROW_DTYPE.itemsize


def rows(begin: int, n: int) -> np.ndarray:
    made = np.zeros(n, ROW_DTYPE)
    made["time_s"] = np.arange(begin, begin + n)
    return made


def test_the_latest_rows_stay_within_the_bound(tmp_path: Path) -> None:
    writer = log.DecisionWriter(tmp_path, 1600 * SIZE, {1: "cubic"})
    for begin in range(0, 9999, 101):
        writer.append(rows(begin, 101))
    writer.close()
    used = sum(file.stat().st_size for file in log.files_of(tmp_path))
    assert used <= 1600 * SIZE
    kept = np.concatenate(list(log.read(tmp_path)))["time_s"]
    assert kept[-1] == 9998
    assert np.array_equal(kept, np.arange(kept[0], 9999))
    assert 1200 <= kept.size <= 1600
    assert log.read_names(tmp_path) == {1: "cubic"}
    assert np.concatenate(list(log.read(tmp_path, since_s=9990)))["time_s"].tolist() == list(
        range(9990, 9999)
    )
    assert len(np.load(log.files_of(tmp_path)[0])) > 0


def test_a_file_that_was_cut_off_is_read(tmp_path: Path) -> None:
    writer = log.DecisionWriter(tmp_path, 10**6, {})
    writer.append(rows(0, 5))
    writer.close()
    (file,) = log.files_of(tmp_path)
    file.write_bytes(file.read_bytes()[:-3])
    assert [part["time_s"].tolist() for part in log.read(tmp_path)] == [[0, 1, 2, 3]]


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no decisions"):
        list(log.read(tmp_path))
    (tmp_path / "decisions-1.npy").write_bytes(b"?")
    with pytest.raises(ArtifactError, match=r"decisions-1\.npy"):
        list(log.read(tmp_path))


def test_a_full_disk_costs_rows_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    writer = log.DecisionWriter(tmp_path / "file" / "log", 10**6, {})
    writer.append(rows(0, 5))
    writer.append(rows(5, 5))
    writer.close()
    assert writer.dropped == 10
    assert caplog.text.count("decisions are not logged") == 1
