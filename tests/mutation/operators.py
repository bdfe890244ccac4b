# SPDX-License-Identifier: Apache-2.0
"""Small changes of one expression or statement, each as a span of the source and its new text.

The source is rewritten by span, so its layout and its line numbers stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_NEGATED: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
"""Pattern of the operator and its negation."""
_BOUNDARY: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_SWAPPED: Final = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
}
NEGLIGIBLE: Final = 1e-6
"""Constants up to this size guard a division; twice as much guards it as well."""
LARGE: Final = 32
"""Whole number from which on it is a size, of which one more makes no difference."""


@dataclass(frozen=True, order=True)
class Change:
    """One small change.

    start, end: span of the old text, in bytes of the source.
    line: first line of the span, from 1.
    statement: first and last line of the innermost statement, or of its head if it holds others.
    """

    line: int
    start: int
    end: int
    operator: str
    new: str
    statement: tuple[int, int]

    def apply(self, source: str) -> str:
        """Return the source with the change in it."""
        data = source.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


class Source:
    """A module's text by byte offset."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Offset of the node's first byte."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Offset after the node's last byte."""
        if node.end_lineno is None or node.end_col_offset is None:
            raise ValueError("the node was not parsed from source")
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, start: int, end: int) -> str:
        """Text of a span."""
        return self._data[start:end].decode()

    def line(self, offset: int) -> int:
        """Line of an offset, from 1."""
        return self._data.count(b"\n", 0, offset) + 1


Edit = tuple[int, int, str]
Operator = Callable[[ast.AST, Source], Iterator[Edit]]


def _between(left: ast.expr, right: ast.expr, pattern: str, new: str, source: Source) -> Iterator[Edit]:
    """Replace the operator between two operands; only brackets and comments may stand beside it."""
    start, end = source.end(left), source.start(right)
    gap = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0].encode()), source.text(start, end))
    if found := re.search(pattern, gap):
        at = start + len(gap[: found.start()].encode())
        yield at, at + len(found[0].encode()), new


def _comparisons(
    node: ast.AST, source: Source, table: dict[type[ast.cmpop], tuple[str, str]], whole: bool
) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    for (left, right), operator in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
        if type(operator) in table and not (whole and not (_is_whole(left) or _is_whole(right))):
            yield from _between(left, right, *table[type(operator)], source)


def _is_whole(node: ast.expr) -> bool:
    """Whether the expression is a whole number by its text: a literal, or a length.

    Two measured quantities are hardly ever equal, so no sensible test can tell `<` from `<=` between them.
    """
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "len"
    return isinstance(node, ast.Attribute) and node.attr == "size"


def negate_comparison(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`<` becomes `>=`, `is` becomes `is not`."""
    yield from _comparisons(node, source, _NEGATED, whole=False)


def move_boundary(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`<` becomes `<=`, between whole numbers."""
    yield from _comparisons(node, source, _BOUNDARY, whole=True)


def swap_arithmetic(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`+` becomes `-`, `*` becomes `/`."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        if not any(isinstance(side, _SEQUENCES) for side in (node.left, node.right)):
            yield from _between(node.left, node.right, *_ARITHMETIC[type(node.op)], source)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        pattern, new = _ARITHMETIC[type(node.op)]
        yield from _between(node.target, node.value, pattern + "=", new + "=", source)


_SEQUENCES: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.JoinedStr)
"""Operands for which another operator is an error of type, which any test would catch."""


def drop_unary(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`-x` becomes `x`, `not x` becomes `x`."""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield source.start(node), source.start(node.operand), ""


def swap_and_or(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`and` becomes `or`."""
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            yield from _between(left, right, rf"\b{old}\b", new, source)


def negate_condition(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`if x` becomes `if not (x)`. Comparisons have an operator of their own."""
    if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        start, end = source.start(node.test), source.end(node.test)
        yield start, end, f"(not ({source.text(start, end)}))"


def change_constant(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`n` becomes `n + 1`, or `2 n` from 32 on; `x` becomes `2 x`; `True` becomes `False`."""
    if not isinstance(node, ast.Constant):
        return
    value, new = node.value, None
    if isinstance(value, bool):
        new = str(not value)
    elif isinstance(value, int):
        new = str(value + 1 if value < LARGE else 2 * value)
    elif isinstance(value, float):
        new = "1.0" if value == 0 else repr(2 * value) if abs(value) > NEGLIGIBLE else None
    if new is not None:
        yield source.start(node), source.end(node), new


def swap_extremes(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`min` becomes `max`, `any` becomes `all`, as functions, methods and of numpy."""
    if not isinstance(node, ast.Call):
        return
    function = node.func
    if isinstance(function, ast.Name) and function.id in _SWAPPED:
        yield source.start(function), source.end(function), _SWAPPED[function.id]
    elif isinstance(function, ast.Attribute) and function.attr in _SWAPPED:
        end = source.end(function)
        yield end - len(function.attr), end, _SWAPPED[function.attr]


def drop_statement(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Leave out a call, a change of an attribute or of an item, or a refusal."""
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    changed = isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Assign)
        and all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    )
    if isinstance(node, ast.stmt) and (called or changed or (isinstance(node, ast.Raise) and node.exc)):
        yield source.start(node), source.end(node), "pass"


def change_return(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Return None in place of a value. A constant has an operator of its own."""
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield source.start(node.value), source.end(node.value), "None"


OPERATORS: Final[dict[str, Operator]] = {
    "negate comparison": negate_comparison,
    "move boundary": move_boundary,
    "swap arithmetic": swap_arithmetic,
    "drop sign or not": drop_unary,
    "swap and/or": swap_and_or,
    "negate condition": negate_condition,
    "change constant": change_constant,
    "swap extremes": swap_extremes,
    "drop statement": drop_statement,
    "return None": change_return,
}
