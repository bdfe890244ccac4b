# SPDX-License-Identifier: Apache-2.0
"""A Markdown page taken apart: its sentences, code and links, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SPAN: Final = "Span"
"""A code span in a sentence counts as this one word."""

_FENCE: Final = re.compile(r"^\s*(```|~~~)\s*(\w*)")
_SHELLS: Final = ("sh", "bash", "shell", "console")
_ITEM: Final = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_SPAN: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)[^)]*\)")
_TABLE_RULE: Final = re.compile(r"^\|[\s:|-]+\|?$")
_CELLS: Final = re.compile(r"(?<!\\)\|")
_ABBREVIATION: Final = re.compile(r"\b(Eqs?|Figs?|Sec|al|e\.g|i\.e|vs|cf|No)\. ")
_END: Final = re.compile(r"(?<=[.!?])[\"”')\]*]*\s+(?=[\"“(\[*]*[A-Z0-9α-ωΔ…])")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a page and the line that it begins in, from 1."""

    line: int
    text: str


@dataclass(slots=True)
class Page:
    """A page's parts.

    blocks: text without code, one for each paragraph, item, heading and cell of a table. spans: code in a
    sentence. code: lines of code blocks. shell: those of blocks in a shell's language. prose: the other
    lines as they are, but for tables, headings and pictures. links: their targets. headings: their text.
    """

    blocks: list[Piece] = field(default_factory=list)
    spans: list[Piece] = field(default_factory=list)
    code: list[Piece] = field(default_factory=list)
    shell: list[Piece] = field(default_factory=list)
    prose: list[Piece] = field(default_factory=list)
    links: list[Piece] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)


def parse(text: str) -> Page:
    """The parts of a page in Markdown."""
    page = Page()
    paragraph: list[Piece] = []
    language: str | None = None

    def end_paragraph() -> None:
        if paragraph:
            _add(page, Piece(paragraph[0].line, " ".join(piece.text for piece in paragraph)))
            paragraph.clear()

    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if fence := _FENCE.match(raw):
            end_paragraph()
            language = fence[2] if language is None else None
        elif language is not None:
            page.code.append(Piece(number, raw))
            if language in _SHELLS:
                page.shell.append(page.code[-1])
        elif not line:
            end_paragraph()
        elif line.startswith("#"):
            end_paragraph()
            page.headings.append(line.lstrip("#").strip())
            _add(page, Piece(number, page.headings[-1]))
        elif line.startswith("|"):
            end_paragraph()
            if not _TABLE_RULE.match(line):
                for cell in _CELLS.split(line.strip("|")):
                    _add(page, Piece(number, cell.strip()))
        else:
            if _ITEM.match(raw):
                end_paragraph()
                line = _ITEM.sub("", raw).strip()
            paragraph.append(Piece(number, line))
            if not line.startswith("!["):
                page.prose.append(Piece(number, raw))
    end_paragraph()
    return page


def sentences(block: str) -> Iterator[str]:
    """The sentences of a block. An abbreviation's full stop ends none, and becomes another character."""
    yield from _END.split(_ABBREVIATION.sub("\\1\N{ONE DOT LEADER} ", block))


def words(sentence: str) -> int:
    """The number of words. A word holds a letter or a digit."""
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    plain = re.sub(r"[^\w\- ]", "", _LINK.sub(r"\1", heading).lower())
    return plain.strip().replace(" ", "-")


def _add(page: Page, block: Piece) -> None:
    page.spans += [Piece(block.line, found) for found in _SPAN.findall(block.text)]
    page.links += [Piece(block.line, found[1]) for found in _LINK.findall(block.text)]
    text = _LINK.sub(r"\1", _SPAN.sub(SPAN, block.text)).strip()
    if text:
        page.blocks.append(Piece(block.line, text))
