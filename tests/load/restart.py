# SPDX-License-Identifier: Apache-2.0
"""Restarts of the daemon and of the API while clients ask: refused requests, lost choices, lost knowledge."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from pathlib import Path
from typing import Final

import httpx
import numpy as np
from support.steady_clients import SteadyClients

from load.blocks import Tell
from load.service import Service, Wanted, sockets
from load.stream import FIRST_COOKIE

LEARN_S: Final = 10.0
CLIENTS: Final = 8
ANSWERS: Final = 200
POOL: Final = ("bbr", "cubic", "vegas", "ltp")


def measure(wanted: Wanted, restarts: int, tell: Tell) -> dict[str, object]:
    """Answers by status, and whether choices and learned state are the same after each restart."""
    with sockets(wanted) as running, running.client() as client:
        with running.run_daemon():
            with running.run_api():
                tell(f"learning for {LEARN_S:g} s")
                time.sleep(LEARN_S)
                _choose(client)
                chosen = _choices(client)
            found = {"restarts of the API": _restart_api(running, restarts, tell)}
        state = wanted.folder / "state" / "state.npz"
        learned = _arrays(state)
        found["restarts of the daemon"] = _restart_daemon(running, restarts, tell)
        kept = _arrays(state)
        with running.run_daemon(), running.run_api():
            same = _choices(client) == chosen
    return {
        **found,
        "choices the same": same,
        "arrays of learned state": len(learned),
        "arrays that differ": sum(not _same(learned[name], kept.get(name)) for name in learned),
        "values of learned state": _size(learned),
    }


def _choose(client: httpx.Client) -> None:
    # With the mode off the daemon decides nothing. So what it has learned has to stay as it is, bit by bit.
    for path, body in (
        ("/v1/pool", {"arms": list(POOL)}),
        ("/v1/k", {"k": 2}),
        (f"/v1/flows/{FIRST_COOKIE}/pin", {"arm": "vegas"}),
        ("/v1/mode", {"mode": "off"}),
    ):
        answer = client.put(path, json=body)
        assert answer.status_code == 200, answer.text


def _choices(client: httpx.Client) -> dict[str, object]:
    return {
        "pool": client.get("/v1/pool").json()["arms"],
        "k": client.get("/v1/k").json(),
        "mode": client.get("/v1/mode").json(),
        "pinned": client.get(f"/v1/flows/{FIRST_COOKIE}").json()["pinned"],
    }


def _restart_api(running: Service, restarts: int, tell: Tell) -> dict[str, object]:
    with contextlib.ExitStack() as opened:
        clients = None
        for turn in range(restarts + 1):
            tell(f"API, start {turn + 1}")
            with running.run_api():
                clients = clients or opened.enter_context(SteadyClients(running.api_path, CLIENTS))
                clients.wait_for(ANSWERS)
                if turn == restarts:
                    clients.stop()
    assert clients is not None
    return _told(clients)


def _restart_daemon(running: Service, restarts: int, tell: Tell) -> dict[str, object]:
    with contextlib.ExitStack() as opened:
        clients = None
        with contextlib.ExitStack() as api:
            for turn in range(restarts + 1):
                tell(f"daemon, start {turn + 1}")
                with running.run_daemon():
                    if clients is None:
                        api.enter_context(running.run_api())
                        clients = opened.enter_context(SteadyClients(running.api_path, CLIENTS))
                    clients.wait_for(ANSWERS)
                    if turn == restarts:
                        clients.stop()
    assert clients is not None
    return _told(clients)


def _told(clients: SteadyClients) -> dict[str, object]:
    answers = Counter(map(str, clients.answers))
    return {"answers": dict(answers), "slowest, s": round(clients.slowest_s, 2)}


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def _same(one: np.ndarray, other: np.ndarray | None) -> bool:
    return other is not None and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _size(arrays: dict[str, np.ndarray]) -> int:
    return sum(array.size for array in arrays.values())
