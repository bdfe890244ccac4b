# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from support.damage import KINDS, damage

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.service.default_congestion_control import FILE_NAME, Takeover


@pytest.fixture
def sysctl(tmp_path: Path) -> Path:
    file = tmp_path / "tcp_congestion_control"
    file.write_text("bbr\n")
    return file


def test_taken_and_given_back(tmp_path: Path, sysctl: Path) -> None:
    takeover = Takeover(tmp_path, sysctl=sysctl)
    takeover.take()
    assert sysctl.read_text() == "mutant"
    assert (tmp_path / FILE_NAME).read_text() == "bbr"
    takeover.give_back()
    assert sysctl.read_text() == "bbr"
    assert not (tmp_path / FILE_NAME).exists()


def test_an_administrators_later_choice_stands(tmp_path: Path, sysctl: Path) -> None:
    takeover = Takeover(tmp_path, sysctl=sysctl)
    takeover.take()
    sysctl.write_text("cubic\n")
    takeover.give_back()
    assert sysctl.read_text() == "cubic\n"
    assert not (tmp_path / FILE_NAME).exists()


def test_an_administrators_own_mutant_stands(tmp_path: Path, sysctl: Path) -> None:
    sysctl.write_text("mutant\n")
    takeover = Takeover(tmp_path, sysctl=sysctl)
    takeover.take()
    takeover.give_back()
    assert sysctl.read_text() == "mutant\n"


def test_a_daemon_after_a_crash_knows_what_to_put_back(tmp_path: Path, sysctl: Path) -> None:
    Takeover(tmp_path, sysctl=sysctl).take()
    second = Takeover(tmp_path, sysctl=sysctl)
    second.take()
    second.give_back()
    assert sysctl.read_text() == "bbr"


def test_a_daemon_that_takes_nothing_repairs_what_a_crash_left(tmp_path: Path, sysctl: Path) -> None:
    Takeover(tmp_path, sysctl=sysctl).take()
    Takeover(tmp_path, sysctl=sysctl).recover()
    assert sysctl.read_text() == "bbr"
    assert not (tmp_path / FILE_NAME).exists()


def test_recovery_touches_nothing_where_nothing_was_replaced(tmp_path: Path, sysctl: Path) -> None:
    sysctl.write_text("mutant\n")
    Takeover(tmp_path, sysctl=sysctl).recover()
    assert sysctl.read_text() == "mutant\n"


def test_without_permission_the_daemon_still_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    takeover = Takeover(tmp_path, sysctl=tmp_path / "none" / "sysctl")
    takeover.take()
    takeover.give_back()
    assert "cannot read" in caplog.text


def test_the_command_puts_back_what_a_crash_left(
    tmp_path: Path, sysctl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Takeover(tmp_path, sysctl=sysctl).take()
    monkeypatch.setattr(Takeover.__init__, "__kwdefaults__", {"sysctl": sysctl})
    config = tmp_path / "config.toml"
    config.write_text(f'[daemon]\nstate_dir = "{tmp_path}"\n')
    assert main(["give-back", "--config", str(config)]) == 0
    assert sysctl.read_text() == "bbr"
    assert main(["give-back", "--config", str(config)]) == 0
    assert sysctl.read_text() == "bbr"


@pytest.mark.parametrize("how", [*KINDS, "missing"])
def test_a_memory_that_cannot_be_read_is_no_reason_to_fail(
    tmp_path: Path, sysctl: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    Takeover(tmp_path, sysctl=sysctl).take()
    damage(tmp_path / FILE_NAME, how)
    Takeover(tmp_path, sysctl=sysctl).recover()
    assert sysctl.read_text() == ("mutant" if how != "truncated" else "b"), "nothing else is written"
    assert ("not known what mutant replaced" in caplog.text) == (how not in ("missing", "truncated"))
