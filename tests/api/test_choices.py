# SPDX-License-Identifier: Apache-2.0
"""Changes over the API: how long they last, who made them, and which are refused as stale."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.api_client import Ask, asker
from support.fake_kernel import BBR, REMOTES, Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.settings.load import load
from ltp_switcher.daemon.settings.schema import Config

PATIENCE_S = 60


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load(
        None,
        {},
        {"daemon.control_socket": str(tmp_path / "c.sock"), "daemon.state_dir": str(tmp_path / "state"),
         "mpts.budget": 50},
    )  # fmt: skip


@pytest.fixture
def restarted(kernel: Kernel, config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Sends a request to an API whose daemon has just been started and ends after the answer."""

    def request(*arguments: object, **options: object) -> object:
        with running(make_daemon(kernel, config, monkeypatch)):
            return asker(tmp_path / "c.sock")(*arguments, **options)

    return request  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("method", "path", "body", "read", "expected"),
    [
        ("PUT", "/v1/k", {"k": 2}, "/v1/k", {"k": 2}),
        ("PUT", "/v1/mode", {"mode": "off"}, "/v1/mode", {"mode": "off"}),
        ("PUT", "/v1/pool", {"arms": ["vegas", "bbr"]}, "/v1/pool", {"arms": ["vegas", "bbr"], "teams": {}}),
    ],
)
@pytest.mark.parametrize("runtime", [False, True])
def test_a_change_outlives_the_daemon_unless_it_is_for_the_moment(
    restarted: Ask,
    method: str,
    path: str,
    body: object,
    read: str,
    expected: dict[str, object],
    runtime: bool,
) -> None:
    before = restarted("GET", read).json()
    changed = restarted(method, f"{path}?runtime=true" if runtime else path, json=body)
    assert changed.json().items() >= {**expected, "saved": True, "save_error": None}.items()
    assert restarted("GET", read).json() == (before if runtime else expected)


def test_a_pin_outlives_the_daemon_unless_it_is_for_the_moment(restarted: Ask, kernel: Kernel) -> None:
    pinned = int(protocol.FlowFlags.PINNED)
    restarted("PUT", "/v1/flows/815/pin", json={"arm": "bbr"})
    restarted("PUT", "/v1/flows/4711/pin?runtime=true", json={"arm": "bbr"})
    assert kernel.table[4711].record["flags"][0] & pinned
    # As after an upgrade of the module, which forgets its flows.
    kernel.table[815] = flow(815, REMOTES["815"], busy=True)
    found = {one["cookie"]: one for one in restarted("GET", "/v1/flows").json()["flows"]}
    assert {cookie: one["pinned"] for cookie, one in found.items()} == {
        "815": True,
        "4711": False,
        "18446744073709551615": False,
    }
    assert kernel.pinned[-1] == (815, BBR)


def test_settings_are_patched_and_dropped(ask: Ask) -> None:
    before = ask("GET", "/v1/config").json()
    patch = {"mpts": {"budget": 70, "share": 1}, "daemon": {"mode": "off"}}
    after = ask("PATCH", "/v1/config", json={"values": patch}).json()
    assert (after["values"]["mpts"]["budget"], after["values"]["mpts"]["share"]) == (70, 1.0)
    assert after["origins"]["mpts"]["budget"] == "override"
    assert ask("GET", "/v1/mode").json() == {"mode": "off"}
    drop = {"mpts": {"budget": None, "share": None}, "daemon": {"mode": None}}
    assert ask("PATCH", "/v1/config", json={"values": drop}).json().items() >= before.items()


@pytest.mark.parametrize(
    ("values", "field", "allowed"),
    [
        ({"mpts": {"budget": 0}}, "mpts.budget", "from 1 to"),
        ({"mpts": {"budget": "9"}}, "mpts.budget", "a whole number"),
        ({"mpts": {"budgte": 9}}, "mpts.budgte", "did you mean mpts.budget?"),
        ({"daemon": {"seed": 9}}, "daemon.seed", "a value in the file and a restart"),
        ({"kernel": {"fallback_arm": "yeah"}}, "kernel.fallback_arm", "one of cubic, bbr, vegas"),
        ({"kernel": {"watchdog_ms": 10}}, "daemon.step_ms", "at most 5"),
        ({"pool": {"arms": ["bbr", "cubik"]}}, "pool.arms[1]", "one of cubic, bbr, vegas"),
    ],
)
def test_a_refused_patch_changes_nothing(
    ask: Ask, values: dict[str, dict[str, object]], field: str, allowed: str
) -> None:
    before = ask("GET", "/v1/config").json()
    more = {**values, "mpts": {"share": 0.5, **values.get("mpts", {})}}
    answer = ask("PATCH", "/v1/config", json={"values": more})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert allowed in answer.json()["allowed"]
    assert ask("GET", "/v1/config").json() == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/pool", {"arms": ["vegas", "bbr"]}),
        ("PUT", "/v1/k", {"k": 2}),
        ("PATCH", "/v1/config", {"values": {"mpts": {"budget": 70}}}),
    ],
)
def test_a_change_to_what_has_changed_meanwhile_is_refused(
    ask: Ask, method: str, path: str, body: object
) -> None:
    first = ask("GET", path).headers["etag"]
    assert ask("GET", path).headers["etag"] == first
    done = ask(method, path, json=body, headers={"If-Match": f'"other", {first}'})
    assert done.status_code == 200
    second = done.headers["etag"]
    assert second != first
    assert ask("GET", path).headers["etag"] == second
    for stale in (first, f"W/{second}", '"other"'):
        refused = ask(method, path, json=body, headers={"If-Match": stale})
        assert refused.status_code == 412, stale
        assert refused.json()["type"] == "urn:ltp-switcher:problem:precondition-failed"
    for fresh in (second, "*", f'W/"x" , {second}'):
        assert ask(method, path, json=body, headers={"If-Match": fresh}).status_code == 200
    assert ask(method, path, json=body).status_code == 200, "nobody has to name a tag"


