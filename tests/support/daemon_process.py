# SPDX-License-Identifier: Apache-2.0
"""The program `ltp-switcher` as a process, over a stand-in for the kernel.

Run as a module, it takes the arguments of `ltp-switcher`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.service import daemon as service
from support.fake_kernel import REMOTES, Kernel
from support.records import flow

PATIENCE_S: Final = 60.0
TESTS: Final = Path(__file__).resolve().parents[1]
HAND_OVER: Final = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&"$HANDED"'
"""What the service manager does with a socket unit's descriptor."""


def make_kernel() -> Kernel:
    """The API's flows."""
    return Kernel(*(flow(int(cookie), remote, busy=True) for cookie, remote in REMOTES.items()))


@contextlib.contextmanager
def service_running(
    command: Sequence[str | Path],
    folder: Path,
    *,
    listener: socket.socket | None = None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a service, and wait until it is ready; end it with the context.

    It inherits `listener` as from a socket unit, and tells its state on a socket in `folder`.
    """
    found = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(found)}
    handed: tuple[int, ...] = ()
    if listener is not None:
        command = ["bash", "-c", HAND_OVER, "hand-over", *command]
        variables["HANDED"] = str(listener.fileno())
        handed = (listener.fileno(),)
    place = folder / "notify.sock"
    with contextlib.ExitStack() as opened:
        manager = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        place.unlink(missing_ok=True)
        manager.bind(str(place))
        manager.settimeout(PATIENCE_S)
        stderr = opened.enter_context(log.open("ab")) if log is not None else None
        variables["NOTIFY_SOCKET"] = str(place)
        process = opened.enter_context(
            subprocess.Popen(command, env=variables, pass_fds=handed, stderr=stderr)
        )
        try:
            assert manager.recv(4096) == b"READY=1"
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def daemon_command(*arguments: str | Path) -> list[str | Path]:
    """The command line that runs the daemon."""
    return [sys.executable, "-m", "support.daemon_process", "run", *arguments]


if __name__ == "__main__":
    service.Datapath = make_kernel  # type: ignore[assignment, misc]
    sys.exit(main())
