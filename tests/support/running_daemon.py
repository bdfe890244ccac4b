# SPDX-License-Identifier: Apache-2.0
"""The real daemon in a thread, whose kernel alone is a stand-in."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from ltp_switcher.daemon.service import daemon as service
from ltp_switcher.daemon.settings.layers import Layers, Origin
from ltp_switcher.daemon.settings.load import changed
from ltp_switcher.daemon.settings.schema import Config
from support.fake_kernel import Kernel


def make_daemon(kernel: Kernel, config: Config, monkeypatch: pytest.MonkeyPatch) -> service.Daemon:
    """A daemon before its first step. `reload` gives it the same settings again."""
    monkeypatch.setattr(service, "Datapath", lambda: kernel)
    # The machine's own limit is no part of a test.
    monkeypatch.setattr(service, "limit_bytes", lambda: None)
    return service.Daemon(layers_of(config), lambda: layers_of(config))


def layers_of(config: Config) -> Layers:
    """Settings as if a file had set those that differ from the defaults."""
    file = {
        key.path: value
        for key in changed(Config(), config)
        for value in [getattr(getattr(config, key.section), key.name)]
    }
    return Layers({Origin.FILE: file})


def close(daemon: service.Daemon) -> None:
    """What `Daemon.run` closes at its end."""
    daemon._server.close()
    daemon.choices.close()
    daemon.datapath.close()


@contextlib.contextmanager
def running(daemon: service.Daemon) -> Iterator[service.Daemon]:
    """Let a daemon step, until the end of the context."""
    # Not `run`: signals are for the main thread.
    thread = threading.Thread(target=daemon._loop.run)
    thread.start()
    try:
        while not daemon.engine.statistics.steps:
            assert thread.is_alive(), "the daemon's loop has ended"
            time.sleep(0.001)
        yield daemon
    finally:
        daemon._loop.stop()
        thread.join()
        close(daemon)
