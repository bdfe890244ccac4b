# SPDX-License-Identifier: Apache-2.0
"""Runs and their results, kept by the hash of the inputs. A run in the lab is a pure function of its inputs.

`$LTP_CACHE/results/<fingerprint>/` has the lab's raw files and `run.json`. A folder appears there whole or
not at all, so an interrupted run leaves nothing behind. Summaries are computed anew each time, because they
cost little, and a corrected measure then applies to old runs, too. Results that the repository keeps
(`kept.py`) also go there.

A run through mahimahi is kept in the same way, although no two such runs are equal.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ltp_switcher.cache import cache_dir
from ltp_switcher.daemon.gain.outcomes import OutcomeRows
from ltp_switcher.errors import ArtifactError, reason
from ltp_switcher.eval.lab.kernels import known
from ltp_switcher.eval.lab.run import RunFiles, run_inputs, run_scenario
from ltp_switcher.eval.lab.script import USUAL_PLACE, Place
from ltp_switcher.eval.lab.sessions import is_session, run_session, session_inputs
from ltp_switcher.eval.lab.traffic import ROWS, run_traffic, traffic_inputs
from ltp_switcher.eval.lab.web import requests_inputs, run_requests
from ltp_switcher.eval.mahimahi.run import as_emulated, emulation_fingerprint, run_emulated
from ltp_switcher.eval.run import kept
from ltp_switcher.eval.run.completion_times import Completions, read_completions, summarise_requests
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import FlowSeries, read_series
from ltp_switcher.eval.run.summary import FlowTotals, Summary, read_totals, summarise

KERNELS: Final = known()
ENGINES: Final = ("lab", "mahimahi")
RAW_FILES: Final = ("timeseries.csv", "flows.json", "guest.json")
REQUEST_FILES: Final = ("requests.csv", "requests.json")
"""Raw files of a run with requests."""
HOST_FILES: Final = ("timeseries.csv", "flows.json", "host.json")
"""Raw files of a run through mahimahi."""
RECORD: Final = "run.json"
"""File with the run's inputs, the kernel's full name, and the times that the run took."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make. The scenario names the schemes. `engine` is "lab" or "mahimahi". `kernel` is the lab's
    kernel series; mahimahi uses the host's kernel.

    `daemon` says where the lab runs the daemon, for schemes that need one; see `Place`.
    """

    scenario: Scenario
    seed: int = 1
    kernel: str = "6.1"
    engine: str = "lab"
    daemon: Place = USUAL_PLACE

    @property
    def scheme(self) -> str:
        """Scheme that distinguishes the runs of a scenario; see `Scenario.scheme`."""
        return self.scenario.scheme

    def fingerprint(self) -> str:
        """Return a hash of everything on which the run depends.

        Raises:
            ConfigError: the link's trace is missing.
            LabError: the lab's parts cannot be fetched or built, or mahimahi is not unpacked.
        """
        if self.engine == "mahimahi":
            return emulation_fingerprint(self.scenario, seed=self.seed)
        of = run_inputs if self.scenario.requests is None else requests_inputs
        if self._has_traffic:
            of = traffic_inputs
        elif is_session(self.scenario):
            of = session_inputs
        return of(self.scenario, seed=self.seed, kernel=self.kernel, place=self.daemon).fingerprint()

    @property
    def raw_files(self) -> tuple[str, ...]:
        """Names of the raw files that the run leaves."""
        if self.engine == "mahimahi":
            return HOST_FILES
        if self._has_traffic:
            return (*REQUEST_FILES, ROWS)
        return RAW_FILES if self.scenario.requests is None else REQUEST_FILES

    @property
    def _has_traffic(self) -> bool:
        return self.scenario.requests is not None and self.scenario.requests.traffic is not None

    def make(self, on_sample: Callable[[Sample], None] | None) -> RunFiles:
        """Make the run.

        Raises:
            ConfigError: the scenario cannot run.
            LabError, EmulationError: the run failed.
        """
        if self.engine == "mahimahi":
            return run_emulated(self.scenario, seed=self.seed, on_progress=on_sample)
        of = run_scenario if self.scenario.requests is None else run_requests
        if self._has_traffic:
            of = run_traffic
        elif is_session(self.scenario):
            of = run_session
        return of(self.scenario, seed=self.seed, kernel=self.kernel, place=self.daemon, on_progress=on_sample)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run: its summary, the folder of its raw files, and whether it came from the cache.

    `virtual_s` is the guest's time in seconds since power-on. In a run through mahimahi it is the scenario's
    duration. `release` is the kernel's full name. `series` are the bins of each flow, from `timeseries.csv`;
    a run with requests has none.
    """

    job: Job
    summary: Summary
    folder: Path
    cached: bool
    virtual_s: float
    release: str
    series: Sequence[FlowSeries] = field(default=(), repr=False, compare=False)

    def guest(self) -> dict[str, Any]:
        """Read the guest's own counts, `guest.json`. Only a run in the lab without requests has this file."""
        document: dict[str, Any] = json.loads((self.folder / "guest.json").read_text())
        return document

    def completions(self) -> Completions:
        """Read the completion times of a run with requests."""
        return read_completions((self.folder / "requests.csv").read_text())

    def outcomes(self) -> OutcomeRows:
        """Read the outcomes of the flows of a run with traffic, shape (flows,)."""
        rows: OutcomeRows = np.load(self.folder / ROWS)
        return rows

    def totals(self) -> list[FlowTotals]:
        """Read the flows' totals, in order of the flows."""
        return read_totals((self.folder / "flows.json").read_text())

    def kept_files(self) -> dict[str, bytes]:
        """Read the run's files in the form that `kept.write` takes."""
        return {name: (self.folder / name).read_bytes() for name in (*self.job.raw_files, RECORD)}

    def export(self, out: Path) -> None:
        """Write `summary.json` and the raw files into the folder `out`; make it if it is missing."""
        out.mkdir(parents=True, exist_ok=True)
        (out / "summary.json").write_text(self.summary.to_json())
        for name in self.job.raw_files:
            shutil.copyfile(self.folder / name, out / name)


