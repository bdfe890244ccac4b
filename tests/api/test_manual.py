# SPDX-License-Identifier: Apache-2.0
"""The manual pages and completion scripts of the Debian packages, made from the parsers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MANUAL = Path(__file__).resolve().parents[2] / "packaging/manual.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stage")
    subprocess.run((sys.executable, MANUAL, root), check=True)
    return root


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        ("ltp-switcher", ("give\\-back", "completion", "\\-\\-dry\\-run", "exit status: 0 done")),
        ("ltp-switcher-fleet", ("\\-\\-config",)),
        ("ltp-switcher-api", ("\\-\\-openapi", "\\-\\-tcp")),
        ("ltp-owl-agent", ("\\-\\-path\\-nodes", "qdisc:DEVICE")),
    ],
)
def test_a_page_has_a_summary_and_every_option(made: Path, program: str, parts: tuple[str, ...]) -> None:
    page = (made / program / f"usr/share/man/man1/{program}.1").read_text()
    name = program.replace("-", "\\-")
    _, summary, _ = page.split(".SH NAME\n", 1)[1].partition(f"{name} \\- ")
    assert summary, "man-db finds a page by it"
    assert [part for part in parts if part not in page] == []


@pytest.mark.parametrize(
    "program", ["ltp-switcher", "ltp-switcher-fleet", "ltp-switcher-api", "ltp-owl-agent"]
)
def test_a_script_for_each_shell(made: Path, program: str) -> None:
    usr = made / program / "usr/share"
    bash, zsh = usr / f"bash-completion/completions/{program}", usr / f"zsh/vendor-completions/_{program}"
    subprocess.run(("bash", "-n", bash), check=True)
    assert "--version" in bash.read_text()
    assert zsh.read_text().startswith(f"#compdef {program}\n")


def test_the_same_parser_makes_the_same_pages(made: Path, tmp_path: Path) -> None:
    subprocess.run((sys.executable, MANUAL, tmp_path), check=True)
    for file in (path for path in made.rglob("*") if path.is_file()):
        assert (tmp_path / file.relative_to(made)).read_bytes() == file.read_bytes()
