# SPDX-License-Identifier: Apache-2.0
"""Check a page in Markdown: its sentences are plain, and the files and settings that it names exist."""

from __future__ import annotations

import ast
import io
import posixpath
import re
import tokenize
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from support.house import PACKAGE, House
from support.pages import Page, Piece, parse, sentences, slug, words

WORDS_MAX: Final = 32
README_LINES_MAX: Final = 120
LINE_MAX: Final = 120
"""Longest line of text. Tables, headings and pictures cannot be broken, and code runs on as it must."""
_UNBROKEN: Final = "CHANGELOG.md"
"""The page that keeps long lines, an entry each."""

PHRASES: Final = {
    "what, other than in a question": re.compile(r"\bwhat\b(?!.*\?$)", re.IGNORECASE),
    "that of": re.compile(r"\b(that|those) of\b", re.IGNORECASE),
    "stands in": re.compile(r"\b(stand|stands|stood) in\b", re.IGNORECASE),
    "is of": re.compile(r"\b(is|are|was|were) of\b", re.IGNORECASE),
    "by no command": re.compile(r"\bby no command\b", re.IGNORECASE),
    "lest": re.compile(r"\blest\b", re.IGNORECASE),
}
WRITTEN: Final = frozenset(
    (
        "summary.json", "timeseries.csv", "timeline.png", "flows.json", "guest.json", "host.json",
        "report.json", "results.json", "claims.json", "claims.md", "compare.json", "compare.csv",
        "curve.json", "begun.json", "config.toml",
    )
)  # fmt: skip
"""Files that programs write: pages name them, the repository does not hold them."""

_HEADLESS: Final = re.compile(
    r"[a-z]|(?i:also|and|as|beside|between|beyond|both|but|by|else|for|from|in|its?|likewise|of|on|or|over|since|so"
    r"|that|their|they|those|under|until|when|where|which|whom|whose|with|within|without"
    r"|the same (?:as|at|by|for|of|on|over|to|when|where|with|without))\b"
    r"|(?i:at least|at most|the same)[.,;]|\.\.\.|…|-?\d+ (?:for|if|until|when|where)\b|See (?:above|below)\b"
)
"""Beginnings of a docstring that lean on the name or on the line above: no noun or verb comes first."""
_OPENS: Final = re.compile(
    r"(?i:after|as|at|because|before|beside|beyond|by|during|for|from|if|in|of|on|over|since|so that|through"
    r"|to|under|until|when|where|while|with|within|without)\b([^,.:;]*)"
)
"""A beginning that a clause has to follow: it is captured up to the first stop."""
_VERB: Final = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|may|might|can|cannot|could|would|should|will|must|do|does|did|needs?"
    r"|begins?|comes?|counts?|drops?|ends?|falls?|gets?|gives?|goes|keeps?|learns?|reads?|runs?|says?|shows?|stands?"
    r"|takes?|tells?)\b"
)
_CLAUSE: Final = re.compile(r"\b(?:that|when|where|which|who)\b")
_CODE: Final = re.compile(r"`[^`]*`")
_LEANS: Final = re.compile(r"(?i:so that|of (?:these|those|which)|likewise|the same[.,;])|\.\.\.|…")
"""Beginnings of a comment that are no sentence, whatever follows."""
_ASKS: Final = re.compile(r"What\b")
"""A docstring that is half of a question: it tells its reader to find the noun that it should have named."""
_POINTS: Final = re.compile(r"(?i:\bso (?:long|often)\b(?! (?:as|that)\b))")
"""A measure that points at the name beside it, where the docstring should begin with the noun."""
_NO_WORDS: Final = re.compile(r"(?:^|[.,;] |\()(?:NaN|None|null|infinite|0|-1): [a-z]")
"""A value with a colon in place of words: `NaN: it has not` for `NaN if it never did`."""

_SYSTEM: Final = frozenset(
    ("etc", "usr", "var", "run", "proc", "sys", "lib", "dev", "boot", "v1", "health", "metrics")
)
"""First parts of absolute paths that are the same on every machine, and of the API's URLs."""
_ABSOLUTE: Final = re.compile(r"(?<![\w.~$}\])>*:/@-])/([a-z][\w.-]*)")
_SUFFIX: Final = re.compile(r"\.(py|c|h|\[ch\]|md|toml|yaml|sh|npz|json|png|csv|lock|conf)$")
_PATH: Final = re.compile(r"^[\w.\-/*?\[\]{},]+$")
_DOTTED: Final = re.compile(r"^" + PACKAGE + r"(\.[a-z_]\w*)*$")
_KEY: Final = re.compile(r"^([a-z]+)\.[a-z_0-9]+$")


def faults(name: str, text: str, house: House, pages: Mapping[str, str]) -> list[str]:
    """Check a page.

    Args:
        name: its path from the root.
        text: its content.
        house: the names that exist.
        pages: the content of all pages by path; links to headings are looked up there.

    Returns:
        One line for each fault: `path:line: fault`.
    """
    page = parse(text)
    found = [
        *_plainness(page),
        *_links(name, page, house, pages),
        *_absolute(text),
        *(fault for span in page.spans for fault in _named(name, span, house)),
    ]
    if not name.startswith(_UNBROKEN):
        found += _long(page)
    lines = len(text.splitlines())
    if PurePosixPath(name).name == "README.md" and lines > README_LINES_MAX:
        found.append(Piece(1, f"{lines} lines; a README has {README_LINES_MAX} at most"))
    return [f"{name}:{fault.line}: {fault.text}" for fault in sorted(found, key=lambda f: f.line)]


def docstring_faults(name: str, source: str) -> list[str]:
    """Check the docstring of a Python module for unclear phrases; one line for each, as in `faults`."""
    text = ast.get_docstring(ast.parse(source)) or ""
    return [f"{name}:2: {fault.text}" for block in parse(text).blocks for fault in _unclear(block)]


