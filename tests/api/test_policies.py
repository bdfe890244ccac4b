# SPDX-License-Identifier: Apache-2.0
"""Policies over API and command line, in force in the running daemon."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.api_client import Ask, asker
from support.fake_kernel import BBR, CUBIC, VEGAS, Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.datapath import FlowInfo
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.load import load

LONELY, HELD, NARROW, FREE = 11, 12, 13, 14
ENTRIES = [
    {"prefix": "198.51.100.0/24", "exclude": True},
    {"prefix": "203.0.113.0/24", "pin": "vegas"},
    {"prefix": "192.0.2.0/24", "pool": ["bbr", "cubic"], "k": 1, "start": "bbr"},
]


def flows() -> list[FlowInfo]:
    places = {LONELY: "198.51.100.7", HELD: "203.0.113.9", NARROW: "192.0.2.77", FREE: "2001:db8:7::9"}
    return [flow(cookie, address, busy=True) for cookie, address in places.items()]


@pytest.fixture
def steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Kernel, Ask, Daemon]]:
    """A daemon that gives random arms to four flows, and its API."""
    kernel = Kernel(*flows())
    with started(kernel, tmp_path, monkeypatch) as daemon:
        yield kernel, asker(tmp_path / "c.sock"), daemon


@contextlib.contextmanager
def started(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    values = {"daemon.control_socket": str(tmp_path / "c.sock"), "daemon.state_dir": str(tmp_path / "state"),
              "daemon.mode": "active", "daemon.policy": "random", "daemon.step_ms": 2}  # fmt: skip
    with running(make_daemon(kernel, load(None, {}, values), monkeypatch)) as daemon:
        yield daemon


def arms_of(kernel: Kernel, cookie: int, batches: int = 40) -> set[int]:
    """The arms of the commands to a flow in the next batches."""
    begin = len(kernel.sent)
    while len(kernel.sent) < begin + batches:
        time.sleep(0.001)
    return {
        int(command["arm"])
        for batch in kernel.sent[begin + 1 :]
        for command in batch
        if int(command["cookie"]) == cookie
    }


def apply(ask: Ask, entries: object) -> None:
    answer = ask("PUT", "/v1/policies", json={"policies": entries})
    assert answer.status_code == 200, answer.text


def test_policies_are_in_force_at_once_and_end_with_their_document(
    steered: tuple[Kernel, Ask, Daemon],
) -> None:
    kernel, ask, _ = steered
    assert arms_of(kernel, LONELY) == arms_of(kernel, HELD) == {CUBIC, BBR, VEGAS}
    apply(ask, ENTRIES)
    assert arms_of(kernel, LONELY) == set()
    assert arms_of(kernel, HELD) <= {VEGAS}
    assert kernel.table[HELD].record["arm"][0] == VEGAS
    assert arms_of(kernel, NARROW) == {CUBIC, BBR}
    assert arms_of(kernel, FREE) == {CUBIC, BBR, VEGAS}
    apply(ask, [])
    for cookie in (LONELY, HELD, NARROW):
        assert arms_of(kernel, cookie) == {CUBIC, BBR, VEGAS}


def test_a_new_flow_gets_its_policy_and_its_start(steered: tuple[Kernel, Ask, Daemon]) -> None:
    kernel, ask, daemon = steered
    apply(ask, ENTRIES)
    kernel.table[20] = flow(20, "203.0.113.50", busy=True)
    arms_of(kernel, FREE)
    assert arms_of(kernel, 20) <= {VEGAS}
    assert kernel.table[20].record["arm"][0] == VEGAS
    daemon.engine._look_at_ns = 0
    arms_of(kernel, FREE)
    assert kernel.started == {"203.0.113.0/24": VEGAS, "192.0.2.0/24": BBR, "198.51.100.0/24": CUBIC}
    apply(ask, ENTRIES[:1])
    assert kernel.started == {"203.0.113.0/24": 0, "192.0.2.0/24": 0, "198.51.100.0/24": CUBIC}


def test_policies_say_why(steered: tuple[Kernel, Ask, Daemon]) -> None:
    kernel, ask, _ = steered
    apply(ask, ENTRIES)
    arms_of(kernel, FREE)
    lonely, held = (ask("GET", f"/v1/flows/{cookie}").json()["why"] for cookie in (LONELY, HELD))
    assert lonely["sentence"].endswith("a policy of an operator excludes the flow.")
    assert held["sentence"] == "It runs vegas: a policy of an operator holds the flow at this arm."
    assert all(switch["cause"] != "team_selection" for switch in held["switches"])
    assert ask("PUT", "/v1/mode", json={"mode": "advise"}).status_code == 200
    held = ask("GET", f"/v1/flows/{HELD}").json()["why"]
    assert held["sentence"] == (
        "It runs vegas, and so would the daemon: a policy of an operator holds the flow at this arm."
    )


def test_team_selection_picks_under_a_policy_s_terms(steered: tuple[Kernel, Ask, Daemon]) -> None:
    _, ask, daemon = steered
    apply(ask, ENTRIES)
    (path,) = (path for path in daemon.engine.teams.prefixes if path.endswith(" under 192.0.2.0/24"))
    (search,) = ask("POST", "/v1/mpts", json={"prefix": path}).json()["searches"]
    assert (search["k"], set(search["mean_reward"])) == (1, {"bbr", "cubic"})


def test_policies_outlive_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = asker(tmp_path / "c.sock")
    with started(Kernel(*flows()), tmp_path, monkeypatch):
        apply(ask, ENTRIES)
        tag = ask("GET", "/v1/policies").headers["etag"]
    kernel = Kernel(*flows())
    with started(kernel, tmp_path, monkeypatch):
        found = ask("GET", "/v1/policies")
        assert found.headers["etag"] == tag
        assert {json.dumps(one, sort_keys=True) for one in found.json()["policies"]} == {
            json.dumps({**dict.fromkeys(one_model()), **entry}, sort_keys=True) for entry in ENTRIES
        }
        assert arms_of(kernel, LONELY) == set()


def one_model() -> list[str]:
    return ["prefix", "netns", "port", "local_port", "exclude", "pin", "pool", "k", "start"]


def test_a_dry_run_tells_the_difference_and_changes_nothing(steered: tuple[Kernel, Ask, Daemon]) -> None:
    _, ask, _ = steered
    told = ask("PUT", "/v1/policies?dry_run=true", json={"policies": ENTRIES[:1]}).json()
    assert (told["removed"], told["added"]) == ([], ["198.51.100.0/24: excluded"])
    assert ask("GET", "/v1/policies").json() == {"policies": []}
    apply(ask, ENTRIES)
    again = ask("PUT", "/v1/policies", json={"policies": list(reversed(ENTRIES))}).json()
    assert (again["removed"], again["added"]) == ([], [])
    (change,) = ask("GET", "/v1/changes").json()["changes"]
    assert change["what"] == "policies"
    assert change["after"][0] == "192.0.2.0/24: pool bbr cubic, k 1, start bbr"


def test_a_stale_document_is_refused(steered: tuple[Kernel, Ask, Daemon]) -> None:
    _, ask, _ = steered
    first = ask("GET", "/v1/policies").headers["etag"]
    done = ask("PUT", "/v1/policies", json={"policies": ENTRIES}, headers={"If-Match": first})
    assert done.headers["etag"] == ask("GET", "/v1/policies").headers["etag"] != first
    stale = ask("PUT", "/v1/policies", json={"policies": []}, headers={"If-Match": first})
    assert stale.status_code == 412
    assert len(ask("GET", "/v1/policies").json()["policies"]) == 3


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"port": 22, "pin": "yeah"}, "policies[0].pin"),
        ({"port": 22, "pool": ["bbr", "nope"]}, "policies[0].pool[1]"),
        ({"port": 99999, "exclude": True}, "policies[0].port"),
        ({"port": 22, "exclude": True, "more": 1}, "policies[0].more"),
        ({"port": 22}, "policies[0]"),
    ],
)
def test_refused_policies_are_named(steered: tuple[Kernel, Ask, Daemon], entry: object, field: str) -> None:
    _, ask, _ = steered
    answer = ask("PUT", "/v1/policies", json={"policies": [entry]})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert ask("GET", "/v1/policies").json() == {"policies": []}


def test_the_command_line_applies_a_file(
    steered: tuple[Kernel, Ask, Daemon], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policies.toml"
    file.write_text("[[policy]]\nport = 22\nexclude = true\n")
    place = ["--socket", str(tmp_path / "c.sock")]

    def said(*arguments: str) -> str:
        assert main(["policy", *arguments, *place]) == 0
        return capsys.readouterr().out

    assert said("apply", str(file), "--dry-run") == "+ port 22: excluded\n"
    assert said().startswith("no policies;")
    assert said("--terse") == said("show", "--toml") == ""
    assert said("apply", str(file)) == "+ port 22: excluded\n"
    assert said("apply", str(file)) == "unchanged\n"
    assert said() == "port 22: excluded\n"
    file.write_text('[[policy]]\nport = 22\npin = "bbr"\n')
    assert said("apply", str(file)) == "- port 22: excluded\n+ port 22: pin bbr\n"
    assert json.loads(said("--json")) == {"policies": [{"port": 22, "pin": "bbr"}]}
    file.write_text('[[policy]]\nport = 22\npin = "yeah"\n')
    assert main(["policy", "apply", str(file), *place]) == 2
    assert "policies[0].pin" in capsys.readouterr().err


def test_what_is_shown_as_toml_can_be_applied(
    steered: tuple[Kernel, Ask, Daemon], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, ask, _ = steered
    place = ["--socket", str(tmp_path / "c.sock")]
    ask("PUT", "/v1/policies", json={"policies": ENTRIES})
    assert main(["policy", "show", "--toml", *place]) == 0
    file = tmp_path / "shown.toml"
    file.write_text(capsys.readouterr().out)
    assert main(["policy", "apply", str(file), *place]) == 0
    assert capsys.readouterr().out == "unchanged\n"
    ask("PUT", "/v1/policies", json={"policies": []})
    assert main(["policy", "apply", str(file), *place]) == 0
    capsys.readouterr()
    assert main(["policy", "show", "--toml", *place]) == 0
    assert capsys.readouterr().out == file.read_text()


def test_setting_a_key_prints_that_key_alone(
    steered: tuple[Kernel, Ask, Daemon], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--socket", str(tmp_path / "c.sock")]
    assert main(["config", "set", "mpts.budget=60", "pool.k=1", *place]) == 0
    assert capsys.readouterr().out == "[pool]\nk = 1  # override\n[mpts]\nbudget = 60  # override\n"
    assert main(["config", "unset", "pool.k", *place]) == 0
    assert capsys.readouterr().out.startswith("[pool]\nk = ")
    assert main(["config", *place]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 30
