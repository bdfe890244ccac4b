# SPDX-License-Identifier: Apache-2.0
"""The command line where no daemon runs."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ltp_switcher.daemon.cli.main import main, parser


def test_without_a_daemon_the_status_is_3_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["status"],
        ["flows"],
        ["flow", "1"],
        ["pool"],
        ["k"],
        ["mpts"],
        ["pin", "1", "bbr"],
        ["mode"],
    ):
        assert main([*command, "--socket", str(tmp_path / "none")]) == 3
        assert "is it running?" in capsys.readouterr().err


def test_wrong_settings_are_2_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[daemon]\nmoed = 1\n")
    assert main(["status", "--config", str(file)]) == 2
    assert "daemon.moed" in capsys.readouterr().err
    assert main(["run", "--set", "mpts.budget"]) == 2
    assert "section.key=value" in capsys.readouterr().err
    assert main(["run", "--set", "mpts.budgt=3"]) == 2
    assert "did you mean mpts.budget?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--mode", "foo"],
        ["run", "--policy", "foo"],
        ["policy", "apply"],
        ["policy", "apply", "/none.toml"],
        ["policy", "show", "/none.toml"],
        ["config", "set"],
        ["config", "set", "pool.kk=3"],
        ["pool", "set"],
        ["token", "add", "x"],
        ["token", "add", "a b", "--read"],
        ["token", "remove", "nobody"],
        ["unuse"],
    ],
)
def test_a_wrong_input_is_2(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LTP_SWITCHER_API_TOKEN_FILE", str(tmp_path / "tokens.json"))
    assert main(command) == 2
    assert "allowed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "status"), [("invalid", 2), ("not-found", 1), ("stale", 1), ("internal", 1), ("unavailable", 3)]
)
def test_an_input_that_the_daemon_refuses_is_2_and_what_it_cannot_do_is_another(
    told: Callable[[object], str], capsys: pytest.CaptureFixture[str], code: str, status: int
) -> None:
    refusal = {"error": {"code": code, "message": "arms[0]: 'x' is not valid; allowed: bbr"}}
    assert main(["pool", "set", "x", "--socket", told(refusal)]) == status
    assert "arms[0]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--json", "--socket", "S", "version"],
        ["--socket", "S", "version", "--json"],
        ["--json", "version", "--socket", "S"],
        ["--socket", "other", "version", "--socket", "S", "--json"],
    ],
)
def test_options_of_all_commands_may_stand_before_the_command(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "none")
    assert main([place if word == "S" else word for word in arguments]) == 0
    assert place in json.loads(capsys.readouterr().out)["note"]


@pytest.mark.parametrize(
    "arguments", [["--json", "version", "--terse"], ["--terse", "--json", "flows"], ["--json", "run"]]
)
def test_forms_that_cannot_be_had_are_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("form", [[], ["--terse"], ["--json"]])
def test_who_watches_flows_through_a_pipe_sees_each_table_at_once(tmp_path: Path, form: list[str]) -> None:
    """A first table has to come while the program still waits an hour for the second."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        command = [sys.executable, "-m", "ltp_switcher.daemon.cli", "flows", "--watch", "--interval", "3600"]
        with subprocess.Popen(
            [*command, "--socket", str(tmp_path / "s"), *form], stdout=subprocess.PIPE, text=True
        ) as program:
            peer, _ = listener.accept()
            with peer:
                request = json.loads(peer.recv(4096))
                page = {"flows": [FLOW], "total": 1, "next_cursor": None}
                result = [FLOW] if request["method"] == "flows.list" else page
                peer.sendall(json.dumps({"id": request["id"], "result": result}).encode() + b"\n")
                assert program.stdout is not None
                lines = [program.stdout.readline() for _ in range(1 if form else 2)]
                program.kill()
    assert "2001:db8::7" in lines[-1]


@pytest.mark.parametrize(("text", "sent"), [("4711", "4711"), ("sk:15", "21"), ("sk:1aF", "431")])
def test_a_cookie_is_taken_as_flows_or_ss_show_it(text: str, sent: str) -> None:
    for command in (["flow", text], ["pin", text, "bbr"], ["unpin", text]):
        assert parser().parse_args(command).cookie == sent