@pytest.mark.parametrize("value", ["abc", "", '"', '"a" "b"', '* , "a"'])
def test_a_header_that_is_no_list_of_tags_is_refused(ask: Ask, value: str) -> None:
    answer = ask("PUT", "/v1/k", json={"k": 2}, headers={"If-Match": value})
    assert (answer.status_code, answer.json()["field"]) == (422, "if-match")


def test_changes_are_told_the_latest_first(ask: Ask) -> None:
    ask("PUT", "/v1/k", json={"k": 2})
    ask("PUT", "/v1/mode?runtime=true", json={"mode": "off"})
    ask("PUT", "/v1/flows/4711/pin", json={"arm": "bbr"})
    found = ask("GET", "/v1/changes").json()["changes"]
    assert [(one["what"], one["before"], one["after"], one["lasts"]) for one in found] == [
        ("pin of flow 4711", None, "bbr", True),
        ("daemon.mode", "advise", "off", False),
        ("pool.k", 6, 2, True),
    ]
    assert found[0]["caller"] == {"uid": os.getuid(), "pid": os.getpid(), "token": None, "via": None}
    assert [one["what"] for one in ask("GET", "/v1/changes?limit=1").json()["changes"]] == [
        "pin of flow 4711"
    ]


def test_a_change_that_the_disk_does_not_take_is_in_force_and_said_to_be_unsaved(
    kernel: Kernel,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    requests = [
        ("PUT", "/v1/k", {"k": 2}),
        ("PUT", "/v1/mode", {"mode": "off"}),
        ("PUT", "/v1/pool", {"arms": ["vegas", "bbr"]}),
        ("PATCH", "/v1/config", {"values": {"mpts": {"budget": 70}}}),
        ("PUT", "/v1/policies", {"policies": [{"port": 22, "exclude": True}]}),
        ("PUT", "/v1/flows/4711/pin", {"arm": "bbr"}),
        ("DELETE", "/v1/flows/4711/pin", None),
    ]
    policy = tmp_path / "policy.toml"
    policy.write_text("[[policy]]\nport = 23\nexclude = true\n")
    with running(make_daemon(kernel, config, monkeypatch)):
        ask = asker(tmp_path / "c.sock")
        (tmp_path / "state").mkdir(exist_ok=True)
        (tmp_path / "state").rename(tmp_path / "away")
        (tmp_path / "state").write_text("no folder")
        for method, path, body in requests:
            answer = ask(method, path, **({} if body is None else {"json": body}))
            assert (answer.status_code, answer.json()["saved"]) == (200, False), path
            assert str(tmp_path / "state") in answer.json()["save_error"]
        assert ask("GET", "/v1/k").json()["k"] == 2
        assert ask("GET", "/v1/policies").json()["policies"][0]["port"] == 22
        for command in (
            ["k", "1"],
            ["mode", "advise"],
            ["pool", "set", "bbr", "cubic"],
            ["config", "set", "mpts.budget=71"],
            ["policy", "apply", str(policy)],
            ["pin", "815", "bbr"],
            ["unpin", "815"],
        ):
            for more in ([], ["--json"]):
                assert main([*command, *more, "--socket", str(tmp_path / "c.sock")]) == 1, command
                shown = capsys.readouterr()
                assert "in force, but not saved" in shown.err
                assert ("saved" in shown.out) == bool(more)
        assert ask("GET", "/v1/k").json()["k"] == 1
        (tmp_path / "state").unlink()
        (tmp_path / "away").rename(tmp_path / "state")
        assert ask("PUT", "/v1/k", json={"k": 2}).json()["saved"] is True
        assert main(["k", "2", "--socket", str(tmp_path / "c.sock")]) == 0
        assert "not saved" not in capsys.readouterr().err


def test_a_change_is_reverted_and_all_overrides_are_dropped(ask: Ask) -> None:
    for k in (2, 1):
        ask("PUT", "/v1/k", json={"k": k})
    second, first = ask("GET", "/v1/changes").json()["changes"]
    assert (second["number"], first["number"]) == (2, 1)
    assert second["can_revert"] is True
    stale = ask("POST", "/v1/changes/1/revert")
    assert (stale.status_code, "by change 2" in stale.json()["detail"]) == (412, True)
    done = ask("POST", "/v1/changes/2/revert").json()
    assert (done["change"]["what"], done["change"]["before"], done["change"]["after"]) == ("pool.k", 1, 2)
    assert ask("GET", "/v1/k").json()["k"] == 2
    missing = ask("POST", "/v1/changes/99/revert")
    assert (missing.status_code, missing.json()["field"]) == (422, "number")
    ask("PATCH", "/v1/config", json={"values": {"mpts": {"budget": 70}}})
    cleared = ask("DELETE", "/v1/overrides").json()
    assert "override" not in {origin for part in cleared["origins"].values() for origin in part.values()}
    assert ask("GET", "/v1/k").json()["k"] == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "read"),
    [
        ("PUT", "/v1/k", {"k": 2}, "/v1/k"),
        ("PUT", "/v1/mode", {"mode": "off"}, "/v1/mode"),
        ("PUT", "/v1/pool", {"arms": ["vegas", "bbr"]}, "/v1/pool"),
        ("PATCH", "/v1/config", {"values": {"mpts": {"budget": 70}}}, "/v1/config"),
        ("PUT", "/v1/policies", {"policies": [{"port": 22, "exclude": True}]}, "/v1/policies"),
    ],
)
def test_a_change_with_a_time_to_confirm_it_undoes_itself_or_stays(
    ask: Ask, method: str, path: str, body: object, read: str
) -> None:
    before = ask("GET", read).json()
    for wrong in (0, -1, 86_401, "x"):
        assert ask(method, f"{path}?confirm_within_s={wrong}", json=body).status_code == 422
    assert ask("POST", "/v1/changes/confirm").status_code == 409
    assert ask(method, f"{path}?confirm_within_s=1", json=body).status_code == 200
    end_s = time.monotonic() + PATIENCE_S
    while ask("GET", read).json() != before:
        assert time.monotonic() < end_s
        time.sleep(0.05)
    last = ask("GET", "/v1/changes?limit=1").json()["changes"][0]
    assert (last["caller"]["uid"], last["confirm_within_s"]) == (os.getuid(), None)
    assert ask(method, f"{path}?confirm_within_s=60", json=body).status_code == 200
    assert ask(method, f"{path}?confirm_within_s=60", json=body).status_code == 409
    assert 0 < ask("GET", "/v1/changes?limit=1").json()["changes"][0]["confirm_within_s"] <= 60
    assert len(ask("POST", "/v1/changes/confirm").json()["confirmed"]) == 1
    assert ask("GET", "/v1/changes?limit=2").json()["changes"][1]["confirm_within_s"] is None
    assert ask("GET", read).json() != before


