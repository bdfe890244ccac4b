# SPDX-License-Identifier: Apache-2.0
"""The real daemon on the real kernel: it steers, it may be killed, it comes back, it leaves no trace."""

from pathlib import Path

import pytest
from support.daemon_lab import boot_with_daemon
from support.module_lab import EACH_KERNEL

HERE = Path(__file__).parent
CONFIG = """
[daemon]
mode = "active"
policy = "random"
save_interval_s = 1.0
[kernel]
take_default = true
watchdog_ms = 500
[mpts]
enabled = false
budget = 11
share = 1.0
settle_rtts = 0.5
measure_rtts = 2.0
"""
RESTARTED = CONFIG.replace("[mpts]", '[pool]\narms = ["bbr", "cubic"]\nk = 1\n[mpts]')
COMPARING = CONFIG.replace('"random"', '"rule"').replace("enabled = false", "enabled = true")
SCRIPT = """
sysctl -qw net.ipv4.tcp_congestion_control=reno
default() { cat /proc/sys/net/ipv4/tcp_congestion_control; }
state=/var/lib/ltp-switcher
start_daemon /lab/daemon.toml
traffic 3 60
sleep 1.5
python3 /lab/checks.py steering
switcher flows
switcher doctor | grep -v "^fail  encoder" | tail -4
# The log gathers its rows for a second.
sleep 2.2
switcher outcomes --terse | grep -q "^127.0.0.0/24"

kill -9 $daemon
sleep 1.2
python3 /lab/checks.py killed
test -s $state/state.npz
test "$(cat $state/replaced-congestion-control)" = reno

start_daemon /lab/restarted.toml
python3 /lab/checks.py restarted
grep "restored the learned state" /run/lab/daemon.log
cp $state/state.npz /run/good
kill -TERM $daemon
wait $daemon
echo "stopped with $?"
echo "default $(default)"
test ! -e $state/replaced-congestion-control
test ! -e /run/ltp-switcher/control.sock

# A corrupt file is set aside; an administrator's choice, made meanwhile, stands.
head -c 400 /run/good >$state/state.npz
start_daemon /lab/restarted.toml
while [ "$(default)" != mutant ]; do sleep 0.02; done
sysctl -qw net.ipv4.tcp_congestion_control=cubic
grep "starting afresh" /run/lab/daemon.log
ls $state | grep corrupt
kill -HUP $daemon
kill -TERM $daemon
wait $daemon
echo "default $(default)"

# The rule's flows compare its arm with others. What they find binds no flow.
start_daemon /lab/comparing.toml
python3 /lab/checks.py comparing
switcher mpts
kill -TERM $daemon
wait $daemon
# The flows outlive the daemons: how long a daemon takes to start differs by kernel.
kill $traffic
"""


@pytest.mark.lab
@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_life_of_the_daemon(kernel: str, tmp_path: Path) -> None:
    overlay = {
        "lab/checks.py": HERE / "guest_checks.py",
        "lab/restarted.toml": RESTARTED.encode(),
        "lab/comparing.toml": COMPARING.encode(),
    }
    result = boot_with_daemon(SCRIPT, tmp_path, config=CONFIG, kernel=kernel, overlay=overlay)
    assert result.exit_code == 0
    assert not result.warnings
    for expected in (
        "steering ok",
        "killed ok",
        "restarted ok",
        "comparing ok",
        "stopped with 0",
        "default reno",
        "default cubic",
    ):
        assert expected in result.console
