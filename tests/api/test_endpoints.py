# SPDX-License-Identifier: Apache-2.0
"""The answers of every endpoint when all is well."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.api_client import Ask
from support.fake_kernel import REMOTES, Kernel

from ltp_switcher.api.models import FLOW_EXAMPLE, Flow
from ltp_switcher.daemon.cli import show
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.client import ControlClient, Json


def test_flows_come_by_cookie(ask: Ask) -> None:
    page = ask("GET", "/v1/flows").json()
    assert [flow["cookie"] for flow in page["flows"]] == sorted(REMOTES, key=int)
    assert (page["total"], page["limit"], page["offset"]) == (3, 100, 0)


def test_flow_in_the_fields_units(ask: Ask) -> None:
    flow = ask("GET", "/v1/flows/4711").json()
    expected = {
        "cookie": "4711",
        "local": "192.0.2.1:40000",
        "remote": "198.51.100.7:443",
        "family": "ipv4",
        "arm": "cubic",
        "prev_arm": None,
        "pinned": False,
        "cwnd_pkts": 28,
        "ssthresh_pkts": None,
        "srtt_ms": 40.5,
        "rtt_ms": 41.0,
        "min_rtt_ms": 40.0,
        "delivery_rate_mbps": 8.0,
        "pacing_rate_mbps": None,
        "lost_pkts": 3,
        "retrans_pkts": 2,
        "delivered_pkts": 700,
        "acked_bytes": 1_000_000,
        "reordered": 2,
        "reordering_pkts": 5,
    }
    assert {name: flow[name] for name in expected} == expected


def test_flow_tells_what_sums_hide(ask: Ask) -> None:
    flow = ask("GET", "/v1/flows/4711").json()
    # Six ACKs of seven come at once. But most of the time passes in the gap of 16.4 to 32.8 ms before them.
    assert 16.384 < flow["ack_gap_ms"]["p50"] < flow["ack_gap_ms"]["p90"] < 32.768
    limits = {name: s for name, s in flow["limited_s"].items() if name != "application"}
    assert limits == {"window": 0.7, "receiver": 0.2, "send_buffer": 0.1}
    assert flow["queue_ms"] == {"there": 1.5, "back": 42.0}


def test_flow_of_an_older_module_tells_nothing_of_it(ask: Ask, kernel: Kernel) -> None:
    record = kernel.table[4711].record
    for name in (
        "busy_us",
        "receiver_us",
        "buffer_us",
        "ack_gaps",
        "reord_seen",
        "reordering",
        "there_us",
        "back_us",
    ):
        record[name] = 0
    flow = ask("GET", "/v1/flows/4711").json()
    assert [flow[name] for name in ("reordered", "reordering_pkts", "queue_ms", "limited_s")] == [None] * 4


@pytest.mark.parametrize(
    ("query", "cookies"),
    [
        ("limit=1", ["815"]),
        ("limit=1&offset=1", ["4711"]),
        ("offset=3", []),
        ("arm=cubic", ["815", "4711", "18446744073709551615"]),
        ("arm=bbr", []),
        ("arm=yeah", []),
        ("prefix=198.51.100.0/24", ["4711"]),
        ("prefix=2001:db8::/32", ["18446744073709551615"]),
        ("prefix=203.0.113.9", ["815"]),
        ("arm=cubic&prefix=0.0.0.0/0&limit=1", ["815"]),
    ],
)
def test_flows_are_filtered_then_paged(ask: Ask, query: str, cookies: list[str]) -> None:
    assert [flow["cookie"] for flow in ask("GET", f"/v1/flows?{query}").json()["flows"]] == cookies


def test_total_counts_all_pages(ask: Ask) -> None:
    assert ask("GET", "/v1/flows?limit=1&prefix=0.0.0.0/0").json()["total"] == 2


def test_pages_by_cursor(ask: Ask, control_socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = ask("GET", "/v1/flows?limit=2").json()
    assert [flow["cookie"] for flow in first["flows"]] == ["815", "4711"]
    assert first["next_cursor"] == "4711"
    last = ask("GET", "/v1/flows?limit=2&cursor=4711").json()
    assert [flow["cookie"] for flow in last["flows"]] == ["18446744073709551615"]
    assert (last["next_cursor"], last["total"]) == (None, 3)
    assert ask("GET", "/v1/flows?cursor=1&order=goodput").status_code == 422
    # The command line gives the same pages.
    command = ["flows", "--limit", "2", "--socket", str(control_socket), "--cursor"]
    assert main([*command, "4711", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert [flow["cookie"] for flow in page["flows"]] == ["18446744073709551615"]
    assert main([*command, "0", "--terse"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[:3] for line in lines] == [
        ["815", "203.0.113.9:443", "cubic"], ["4711", "198.51.100.7:443", "cubic"],
    ]  # fmt: skip
    assert main([*command, "0"]) == 0
    assert "--cursor 4711" in " ".join(capsys.readouterr().out.split())


def test_pin_and_unpin(ask: Ask) -> None:
    pinned = ask("PUT", "/v1/flows/4711/pin", json={"arm": "bbr"})
    assert pinned.status_code == 200
    assert (pinned.json()["arm"], pinned.json()["pinned"], pinned.json()["prev_arm"]) == (
        "bbr",
        True,
        "cubic",
    )
    assert [flow["cookie"] for flow in ask("GET", "/v1/flows?arm=bbr").json()["flows"]] == ["4711"]
    assert ask("DELETE", "/v1/flows/4711/pin").json()["pinned"] is False
    assert ask("DELETE", "/v1/flows/4711/pin").status_code == 200, "unpinning twice is no error"


def test_arms_say_why_not(ask: Ask) -> None:
    arms = {arm["name"]: arm for arm in ask("GET", "/v1/arms").json()["arms"]}
    assert arms["cubic"] == {"id": 1, "name": "cubic", "state": "available", "kind": "kernel", "reason": None}
    assert (arms["yeah"]["state"], arms["yeah"]["reason"]) == ("unavailable", "no such protocol")
    assert arms["dctcp"]["state"] == "refused"


def test_pool(ask: Ask) -> None:
    assert ask("GET", "/v1/pool").json()["arms"] == ["cubic", "bbr", "vegas"]
    assert ask("PUT", "/v1/pool", json={"arms": ["vegas", "bbr"]}).json()["arms"] == ["vegas", "bbr"]
    assert ask("GET", "/v1/pool").json()["arms"] == ["vegas", "bbr"]


def test_k(ask: Ask) -> None:
    assert ask("GET", "/v1/k").json() == {"k": 3}, "6 are set, but the pool has three arms"
    assert ask("GET", "/v1/status").json()["k"] == 3
    assert ask("PUT", "/v1/k", json={"k": 2}).json()["k"] == 2
    assert ask("GET", "/v1/k").json() == {"k": 2}


def test_k_says_where_no_team_selection_takes_it(ask: Ask) -> None:
    note = ask("PUT", "/v1/k", json={"k": 2}).json()["note"]
    assert "the policy random does not learn" in note
    assert "POST /v1/mpts" in note
    ask("PATCH", "/v1/config", json={"values": {"mpts": {"enabled": False}}})
    assert "mpts.enabled is false" in ask("PUT", "/v1/k", json={"k": 1}).json()["note"]


def test_k_says_where_the_pool_is_smaller(ask: Ask) -> None:
    answer = ask("PUT", "/v1/k", json={"k": 4}).json()
    assert answer["k"] == ask("GET", "/v1/k").json()["k"] == 3
    assert answer["note"].startswith("the pool has 3 arms, and no team is larger; no flow's arms change yet")


def test_mode(ask: Ask) -> None:
    assert ask("GET", "/v1/mode").json() == {"mode": "advise"}
    assert ask("PUT", "/v1/mode", json={"mode": "off"}).json()["mode"] == "off"
    assert ask("GET", "/v1/status").json()["mode"] == "off"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/flows/4711/pin", {"arm": "bbr"}),
        ("DELETE", "/v1/flows/4711/pin", None),
        ("PUT", "/v1/pool", {"arms": ["vegas", "bbr"]}),
        ("PUT", "/v1/k", {"k": 2}),
        ("PUT", "/v1/mode", {"mode": "off"}),
        ("POST", "/v1/mpts", {}),
    ],
)
def test_a_change_asks_the_daemon_once(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: object
) -> None:
    asked: list[str] = []
    call = ControlClient.call

    def counted(client: ControlClient, name: str, **params: Json) -> Json:
        asked.append(name)
        return call(client, name, **params)

    monkeypatch.setattr(ControlClient, "call", counted)
    assert ask(method, path, **({} if body is None else {"json": body})).is_success
    assert len(asked) == 1


def test_mpts(ask: Ask) -> None:
    assert ask("GET", "/v1/mpts").json() == {
        "running": False, "searches": [], "teams": [], "preferences": [], "given_up": [],
    }  # fmt: skip
    assert ask("PUT", "/v1/k", json={"k": 1}).status_code == 200
    started = ask("POST", "/v1/mpts", json={})
    assert started.status_code == 202
    assert started.json()["running"] is True
    assert {
        (search["k"], search["method"], search["cost_flows"]) for search in started.json()["searches"]
    } == {(1, "budget", None)}
    assert ask("POST", "/v1/mpts", json={"by": "round-trips"}).json()["running"] is True


def test_selections_are_cancelled_of_a_prefix_or_all(ask: Ask) -> None:
    ask("PUT", "/v1/k", json={"k": 1})
    running = {search["prefix"] for search in ask("POST", "/v1/mpts", json={}).json()["searches"]}
    one = next(prefix for prefix in running if prefix.startswith("198.51.100.0/24"))
    left = ask("DELETE", "/v1/mpts", params={"prefix": one}).json()["searches"]
    assert {search["prefix"] for search in left} == running - {one}
    refused = ask("DELETE", "/v1/mpts", params={"prefix": one})
    assert (refused.status_code, refused.json()["field"]) == (422, "prefix")
    assert ask("DELETE", "/v1/mpts").json()["running"] is False
    told = [(change["what"], change["after"]) for change in ask("GET", "/v1/changes").json()["changes"]]
    assert told[:2] == [
        ("team selection for all prefixes", "cancelled"), (f"team selection for {one}", "cancelled"),
    ]  # fmt: skip


def test_an_arm_is_loaded_and_the_journal_of_changes_says_so(ask: Ask) -> None:
    answer = ask("POST", "/v1/arms", json={"name": "yeah"})
    assert (answer.status_code, answer.json()["state"]) == (200, "available")
    assert ask("GET", "/v1/changes").json()["changes"][0]["what"] == "arm yeah"
    for name in ("", "a" * 16, 7):
        assert ask("POST", "/v1/arms", json={"name": name}).status_code == 422


def test_status_and_health(ask: Ask) -> None:
    status = ask("GET", "/v1/status").json()
    assert (status["flows"], status["policy"], status["step_ms"]) == (3, "random", 10.0)
    health = ask("GET", "/health")
    assert health.status_code == 200
    assert (health.json()["live"], health.json()["ready"], health.json()["mode"]) == (True, True, "advise")


def test_example_in_openapi_is_a_flow() -> None:
    assert Flow.model_validate(FLOW_EXAMPLE).model_dump(mode="json") == FLOW_EXAMPLE


def test_openapi_describes_every_endpoint(ask: Ask) -> None:
    document = ask("GET", "/v1/openapi.json").json()
    text = str(document)
    assert "HTTPValidationError" not in text
    for reference in re.findall(r"#/components/schemas/(\w+)", text):
        assert reference in document["components"]["schemas"]
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"]
            for status in ("400", "403", "408", "413", "415", "500", "502", "503"):
                assert "application/problem+json" in operation["responses"][status]["content"]


def test_the_command_line_has_a_terse_form(control_socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*command: str) -> list[list[str]]:
        assert main([*command, "--terse", "--socket", str(control_socket)]) == 0
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()]

    assert told("k") == [["k", "3"]]
    assert told("pool") == [["all others", "cubic, bbr, vegas"]]
    assert ["8", "yeah", "unavailable", "kernel", "no such protocol"] in told("arms")
    assert told("flow", "815")[0] == ["cookie", "815"]
    assert told("mpts") == []
    with pytest.raises(SystemExit):
        main(["k", "--terse", "--json"])


def test_the_command_line_lists_flows_as_the_api_does(
    ask: Ask, control_socket: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "PAGE_MAX", 2)
    asked = {
        "order=rtt": ["--order", "rtt"],
        "order=remote&reverse=true": ["--order", "remote", "--reverse"],
        "order=goodput&prefix=198.51.100.0/24": ["--prefix", "198.51.100.0/24"],
        "order=goodput&arm=cubic": ["--arm", "cubic"],
    }
    for query, options in asked.items():
        told = [flow["cookie"] for flow in ask("GET", f"/v1/flows?{query}").json()["flows"]]
        assert main(["flows", "--json", "--socket", str(control_socket), *options]) == 0
        shown = [flow["cookie"] for flow in json.loads(capsys.readouterr().out)]
        assert sorted(shown) == sorted(told) != []
        if "remote" in query:
            assert shown == told
    assert main(["flows", "--socket", str(control_socket), "--order", "size"]) != 0
    assert "min_rtt" in capsys.readouterr().err
