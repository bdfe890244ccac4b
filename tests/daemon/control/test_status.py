# SPDX-License-Identifier: Apache-2.0
"""The status of the running daemon."""

from pathlib import Path

import pytest
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.settings.schema import Config, DaemonSection


@pytest.mark.parametrize(("policy", "shown_ms"), [("rule", 50.0), ("random", 10.0)])
def test_the_step_is_the_one_in_force(
    policy: str, shown_ms: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "s"
    section = DaemonSection(policy=policy, control_socket=str(socket), state_dir=str(tmp_path))
    daemon = make_daemon(Kernel(flow(7)), Config(daemon=section), monkeypatch)
    with running(daemon), ControlClient(socket) as client:
        status = client.call("status")
    assert isinstance(status, dict)
    assert status["step_ms"] == shown_ms
