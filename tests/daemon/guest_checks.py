# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest: asks the real daemon over its control socket, and the kernel over netlink."""

import socket
import sys
import time
from pathlib import Path
from typing import TypeVar

from guest_waits import until, until_it_falls_back, until_it_moves

from ltp_switcher.daemon.control.client import (
    ControlClient,
    ControlInvalidError,
    ControlNotFoundError,
    ControlUnavailableError,
    Json,
)
from ltp_switcher.daemon.control.families import from_json
from ltp_switcher.daemon.datapath import Datapath, protocol

E = TypeVar("E", bound=Exception)
SYSCTL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
CLIENT = ControlClient("/run/ltp-switcher/control.sock")


def refused(kind: type[E], method: str, **params: Json) -> E:
    try:
        CLIENT.call(method, **params)
    except kind as error:
        return error
    raise AssertionError(f"{method} {params} was not refused")


def steering() -> None:
    """Three flows are switched while they carry data; every control method answers."""
    status = CLIENT.call("status")
    assert status["mode"] == "active"
    assert status["flows"] == 3, status
    assert SYSCTL.read_text().strip() == "mutant"
    first = {flow["cookie"]: flow for flow in CLIENT.call("flows.list")}
    assert len(first) == 3
    time.sleep(1)
    for cookie, flow in {f["cookie"]: f for f in CLIENT.call("flows.list")}.items():
        assert flow["switches"] > first[cookie]["switches"], flow
        assert flow["acked_bytes"] > first[cookie]["acked_bytes"]
        assert flow["remote"].startswith("10.2.0.")
        assert flow["min_rtt_ms"] >= 20
        assert abs(sum(flow["arm_share"].values()) - 1) < 1e-3
        assert flow["goodput_mbps"] > 0.1
    status = CLIENT.call("status")
    assert status["steps"] > 50
    assert status["flows"] == 3

    cookie = next(iter(first))
    CLIENT.call("pin", cookie=cookie, arm="vegas")
    until(lambda: CLIENT.call("flows.get", cookie=cookie)["arm"] == "vegas")
    pinned = CLIENT.call("flows.get", cookie=cookie)
    assert pinned["pinned"]
    time.sleep(0.3)
    assert CLIENT.call("flows.get", cookie=cookie)["switches"] == pinned["switches"]
    CLIENT.call("unpin", cookie=cookie)
    until(lambda: CLIENT.call("flows.get", cookie=cookie)["switches"] > pinned["switches"])

    error = refused(ControlInvalidError, "pin", cookie=cookie, arm="vegass")
    assert error.field == "arm"
    assert "did you mean vegas" in error.allowed
    refused(ControlInvalidError, "pin", cookie=cookie, arm="ltp" if unavailable("ltp") else "dctcp")
    refused(ControlInvalidError, "pin", cookie="x", arm="bbr")
    refused(ControlNotFoundError, "pin", cookie="999999", arm="bbr")
    refused(ControlNotFoundError, "flows.get", cookie="999999")
    refused(ControlInvalidError, "pool.set", arms=[])
    refused(ControlInvalidError, "no.such")

    CLIENT.call("pool.set", arms=["bbr", "cubic"])
    assert CLIENT.call("pool.get")["arms"] == ["bbr", "cubic"]
    until(lambda: {flow["want_arm"] for flow in CLIENT.call("flows.list")} <= {"bbr", "cubic"})

    CLIENT.call("mode.set", mode="advise")
    # A command that waits for an ACK is carried out yet, and the list shows it a step later.
    time.sleep(0.5)
    until(lambda: all(flow["arm"] == flow["want_arm"] for flow in CLIENT.call("flows.list")))
    before = {flow["cookie"]: flow["switches"] for flow in CLIENT.call("flows.list")}
    time.sleep(0.4)
    assert {flow["cookie"]: flow["switches"] for flow in CLIENT.call("flows.list")} == before
    CLIENT.call("mode.set", mode="active")
    assert CLIENT.call("mode.get") == {"mode": "active"}

    CLIENT.call("k.set", k=1)
    assert CLIENT.call("k.get") == {"k": 1}
    search = CLIENT.call("mpts.start")["searches"]
    assert [(s["k"], s["budget"]) for s in search] == [(1, 11)]
    until(lambda: not CLIENT.call("mpts.status")["running"])
    teams = CLIENT.call("mpts.status")["teams"]
    assert [team["prefix"] for team in teams] == ["10.2.0.0/24"], teams
    assert len(teams[0]["arms"]) == 1
    # Each flow takes the team at its own next decision.
    until(lambda: {flow["want_arm"] for flow in CLIENT.call("flows.list")} == set(teams[0]["arms"]))

    (flows,) = (f for f in from_json(CLIENT.call("metrics")) if f.name == "ltp_switcher_flows")
    assert [sample.value for sample in flows.samples] == [3]

    # A flow that lives and dies between two steps has an outcome.
    before = told()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as server,
    ):
        client.sendall(bytes(10_000))
        server.recv(10_000, socket.MSG_WAITALL)
    until(lambda: told() >= before + 2)


def told() -> float:
    """How many outcomes the module has told the daemon."""
    (found,) = (f for f in from_json(CLIENT.call("metrics")) if f.name == "ltp_switcher_outcomes")
    return next(sample.value for sample in found.samples if sample.labels["result"] == "told")


def unavailable(name: str) -> bool:
    return any(arm["name"] == name and arm["state"] != "available" for arm in CLIENT.call("arms.list"))


def killed() -> None:
    """Nobody steers: the kernel has sent every flow to the fallback arm, and they still carry data."""
    with Datapath() as kernel:
        flows = kernel.flows()
        assert len(flows) == 3
        fallback = kernel.config().fallback_arm
        for flow in flows:
            fallen = until_it_falls_back(kernel, flow)
            assert fallen.record["arm"][0] == fallback
            assert fallen.reason == protocol.FallbackReason.SESSION_ENDED
            until_it_moves(kernel, flow)
    assert SYSCTL.read_text().strip() == "mutant"


def listed() -> list[Json]:
    """The flows of the new daemon; none before it listens, because the killed one has left its socket."""
    try:
        return list(CLIENT.call("flows.list"))
    except ControlUnavailableError:
        return []


def restarted() -> None:
    """A new daemon takes the flows up again, with what the old one had learned."""
    # The daemon answers before its first look at the flows.
    until(lambda: len(listed()) == 3)
    # A flow that waits for an ACK takes its arm up when that comes.
    until(lambda: not any(flow["fallen_back"] for flow in CLIENT.call("flows.list")))
    assert CLIENT.call("status")["flows"] == 3


def comparing() -> None:
    """The rule's flows compare other arms with theirs, and find one to prefer, or none."""
    CLIENT.call("pool.set", arms=["bbr", "ltp", "vegas"])
    until(
        lambda: bool(CLIENT.call("mpts.status")["preferences"]),
        lambda: (CLIENT.call("mpts.status"), CLIENT.call("flows.list")), patience_s=40.0,
    )  # fmt: skip
    (found,) = CLIENT.call("mpts.status")["preferences"]
    assert found["prefix"] == "10.2.0.0/24", found
    assert set(found["log_ratio"]) == {"bbr", "ltp", "vegas"}
    assert found["arm"] is None or found["log_ratio"][found["arm"]] > 0.1
    assert 500 < found["left_s"] <= 600
    assert CLIENT.call("mpts.status")["teams"] == []


if __name__ == "__main__":
    {"steering": steering, "killed": killed, "restarted": restarted, "comparing": comparing}[sys.argv[1]]()
    print(sys.argv[1], "ok")
