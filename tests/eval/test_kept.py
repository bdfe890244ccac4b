# SPDX-License-Identifier: Apache-2.0
"""Results in the repository are written, read, up to date, and equal to the lab's."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.lab.kernels import kernel
from ltp_switcher.eval.run import kept
from ltp_switcher.eval.run.results import Job, run_job
from ltp_switcher.eval.suite.plan import plan

FILES = {"timeseries.csv": b"t_s,flow\n" * 500, "run.json": b"{}\n"}
MADE = {"command": "ltp-eval suite --keep", "revision": "0123abc"}
COMMITTED = sorted(kept.FOLDER.rglob("*.zip"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


def test_what_is_kept_is_read_by_its_fingerprint(folder: Path) -> None:
    assert kept.read("aa11", ["run.json"]) is None
    path = kept.write("test/fixed-1/bbr-101-6.1", "aa11", FILES, MADE)
    assert path == folder / "test" / "fixed-1" / "bbr-101-6.1.aa11.zip"
    assert kept.read("aa11", ["timeseries.csv", "run.json"]) == FILES
    assert kept.read("bb22", ["run.json"]) is None
    assert json.loads(zipfile.ZipFile(path).read("made.json")) == MADE


def test_equal_results_are_equal_bytes_and_stale_ones_go(folder: Path) -> None:
    kept.write("test/fixed-1/bbr-101-6.12", "cc33", FILES, MADE)
    path = kept.write("test/fixed-1/bbr-101-6.1", "aa11", FILES, MADE)
    first = path.read_bytes()
    path.unlink()
    assert kept.write("test/fixed-1/bbr-101-6.1", "aa11", FILES, MADE).read_bytes() == first
    kept.write("test/fixed-1/bbr-101-6.1", "aa11", {"run.json": b"another wall time"}, MADE)
    assert path.read_bytes() == first
    kept.write("test/fixed-1/bbr-101-6.1", "dd44", FILES, MADE)
    assert {p.name for p in folder.rglob("*.*")} == {"bbr-101-6.1.dd44.zip", "bbr-101-6.12.cc33.zip"}


def test_a_damaged_file_is_named(folder: Path) -> None:
    path = kept.write("test/fixed-1/bbr-101-6.1", "aa11", FILES, MADE)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ArtifactError, match=r"bbr-101-6\.1\.aa11\.zip.*Remove it"):
        kept.read("aa11", ["run.json"])


def test_committed_results_are_of_the_paths_as_they_are() -> None:
    assert COMMITTED
    for path in COMMITTED:
        of_set, name = path.parts[-3:-1]
        scheme, seed, rest = path.name.split("-", 2)
        series = rest.rsplit(".", 2)[0]
        short = of_set.removesuffix("-quick")
        (run, *_) = plan(short, {scheme: 1}, series, quick=short != of_set, names=[name])
        with zipfile.ZipFile(path) as archive:
            record = json.loads(archive.read("run.json"))
            made = json.loads(archive.read("made.json"))
        # Results from before a key do not name it, and its usual value is not in the canonical text.
        now = json.loads(run.job.scenario.canonical())
        assert shared(record["scenario"], now) == now, path
        assert (record["seed"], record["kernel"]) == (int(seed), series), path
        assert made["command"].startswith("ltp-eval suite"), path
        assert len(made["revision"]) >= 7, path


def shared(record: object, now: object) -> object:
    """The record without what `now` does not have."""
    if isinstance(record, dict) and isinstance(now, dict):
        return {key: shared(value, now[key]) for key, value in record.items() if key in now}
    if isinstance(record, list) and isinstance(now, list) and len(record) == len(now):
        return [shared(*pair) for pair in zip(record, now, strict=True)]
    return record


@pytest.mark.lab
def test_the_lab_still_gives_a_committed_result() -> None:
    """Byte for byte, also where code that makes the guest has changed, and with it the fingerprint."""
    (run,) = plan("test", {"cubic": 1}, "6.1", quick=False, names=["slow-1"])
    job: Job = run.job
    (path,) = kept.FOLDER.glob(f"test/slow-1/cubic-{job.seed}-6.1.*.zip")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in job.raw_files}
        release = json.loads(archive.read("run.json"))["release"]
    if kernel("6.1").release != release:
        pytest.skip(f"Debian's kernel is not {release}: make the kept results anew (eval/README.md)")
    made = run_job(job, use_cache=False)
    assert {name: (made.folder / name).read_bytes() for name in job.raw_files} == files
