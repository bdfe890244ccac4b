# SPDX-License-Identifier: Apache-2.0
"""The daemon's process beside the guest, with this machine's own kernel in the place of the guest's."""

from __future__ import annotations

import json
import mmap
import os
import selectors
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.daemon.datapath import netlink
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.eval.lab import beside, delay, script
from ltp_switcher.eval.lab.host import daemon as host
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario

AGENT = Path(__file__).parents[1] / "support" / "guest_agent.py"
EVENTFD2 = 290

Guest = tuple[host.Kernel, int]


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    """A kernel that has begun, and the process id of its agent."""
    path = tmp_path / "channel"
    path.write_bytes(bytes(host.MAILBOX_BYTES))
    ours, theirs = socket.socketpair()
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    with theirs:
        command = [sys.executable, str(AGENT), str(path), str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    kernel = host.Kernel(memory, ours)
    kernel.begin()
    yield kernel, process.pid
    ours.close()
    if process.poll() is None:
        process.kill()
    process.wait()
    memory.close()


def test_netlink_in_the_guest(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's own code opens the socket, sets its options, and asks the kernel."""
    monkeypatch.setattr(host.GuestSocket, "kernel", guest[0], raising=False)
    guests = types.SimpleNamespace(**{**vars(socket), "socket": host.GuestSocket})
    monkeypatch.setattr(netlink, "socket", guests)
    connection = netlink.GenericNetlink()
    with pytest.raises(netlink.NetlinkError, match="ENOENT"):
        connection.family("no-such-family")
    controller = connection.family("nlctrl")
    assert (controller.id, controller.name) == (16, "nlctrl")
    assert len(list(connection.dump(controller, netlink.CTRL_CMD_GETFAMILY))) > 1
    events = netlink.GenericNetlinkEvents(controller.groups["notify"])
    assert events.read() == ([], False)
    events.close()
    connection.close()


def test_time_that_is_spent_passes_before_the_next_call(guest: Guest) -> None:
    kernel, pid = guest
    began_ns, before_ns = kernel.monotonic_ns(), kernel.real_ns()
    kernel.spend(20_000_000)
    kernel.spend(5_000_000)
    assert kernel.monotonic_ns() - began_ns == kernel.real_ns() - before_ns == 25_000_000
    assert host.own_namespace(kernel) == Path(f"/proc/{pid}/ns/net").stat().st_ino
    assert kernel.monotonic_ns() - began_ns >= 25_000_000


def test_a_failed_call_is_an_error(guest: Guest) -> None:
    with pytest.raises(FileNotFoundError):
        host.write_file(guest[0], "/no/such/folder/file", b"")


def test_a_file_of_the_guest(guest: Guest, tmp_path: Path) -> None:
    host.write_file(guest[0], str(tmp_path / "file"), b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_waiting_is_the_guests(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ready on the host does not count, except with the signal that ends the daemon."""
    kernel, pid = guest
    monkeypatch.setattr(host.GuestSelector, "kernel", kernel, raising=False)
    here, there = socket.socketpair()
    there.send(b"x")
    caught: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
    try:
        selector = host.GuestSelector()
        selector.register(here, selectors.EVENT_READ, "host")
        silent = kernel.call(EVENTFD2, 0, 0)
        selector.register(silent + host.GUEST, selectors.EVENT_READ, "silent")
        began_ns = kernel.monotonic_ns()
        assert selector.select(0.01) == []
        assert kernel.monotonic_ns() - began_ns >= 10_000_000
        ready = kernel.call(EVENTFD2, 1, 0)
        selector.register(ready + host.GUEST, selectors.EVENT_READ, "ready")
        assert [key.data for key, _ in selector.select(5.0)] == ["ready"]
        selector.unregister(ready + host.GUEST)
        os.kill(pid, signal.SIGTERM)
        assert [key.data for key, _ in selector.select(5.0)] == ["host"]
        assert caught == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
        here.close()
        there.close()


PART = st.integers(0, 10_000_000)


@settings(deadline=None, max_examples=30)
@given(PART, PART, PART, PART, PART)
def test_the_model_of_made_steps(empty: int, step: int, flow: int, arm: int, arm_flow: int) -> None:
    """Steps of two runs: one without learned arms, one with some flows under the first of them."""
    arms = len(LEARNED)
    plain = [[n, *[0] * arms, step + flow * n] for n in range(1, 9)]
    steered = [
        [n, m, *[0] * (arms - 1), step + flow * n + (arm + arm_flow * m if m else 0)]
        for n in range(1, 9)
        for m in range(n + 1)
    ]
    silent = [[0] * (arms + 1) + [empty]]
    model = delay.fit({"rule": np.array(plain + steered + silent)})
    first = LEARNED[min(LEARNED)]
    assert model["rule"] == pytest.approx({"empty": empty, "step": step, "flow": flow}, abs=2)
    assert model[first] == pytest.approx({"step": arm, "flow": arm_flow}, abs=2)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 10**8)), min_size=1))
def test_no_part_of_the_model_is_negative(steps: list[tuple[int, int]]) -> None:
    """Whatever noise there is."""
    rows = np.array([[n, n // 2, *[0] * (len(LEARNED) - 1), took] for n, took in [*steps, (1, 5)]])
    for parts in delay.fit({"rule": rows}).values():
        assert min(parts.values()) >= 0


def test_a_daemon_whose_time_nobody_has_measured_is_inside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = Scenario("path", 1.0, Link(rate_mbps=8.0, rtt_ms=30.0), (Flow("rule", 0.0, 1.0),))
    with_jury = path.with_settings((("pool.arms", ("bbr", "jury")),))
    taking = path.with_settings((("kernel.take_default", True),))
    monkeypatch.setattr(beside, "DELAYS", tmp_path / "delays.json")

    def places(*measured: str) -> list[str]:
        beside.DELAYS.write_text(json.dumps({name: {} for name in measured}))
        daemons = [script.daemon_of(one, "beside") for one in (path, with_jury, taking)]
        return [daemon.place for daemon in daemons if daemon]

    assert places("mutant", "jury") == ["inside", "inside", "inside"]
    assert places("rule", "ltp") == ["beside", "inside", "inside"]
    assert places("rule", "jury") == ["beside", "beside", "inside"]
