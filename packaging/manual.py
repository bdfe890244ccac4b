# SPDX-License-Identifier: Apache-2.0
"""Write the manual pages and the completion scripts of the commands, from their parsers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from argparse_manpage.manpage import Manpage  # type: ignore[import-untyped]

import ltp_switcher
from ltp_switcher.api.main import parser as api
from ltp_switcher.api.network_agent.main import parser as agent
from ltp_switcher.completion import script
from ltp_switcher.daemon.cli.main import parser as switcher
from ltp_switcher.daemon.fleet.process import parser as fleet

PARSERS: Final[dict[str, Callable[[], argparse.ArgumentParser]]] = {
    "ltp-switcher": switcher,
    "ltp-switcher-fleet": fleet,
    "ltp-switcher-api": api,
    "ltp-owl-agent": agent,
}
BASH: Final = "usr/share/bash-completion/completions"
ZSH: Final = "usr/share/zsh/vendor-completions"


def page(parser: argparse.ArgumentParser) -> str:
    """A manual page in troff, without a date: the same parser makes the same page."""
    made = Manpage(parser)
    made.date = ""
    made.manual = "ltp-switcher"
    made.version = ltp_switcher.__version__
    name = parser.prog.replace("-", "\\-")
    # man-db finds a page by the sentence in NAME.
    summary = f".SH NAME\n{name} \\- {(parser.description or '').splitlines()[0].rstrip('.')}"
    return str(made).replace(f".SH NAME\n{name}", summary, 1)


def main(root: Path) -> None:
    """Write the files of each program below `root`/PROGRAM."""
    for name, parser in PARSERS.items():
        texts = {
            f"usr/share/man/man1/{name}.1": page(parser()),
            f"{BASH}/{name}": script(parser(), "bash"),
            f"{ZSH}/_{name}": script(parser(), "zsh"),
        }
        for place, text in texts.items():
            file = root / name / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
