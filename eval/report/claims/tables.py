# SPDX-License-Identifier: Apache-2.0
"""Claims and their figures, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from ltp_switcher.eval.report.claims.runner import Reached
from ltp_switcher.figures import Figure


def claims_table(reached: Sequence[Reached]) -> Table:
    """Return a table with a row for each figure that has a target. The row's last cell holds the other
    schemes' figures.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("claim", "scheme", "figure"):
        table.add_column(name)
    for name in ("target", "reached"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("beside it")
    for one in reached:
        rows = _rows(one)
        for i, (*row, verdict, beside) in enumerate(rows):
            coloured = {"met": "[green]met[/green]", "missed": "[red]missed[/red]"}.get(verdict, verdict)
            first = one.text if i == 0 else ""
            table.add_row(first, *row, coloured, beside, end_section=i + 1 == len(rows))
    return table


def claims_page(reached: Sequence[Reached], how: str) -> str:
    """Return the table as a page of Markdown; `how` names the command and its revision."""
    lines = [
        "# Claims of the learned arms' papers, and the figures reached",
        "",
        how,
        "",
        "| claim | scheme | figure | target | reached | | beside it |",
        "|---|---|---|---|---:|---|---|",
    ]
    for one in reached:
        for i, (*row, verdict, beside) in enumerate(_rows(one)):
            shown = "**missed**" if verdict == "missed" else verdict
            cells = (one.text if i == 0 else "", *row, shown, beside)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _rows(one: Reached) -> list[list[str]]:
    """A row for each figure with a target, and for each scheme that could not run."""
    rows = [_row(figure, one.figures) for figure in one.figures if figure.target is not None]
    return rows + [[scheme, "not available", "", "", "", reason] for scheme, reason in one.missing.items()]


def _row(figure: Figure, figures: Iterable[Figure]) -> list[str]:
    target = figure.target
    met = target is not None and target.met(figure.value)
    beside = [
        f"{other.scheme} {other.value:.3g}"
        for other in figures
        if other.target is None and other.quantity == figure.quantity
    ]
    verdict = "met" if met else "missed"
    return [figure.scheme, figure.what, str(target), f"{figure.value:.3g}", verdict, ", ".join(beside)]
