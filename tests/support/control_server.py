# SPDX-License-Identifier: Apache-2.0
"""A control socket with a server of few methods, and a loop with 5 ms between two steps."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ltp_switcher.daemon.control.answers import JsonList, Params, Result
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.server import ControlServer
from ltp_switcher.daemon.datapath import FlowNotFoundError
from ltp_switcher.errors import DatapathError, InvalidValueError

LONG = 20_000
API_UID = 990


def handle(method: str, params: Params, caller: Caller) -> Result:
    """Answer a request of this server's methods."""
    if method == "echo":
        return params
    if method == "caller":
        return str(caller)
    if method == "long":
        return JsonList(iter([{"number": i} for i in range(LONG)]))
    if method == "endless":
        return JsonList(itertools.repeat({"x": "y" * 1000}))
    if method == "named":
        return JsonList(iter([1, 2]), "numbers", {"total": 7})
    if method == "invalid":
        raise InvalidValueError("arm", "vegass", "one of bbr, vegas")
    if method == "missing":
        raise FlowNotFoundError(7)
    if method == "kernel":
        raise DatapathError("no module")
    raise RuntimeError("a fault")


@contextlib.contextmanager
def serving(place: Path) -> Iterator[Path]:
    """The socket, at this place, while its server turns."""
    selector = selectors.SelectSelector()
    server = ControlServer(place, handle, selector, api_uid=API_UID)
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            more = server.pump(time.monotonic() + 0.005)
            for key, _ in selector.select(0 if more else 0.005):
                key.data(key.fd)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield place
    finally:
        stop.set()
        thread.join()
        server.close()
        selector.close()
