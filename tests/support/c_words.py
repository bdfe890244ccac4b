# SPDX-License-Identifier: Apache-2.0
"""Check the comments of a C file: their sentences are plain, and none leans on the code beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from support.pages import SPAN, Piece, sentences, words
from support.words import PHRASES, WORDS_MAX, leans

_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|/\*(?P<block>.*?)\*/|//(?P<line>[^\n]*)""",
    re.DOTALL,
)
_STAR: Final = re.compile(r"^[ \t]*\*(?: |(?=\t)|$)")
_NAME: Final = re.compile(r"[A-Z_0-9]+|(?:enum|struct|union) \w+|\w+\.[ch]")
"""A comment without words: the guard of a header, the type of a member, the file of a declaration."""
_CODE: Final = re.compile(r"`[^`]+`|@\w+")
"""Code in a sentence, or an argument's name: it counts as one word."""
_ITEM: Final = re.compile(r"- ")
_FIELD: Final = re.compile(r"@\w+: ")
"""The beginning of a field in kernel-doc. Its text goes on from the name, as in an `Args:` section."""
_LEANS: Final = re.compile(
    r"(?i:after|at|before|beside|between|by|for|from|in|of|on|since|to|under|until|when|where|which|whose|with"
    r"|within|without|that|those|these|it|its|they|them|the same|likewise|see (?:above|below))\b"
)
"""Beginnings of a note beside code that lean on the code: a note begins with its noun."""
_OWN: Final = re.compile(r"\b(?:mutant|lablink)_\w+(?:\(\)|\.[ch]\b)")
"""A function or a file of the project. Names with other beginnings may be the kernel's."""


def c_comment_faults(name: str, source: str) -> list[str]:
    """Find comments that are not plain, or no sentences; one line for each, as in `words.faults`.

    A comment with lines of its own is a sentence or more. A note beside code may be a noun with its unit.
    An item, a kernel-doc field and an indented row of a table may begin with any word.
    """
    found = []
    for match in _TOKEN.finditer(source):
        if match["text"] is not None:
            continue
        text = match["block"] if match["line"] is None else match["line"]
        if "SPDX-License-Identifier" in text or _NAME.fullmatch(text.strip()):
            continue
        beside = bool(source[source.rfind("\n", 0, match.start()) + 1 : match.start()].strip())
        first = source.count("\n", 0, match.start()) + 1
        for block, free in _blocks(first, text):
            found += [f"{name}:{block.line}: {fault}" for fault in _faults(block.text, beside, free)]
    return found


def c_reference_faults(sources: Mapping[str, str]) -> list[str]:
    """Find comments that name a function or a file of the project that is not there, as in `words.faults`.

    Args:
        sources: all C files by path.
    """
    files = {name.rpartition("/")[2] for name in sources}
    code = {word for source in sources.values() for word in re.findall(r"\w+", _TOKEN.sub(" ", source))}
    return [
        f"{name}:{source.count(chr(10), 0, comment.start() + named.start()) + 1}: no such name: {named[0]}"
        for name, source in sources.items()
        for comment in _TOKEN.finditer(source)
        if comment["text"] is None
        for named in _OWN.finditer(comment[0])
        if named[0] not in files and named[0].removesuffix("()") not in code
    ]


def _faults(text: str, beside: bool, free: bool) -> Iterator[str]:
    for number, sentence in enumerate(sentences(_CODE.sub(SPAN, text))):
        if words(sentence) > WORDS_MAX:
            yield f"{words(sentence)} words in a sentence: {sentence[:60]}…"
        yield from (f"“{name}”: {sentence}" for name, phrase in PHRASES.items() if phrase.search(sentence))
        if not free and (_LEANS.match(sentence) and not number if beside else leans(sentence)):
            yield f"a fragment: {sentence}"


def _blocks(first: int, text: str) -> Iterator[tuple[Piece, bool]]:
    """Yield a comment's paragraphs, items, fields and rows, and whether each may begin with any word.

    An item or a row goes on in lines that are indented more than its own.
    """
    lead = _FIELD if text.startswith("*") else _ITEM
    begun: list[str] = []
    line, free, depth = first, False, 0
    for number, raw in enumerate(text.strip("*").split("\n"), first):
        bare = (_STAR.sub("", raw) if number > first else raw.strip()).expandtabs()
        indent = len(bare) - len(bare.lstrip())
        starts = bool(lead.match(bare)) or (indent > 0 and not (free and indent > depth))
        if begun and (not bare.strip() or starts or (free and not indent)):
            yield Piece(line, " ".join(begun)), free
            begun = []
        if bare.strip():
            if not begun:
                line, free, depth = number, starts, indent
            begun.append(lead.sub("", bare.strip()))
    if begun:
        yield Piece(line, " ".join(begun)), free
