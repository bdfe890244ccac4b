# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.api_client import Ask, asker
from support.fake_kernel import Kernel
from support.records import NETNS, flow
from support.running_daemon import make_daemon, running
from support.told import outcome

from ltp_switcher.daemon.settings.schema import Config, DaemonSection, VisitsSection


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(flow(1))


@pytest.fixture
def ask(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """The API before a daemon that learns."""
    monkeypatch.setattr("ltp_switcher.daemon.datapath.netlink.own_namespace", lambda: NETNS)
    path = tmp_path / "control.sock"
    section = DaemonSection(control_socket=str(path), state_dir=str(tmp_path), mode="active")
    config = Config(daemon=section, visits=VisitsSection("on"))
    kernel.told = outcome(visit=1, netns=NETNS, time_ns=time.monotonic_ns())
    daemon = make_daemon(kernel, config, monkeypatch)
    with running(daemon):
        daemon.engine._look_at_ns = 0
        yield asker(path)
    daemon.engine.close()


def test_a_known_prefix_has_a_plan_and_effects(ask: Ask) -> None:
    for _ in range(200):
        told = ask("GET", "/v1/visits").json()
        if told["known"]:
            break
    assert told["learn"]
    assert told["arms"] == ["cubic", "bbr", "vegas"]
    (found,) = told["prefixes"]
    assert (found["prefix"], found["incumbent"], found["trial"]) == ("192.0.2.0/24", "decision", None)
    assert found["effects"].keys() == {"cubic", "bbr", "vegas"}
    effect = found["effects"]["bbr"]
    assert effect["lower"] < effect["mean"] < effect["upper"]
    assert ask("GET", "/v1/visits?prefix=192.0.2.77").json()["prefixes"][0]["prefix"] == "192.0.2.0/24"
    assert ask("GET", "/v1/visits?prefix=198.51.100.7").json()["prefixes"] == []
    lines = ask("GET", "/metrics").text.splitlines()
    assert "ltp_switcher_visits_prefixes 1.0" in lines
    assert "ltp_switcher_visits_hosts 0.0" in lines
    assert (told["known"], told["hosts"]) == (1, 0)
    assert (told["path_changes"], found["path_changes"]) == (0, 0)
    assert "ltp_switcher_visits_path_changes_total 0.0" in lines
    assert (told["surprises"], found["surprises"]) == (0, 0)
    assert "ltp_switcher_visits_surprises_total 0.0" in lines


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "prefix=10.0.0.0/8", "prefix=x"])
def test_other_questions_are_refused(ask: Ask, query: str) -> None:
    refused = ask("GET", f"/v1/visits?{query}")
    assert (refused.status_code, refused.json()["field"]) == (422, query.split("=")[0])


def test_a_team_is_picked_by_visits(ask: Ask) -> None:
    while not ask("GET", "/v1/visits").json()["known"]:
        pass
    body = {"prefix": "192.0.2.77", "by": "visits"}
    refused = ask("POST", "/v1/mpts", json=body).json()
    assert (refused["field"], refused["value"], refused["allowed"]) == (
        "pool.k", 3, "1 to 2, less than the 3 arms that can begin a flow",
    )  # fmt: skip
    ask("PUT", "/v1/k", json={"k": 1})
    started = ask("POST", "/v1/mpts", json=body)
    assert started.status_code == 202
    (search,) = started.json()["searches"]
    assert {name: search[name] for name in ("prefix", "k", "method", "pulls", "budget", "cost_flows")} == {
        "prefix": "192.0.2.0/24", "k": 1, "method": "visits", "pulls": 0, "budget": 100, "cost_flows": 0.0,
    }  # fmt: skip
    assert search["log_ratio"] == dict.fromkeys(("cubic", "bbr", "vegas"))
    assert (search["mean_reward"], search["half_width"]) == ({}, {})
    assert ask("GET", "/v1/mpts").json() == started.json()
    ended = ask("DELETE", "/v1/mpts").json()
    assert (ended["running"], ended["searches"]) == (False, [])
    assert ended["given_up"] == [{**search, "reason": "it was cancelled"}]
    told = ask("GET", "/v1/changes").json()["changes"]
    assert [(one["what"], one["after"]) for one in told[:2]] == [
        ("team selection for all prefixes", "cancelled"),
        ("team selection by visits for 192.0.2.0/24", "started"),
    ]


@pytest.mark.parametrize(
    ("prefix", "allowed"),
    [
        (None, "one prefix, for a selection by visits"),
        ("198.51.100.0/24", "a prefix that `ltp-switcher visits` shows"),
        ("10.0.0.0/8", "an address, or a network of at least 24 bits"),
    ],
)
def test_a_selection_by_visits_needs_a_known_prefix(ask: Ask, prefix: str | None, allowed: str) -> None:
    refused = ask("POST", "/v1/mpts", json={"prefix": prefix, "by": "visits"})
    found = refused.json()
    assert (refused.status_code, found["field"], found["value"]) == (422, "prefix", prefix)
    assert allowed in found["allowed"]
