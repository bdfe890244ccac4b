# SPDX-License-Identifier: Apache-2.0
import os
import socket
from pathlib import Path

import pytest

from ltp_switcher.daemon.service.systemd import ServiceManager


@pytest.mark.parametrize("abstract", [False, True])
def test_messages_arrive_as_datagrams(tmp_path: Path, abstract: bool) -> None:
    name = f"@ltp-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(5)
        ours = ServiceManager(
            {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())}
        )
        ours.ready()
        ours.status("two flows")
        ours.feed_watchdog()
        ours.feed_watchdog()
        ours.stopping()
        messages = [manager.recv(1000) for _ in range(4)]
        ours.close()
    assert messages == [b"READY=1", b"STATUS=two flows", b"WATCHDOG=1", b"STOPPING=1"]


def test_another_process_may_be_the_watched_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        ours = ServiceManager(
            {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
        )
        ours.feed_watchdog()
        with pytest.raises(BlockingIOError):
            manager.recv(1000)
        ours.close()


def test_no_manager_and_one_that_is_gone_are_no_fault(tmp_path: Path) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        ours = ServiceManager(environment)
        ours.ready()
        ours.feed_watchdog()
        ours.close()
