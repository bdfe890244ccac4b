# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from support.records import record

from ltp_switcher.daemon.datapath.recording import ROW_DTYPE, Recorder, read_recording
from ltp_switcher.errors import ArtifactError


def write(path: Path, *, close: bool) -> Recorder:
    recorder = Recorder(path)
    for step in range(300):
        records = np.concatenate([record(7, samples=step), record(8, samples=2 * step)])
        recorder.append(np.array([0, 1]), records, np.array([3, step % 11 + 1], np.uint8))
    if close:
        recorder.close()
    else:
        recorder._file.flush()
    return recorder


def test_a_finished_recording_is_a_plain_npy_file(tmp_path: Path) -> None:
    write(tmp_path / "r.npy", close=True)
    rows = np.load(tmp_path / "r.npy")
    assert rows.dtype == ROW_DTYPE
    assert rows.shape == (600,)
    np.testing.assert_array_equal(rows["step"], np.repeat(np.arange(300), 2))
    np.testing.assert_array_equal(rows["record"]["samples"][1::2], 2 * np.arange(300))
    np.testing.assert_array_equal(rows["chosen"][::2], 3)
    np.testing.assert_array_equal(read_recording(tmp_path / "r.npy"), rows)


def test_a_recording_that_was_cut_off_can_be_read(tmp_path: Path) -> None:
    recorder = write(tmp_path / "r.npy", close=False)
    content = (tmp_path / "r.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-100])
    assert len(read_recording(tmp_path / "cut.npy")) == 599
    recorder.close()


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", np.zeros(3))
    for name in ("other.npy", "none.npy"):
        with pytest.raises(ArtifactError, match="cannot read the recording"):
            read_recording(tmp_path / name)
    with pytest.raises(ArtifactError, match="cannot write the recording"):
        Recorder(tmp_path / "none" / "r.npy")
