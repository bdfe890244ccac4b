# SPDX-License-Identifier: Apache-2.0
"""Recorded traces are fetched once, from the machine's own mirror, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from ltp_switcher.errors import LabError
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.lab.recorded_traces import fetch_traces

APT_GET = """#!/bin/sh
echo "$@" >> "$LOG"
case " $* " in
*" indextargets "*) echo "$MIRROR"; exit 0 ;;
*" update "*) for word; do case $word in *=*/sources.list) cat "${word#*=}" >> "$LOG" ;; esac; done ;;
*" download "*) [ -z "$BROKEN" ] || { echo "404  Not Found"; exit 100; }; touch mahimahi-traces_1_all.deb ;;
esac
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/share/mahimahi/traces" "$3/usr/share/doc/mahimahi-traces"
echo 7 > "$3/usr/share/mahimahi/traces/Some-LTE.down"
echo GPL-3 > "$3/usr/share/doc/mahimahi-traces/copyright"
"""


@pytest.fixture
def apt_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """apt and dpkg that are told apart from the real ones by a log; the cache is empty."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(log))
    monkeypatch.setenv("MIRROR", "http://mirror.test/debian/")
    monkeypatch.setenv("BROKEN", "")
    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LTP_TRACES", raising=False)
    return log


def test_the_traces_come_from_the_machines_mirror_once(apt_log: Path, tmp_path: Path) -> None:
    folder = fetch_traces()
    assert folder == tmp_path / "cache" / "traces"
    assert sorted(path.name for path in folder.iterdir()) == ["Some-LTE.down", "copyright"]
    told = apt_log.read_text()
    assert "http://mirror.test/debian/ bullseye main\n" in told
    assert fetch_traces() == folder
    assert apt_log.read_text() == told
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["lab", "traces"]


def test_a_failed_fetch_says_what_to_do_and_leaves_no_folder(
    apt_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "yes")
    with pytest.raises(LabError, match=r"(?s)404.*name it in LTP_TRACES"):
        fetch_traces()
    assert not (tmp_path / "cache" / "traces").exists()
    monkeypatch.setenv("BROKEN", "")
    assert (fetch_traces() / "Some-LTE.down").is_file()


def test_a_machine_without_debians_archive_is_told(apt_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR", "")
    with pytest.raises(LabError, match=r"no source of Debian's main archive.*LTP_TRACES"):
        fetch_traces()


def test_a_named_folder_is_taken_as_it_is(
    apt_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTP_TRACES", str(tmp_path))
    assert fetch_traces() == tmp_path
    monkeypatch.setenv("LTP_TRACES", str(tmp_path / "gone"))
    with pytest.raises(LabError, match=r"gone, which is no folder"):
        fetch_traces()
    assert apt_log.read_text() == ""


def test_the_command_lists_length_and_mean_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten packets of 1500 bytes in 2 s are 60 kbit/s."""
    (tmp_path / "slow.up").write_text("".join(f"{at_ms}\n" for at_ms in range(200, 2001, 200)))
    (tmp_path / "README").write_text("no trace")
    monkeypatch.setenv("LTP_TRACES", str(tmp_path))
    assert main(["traces", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "folder": str(tmp_path),
        "traces": [{"name": "slow.up", "duration_s": 2.0, "mean_mbps": 0.06}],
        "unfit": {},
    }
    assert main(["traces"]) == 0
    assert "slow.up" in capsys.readouterr().out


@pytest.mark.slow
def test_debians_traces_are_those_that_figures_were_measured_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTP_CACHE", str(tmp_path))
    monkeypatch.delenv("LTP_TRACES", raising=False)
    folder = fetch_traces()
    digests = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16]
        for name in ("TMobile-LTE-short.down", "Verizon-LTE-short.down", "TMobile-UMTS-driving.down")
    }
    assert digests == {
        "TMobile-LTE-short.down": "4f33dce8dd811b57",
        "Verizon-LTE-short.down": "c918436fbd6246af",
        "TMobile-UMTS-driving.down": "c97a74e7e6cf593d",
    }
