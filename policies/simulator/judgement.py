# SPDX-License-Identifier: Apache-2.0
"""The common output of the policies' `evaluate` commands: figures beside their targets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from ltp_switcher.figures import Figure

_VERDICTS: Final = {None: "", True: "met", False: "missed"}


def show(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the figures as a table, or as a JSON list of `Figure.to_dict`."""
    if as_json:
        print(json.dumps([figure.to_dict() for figure in figures], indent=1))
        return
    table = Table("scheme", "figure", "measured", "target", "")
    for figure in figures:
        target = "" if figure.target is None else str(figure.target)
        table.add_row(figure.scheme, figure.what, f"{figure.value:.3f}", target, _VERDICTS[figure.met])
    Console().print(table)
