# SPDX-License-Identifier: Apache-2.0
"""Requests that fuzzing found, or that are like those: the running daemon refuses each, and says why."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.settings.schema import Config, DaemonSection

PATIENCE_S = 60
HUGE = "9" * 400


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    section = DaemonSection(policy="keep", control_socket=str(tmp_path / "s"), state_dir="", mode="advise")
    with running(make_daemon(Kernel(flow(4711)), Config(daemon=section), monkeypatch)):
        yield tmp_path / "s"


def refusal(control: Path, method: str, params: str) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(control))
        client.sendall(b'{"id": 1, "method": "%b", "params": %b}\n' % (method.encode(), params.encode()))
        with client.makefile("rb") as answers:
            return json.loads(answers.readline())["error"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("network.tell", f'{{"pnc_pkts": {HUGE}, "pna": 0.5, "known": 1}}'),
        ("network.tell", f'{{"pnc_pkts": 100, "pna": 0.5, "known": -{HUGE}}}'),
        ("config.set", f'{{"values": {{"mpts": {{"share": {HUGE}}}}}}}'),
        ("config.set", f'{{"values": {{"mpts": {{"budget": {HUGE}}}}}}}'),
        ("k.set", f'{{"k": {HUGE}}}'),
        ("events", f'{{"since": {HUGE}}}'),
        ("flows.get", f'{{"cookie": "{"9" * 5000}"}}'),
        ("pin", f'{{"cookie": "{"0" * 5000}", "arm": "bbr"}}'),
        ("k.set", f'{{"k": {"[" * 900}{"]" * 900}}}'),
        ("pool.set", f'{{"arms": {"[" * 500}{"]" * 500}}}'),
    ],
)
def test_what_no_program_can_hold_is_refused(
    control: Path, method: str, params: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = refusal(control, method, params)
    assert told["code"] == "invalid", told
    assert {"field", "value", "allowed"} <= told.keys()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
