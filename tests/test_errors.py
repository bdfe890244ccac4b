# SPDX-License-Identifier: Apache-2.0
"""The text that an error shows to a user."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.house import House

from ltp_switcher.errors import reason

ROOT = Path(__file__).parent.parent


def test_the_reason_is_in_words(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"\[Errno 2\]") as found:
        (tmp_path / "gone").read_text()
    assert reason(found.value) == "No such file or directory"
    assert reason(OSError("cannot seek")) == "cannot seek"
    assert reason(ValueError("line 1")) == "line 1"


def told_whole(source: str) -> list[int]:
    """Lines that put a caught `OSError` into a text as it is: with number and path."""
    return [
        shown.lineno
        for handler in ast.walk(ast.parse(source))
        if isinstance(handler, ast.ExceptHandler) and handler.type is not None and handler.name
        if "OSError" in ast.unparse(handler.type)
        for node in ast.walk(handler)
        for shown in _shown(node)
        if isinstance(shown, ast.Name) and shown.id == handler.name
    ]


def _shown(node: ast.AST) -> Iterator[ast.expr]:
    """The values that a part of the code turns into text."""
    if isinstance(node, ast.FormattedValue) and node.conversion != ord("r"):
        yield node.value
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        yield from node.args if called in ("str", "print") or called.startswith("log.") else ()


@pytest.mark.parametrize(
    "told", ['raise X(f"no: {e}")', "print(e)", 'log.warning("no: %s", e)', "x = str(e)"]
)
def test_an_error_told_with_its_number_is_found(told: str) -> None:
    assert told_whole(f"try:\n    pass\nexcept (OSError, ValueError) as e:\n    {told}\n") == [4]
    assert told_whole(f"try:\n    pass\nexcept ValueError as e:\n    {told}\n") == []


def test_no_message_has_the_number_of_an_error() -> None:
    sources = {
        name: (ROOT / name).read_text()
        for name in sorted(House.at(ROOT).files)
        if name.endswith(".py") and not name.startswith(("tests/", ".ci/"))
    }
    caught = {name: source for name, source in sources.items() if "OSError" in source}
    assert [f"{name}:{line}" for name, source in caught.items() for line in told_whole(source)] == []
