# SPDX-License-Identifier: Apache-2.0
"""Scripts by which a shell completes a command line, made from the command's parser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

SHELLS: Final = ("bash", "zsh")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script for `shell`, one of `SHELLS`. The script completes arguments of type
    `Path` with file names.
    """
    # Each command of the program imports this module for `SHELLS`, but only one command needs shtab.
    import shtab

    _mark_files(parser, shtab.FILE)
    made: str = shtab.complete(parser, shell=shell)
    return made


def _mark_files(parser: argparse.ArgumentParser, file: object) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_files(command, file)
        elif action.type is Path:
            # shtab reads this attribute.
            action.complete = file  # type: ignore[attr-defined]
