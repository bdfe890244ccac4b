# SPDX-License-Identifier: Apache-2.0
"""The status of the running daemon."""

from pathlib import Path

import pytest
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.control.families import from_json
from ltp_switcher.daemon.settings.gain import GainSection
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


@pytest.mark.parametrize(("log_mb", "told"), [(1, (30, 12)), (0, (0, 0))])
def test_rows_that_the_logs_disk_refused_are_told(
    log_mb: int, told: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "s"
    section = DaemonSection(policy="keep", control_socket=str(socket), state_dir=str(tmp_path))
    config = Config(daemon=section, gain=GainSection(log_mb=log_mb))
    daemon = make_daemon(Kernel(flow(7)), config, monkeypatch)
    if daemon.engine.spans is not None and daemon.engine.spans.log is not None:
        daemon.engine.spans.log.logged, daemon.engine.spans.log.dropped = 30, 12
    with running(daemon), ControlClient(socket) as client:
        status = client.call("status")
        families = from_json(client.call("metrics"))
    assert isinstance(status, dict)
    assert (status["log_rows_written"], status["log_rows_dropped"]) == told
    (rows,) = [family for family in families if family.name == "ltp_switcher_log_rows"]
    assert {sample.labels["result"]: sample.value for sample in rows.samples} == dict(
        zip(("written", "dropped"), told, strict=True)
    )
