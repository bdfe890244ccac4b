# SPDX-License-Identifier: Apache-2.0
"""A real store of the Redis protocol for a test, in a folder of its own, which can be killed and started."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from valkey import Valkey
from valkey.exceptions import ConnectionError as Refused

PATIENCE_S: Final = 30.0
SERVERS: Final = ("redis-server", "valkey-server")
"""Of Debian 12 and 13; the first that is there runs."""


def server() -> str:
    """The program of the store."""
    return next(filter(shutil.which, SERVERS), SERVERS[0])


class SiteStore:
    """A server on a UNIX socket, without a file on disk."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.socket = folder / "store.sock"
        self._command = [
            server(), "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no",
            "--dir", str(folder), *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self.client = Valkey(unix_socket_path=str(self.socket))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                assert self.client.ping()
                return
            except Refused:
                assert self._process.poll() is None, "the store ended"
                assert time.monotonic() < deadline_s
                time.sleep(0.005)

    def kill(self) -> None:
        """Kill it; what it held is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.client.connection_pool.disconnect()

    def lessons(self, prefix: str, site: str = "default") -> dict[bytes, bytes]:
        """What hosts have written about a prefix."""
        found: dict[bytes, bytes] = self.client.hgetall(f"ltp-switcher:{site}:lessons:{prefix}")  # type: ignore[assignment]
        return found


@contextlib.contextmanager
def site_store(folder: Path, options: Sequence[str] = ()) -> Iterator[SiteStore]:
    """A store that runs until the end of the context."""
    store = SiteStore(folder, options)
    store.start()
    try:
        yield store
    finally:
        store.kill()
        store.client.connection_pool.disconnect()