@pytest.mark.parametrize("text", ["1a", "0", "-1", "sk:", "sk:xyz", "", "sk:10000000000000000"])
def test_what_is_no_cookie_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["flow", "--", text])
    said = capsys.readouterr().err
    assert repr(text) in said
    assert "sk:" in said


def test_a_wrong_command_line_is_2() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["flwos"])
    assert caught.value.code == 2


def test_settings_in_force(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LTP_SWITCHER_POOL_K", "4")
    assert main(["config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"]["pool"]["k"] == 4


def test_the_version_needs_no_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json", "--socket", str(tmp_path / "none")]) == 0
    assert json.loads(capsys.readouterr().out)["daemon"] is None


def test_the_doctor_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--socket", str(tmp_path / "none")]) == 1
    found = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert found["daemon"]["verdict"] == "fail"
    assert "systemctl" in found["daemon"]["advice"]
    assert all(finding["advice"] for finding in found.values() if finding["verdict"] == "fail")


def test_the_doctor_says_who_may_ask_the_daemon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ltp_switcher.daemon.control.client.ControlClient._exchange", refuse)
    assert main(["doctor", "--json"]) == 1
    found = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert "adduser" in found["daemon"]["advice"]


def test_the_command_line_starts_without_numpy() -> None:
    """What the help and the completion of a shell wait for."""
    code = (
        "import sys; import ltp_switcher.daemon.cli.main; print({'numpy', 'rich'} & set(sys.modules) or '')"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""


RATIOS = {"log_ratio": {"bbr": 0.0, "vegas": -0.25}, "half_width": {"bbr": 0.0, "vegas": None}}
FLOW = {
    "cookie": "7", "remote": "[2001:db8::7]:443", "arm": "bbr", "age_s": 1.0, "cwnd_pkts": 10, "srtt_ms": 1.0,
    "min_rtt_ms": 1.0, "delivery_rate_mbps": 1.0, "goodput_mbps": 1.0, "lost_pkts": 0, "reward": None,
    "switches": 0, "pinned": False, "fallen_back": False,
}  # fmt: skip


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Callable[[object], str]]:
    """Serves one connection of a daemon that gives this answer; returns its socket's path."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def start(answer: object) -> str:
            def serve() -> None:
                with listener.accept()[0] as peer:
                    peer.recv(4096)
                    peer.sendall(json.dumps({"id": 1, **answer}).encode() + b"\n")  # type: ignore[dict-item]

            threading.Thread(target=serve, daemon=True).start()
            return str(tmp_path / "s")

        yield start


def test_changes_name_who_asked_and_by_which_way(
    told: Callable[[object], str], capsys: pytest.CaptureFixture[str]
) -> None:
    api = {"uid": 990, "pid": 8, "token": None, "via": None}
    change = {"number": 7, "time": "t", "what": "pool.k", "before": 6, "after": 2, "lasts": True}
    change["confirm_within_s"] = None
    callers = [{**api, "token": "deploy"}, {"uid": 1000, "pid": 7, "token": None, "via": api}]
    place = told({"result": [{**change, "caller": caller} for caller in callers]})
    assert main(["changes", "--socket", place]) == 0
    shown = capsys.readouterr().out
    assert "uid 990, pid 8, token deploy" in shown
    assert "uid 1000, pid 7, by way of uid 990, pid 8" in shown


def test_an_ipv6_address_is_shown(told: Callable[[object], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flows", "--socket", told({"result": {"flows": [FLOW], "total": 1}})]) == 0
    assert "[2001:db8::7]:443" in capsys.readouterr().out
    team = {"prefix": "[2001:db8::]/48", "arms": ["bbr"], "gaps": {"vegas": 0.1}, **RATIOS}
    search = {"prefix": "192.0.2.0/24", "method": "tournament", "pulls": 3, "budget": 16, **RATIOS}
    found = {"searches": [search], "teams": [team]}
    assert main(["mpts", "--socket", told({"result": found}), "--terse"]) == 0
    shown = capsys.readouterr().out.splitlines()
    ratios = "log ratios: bbr 0.00 ± 0.00, vegas -0.25"
    assert shown == [
        f"192.0.2.0/24\t3 of at most 16 pairs; {ratios}\t",
        f"[2001:db8::]/48\tfound; gaps: vegas 0.1; {ratios}\tbbr",
    ]


def test_a_preference_tells_its_arm_and_its_time(
    told: Callable[[object], str], capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"prefix": "192.0.2.0/24", "arm": "vegas", "left_s": 431.0, **RATIOS}
    none = {"prefix": "198.51.100.0/24", "arm": None, "left_s": 20.0, **RATIOS}
    found = {"searches": [], "teams": [], "preferences": [one, none]}
    assert main(["mpts", "--socket", told({"result": found}), "--terse"]) == 0
    ratios = "log ratios: bbr 0.00 ± 0.00, vegas -0.25"
    assert capsys.readouterr().out.splitlines() == [
        f"192.0.2.0/24\tvegas is preferred, 7 min left; {ratios}\t",
        f"198.51.100.0/24\tno arm is preferred, 0 min left; {ratios}\t",
    ]


def test_a_selection_by_visits_tells_its_cost(
    told: Callable[[object], str], capsys: pytest.CaptureFixture[str]
) -> None:
    usual = {"prefix": "192.0.2.0/24", "method": "visits", "half_width": {}, "cost_flows": 3.14}
    search = {**usual, "pulls": 3, "budget": 100, "log_ratio": {"bbr": 0.25, "vegas": None}}
    ended = {**search, "prefix": "10.0.0.0/24", "reason": "it was cancelled"}
    team = {**usual, "arms": ["bbr"], "gaps": {"bbr": 0.5}, "log_ratio": {"bbr": 0.25}}
    found = {"searches": [search], "given_up": [ended], "teams": [team]}
    start = ["mpts", "start", "192.0.2.0/24", "--by", "visits"]
    assert main([*start, "--socket", told({"result": found}), "--terse"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "192.0.2.0/24\t3 of 100 visits; cost: 3.1 flows; log ratios: bbr 0.25\t",
        "10.0.0.0/24\tno team after 3 of 100 visits: it was cancelled; cost: 3.1 flows; "
        "log ratios: bbr 0.25\t",
        "192.0.2.0/24\tfound; cost: 3.1 flows; gaps: bbr 0.5; log ratios: bbr 0.25\tbbr",
    ]
    assert main([*start, "--socket", told({"result": found}), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_the_kind_of_pulls_is_for_a_start_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ([], ["cancel"]):
        assert main(["mpts", *action, "--by", "visits"]) == 2
        assert "--by: 'visits' is not valid; allowed: only with `start`" in capsys.readouterr().err


def test_a_server_cannot_command_the_terminal(
    told: Callable[[object], str], capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\x9b2J"
    answers: list[tuple[list[str], object]] = [
        (["status"], {"result": {"version": evil, evil: "1"}}),
        (["flows"], {"result": {"flows": [{**FLOW, "arm": evil}], "total": 2}}),
        (["pool"], {"result": {"arms": [evil], "teams": {evil: [evil]}}}),
        (
            ["config"],
            {"result": {"values": {evil: {evil: evil}}, "origins": {evil: {evil: evil}}, "restart": [evil]}},
        ),
        (
            ["changes"],
            {
                "result": [
                    {
                        "number": evil,
                        "time": evil,
                        "what": evil,
                        "confirm_within_s": None,
                        "before": evil,
                        "after": [evil],
                        "lasts": True,
                        "caller": {"uid": evil, "pid": 1, "token": evil, "via": {"uid": evil, "pid": evil}},
                    }
                ]
            },
        ),
        (["status"], {"error": {"code": "invalid", "message": evil}}),
        (["status"], {"error": {"code": "unavailable", "message": evil}}),
    ]
    for command, answer in answers:
        main([*command, "--socket", told(answer)])
        shown = capsys.readouterr()
        assert not {"\x1b", "\x07", "\x9b"} & set(shown.out + shown.err), command
        assert "x1b[2J" in shown.out + shown.err
