# SPDX-License-Identifier: Apache-2.0
"""The page docs/claims.md, made from docs/claims.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import TextWrapper, fill
from typing import Final

from ltp_switcher.eval.report.claims.catalogue import CLAIMS
from ltp_switcher.eval.report.claims.record import (
    RECORD,
    Baselines,
    Judged,
    Measured,
    Record,
    Row,
    Verdict,
)

PAGE: Final = RECORD.with_suffix(".md")
PICTURES: Final = RECORD.parent / "img"
LINE: Final = 120
"""Longest line of text. A row of a table is one line at any length."""

_NOT_KNOWN: Final = "not known"
_FIGURE_HEAD: Final = (
    "scheme", "figure", "target", "value", "single seeds", "seeds", "ran on", "revision", "verdict",
)  # fmt: skip
_MEANING: Final[Mapping[Verdict, str]] = {
    Verdict.MET: "The paper's figure is reached, over the paper's range and by the paper's definition.",
    Verdict.NARROWER: "The target is reached, but on a narrower range than the paper's, or by another "
    "definition. The column *difference* says how.",
    Verdict.OWN: "The paper gives no figure. A target of this project is reached.",
    Verdict.MISSED: "The target is not reached.",
    Verdict.UNKNOWN: "Nobody wrote the value down.",
}
_HEAD: Final = """\
<!-- Made by `ltp-eval claims-page` from claims.json. Edit that file instead. -->
# The learned arms: claims of their papers, and our figures
LTP, Jury, Spine and Owl are re-implementations. This page sets the papers' experiments against ours.
`ltp-eval claims --update` runs ours again and writes [`claims.json`](claims.json). `ltp-eval claims-page`
makes this page from that file, and draws the pictures that no full run has made. The
[lab notes](lab-notes/README.md) explain missed targets.
"""


def picture_name(claim: str) -> str:
    """Return the name of a claim's picture in `PICTURES`."""
    return f"claims-{claim}.png"


def render(record: Record) -> str:
    """Return the page's text, in Markdown."""
    parts = [
        _HEAD,
        *_in_short(record),
        "## Verdicts\n",
        _verdicts(record),
        "## Row by row\n",
        _table(
            ("claim", "in the paper", "here", "difference", "figures"),
            ((row.text, row.paper, row.here, row.difference, _outcome(row)) for row in record.rows),
        ),
        *_figures(record.rows),
        "## Constants that were chosen on the links that judge them\n"
        "These figures are no blind test of the constants.\n",
        _table(
            ("constant", "in", "chosen on", "judges"),
            ((one.constant, f"`{one.file}`", one.chosen_on, one.judges) for one in record.constants),
        ),
        *_baselines(record.baselines),
        *_pictures(record.rows, PICTURES),
    ]
    return "\n".join(parts)


def _in_short(record: Record) -> Iterator[str]:
    """Yield the page's first part: the figures that are met in the papers' own terms, the numbers of all
    others, and the experiments that were not run.
    """
    figures = [(row, figure) for row in record.rows for figure in row.figures]
    met = [f"{row.text}: {one.figure} of {one.scheme}" for row, one in figures if one.verdict is Verdict.MET]
    count = Counter(figure.verdict for _, figure in figures)
    missed = Counter(row.text for row, figure in figures if figure.verdict is Verdict.MISSED)
    yield "## In short\n"
    yield _paragraph(
        f"**{len(met)} of {len(figures)} figures are met in the papers' own terms**, over the paper's range "
        "and by the paper's definition:"
    )
    yield _items(met)
    yield _paragraph(
        f"{count[Verdict.NARROWER]} more are reached on a narrower range or by another definition. "
        f"{count[Verdict.OWN]} reach a target of this project, because the paper gives no figure. "
        f"{count[Verdict.MISSED]} are **missed**:"
    )
    yield _items(f"{text}: {number}" for text, number in missed.items())
    if record.not_run:
        yield "**Not run**, of the papers' experiments:\n"
        yield _items(f"{one.paper}: {one.experiments}" for one in record.not_run)
    yield _paragraph(
        "The shipped weights were not made by today's recipes. Each card names the revision and the command "
        "that made its weights; trainers, simulator and signals have changed since."
    )


