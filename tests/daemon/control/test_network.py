# SPDX-License-Identifier: Apache-2.0
"""Reports of the network reach the daemon from a process of their own, and the daemon checks them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.control.client import ControlClient, ControlInvalidError
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.schema import Config, DaemonSection
from ltp_switcher.daemon.steer import path_signals
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

PATIENCE_S = 60


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    section = DaemonSection(policy="keep", control_socket=str(tmp_path / "s"), state_dir="", mode="advise")
    return make_daemon(Kernel(flow(7)), Config(daemon=section), monkeypatch)


def test_what_is_told_counts_until_it_is_stale_or_withdrawn(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(daemon), ControlClient(tmp_path / "s") as client:
        assert daemon.network.latest() is None
        client.call("network.tell", pnc_pkts=12, pna=0.25, known=0.2)
        assert daemon.network.latest() == NetworkKnowledge(12.0, 0.25, 0.2)
        client.call("network.tell")
        assert daemon.network.latest() is None
    now_s = 1000.0
    monkeypatch.setattr(path_signals.time, "monotonic", lambda: now_s)
    daemon.network.take(NetworkKnowledge(12.0, 0.25, 0.2))
    now_s += 2.9
    assert daemon.network.latest() is not None
    now_s += 0.2
    assert daemon.network.latest() is None


@pytest.mark.parametrize(
    "params",
    [
        {"pnc_pkts": 1.0},
        {"pnc_pkts": "1", "pna": 0.5, "known": 1.0},
        {"pnc_pkts": True, "pna": 0.5, "known": 1.0},
        {"pnc_pkts": 1.0, "pna": 7.0, "known": 1.0},
        {"pnc_pkts": 1.0, "pna": 0.5, "known": 1.0, "more": 1},
    ],
)
def test_nonsense_is_refused(daemon: Daemon, tmp_path: Path, params: dict[str, object]) -> None:
    with running(daemon), ControlClient(tmp_path / "s") as client:
        with pytest.raises(ControlInvalidError):
            client.call("network.tell", **params)  # type: ignore[arg-type]
        assert daemon.network.latest() is None


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"pnc_pkts": 9, "pna": 0.5, "known": 1, "age_s": 0.1}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def agent() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_process_brings_an_agents_answer_to_the_daemon(
    daemon: Daemon, agent: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[daemon]\ncontrol_socket = "{tmp_path / "s"}"\n[learned]\nowl_network_urls = ["{agent}"]\n'
    )
    program = [sys.executable, "-m", "ltp_switcher.daemon.cli", "network", "--config", str(config)]
    with running(daemon), subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        deadline_s = time.monotonic() + PATIENCE_S
        while daemon.network.latest() is None and time.monotonic() < deadline_s:
            time.sleep(0.02)
        known = daemon.network.latest()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert known == NetworkKnowledge(9.0, 0.5, 1.0)
    assert (process.returncode, "Traceback" in said) == (0, False)


def test_without_agents_it_ends_at_once(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("")
    program = [sys.executable, "-m", "ltp_switcher.daemon.cli", "network", "--config", str(config)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0
    assert "names no agents" in done.stderr
