# SPDX-License-Identifier: Apache-2.0
"""Network knowledge for real: counters of the bottleneck, the agent, the daemon, a learned arm."""

from pathlib import Path

import pytest
from support.daemon_lab import boot_with_daemon

CONFIG = """
[daemon]
mode = "active"
policy = "keep"
[kernel]
default_arm = "owl"
[pool]
arms = ["owl"]
[learned]
owl_network_urls = ["http://127.0.0.1:9481"]
"""
SCRIPT = """
mkdir -p /run/ltp-switcher
ip link set lo up
tc qdisc add dev lo root pfifo
python3 -m ltp_switcher.api.network_agent.main --node lablink:/dev/lablink@12 --node qdisc:lo@1000 \\
    --path-nodes 5 >/run/lab/agent.log 2>&1 &
agent=$!
python3 /lab/checks.py daemon run --config /lab/daemon.toml >/run/lab/daemon.log 2>&1 &
daemon=$!
while [ ! -S /run/ltp-switcher/control.sock ]; do kill -0 $daemon; sleep 0.05; done
python3 -m ltp_switcher.daemon.cli network --config /lab/daemon.toml >/run/lab/relay.log 2>&1 &
relay=$!
until grep -q "network knowledge on" /run/lab/agent.log; do kill -0 $agent; sleep 0.05; done
traffic 1 60
sleep 5
python3 /lab/checks.py heard || { cat /run/lab/agent.log /run/lab/daemon.log; exit 1; }
kill -TERM $agent
wait $agent || echo "agent ended with $?"
python3 /lab/checks.py masked
grep "masked until it answers" /run/lab/relay.log
kill -TERM $relay
wait $relay
kill $traffic
kill -TERM $daemon
wait $daemon
! grep Traceback /run/lab/agent.log /run/lab/daemon.log /run/lab/relay.log
"""


@pytest.mark.lab
def test_the_bottlenecks_counters_reach_the_arm_and_are_masked_when_the_agent_dies(tmp_path: Path) -> None:
    overlay = {"lab/checks.py": Path(__file__).with_name("guest_network.py")}
    result = boot_with_daemon(SCRIPT, tmp_path, config=CONFIG, overlay=overlay, python="service")
    assert result.exit_code == 0
    assert not result.warnings
    assert "heard ok" in result.console
    assert "masked ok" in result.console
