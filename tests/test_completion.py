# SPDX-License-Identifier: Apache-2.0
"""Completion in a real bash, of lines that are begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OFFERS = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
complete -p "$1" >/dev/null || exit 1
"$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""
PROGRAMS = {"ltp-switcher": "ltp_switcher.daemon.cli", "ltp-eval": "ltp_switcher.eval.cli.main"}


def printed(program: str, shell: str) -> str:
    command = (sys.executable, "-m", PROGRAMS[program], "completion", shell)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        (["ltp-switcher", "un"], {"unpin"}, {"pin", "pool"}),
        (["ltp-switcher", "completion", ""], {"bash", "zsh"}, {"pin"}),
        (["ltp-switcher", "pool", ""], {"set"}, {"apply"}),
        (["ltp-switcher", "status", "--j"], {"--json"}, {"--runtime"}),
        (["ltp-eval", "cl"], {"claims", "claims-page"}, {"cost"}),
    ],
)
def test_bash_offers(line: list[str], offered: set[str], not_offered: set[str], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(printed(line[0], "bash"))
    done = subprocess.run(
        ("bash", "-c", OFFERS, "bash", script, *line), capture_output=True, text=True, check=True
    )
    found = set(done.stdout.split())
    assert offered <= found, done.stderr
    assert not found & not_offered


def test_bash_offers_files_where_a_file_is_meant(tmp_path: Path) -> None:
    script, file = tmp_path / "script", tmp_path / "policies.toml"
    file.touch()
    script.write_text(printed("ltp-switcher", "bash"))
    line = ("ltp-switcher", "--config", f"{tmp_path}/pol")
    commands = ("ltp-switcher", "status", *line[1:])
    done = subprocess.run(
        ("bash", "-c", OFFERS, "bash", script, *commands), capture_output=True, text=True, check=True
    )
    assert str(file) in done.stdout.split()


@pytest.mark.parametrize("program", PROGRAMS)
def test_zsh_gets_a_script_of_its_own(program: str) -> None:
    assert printed(program, "zsh").startswith(f"#compdef {program}\n")
