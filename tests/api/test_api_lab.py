# SPDX-License-Identifier: Apache-2.0
"""The API as it runs on a server: real kernel, real flows, real daemon, real HTTP client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ltp_switcher.api.problems import MEDIA_TYPE, URN
from ltp_switcher.eval.lab import boot

pytestmark = pytest.mark.lab

GUEST = Path(__file__).resolve().parent / "guest"
SCRIPT = """
set -e
insmod /lib/mutant/tcp_mutant.ko
# An arm that cannot be had.
rm /usr/lib/python3/dist-packages/ltp_switcher/policies/spine/spine.npz
ip link set lo mtu 1500
ethtool -K lo tso off gso off gro off
tc qdisc add dev lo root netem delay 5ms rate 8mbit limit 40
mkdir -p /run/ltp-switcher /run/ltp-switcher-api
wait_for() { while [ ! -S "$1" ]; do kill -0 $2 || { cat /tmp/$3.log; exit 1; }; sleep 0.1; done; }
python3 -m ltp_switcher.daemon.cli run --mode active --policy random --set daemon.state_dir= \\
    --set mpts.budget=12 >/tmp/daemon.log 2>&1 &
daemon=$!
wait_for /run/ltp-switcher/control.sock $daemon daemon
python3 -m ltp_switcher.api.main >/tmp/api.log 2>&1 &
api=$!
wait_for /run/ltp-switcher-api/api.sock $api api
python3 /opt/tests/traffic.py &
traffic=$!
python3 /opt/tests/client.py $daemon $api || { cat /tmp/daemon.log /tmp/api.log; exit 1; }
wait $daemon
wait $api
kill -9 $traffic
test ! -e /run/ltp-switcher-api/api.sock
test ! -e /run/ltp-switcher/control.sock
! grep -q Traceback /tmp/daemon.log /tmp/api.log || { cat /tmp/daemon.log /tmp/api.log; exit 1; }
"""


@pytest.fixture(scope="module")
def transcript() -> dict[str, Any]:
    """What a client in the guest asked and was answered, by name; see guest/client.py."""
    result = boot(
        script=SCRIPT,
        overlay={f"opt/tests/{path.name}": path for path in GUEST.glob("*.py")},
        collect=["/tmp/transcript.json"],  # noqa: S108
        python="service",
        modules=("sch_netem", "tcp_bbr", "tcp_vegas"),
    )
    assert result.ok, result.console
    assert result.warnings == ()
    print(f"{result.virtual_s:.0f} virtual seconds in {result.wall_s:.0f} s")
    return json.loads(result.files["/tmp/transcript.json"])  # noqa: S108


def ok(transcript: dict[str, Any], name: str, status: int = 200) -> dict[str, Any]:
    """The body of an answer that has the status and is JSON."""
    answer = transcript[name]
    assert (answer["status"], answer["type"]) == (status, "application/json"), answer
    return answer["body"]


def problem(transcript: dict[str, Any], name: str, status: int, kind: str) -> dict[str, Any]:
    """The problem in an answer."""
    answer = transcript[name]
    assert (answer["status"], answer["type"]) == (status, MEDIA_TYPE), answer
    assert answer["body"]["type"] == URN + kind
    return answer["body"]


def test_socket_mode(transcript: dict[str, Any]) -> None:
    assert transcript["socket mode"] == 0o660


def test_flows_are_the_kernels(transcript: dict[str, Any]) -> None:
    page = ok(transcript, "flows")
    assert sorted(flow["remote"] for flow in page["flows"]) == ["127.0.0.2:5001", "127.0.0.3:5001"]
    (flow,) = ok(transcript, "one of them by prefix")["flows"]
    assert flow["remote"] == "127.0.0.3:5001"
    assert flow["family"] == "ipv4"


def test_pinned_flow_runs_its_arm_and_goes_on(transcript: dict[str, Any]) -> None:
    assert ok(transcript, "pin")["pinned"] is True
    pinned = ok(transcript, "flow pinned")
    assert (pinned["arm"], pinned["pinned"]) == ("vegas", True)
    later = ok(transcript, "flow goes on")
    assert later["arm"] == "vegas"
    assert later["delivered_pkts"] > pinned["delivered_pkts"]
    # Two flows share 8 Mbit/s, and data and ACKs pass 5 ms of delay each way.
    assert later["min_rtt_ms"] >= 10
    assert 0 < later["goodput_mbps"] < 9


def test_unpinned_flow_is_switched_again(transcript: dict[str, Any]) -> None:
    assert ok(transcript, "unpin")["pinned"] is False
    flow = ok(transcript, "flow switched")
    assert flow["switches"] > 5
    assert len(flow["arm_share"]) > 1
    assert sum(flow["arm_share"].values()) == pytest.approx(1, abs=1e-4)


def test_arms_and_pool(transcript: dict[str, Any]) -> None:
    arms = {arm["name"]: arm["state"] for arm in ok(transcript, "arms")["arms"]}
    assert (arms["cubic"], arms["bbr"], arms["vegas"]) == ("available", "available", "available")
    kernels = [arm["name"] for arm in ok(transcript, "arms")["arms"] if arm["kind"] == "kernel"]
    available = [name for name in kernels if arms[name] == "available"]
    assert ok(transcript, "pool")["arms"] == available
    assert ok(transcript, "set pool")["arms"] == ["cubic", "bbr"]


def test_team_selection(transcript: dict[str, Any]) -> None:
    # The pool has two arms by now, whatever k was before.
    assert ok(transcript, "k")["k"] == 2
    assert ok(transcript, "set k")["k"] == 1
    assert ok(transcript, "start mpts", 202)["running"] is True
    found = ok(transcript, "mpts")
    (selection,) = found["searches"] + found["teams"]
    assert selection["prefix"].startswith("127.0.0.0/24")
    assert selection.get("pulls", 12) > 0, "real flows pull"


def test_mode_status_health(transcript: dict[str, Any]) -> None:
    assert ok(transcript, "mode") == {"mode": "active"}
    assert ok(transcript, "set mode")["mode"] == "advise"
    status = ok(transcript, "status")
    assert (status["mode"], status["flows"], status["busy"]) == ("advise", 2, True)
    assert status["steps"] > 10
    assert ok(transcript, "health")["ready"] is True


def test_metrics(transcript: dict[str, Any]) -> None:
    answer = transcript["metrics"]
    assert answer["status"] == 200
    assert answer["type"].startswith("text/plain; version=")
    assert "ltp_switcher_flows 2.0" in answer["body"].splitlines()


def test_openapi(transcript: dict[str, Any]) -> None:
    assert ok(transcript, "openapi")["openapi"].startswith("3.1")


def test_problems(transcript: dict[str, Any]) -> None:
    problem(transcript, "unknown flow", 404, "not-found")
    problem(transcript, "unknown path", 404, "unknown-path")
    assert problem(transcript, "bad k", 422, "invalid-value")["field"] == "k"
    unknown = problem(transcript, "unknown arm", 422, "invalid-value")
    assert (unknown["field"], unknown["value"]) == ("arm", "cubik")
    assert "bbr" in unknown["allowed"]
    assert "is unavailable" in problem(transcript, "unavailable arm", 422, "invalid-value")["detail"]


def test_daemon_down(transcript: dict[str, Any]) -> None:
    problem(transcript, "no daemon", 503, "daemon-unavailable")
