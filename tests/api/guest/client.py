# SPDX-License-Identifier: Apache-2.0
"""A client of the API: it makes every request once, and writes down the answers."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from pathlib import Path

import httpx

API = "/run/ltp-switcher-api/api.sock"
MANY_S = 60
transcript: dict[str, object] = {}


def keep(name: str, answer: httpx.Response) -> httpx.Response:
    """Write an answer down under a name."""
    kind = answer.headers["content-type"]
    body = answer.json() if "json" in kind else answer.text
    transcript[name] = {"status": answer.status_code, "type": kind, "body": body}
    return answer


def until(api: httpx.Client, path: str, wanted: object) -> httpx.Response:
    """Ask until the answer is as wanted, or for a good while."""
    give_up_s = time.monotonic() + MANY_S
    while True:
        answer = api.get(path)
        if wanted(answer) or time.monotonic() > give_up_s:
            return answer
        time.sleep(0.2)


def main(daemon_pid: int, api_pid: int) -> None:
    """Talk to the API; end the daemon and the API on the way."""
    transcript["socket mode"] = stat.S_IMODE(os.stat(API).st_mode)  # noqa: PTH116
    api = httpx.Client(transport=httpx.HTTPTransport(uds=API), base_url="http://localhost", timeout=MANY_S)
    keep("flows", until(api, "/v1/flows", lambda a: a.json()["total"] == 2))
    keep("one of them by prefix", api.get("/v1/flows", params={"prefix": "127.0.0.3/32"}))
    cookie = transcript["one of them by prefix"]["body"]["flows"][0]["cookie"]

    keep("pin", api.put(f"/v1/flows/{cookie}/pin", json={"arm": "vegas"}))
    flow = f"/v1/flows/{cookie}"
    keep("flow pinned", until(api, flow, lambda a: a.json()["arm"] == "vegas"))
    before = api.get(flow).json()["delivered_pkts"]
    keep("flow goes on", until(api, flow, lambda a: a.json()["delivered_pkts"] > before + 100))
    keep("unpin", api.delete(f"/v1/flows/{cookie}/pin"))
    keep("flow switched", until(api, flow, lambda a: a.json()["switches"] > 5))

    keep("arms", api.get("/v1/arms"))
    keep("pool", api.get("/v1/pool"))
    keep("set pool", api.put("/v1/pool", json={"arms": ["cubic", "bbr"]}))
    keep("k", api.get("/v1/k"))
    keep("set k", api.put("/v1/k", json={"k": 1}))
    keep("start mpts", api.post("/v1/mpts", json={"prefix": "127.0.0.0/24"}))
    keep(
        "mpts",
        until(api, "/v1/mpts", lambda a: sum(s["pulls"] for s in a.json()["searches"]) or a.json()["teams"]),
    )
    keep("mode", api.get("/v1/mode"))
    keep("set mode", api.put("/v1/mode", json={"mode": "advise"}))
    keep("status", api.get("/v1/status"))
    keep("health", api.get("/health"))
    keep("metrics", api.get("/metrics"))
    keep("openapi", api.get("/v1/openapi.json"))

    keep("unknown flow", api.get("/v1/flows/999999"))
    keep("unknown arm", api.put(f"/v1/flows/{cookie}/pin", json={"arm": "cubik"}))
    keep("unavailable arm", api.put(f"/v1/flows/{cookie}/pin", json={"arm": "spine"}))
    keep("bad k", api.put("/v1/k", json={"k": 0}))
    keep("unknown path", api.get("/v1/nothing"))

    os.kill(daemon_pid, signal.SIGTERM)
    keep("no daemon", until(api, "/health", lambda a: a.status_code == 503))
    api.close()
    os.kill(api_pid, signal.SIGTERM)
    Path("/tmp/transcript.json").write_text(json.dumps(transcript))  # noqa: S108


main(int(sys.argv[1]), int(sys.argv[2]))
