# SPDX-License-Identifier: Apache-2.0
"""Learned arms on the real kernel: flows obey the daemon, and are safe without it."""

from pathlib import Path

import pytest
from support.daemon_lab import boot_with_daemon
from support.module_lab import EACH_KERNEL

HERE = Path(__file__).parent
# The policy `keep` would make steps as long as the arms' intervals, 30 ms. `random` has one arm to draw here.
CONFIG = """
[daemon]
mode = "active"
policy = "random"
[kernel]
default_arm = "ltp"
watchdog_ms = 500
[pool]
arms = ["ltp"]
"""
SCRIPT = """
mkdir -p /run/ltp-switcher
python3 /lab/learned.py daemon run --config /lab/daemon.toml >/run/lab/daemon.log 2>&1 &
daemon=$!
while [ ! -S /run/ltp-switcher/control.sock ]; do kill -0 $daemon; sleep 0.05; done
traffic 2 60
sleep 1.5
python3 /lab/learned.py driven
python3 /lab/learned.py advised
kill -9 $daemon
sleep 1
python3 /lab/learned.py killed
kill $traffic
"""


@pytest.mark.lab
@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_flows_obey_and_outlive_the_daemon(kernel: str, tmp_path: Path) -> None:
    overlay = {"lab/learned.py": HERE / "guest_learned.py"}
    result = boot_with_daemon(SCRIPT, tmp_path, config=CONFIG, kernel=kernel, overlay=overlay)
    assert result.exit_code == 0
    assert not result.warnings
    assert "driven ok" in result.console
    assert "advised ok" in result.console
    assert "killed ok" in result.console
