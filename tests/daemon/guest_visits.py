# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest: short flows to one prefix, while the real daemon learns from them."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from guest_waits import until

from ltp_switcher.daemon.control.client import ControlClient, ControlUnavailableError
from ltp_switcher.daemon.datapath import Datapath
from ltp_switcher.daemon.gain import outcomes
from ltp_switcher.daemon.service.state import FILE_NAME, read_state, write_state

CLIENT = ControlClient("/run/ltp-switcher/control.sock")
PREFIX = "127.0.0.0/24"
SHORT_BYTES = 100_000


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as server,
    ):
        yield client, server


def move(client: socket.socket, server: socket.socket) -> None:
    client.sendall(bytes(SHORT_BYTES))
    server.recv(SHORT_BYTES, socket.MSG_WAITALL)


def congestion(client: socket.socket) -> str:
    """The arm that the flow runs, as the kernel names it."""
    name = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode().removeprefix("m/")


def entry() -> np.void | None:
    """The table's entry for the prefix, if the daemon has written one with lots."""
    with Datapath() as kernel:
        table = kernel.starts()
    mine = table[(table["addr"][:, 0] == 127) & (table["bits"] == 24) & (table["generation"] != 0)]
    return mine[0] if len(mine) else None


def weighted() -> bool:
    found = entry()
    return found is not None and found["choice"]["arm"][1] != 0


def name_of(arm: int) -> str:
    return next(known["name"] for known in CLIENT.call("arms.list") if known["id"] == arm)


def visited() -> None:
    """A dozen visits of short flows are known, and saved."""
    for _ in range(12):
        with connected() as (client, server):
            move(client, server)
        time.sleep(1.1)
    until(lambda: state()["visits"] >= 12, state)
    # The daemon saves once a second.
    time.sleep(2.5)


def funded() -> None:
    """The purse has what thousands of flows earn, which would take hours here."""
    path = Path("/var/lib/ltp-switcher") / FILE_NAME
    arrays = read_state(path)
    assert arrays is not None, path
    arrays["visits.flows"] = arrays["visits.flows"] + 5000.0
    write_state(path, arrays)


def learning() -> None:
    """Short flows, and longer ones until a trial is drawn."""
    # The table still has the plan of the killed daemon, so a plan alone does not tell that this one runs.
    until(lambda: state()["visits"] >= 12, state)
    until(weighted, entry)
    stayed = moved = False
    for _ in range(60):
        with connected() as (client, server):
            began = congestion(client)
            cookie = int.from_bytes(client.getsockopt(socket.SOL_SOCKET, 57, 8), "little")
            # Both lots may begin on the same arm, so the daemon has to tell which one it is.
            time.sleep(0.2)
            drew = CLIENT.call("flows.get", cookie=str(cookie))["why"]["sentence"]
            is_trial = "drew the decision's own choice" not in drew
            if not is_trial and moved:
                move(client, server)
            else:
                for _ in range(30):
                    move(client, server)
                    time.sleep(0.1)
                flow = CLIENT.call("flows.get", cookie=str(cookie))
                if is_trial:
                    assert congestion(client) == began == flow["arm"], flow
                    assert flow["switches"] == 0, flow
                    assert f"drew {began} (chance 0." in flow["why"]["sentence"], flow["why"]
                    stayed = True
                else:
                    # The rule decides: it has left its first arm by now.
                    assert flow["switches"] > 0, flow
                    moved = True
        if is_trial:
            break
        time.sleep(1.1)
    assert stayed, "no visit drew the trial"
    assert moved, "no flow was the decision's"
    until(lambda: told(cookie) is not None)
    outcome = told(cookie)
    # Of two lots the trial has less than half of the weight; the generation names it in its second five bits.
    assert 0 < 2 * outcome["weight"] < outcome["weights"], outcome
    assert name_of(int(outcome["generation"]) >> 5 & 31) == began, outcome
    assert outcome["visit"] > 0, outcome
    assert outcome["arm"] == outcome["share_arm"][0], outcome
    known = state()
    assert known["visits"] >= 12, known
    # The daemon saves once a second.
    time.sleep(2.5)


def told(cookie: int) -> np.void | None:
    """The outcome of a flow in the daemon's log."""
    for rows in outcomes.read(Path("/var/lib/ltp-switcher/outcomes")):
        mine = rows["outcome"][rows["outcome"]["cookie"] == cookie]
        if len(mine) and mine[-1]["ended"]:
            return mine[-1]
    return None


def state() -> dict[str, float]:
    """What the daemon says of the prefix: 0 visits before it answers, as a killed one left its socket."""
    try:
        prefixes = CLIENT.call("visits.get", prefix=PREFIX)["prefixes"]
    except ControlUnavailableError:
        return {"visits": 0}
    return prefixes[0]


def restarted() -> None:
    """A new daemon knows the visits of the killed one. Its plan may have no further trial."""
    until(lambda: state()["visits"] >= 12, state)
    until(lambda: entry() is not None)


def selection() -> dict[str, object]:
    return CLIENT.call("mpts.status")["searches"][0]


def asked() -> bool:
    """Whether the entry has the arm of a pull. The highest bit of its generation tells so."""
    found = entry()
    return found is not None and int(found["generation"]) >> 31 == 1


def pulled() -> None:
    """A team selection by visits gets its first pull from the lots of short flows."""
    CLIENT.call("k.set", k=1, runtime=True)
    CLIENT.call("mpts.start", prefix=PREFIX, by="visits")
    arms = {arm["name"] for arm in CLIENT.call("arms.list") if arm["state"] == "available"} - {"spine"}
    assert selection()["log_ratio"].keys() == arms, selection()
    until(asked, entry)
    assert entry()["choice"]["weight"][1] == 32_767, entry()
    due = name_of(int(entry()["choice"]["arm"][1]))
    for _ in range(60):
        if selection()["pulls"]:
            break
        with connected() as (client, server):
            move(client, server)
        time.sleep(1.1)
    found = selection()
    assert found["pulls"] >= 1, found
    assert found["log_ratio"][due] is not None, (due, found)
    CLIENT.call("mpts.cancel")


def ended() -> None:
    """A daemon that ends takes its lots along."""
    assert entry() is None


if __name__ == "__main__":
    checks = {
        "visited": visited, "funded": funded, "learning": learning, "restarted": restarted,
        "pulled": pulled, "ended": ended,
    }  # fmt: skip
    checks[sys.argv[1]]()
    print(sys.argv[1], "ok")