def _paragraph(text: str) -> str:
    return fill(text, LINE, break_long_words=False, break_on_hyphens=False) + "\n"


def _items(texts: Iterable[str]) -> str:
    wrap = TextWrapper(
        LINE, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "".join(wrap.fill(text) + "\n" for text in texts)


def _verdicts(record: Record) -> str:
    count = Counter(figure.verdict for row in record.rows for figure in row.figures)
    rows = ((verdict, _MEANING[verdict], str(count[verdict])) for verdict in Verdict if count[verdict])
    return _table(("verdict", "meaning", "figures"), rows)


def _outcome(row: Row) -> str:
    """Tell how many of a row's figures have each verdict."""
    count = Counter(figure.verdict for figure in row.figures)
    return "; ".join(f"{count[verdict]} {_shown(verdict)}" for verdict in Verdict if count[verdict])


def _shown(verdict: Verdict) -> str:
    return f"**{verdict}**" if verdict is Verdict.MISSED else str(verdict)


def _figures(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "## Figures\n"
        "*Single seeds* has the least and the largest value of one seed. *Seeds* has the seeds themselves.\n"
    )
    for row in rows:
        # A command with words around it already has its code in backticks.
        command = row.command if "`" in row.command else f"`{row.command}`"
        yield f"### {row.text}\n{command}\n"
        yield _table(_FIGURE_HEAD, map(_figure_cells, row.figures))
        if row.notes:
            yield _items(row.notes)


def _figure_cells(figure: Judged) -> Sequence[str]:
    spread = figure.spread
    return (
        figure.scheme,
        figure.figure,
        str(figure.target),
        _number(figure.value),
        _NOT_KNOWN if spread is None else f"{_number(spread[0])} to {_number(spread[1])}",
        _seeds(figure.seeds),
        figure.ran_on or _NOT_KNOWN,
        _short(figure.revision),
        _shown(figure.verdict),
    )


def _seeds(seeds: Sequence[int] | None) -> str:
    return _NOT_KNOWN if seeds is None else ", ".join(map(str, seeds))


def _short(revision: str | None) -> str:
    return _NOT_KNOWN if revision is None else f"`{revision[:7]}`"


def _number(value: float | None) -> str:
    return _NOT_KNOWN if value is None else f"{value:.4g}"


def _baselines(parts: Sequence[Baselines]) -> Iterator[str]:
    yield "## The kernel's own protocols on the same paths\n"
    for part in parts:
        schemes = tuple(dict.fromkeys(figure.scheme for figure in part.figures))
        values: dict[str, dict[str, str]] = {}
        for figure in part.figures:
            values.setdefault(figure.figure, {})[figure.scheme] = _number(figure.value)
        yield f"### {part.text}\n{'; '.join(dict.fromkeys(map(_how, part.figures)))}.\n"
        rows = ((what, *(row.get(scheme, "") for scheme in schemes)) for what, row in values.items())
        yield _table(("figure", *schemes), rows)


def _how(figure: Measured) -> str:
    """How a figure was measured, in words."""
    seeds = f"seeds {_seeds(figure.seeds)}" if figure.seeds is None or len(figure.seeds) > 1 else "one seed"
    short = "full length" if figure.shortened is None else f"shortened ({figure.shortened})"
    return f"{figure.ran_on or 'kernel not known'}, {seeds}, {short}, revision {_short(figure.revision)}"


def _pictures(rows: Sequence[Row], folder: Path) -> Iterator[str]:
    shown = [claim for claim in CLAIMS if (folder / picture_name(claim.name)).is_file()]
    if shown:
        yield "## Pictures\n"
    for claim in shown:
        targets: dict[str, list[str]] = {}
        for figure in (one for row in rows if row.claim == claim.name for one in row.figures):
            names = targets.setdefault(str(figure.target), [])
            names += [figure.figure] if figure.figure not in names else []
        yield f"![{claim.text}]({folder.name}/{picture_name(claim.name)})\n"
        for row in rows:
            if row.claim == claim.name and row.picture:
                yield _paragraph(row.picture)
        yield _items(f"target {target}: {', '.join(names)}" for target, names in targets.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |\n" for line in lines)
