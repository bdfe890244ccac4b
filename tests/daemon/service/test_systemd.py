# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest

from ltp_switcher.daemon.service.systemd import ServiceManager

UNITS = Path(__file__).parents[3] / "packaging/systemd"


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


def test_a_manager_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        ours = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2"})

        def tell() -> None:
            for _ in range(1000):
                ours.status("two flows")
                ours.feed_watchdog()
            ours.stopping()

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        manager.setblocking(False)
        told = []
        with contextlib.suppress(BlockingIOError):
            while True:
                told.append(manager.recv(1000))
        assert 0 < len(told) < 1000
        ours.feed_watchdog()
        assert manager.recv(1000) == b"WATCHDOG=1"
        ours.close()


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda path: path.name)
def test_no_service_makes_files_that_its_group_writes(unit: Path) -> None:
    """Without UMask= it is 0022, and others may read (systemd.exec(5))."""
    masks = [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith("UMask=")]
    assert [int(mask, 8) & 0o027 for mask in masks] == [0o027]