def fragments(name: str, source: str) -> list[str]:
    """Find docstrings that lean on the line above; one line for each, as in `faults`.

    A docstring of a module, class, function or attribute begins with a capital, and with the noun or the verb
    that the rest is about. Code goes in backticks. Sections such as `Args:` begin with a name, and are free.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        text = node.value.value
        if not isinstance(text, str):
            continue
        pointed = _POINTS.search(_line(text).partition(". ")[0])
        if _HEADLESS.match(text.lstrip()):
            found.append(Piece(node.lineno, f"a fragment: {_line(text)}"))
        elif pointed and not name.startswith("tests/"):
            found.append(Piece(node.lineno, f"it points at its name: {_line(text)}"))
        if _ASKS.match(text.lstrip()) and not name.startswith("tests/"):
            found.append(Piece(node.lineno, f"half of a question: {_line(text)}"))
        if _NO_WORDS.search(_line(text)):
            found.append(Piece(node.lineno, f"a value without words: {_line(text)}"))
    return [f"{name}:{fault.line}: {fault.text}" for fault in sorted(found, key=lambda f: f.line)]


def comment_fragments(name: str, source: str) -> list[str]:
    """Find comments that are no sentences; one line for each, as in `faults`.

    Only the beginning of a comment with lines of its own is looked at. It leans on the code where it begins
    with a preposition or a conjunction, and neither a comma nor a verb comes before its first stop.
    """
    found, last = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.line[: token.start[1]].strip():
            continue
        line, before, last = token.start[0], last, token.start[0]
        text = token.string.lstrip("# ")
        if line != before + 1 and leans(text):
            found.append(f"{name}:{line}: a fragment: {text}")
    return found


def leans(text: str) -> bool:
    """Whether a comment is no sentence: a preposition or a conjunction begins it, and no clause follows."""
    plain = _CODE.sub("X", text)
    opening = _OPENS.match(plain)
    alone = (
        opening is not None
        and plain[opening.end() :][:1] != ","
        and not _VERB.search(_CLAUSE.split(opening[1])[0])
    )
    return alone or _LEANS.match(plain) is not None


def _line(text: str) -> str:
    return " ".join(text.split())


def _plainness(page: Page) -> Iterator[Piece]:
    for block in page.blocks:
        for sentence in sentences(block.text):
            count = words(sentence)
            if count > WORDS_MAX:
                yield Piece(block.line, f"{count} words in a sentence: {sentence[:60]}…")
        yield from _unclear(block)


def _unclear(block: Piece) -> Iterator[Piece]:
    for sentence in sentences(block.text):
        for name, phrase in PHRASES.items():
            if phrase.search(sentence):
                yield Piece(block.line, f"“{name}”: {sentence[:60]}…")


def _long(page: Page) -> Iterator[Piece]:
    for line in page.prose:
        if len(line.text) > LINE_MAX:
            yield Piece(line.line, f"a line of {len(line.text)} characters; {LINE_MAX} at most")


def _links(name: str, page: Page, house: House, pages: Mapping[str, str]) -> Iterator[Piece]:
    for link in page.links:
        target, _, anchor = link.text.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = _join(PurePosixPath(name).parent, target) if target else name
        if path not in house.paths:
            yield Piece(link.line, f"link to nothing: {link.text}")
        elif anchor and anchor not in {slug(heading) for heading in parse(pages.get(path, "")).headings}:
            yield Piece(link.line, f"link to no heading: {link.text}")


def _absolute(text: str) -> Iterator[Piece]:
    for number, line in enumerate(text.splitlines(), 1):
        for found in _ABSOLUTE.finditer(line):
            if found[1] not in _SYSTEM:
                yield Piece(number, f"absolute path: {found[0]}")


def _named(name: str, span: Piece, house: House) -> Iterator[Piece]:
    text = span.text.strip()
    key = _KEY.match(text)
    if _DOTTED.match(text):
        module = text if house.has_module(text) else text.rpartition(".")[0]
        if not house.has_module(module):
            yield Piece(span.line, f"no such module: {text}")
    elif _names_path(text):
        if text not in WRITTEN and not _exists(name, text, house):
            yield Piece(span.line, f"no such file: {text}")
    elif key and text not in house.settings and any(name.startswith(f"{key[1]}.") for name in house.settings):
        yield Piece(span.line, f"no such setting: {text}")


def _names_path(text: str) -> bool:
    """Whether a code span is a path of the repository. `.json` alone is a suffix, `out/` is written."""
    if not _PATH.match(text) or text.startswith(("/", "-", "out/", ".cache/", ".venv")):
        return False
    if text.startswith(".") and "/" not in text:
        return False
    return bool(_SUFFIX.search(text)) or text.endswith("/")


def _exists(name: str, text: str, house: House) -> bool:
    """Whether a path is there: from the page's folder or from the root.

    A bare name may also be below the page's folder; in docs/ it may be anywhere, if it is there only once.
    """
    folder = PurePosixPath(name).parent
    once = sum(PurePosixPath(path).name == text for path in house.files) == 1
    if name.startswith("docs/") and once:
        return True
    below = "" if str(folder) == "." else f"{folder}/"
    wanted = {_join(folder, text), posixpath.normpath(text)}
    if "/" not in text and below:
        wanted.add(f"{below}*/{text}")
    return any(
        fnmatchcase(path, pattern)
        for pattern in wanted
        for path in (house.paths if any(c in pattern for c in "*?[") else house.paths & {pattern})
    )


def _join(folder: PurePosixPath, path: str) -> str:
    return posixpath.normpath(posixpath.join(str(folder), path))