def test_a_restart_undoes_what_nobody_confirmed(restarted: Ask) -> None:
    before = restarted("GET", "/v1/k").json()
    assert restarted("PUT", "/v1/k?confirm_within_s=600", json={"k": 2}).json()["k"] == 2
    assert restarted("GET", "/v1/k").json() == before


def test_the_command_line_tries_confirms_and_reverts(
    control_socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cli(*arguments: str, status: int = 0) -> str:
        assert main([*arguments, "--socket", str(control_socket)]) == status
        return capsys.readouterr().out

    cli("k", "2", "--confirm-within", "60s")
    assert "undone in" in cli("changes")
    assert "confirmed  1" in cli("changes", "--confirm")
    assert "pool.k is 6 now, was 2" in cli("changes", "--revert", "1")
    cli("config", "set", "mpts.budget=70")
    assert "mpts.budget" in cli("overrides")
    assert "mpts.budget" not in cli("overrides", "clear")
    assert main(["changes", "--revert", "77", "--socket", str(control_socket)]) != 0
    assert "of the policies: " in capsys.readouterr().err


def test_k_says_nothing_where_team_selections_take_it(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "c.sock"
    config = load(
        None, {}, {"daemon.control_socket": str(place), "daemon.state_dir": "", "daemon.policy": "mutant"}
    )
    with running(make_daemon(kernel, config, monkeypatch)):
        assert asker(place)("PUT", "/v1/k", json={"k": 2}).json()["note"] is None


def test_versions(ask: Ask) -> None:
    found = ask("GET", "/v1/version").json()
    assert found["api"] == found["daemon"]
    assert found["records"] == protocol.RECORD_VERSION
