# SPDX-License-Identifier: Apache-2.0
"""Runs on a real Dask cluster on the loopback: a worker dies, another joins, others do not fit."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console
from support.dask_cluster import end, scheduler, worker
from support.quick_run import OTHER, quick_runs

from ltp_switcher.cluster import Cluster
from ltp_switcher.errors import ClusterError, ConfigError
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.executor import Here, OnCluster
from ltp_switcher.eval.run.results import Job, RunResult

SCHEMES = ["bbr", "cubic", "vegas"]
Start = Callable[..., list[subprocess.Popen[bytes]]]


def wait_for(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.01)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scheduler(tmp_path_factory.mktemp("dask")) as found:
        yield found


@pytest.fixture
def start(tmp_path: Path, address: str) -> Iterator[Start]:
    """Start workers for one run at a time; they have joined when this returns, and end with the test."""
    import distributed

    with (
        contextlib.ExitStack() as stack,
        distributed.Client(address, set_as_default=False) as client,
    ):

        def start(count: int, **environment: str) -> list[subprocess.Popen[bytes]]:
            before = len(client.scheduler_info()["workers"])
            made = [worker(address, tmp_path, **environment) for _ in range(count)]
            for process in made:
                stack.callback(end, process)
            client.wait_for_workers(before + count)
            return made

        yield start
        stack.close()
        wait_for(lambda: not client.scheduler_info()["workers"])


def begun(folder: Path) -> list[tuple[str, int]]:
    """Fingerprint and process of each begin."""
    text = (folder / "begun").read_text() if (folder / "begun").exists() else ""
    return [(name, int(pid)) for name, pid in map(str.split, text.splitlines())]


def files_of(results: list[RunResult]) -> list[dict[str, bytes]]:
    return [result.kept_files() for result in results]


def make(jobs: list[Job], address: str, shown: io.StringIO) -> list[RunResult]:
    with OnCluster(address) as executor:
        return run_batch(jobs, Console(file=shown), use_cache=True, executor=executor)


def test_a_worker_dies_and_another_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start, address: str
) -> None:
    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "here"))
    (tmp_path / "gate").touch()
    here = files_of(run_batch(quick_runs(tmp_path, SCHEMES), Console(quiet=True), use_cache=True))
    (tmp_path / "gate").unlink()
    (tmp_path / "begun").unlink()

    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cluster"))
    workers = {process.pid: process for process in start(2)}
    shown = io.StringIO()
    with ThreadPoolExecutor() as pool:
        result = pool.submit(make, quick_runs(tmp_path, SCHEMES), address, shown)
        wait_for(lambda: len(begun(tmp_path)) == 2)
        lost, victim = begun(tmp_path)[0]
        workers[victim].send_signal(signal.SIGKILL)
        workers[victim].wait()
        start(1)
        wait_for(lambda: "rate=7.50 Mbit/s" in shown.getvalue())
        (tmp_path / "gate").touch()
        made = result.result()
    assert files_of(made) == here
    times = Counter(name for name, _ in begun(tmp_path))
    assert times == {job.fingerprint(): 1 for job in quick_runs(tmp_path, SCHEMES)} | {lost: 2}
    assert [one.cached for one in made] == [False] * 3
    assert "bbr          done" in shown.getvalue()

    again = run_batch(quick_runs(tmp_path, SCHEMES), Console(quiet=True), use_cache=True, executor=Here())
    assert [one.cached for one in again] == [True] * 3


def test_a_worker_with_another_fingerprint_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start, address: str
) -> None:
    monkeypatch.setenv("LTP_CACHE", str(tmp_path))
    start(1, **{OTHER: "-of-6.12"})
    with pytest.raises(
        ClusterError, match=r"worker tcp://127\.0\.0\.1:\d+ .* bbr-101-of-6\.12, this machine bbr-101:"
    ):
        make(quick_runs(tmp_path, ["bbr"]), address, io.StringIO())
    assert begun(tmp_path) == []


def test_a_run_that_fails_is_tried_again_and_its_worker_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start, address: str
) -> None:
    monkeypatch.setenv("LTP_CACHE", str(tmp_path))
    start(1)
    (tmp_path / "gate").touch()
    with pytest.raises(ClusterError, match=r"worker tcp://127\.0\.0\.1:\d+ .* the guest has no memory left"):
        make(quick_runs(tmp_path, ["bbr"], fails=True), address, io.StringIO())
    assert len(begun(tmp_path)) == 3


def test_runs_that_are_given_up_end_on_their_workers(tmp_path: Path, start: Start, address: str) -> None:
    start(1)
    job, other = quick_runs(tmp_path, ["bbr", "cubic"])
    with ThreadPoolExecutor() as pool, OnCluster(address) as executor:
        result = pool.submit(executor.make, job, lambda: None, lambda _: None)
        wait_for(lambda: len(begun(tmp_path)) == 1)
        executor.stop()
        with pytest.raises(ClusterError):
            result.result()
        # The worker's one thread is free again.
        result = pool.submit(executor.make, other, lambda: None, lambda _: None)
        wait_for(lambda: len(begun(tmp_path)) == 2)
        (tmp_path / "gate").touch()
        assert set(result.result().files) == set(other.raw_files)


def test_a_scheduler_without_workers_or_with_work_stealing_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ClusterError, match=f"no worker has joined {address}.*`dask worker"), Cluster(address):
        pass
    with (
        scheduler(tmp_path, DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING="True") as other,
        pytest.raises(ClusterError, match=r"Start it with DASK_\w+WORK_STEALING=False"),
        Cluster(other),
    ):
        pass


@pytest.mark.parametrize(
    "address",
    ["", "10.1.2.3:8786", "tcp://10.1.2.3:8786", "tcp://[2001:db8::1]:8786", "tcp://scheduler:8786",
     "ucx://127.0.0.1:8786", "tls://scheduler", "tls://scheduler:port", "http://127.0.0.1:8786"],
)  # fmt: skip
def test_without_tls_no_other_host_is_used(address: str) -> None:
    with pytest.raises(ConfigError, match=r"--cluster.*tls://HOST:PORT"):
        Cluster(address)


def test_tls_needs_its_files() -> None:
    with (
        pytest.raises(ConfigError, match=r"distributed\.comm\.tls\.ca-file"),
        Cluster("tls://scheduler:8786"),
    ):
        pass


def test_the_command_names_a_scheduler_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ltp_switcher.cluster.CONNECT_S", 1)
    arguments = ["compare", "fixed", "--out", str(tmp_path), "--cluster"]
    assert main([*arguments, "tcp://127.0.0.1:1"]) == 1
    assert "no scheduler of Dask answers at tcp://127.0.0.1:1" in capsys.readouterr().err
    assert main([*arguments, "10.0.0.1:8786"]) == 1
    assert "--cluster: '10.0.0.1:8786' is not valid" in capsys.readouterr().err


def test_dask_is_imported_only_when_asked_for() -> None:
    code = (
        "import sys; from ltp_switcher.eval.cli.main import main, parser; parser()\n"
        "from ltp_switcher.eval.run.executor import executor_of\n"
        "with executor_of(1, None): pass\n"
        "executor_of(1, '127.0.0.1:1')\n"
        "sys.exit(', '.join(sorted({'dask', 'distributed'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
