# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow on the real kernel: short flows, lots, a flow that stays, a restart, a pull."""

from pathlib import Path

import pytest
from support.daemon_lab import boot_with_daemon
from support.module_lab import EACH_KERNEL

HERE = Path(__file__).parent
CONFIG = """
[daemon]
mode = "active"
save_interval_s = 1.0
[rule]
start_s = 0.5
[kernel]
take_default = true
[visits]
learn = "on"
"""
SCRIPT = """
ip link set lo up
start_daemon /lab/daemon.toml
python3 /lab/checks.py visited
kill -9 $daemon
wait $daemon || true
python3 /lab/checks.py funded
start_daemon /lab/daemon.toml
python3 /lab/checks.py learning
switcher visits | grep "^127.0.0.0/24"
kill -9 $daemon
wait $daemon || true
start_daemon /lab/daemon.toml
python3 /lab/checks.py restarted
grep "restored the learned state" /run/lab/daemon.log
python3 /lab/checks.py pulled
kill -TERM $daemon
wait $daemon
python3 /lab/checks.py ended
! grep Traceback /run/lab/daemon.log
"""


@pytest.mark.lab
@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_short_flows_lead_to_lots_and_a_drawn_flow_stays_on_its_arm(kernel: str, tmp_path: Path) -> None:
    overlay = {"lab/checks.py": HERE / "guest_visits.py"}
    result = boot_with_daemon(SCRIPT, tmp_path, config=CONFIG, kernel=kernel, overlay=overlay)
    assert result.exit_code == 0
    assert not result.warnings
    for expected in ("funded ok", "learning ok", "restarted ok", "pulled ok", "ended ok"):
        assert expected in result.console
