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


def rows_until(last: str, path: Path, **renamed: str) -> None:
    """Write a recording of three rows whose records end with the member `last`."""
    own = ROW_DTYPE["record"]
    names = list(own.names or ())
    names = names[: names.index(last) + 1]
    record_dtype = np.dtype([(renamed.get(name, name), own[name]) for name in names])
    rows = np.zeros(3, np.dtype([("step", "=u4"), ("slot", "=u2"), ("chosen", "=u1"), ("reserved", "=u1"),
                                 ("record", record_dtype)]))  # fmt: skip
    rows["step"], rows["chosen"], rows["record"][last] = [7, 8, 9], 3, [1, 2, 4]
    with path.open("wb") as file:
        np.lib.format.write_array(file, rows, version=(2, 0))


def test_an_older_recording_is_0_in_members_that_came_later(tmp_path: Path) -> None:
    rows_until("siblings", tmp_path / "older.npy")
    rows = read_recording(tmp_path / "older.npy")
    assert rows.dtype == ROW_DTYPE
    assert (rows["step"].tolist(), rows["chosen"].tolist()) == ([7, 8, 9], [3, 3, 3])
    assert rows["record"]["siblings"].tolist() == [1, 2, 4]
    assert not rows["record"]["ack_gaps"].any()
    assert not rows["record"]["reordering"].any()
    rows_until("siblings", tmp_path / "other.npy", delivered="received")
    with pytest.raises(ArtifactError, match="another version"):
        read_recording(tmp_path / "other.npy")


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", np.zeros(3))
    for name in ("other.npy", "none.npy"):
        with pytest.raises(ArtifactError, match="cannot read the recording"):
            read_recording(tmp_path / name)
    with pytest.raises(ArtifactError, match="cannot write the recording"):
        Recorder(tmp_path / "none" / "r.npy")
