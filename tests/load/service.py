# SPDX-License-Identifier: Apache-2.0
"""Daemon and API as processes behind sockets that outlive them, as the units run them."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
from support.api_process import ApiProcess, api_running
from support.daemon_process import service_running

from load.daemon import SETTINGS
from load.recording import make_recording
from ltp_switcher.cache import REPOSITORY

BACKLOG: Final = 4096
"""Connections that may wait, as in systemd's socket units: Backlog= is SOMAXCONN."""
STEP_MS: Final = {"rule": 50, "mutant": 10}
"""How long the policy's steps are, and so those of the recording that it is given."""
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the daemon runs with."""

    folder: Path
    flows: int
    policy: str = "rule"
    churn: int = 0
    seed: int = 1
    log_mb: int = 256
    """Most space for the log of decisions."""

    @property
    def recording(self) -> Path:
        """The recording, made where it is not there yet."""
        path = self.folder / f"recording-{STEP_MS[self.policy]}.npy"
        if not path.is_file():
            make_recording(path, STEP_MS[self.policy])
        return path


@dataclass(slots=True)
class Service:
    """Sockets, logs and processes. What is None does not run."""

    wanted: Wanted
    control: socket.socket
    listener: socket.socket
    daemon: subprocess.Popen[bytes] | None = None
    api: ApiProcess | None = None
    port: int = 0
    steps: Path = field(init=False)
    logs: tuple[Path, Path] = field(init=False)

    def __post_init__(self) -> None:
        folder = self.wanted.folder
        self.steps = folder / "steps"
        self.logs = folder / "daemon.log", folder / "api.log"

    @property
    def control_path(self) -> Path:
        """The control socket."""
        return Path(self.control.getsockname())

    @property
    def api_path(self) -> Path:
        """The API's UNIX socket."""
        return Path(self.listener.getsockname())

    @contextlib.contextmanager
    def run_daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        """The daemon, until the end of the context."""
        wanted, folder = self.wanted, self.wanted.folder
        command: list[str | Path] = [
            "nice", "-n", _nice(), sys.executable, "-m", "load.daemon", "run", "--socket", self.control_path,
            "--state-dir", folder / "state", "--policy", wanted.policy, "--mode", "active",
            "--set", f"daemon.step_ms={STEP_MS[wanted.policy]}", "--set", f"gain.log_mb={wanted.log_mb}",
        ]  # fmt: skip
        given = {
            "recording": str(wanted.recording), "flows": wanted.flows, "seed": wanted.seed,
            "churn": wanted.churn, "steps": str(self.steps),
        }  # fmt: skip
        environment = {SETTINGS: json.dumps(given), "OPENBLAS_NUM_THREADS": "1"}
        (folder / "daemon").mkdir(exist_ok=True)
        with service_running(
            command, folder / "daemon", listener=self.control, environment=environment, log=self.logs[0]
        ) as self.daemon:
            yield self.daemon

    @contextlib.contextmanager
    def run_api(self, *, tcp: bool = False) -> Iterator[ApiProcess]:
        """The API, until the end of the context."""
        (self.wanted.folder / "api").mkdir(exist_ok=True)
        with api_running(
            self.wanted.folder / "api", self.control_path, listener=self.listener, tcp=tcp, log=self.logs[1]
        ) as self.api:
            self.port = self.api.port or 0
            yield self.api

    def client(self) -> httpx.Client:
        """An HTTP client of the API."""
        transport = httpx.HTTPTransport(uds=str(self.api_path))
        return httpx.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE_S)

    def log_bytes(self) -> int:
        """Bytes of log so far."""
        return sum(path.stat().st_size for path in self.logs if path.exists())


def _nice() -> str:
    """The daemon's, as its unit says. Who is not root gets a warning of nice(1), and none."""
    unit = (REPOSITORY / "packaging/systemd/ltp-switcher.service").read_text().splitlines()
    return next(line.removeprefix("Nice=") for line in unit if line.startswith("Nice="))


@contextlib.contextmanager
def sockets(wanted: Wanted) -> Iterator[Service]:
    """What the socket units hold. Nothing runs yet."""
    with listening(wanted.folder / "control.sock") as control, listening(wanted.folder / "api.sock") as api:
        yield Service(wanted, control, api)


@contextlib.contextmanager
def service(wanted: Wanted, *, tcp: bool = False) -> Iterator[Service]:
    """Daemon and API run."""
    with sockets(wanted) as made, made.run_daemon(), made.run_api(tcp=tcp):
        yield made


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A UNIX socket that listens."""
    with socket.socket(socket.AF_UNIX) as listener:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        # As the socket units say.
        path.chmod(0o660)
        listener.listen(BACKLOG)
        yield listener


@dataclass(frozen=True, slots=True)
class Use:
    """What a process has used: memory now and at most, MB; CPU time, s."""

    rss_mb: float
    peak_mb: float
    cpu_s: float


def use_of(pid: int, recording: Path) -> Use:
    """The use of a process, without the pages of the recording, which are the stand-in's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    mapped_kb = 0
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = line.endswith(recording.name)
        elif inside and line.startswith("Rss:"):
            mapped_kb += int(line.split()[1])
    return Use(
        (int(status["VmRSS"].split()[0]) - mapped_kb) / 1024,
        (int(status["VmHWM"].split()[0]) - mapped_kb) / 1024,
        cpu_s_of(pid),
    )


def cpu_s_of(pid: int) -> float:
    """CPU time of a process so far, s."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / 100
