# SPDX-License-Identifier: Apache-2.0
"""The log on disk: its bound, its order, and all that a disk may do to it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.full_disk import found, numbered, settle

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.gain import log
from ltp_switcher.daemon.gain.rows import ROW_DTYPE
from ltp_switcher.errors import ArtifactError

SIZE = ROW_DTYPE.itemsize
FRAME = SIZE + 32
"""A row that is alone in its frame, and the frame's header."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows do not wait for others, so that each batch is a frame."""
    monkeypatch.setattr(log, "_GATHER_S", 0.0)


def write(folder: Path, *batches: np.ndarray, bytes_max: int = 10**7) -> None:
    """Each batch goes into a frame of its own."""
    writer = log.DecisionWriter(folder, bytes_max, {1: "cubic"})
    done = 0
    for rows in batches:
        writer.append(rows)
        done += len(rows)
        settle(writer, done)
    writer.close()


def times(place: Path) -> list[int]:
    return [int(at) for rows in log.read(place) for at in rows["time_s"]]


def test_the_latest_rows_stay_within_the_bound(tmp_path: Path) -> None:
    writer = log.DecisionWriter(tmp_path, 1600 * SIZE, {1: "cubic"})
    for begin in range(0, 9999, 101):
        writer.append(numbered(begin, 101))
    writer.close()
    used = sum(file.stat().st_size for file in log.DECISIONS.files_of(tmp_path))
    assert used <= 1600 * SIZE
    kept = times(tmp_path)
    assert kept == list(range(kept[0], 9999))
    assert 1200 <= len(kept) <= 1600
    assert (writer.logged, writer.dropped) == (9999, 0)
    assert log.read_names(tmp_path) == {1: "cubic"}
    assert [len(rows) for rows in log.read(tmp_path, since_s=9990)][-1] == 9


def test_files_of_a_large_log_are_no_larger_than_64_mb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_FILE_BYTES", 64 * SIZE)
    write(tmp_path, numbered(0, 640), bytes_max=10**9)
    assert len(log.DECISIONS.files_of(tmp_path)) >= 10
    assert times(tmp_path) == list(range(640))


