# SPDX-License-Identifier: Apache-2.0
"""The command line where no daemon runs."""

import json
import subprocess
import sys
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


def test_wrong_settings_are_1_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[daemon]\nmoed = 1\n")
    assert main(["status", "--config", str(file)]) == 1
    assert "daemon.moed" in capsys.readouterr().err
    assert main(["run", "--set", "mpts.budget"]) == 1
    assert "section.key=value" in capsys.readouterr().err
    assert main(["run", "--set", "mpts.budgt=3"]) == 1
    assert "did you mean mpts.budget?" in capsys.readouterr().err


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
    assert json.loads(capsys.readouterr().out)["pool"]["k"] == 4


def test_the_version_needs_no_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json", "--socket", str(tmp_path / "none")]) == 0
    assert json.loads(capsys.readouterr().out)["daemon"] is None


def test_the_doctor_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--socket", str(tmp_path / "none")]) == 1
    found = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert found["daemon"]["verdict"] == "fail"
    assert "systemctl" in found["daemon"]["advice"]
    assert all(finding["advice"] for finding in found.values() if finding["verdict"] == "fail")


def test_the_command_line_starts_without_numpy() -> None:
    """What the help and the completion of a shell wait for."""
    code = (
        "import sys; import ltp_switcher.daemon.cli.main; print({'numpy', 'rich'} & set(sys.modules) or '')"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""