def run_job(job: Job, *, use_cache: bool, make: Callable[[Job], RunFiles] | None = None) -> RunResult:
    """Make a run, or take its results from the cache; a new result is always kept there.

    `make` is the function that makes the run, by default `Job.make`.

    Raises:
        ConfigError: the scenario cannot run.
        LabError: the lab failed.
        EmulationError: mahimahi is not set up, or failed.
        ArtifactError: the results cannot be read.
    """
    if job.engine == "mahimahi":
        job = replace(job, scenario=as_emulated(job.scenario))
    folder = _folder(job)
    if use_cache and _ready(job, folder):
        return _read(job, folder, cached=True)
    _put(_files(job, make(job) if make else job.make(None)), folder)
    return _read(job, folder, cached=False)


def is_made(job: Job) -> bool:
    """Return whether the cache or the repository has the results of a run in the lab.

    Raises:
        ConfigError, LabError: the run has no fingerprint; see `Job.fingerprint`.
        ArtifactError: the repository's file is damaged.
    """
    return _ready(job, _folder(job))


def _folder(job: Job) -> Path:
    return cache_dir() / "results" / job.fingerprint()


def _ready(job: Job, folder: Path) -> bool:
    """Whether the folder has the run's results; those that the repository keeps are unpacked first."""
    if not folder.is_dir() and (files := kept.read(folder.name, (*job.raw_files, RECORD))):
        _put(files, folder)
    return folder.is_dir()


def _files(job: Job, made: RunFiles) -> dict[str, bytes]:
    record = {
        "scenario": asdict(job.scenario), "seed": job.seed, "kernel": job.kernel,
        "release": made.kernel, "wall_s": made.wall_s, "virtual_s": made.virtual_s,
    }  # fmt: skip
    if job.engine == "lab":
        record["daemon"] = job.daemon
    raw = {name: made.files[name] for name in job.raw_files}
    return {**raw, RECORD: (json.dumps(record, indent=2) + "\n").encode()}


def _put(files: Mapping[str, bytes], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".run-", dir=folder.parent))
    try:
        whole = scratch / "whole"
        whole.mkdir()
        for name, content in files.items():
            (whole / name).write_bytes(content)
        # Another process may have put the same results there meanwhile. Then its results stay.
        with contextlib.suppress(FileNotFoundError):
            folder.rename(scratch / "replaced")
        with contextlib.suppress(OSError):
            whole.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _read(job: Job, folder: Path, *, cached: bool) -> RunResult:
    try:
        record = json.loads((folder / RECORD).read_text())
        wall_s = float(record["wall_s"])
        kernel = f"{record['release']} (mahimahi)" if job.engine == "mahimahi" else job.kernel
        virtual_s, release = float(record["virtual_s"]), str(record["release"])
        if job.scenario.requests:
            summary = _summarise_requests(job, folder, wall_s)
            return RunResult(job, summary, folder, cached, virtual_s, release)
        series = read_series((folder / "timeseries.csv").read_text())
        totals = read_totals((folder / "flows.json").read_text())
        summary = summarise(job.scenario, series, totals, seed=job.seed, kernel=kernel, wall_s=wall_s)
        return RunResult(job, summary, folder, cached, virtual_s, release, series)
    except (OSError, ValueError, KeyError, ArtifactError) as error:
        raise ArtifactError(
            f"cannot read the results in {folder} ({reason(error)}). Remove that folder."
        ) from error


def _summarise_requests(job: Job, folder: Path, wall_s: float) -> Summary:
    requests, utilisation = summarise_requests(
        job.scenario, (folder / "requests.csv").read_text(), (folder / "requests.json").read_text()
    )
    return Summary(
        job.scenario.name, job.scheme, job.seed, job.kernel, job.scenario.duration_s, utilisation, 1.0,
        wall_s, (), requests,
    )  # fmt: skip