def test_rows_gather_in_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows a second must not take a header each, nor a turn of the reader."""
    monkeypatch.undo()
    writer = log.DecisionWriter(tmp_path, 10**7, {})
    for number in range(200):
        writer.append(numbered(number, 1))
    writer.close()
    (file,) = log.DECISIONS.files_of(tmp_path)
    assert file.stat().st_size < 200 * SIZE + 10 * 32
    assert times(tmp_path) == list(range(200))


def test_a_file_that_was_cut_off_is_read(tmp_path: Path) -> None:
    write(tmp_path, numbered(0, 5), numbered(5, 5))
    (file,) = log.DECISIONS.files_of(tmp_path)
    file.write_bytes(file.read_bytes()[:-3])
    assert found(tmp_path) == {"times": [0, 1, 2, 3, 4], "damaged": 1, "files": 1}
    # The next daemon begins another file.
    write(tmp_path, numbered(10, 5))
    assert found(tmp_path) == {"times": [0, 1, 2, 3, 4, 10, 11, 12, 13, 14], "damaged": 1, "files": 2}


@given(st.data())
def test_damage_costs_the_rows_that_it_hit(data: st.DataObject) -> None:
    """Flipped bytes, and garbage in the middle of a file."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, *(numbered(number, 1) for number in range(12)))
        (file,) = log.DECISIONS.files_of(folder)
        content = bytearray(file.read_bytes())
        assert len(content) == 12 * FRAME
        flips = data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4))
        for at in flips:
            content[at] ^= 0x55
        at = data.draw(st.integers(0, 12)) * FRAME
        garbage = data.draw(st.binary(max_size=100))
        file.write_bytes(content[:at] + garbage + content[at:])
        odd = {place for place in (at // FRAME for at in flips) if flips_of(flips, place)}
        read = found(folder)
        assert read["times"] == [number for number in range(12) if number not in odd]
        assert (read["damaged"] == 0) == (not odd and not garbage)


def flips_of(flips: list[int], place: int) -> bool:
    """Whether bytes of a frame were flipped, and not flipped back."""
    mine = [at for at in flips if at // FRAME == place]
    return any(mine.count(at) % 2 for at in mine)


def test_a_file_of_another_version_is_counted_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(log.Form, "layout", 1)
        write(tmp_path, numbered(0, 5))
    write(tmp_path, numbered(5, 5))
    (tmp_path / "decisions-01790000000000000000.npy").write_bytes(b"\x93NUMPY")
    skipped = log.Skipped()
    assert np.concatenate(list(log.read(tmp_path, skipped=skipped)))["time_s"].tolist() == [5, 6, 7, 8, 9]
    assert (skipped.foreign, skipped.damaged) == (2, 0)
    assert caplog.text.count("another version") == 1


def test_what_another_version_wrote_makes_room_first(tmp_path: Path) -> None:
    old = tmp_path / "decisions-01790000000000000000.npy"
    old.write_bytes(bytes(200_000))
    write(tmp_path, numbered(0, 5), bytes_max=160_000)
    assert not old.exists()
    assert times(tmp_path) == [0, 1, 2, 3, 4]


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no decisions"):
        times(tmp_path)
    with pytest.raises(ArtifactError, match="no decisions"):
        times(tmp_path / "nowhere")
    strange = tmp_path / "notes.txt"
    strange.write_bytes(b"?" * 5000)
    with pytest.raises(ArtifactError, match=r"notes\.txt"):
        times(strange)


def test_a_clock_that_was_put_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows written last are the last ones read, and the last ones to make room."""
    now_s = time.time()
    for number in range(40):
        # Each daemon's clock is an hour behind that of the one before.
        monkeypatch.setattr(time, "time", lambda number=number: now_s - 3600 * number)
        monkeypatch.setattr(time, "time_ns", lambda number=number: int((now_s - 3600 * number) * 1e9))
        write(tmp_path, numbered(10 * number, 10), bytes_max=160 * FRAME)
    kept = times(tmp_path)
    assert kept == list(range(kept[0], 400))
    assert kept[0] > 0


def test_a_place_that_is_no_folder_costs_rows_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    writer = log.DecisionWriter(tmp_path / "file" / "log", 10**6, {})
    writer.append(numbered(0, 5))
    settle(writer, 5)
    writer.append(numbered(5, 5))
    writer.close()
    assert (writer.logged, writer.dropped) == (0, 10)
    assert caplog.text.count("decisions are not logged") == 1


def test_a_disk_that_hangs_costs_rows_and_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_WAITING_MAX", 1000)
    goes_on, write_atomically = threading.Event(), log.write_atomically

    def hang(path: Path, content: bytes) -> None:
        goes_on.wait()
        write_atomically(path, content)

    monkeypatch.setattr(log, "write_atomically", hang)
    writer = log.DecisionWriter(tmp_path, 10**9, {})
    for number in range(40):
        writer.append(numbered(100 * number, 100))
    assert writer.dropped >= 4000 - 2 * 1000
    goes_on.set()
    writer.close()
    assert writer.logged + writer.dropped == 4000


def test_a_limit_of_size_takes_part_of_a_frame_back(tmp_path: Path) -> None:
    """A write that is cut short, and the next one refused, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = log.DecisionWriter(tmp_path, 10**8, {1: "cubic"})
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20 * FRAME + 100, before[1]))
        for number in range(30):
            writer.append(numbered(number, 1))
            settle(writer, number + 1)
        assert (writer.logged, writer.dropped) == (20, 10)
        assert found(tmp_path) == {"times": list(range(20)), "damaged": 0, "files": 1}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.append(numbered(30, 5))
    writer.close()
    assert found(tmp_path) == {"times": [*range(20), *range(30, 35)], "damaged": 0, "files": 1}
    assert (writer.logged, writer.dropped) == (25, 10)


def test_a_full_disk_garbles_nothing_and_logging_goes_on(tmp_path: Path) -> None:
    """A real file system without room, in a mount namespace of its own."""
    mount = 'mount -t tmpfs -o size=300k none "$1" && exec "$2" -m support.full_disk "$1"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "full", tmp_path, sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    full, later = told["full"], told["later"]
    assert full["dropped"] > 0
    assert full["times"] == list(range(full["logged"]))
    assert later["dropped"] == full["dropped"]
    last = full["logged"] + full["dropped"]
    assert later["times"] == [*full["times"], *range(last, last + 100)]
    assert (full["damaged"], later["damaged"], later["files"]) == (0, 0, 1)
    assert done.stderr.count("decisions are not logged") == 1


def test_the_commands_tell_what_they_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, numbered(0, 5), numbered(5, 5), numbered(10, 5))
    (file,) = log.DECISIONS.files_of(tmp_path)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert main(["report", str(tmp_path), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["skipped"] == {"damaged": 1, "foreign": 0, "old": 0}
    assert json.loads(told.out)["decisions"] == 10
    assert "1 damaged" in told.err
    main(["evaluate", str(tmp_path), "--policy", "cubic"])
    assert "1 damaged" in capsys.readouterr().err
