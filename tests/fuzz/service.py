# SPDX-License-Identifier: Apache-2.0
"""The daemon and the API as processes, and the checks of them at any time."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from support.daemon_process import service_running

from ltp_switcher.daemon.settings import tokens

MEMORY_MAX_MB: Final = {"daemon": 200, "api": 200}
"""The daemon's is the target of the project."""
API: Final = ("support.api_process",)
"""The module that serves the API. It waits for the daemon longer than a busy machine needs."""
DAEMON: Final = ("support.daemon_process",)
_CONFIG: Final = """\
[daemon]
policy = "mutant"
mode = "active"
step_ms = 50.0
save_interval_s = 1.0
control_socket = "{folder}/control.sock"
state_dir = "{folder}/state"
[api]
socket = "{folder}/api.sock"
tcp = "127.0.0.1:{port}"
token_file = "{folder}/tokens.json"
"""
_ERROR: Final = re.compile(r"^.*( (ERROR|CRITICAL) |Traceback|Warning: ).*(\n.*){0,80}", re.MULTILINE)


class Service:
    """The API and the daemon, in a folder. `api` and `daemon` are modules to run, with their first
    arguments."""

    def __init__(self, folder: Path, api: Sequence[str] = API, daemon: Sequence[str] = DAEMON) -> None:
        self._folder = folder
        self._modules = {"api": api, "daemon": (*daemon, "run")}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._open = contextlib.ExitStack()
        self._daemon = contextlib.ExitStack()
        self._read = {"daemon": 0, "api": 0}
        self._port = 0
        self.token = ""
        self.peak_mb = {"daemon": 0.0, "api": 0.0}

    def __enter__(self) -> Self:
        self._port = _free_port()
        (self._folder / "state").mkdir()
        self._config.write_text(_CONFIG.format(folder=self._folder, port=self._port))
        self.token = tokens.add(self._folder / "tokens.json", "fuzz", tokens.Scope.WRITE)
        with contextlib.ExitStack() as undo:
            undo.push(self._daemon)
            self.start_daemon()
            self._processes["api"] = undo.enter_context(self._running("api"))
            self._open = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def start_daemon(self) -> None:
        """Start it, and wait until it is ready."""
        self._processes["daemon"] = self._daemon.enter_context(self._running("daemon"))

    def kill_daemon(self) -> None:
        """Kill the daemon, as a crash would."""
        self._processes["daemon"].send_signal(signal.SIGKILL)
        self._daemon.close()

    def unix(self) -> socket.socket:
        """A connection to the API's UNIX socket."""
        return _connected(self._folder / "api.sock")

    def tcp(self) -> socket.socket:
        """A connection to the API over TCP."""
        return socket.create_connection(("127.0.0.1", self._port))

    def control(self) -> socket.socket:
        """A connection to the daemon's control socket."""
        return _connected(self._folder / "control.sock")

    def faults(self, *, daemon: bool = True) -> list[str]:
        """Ended processes, errors in their logs since the last call, and memory beyond the limit.

        `daemon`: whether it has to run.
        """
        found = [
            f"the {name} has ended"
            for name, process in self._processes.items()
            if (daemon or name == "api") and process.poll() is not None
        ]
        for name in self._read:
            found += self._errors(name)
        for name, process in self._processes.items():
            if process.poll() is None:
                self.peak_mb[name] = max(self.peak_mb[name], _peak_mb(process.pid))
            if self.peak_mb[name] > MEMORY_MAX_MB[name]:
                found.append(f"the {name} has taken {self.peak_mb[name]:.0f} MB")
        return found

    @property
    def _config(self) -> Path:
        return self._folder / "config.toml"

    def _running(self, name: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", *self._modules[name], "--config", str(self._config)]
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return service_running(command, folder, log=self._folder / f"{name}.log")

    def _errors(self, name: str) -> list[str]:
        with (self._folder / f"{name}.log").open("rb") as log:
            log.seek(self._read[name])
            new = log.read()
        self._read[name] += len(new)
        text = new.decode(errors="replace")
        found = _ERROR.search(text)
        return [f"log of the {name}: {found[0][-3000:]}"] if found else []


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _peak_mb(pid: int) -> float:
    """The most resident memory that a process ever had (VmHWM, proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1000 if found else 0.0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
