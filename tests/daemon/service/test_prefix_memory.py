# SPDX-License-Identifier: Apache-2.0
"""The next daemon knows the findings of the last one about prefixes. The kernel alone is a stand-in."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import overfilling
from support.fake_kernel import BBR, Kernel
from support.overfilling import FIRST, SECOND, commanded, save
from support.running_daemon import close, make_daemon

from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.service.state import FILE_NAME, read_state, write_state

Start = Callable[..., Daemon]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(steps=[])


@pytest.fixture
def start(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a daemon. The one before it is gone, and has saved nothing at its end."""
    daemons: list[Daemon] = []

    def started(policy: str = "rule") -> Daemon:
        while daemons:
            close(daemons.pop())
        daemons.append(make_daemon(kernel, overfilling.config(tmp_path, policy), monkeypatch))
        return daemons[-1]

    yield started
    for daemon in daemons:
        close(daemon)


def saved_by(daemon: Daemon, kernel: Kernel) -> None:
    """Let the daemon meet a start that overfills the buffer, and save that."""
    commanded(daemon, kernel, FIRST, lost=0.15)
    save(daemon)


@pytest.mark.parametrize("policies", [("rule", "rule"), ("mutant", "mutant"), ("mutant", "rule")])
def test_a_new_daemon_begins_flows_as_the_last_one_would(
    start: Start, kernel: Kernel, policies: tuple[str, str]
) -> None:
    first = start(policies[0])
    assert commanded(first, kernel, FIRST, lost=0.15) == {BBR}
    assert commanded(first, kernel, FIRST) == set()
    save(first)
    second = start(policies[1])
    assert commanded(second, kernel, FIRST) == set()
    assert commanded(second, kernel, SECOND) == {BBR}
    # What the second daemon did not learn itself is saved, too.
    save(second)
    assert commanded(start(policies[1]), kernel, FIRST) == set()


@pytest.mark.parametrize("policy", ["mutant", "keep", "epsilon-greedy"])
def test_another_policy_takes_no_harm_from_what_the_rule_has_left(
    start: Start, kernel: Kernel, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    saved_by(start(), kernel)
    caplog.set_level(logging.INFO)
    start(policy)
    assert "restored the learned state" in caplog.text


def test_what_was_not_saved_is_not_known(start: Start, kernel: Kernel) -> None:
    commanded(start(), kernel, FIRST, lost=0.15)
    assert commanded(start(), kernel, FIRST) == {BBR}


def test_a_running_daemon_saves_once_in_an_interval(start: Start, kernel: Kernel) -> None:
    first = start()
    commanded(first, kernel, FIRST, lost=0.15)
    first._save_due._next_s = time.monotonic()
    first._step()
    assert first._saver is not None
    assert first._saver._thread is not None
    first._saver._thread.join()
    assert commanded(start(), kernel, FIRST) == set()


@pytest.mark.parametrize(("away_s", "then"), [(590, set()), (610, {BBR})])
def test_the_age_counts_on_while_no_daemon_runs(
    start: Start, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, away_s: int, then: set[int]
) -> None:
    unix_ns = time.time_ns
    saved_by(start(), kernel)
    monkeypatch.setattr(time, "time_ns", lambda: unix_ns() + away_s * 10**9)
    assert commanded(start(), kernel, FIRST) == then


def test_a_memory_of_another_form_is_told_in_one_line_and_the_daemon_goes_on(
    start: Start, kernel: Kernel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved_by(start(), kernel)
    path = tmp_path / FILE_NAME
    arrays = read_state(path)
    assert arrays is not None
    (name,) = (name for name in arrays if "overfilled" in name)
    write_state(path, {**arrays, name: arrays[name]["value"]})
    second = start()
    (line,) = (told.getMessage() for told in caplog.records if told.levelno == logging.WARNING)
    assert line.startswith("starting afresh: the rule's memory of prefixes has another form")
    assert len(line.splitlines()) == 1
    assert commanded(second, kernel, FIRST) == {BBR}


def test_a_kill_in_the_middle_of_a_save_costs_what_came_since_the_last_one(
    start: Start, kernel: Kernel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = [sys.executable, "-m", "support.overfilling", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(overfilling.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        told = child.stdout.readline()
        child.kill()
    assert told.strip() == overfilling.WRITES
    caplog.set_level(logging.INFO)
    daemon = start()
    assert "restored the learned state" in caplog.text
    assert commanded(daemon, kernel, FIRST) == set()
    assert commanded(daemon, kernel, SECOND, lost=0.15) == {BBR}
    save(daemon)
    assert commanded(start(), kernel, SECOND) == set()
