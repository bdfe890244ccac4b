# SPDX-License-Identifier: Apache-2.0
"""Output of all commands: a table for people, or JSON for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib.util import find_spec

from rich.console import Console
from rich.table import Table

from ltp_switcher.errors import LtpSwitcherError
from ltp_switcher.eval.run.summary import rounded


def show(
    options: argparse.Namespace, console: Console, value: object, table: Callable[[], Table | str]
) -> None:
    """Print the value as JSON under `--json`, and the table otherwise."""
    if options.json:
        console.out(json_text(value), end="", highlight=False)
    else:
        console.print(table(), highlight=False)


def json_text(value: object) -> str:
    """Return the value as JSON, with six decimals at most, null for NaN, and a final line break."""
    return json.dumps(rounded(value), indent=2) + "\n"


def need_pictures(*, placed: bool = False) -> None:
    """Check that pictures can be drawn, before hours of runs and not after them.

    With `placed`, scikit-learn is needed, too, because it places the points of some pictures.

    Raises:
        LtpSwitcherError: a package for pictures is not installed.
    """
    needed = {"matplotlib": "matplotlib", **({"sklearn": "scikit-learn"} if placed else {})}
    for module, package in needed.items():
        if find_spec(module) is None:
            raise LtpSwitcherError(f"the pictures need {package}: pip install 'ltp-switcher[eval]'")
