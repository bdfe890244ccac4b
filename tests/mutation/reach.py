# SPDX-License-Identifier: Apache-2.0
"""Tells which tests reach a line of the package: recorded once for each state of the tree, and cached."""

from __future__ import annotations

import ast
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ltp_switcher.cache import cache_dir
from mutation import tree
from mutation.operators import Change
from mutation.recorder import FOLDERS

PACKAGE: Final = "ltp_switcher"
_RECORD_LIMIT_S: Final = 1800
_RECORDED_AT_ONCE: Final = 6
"""Files of tests."""
_IMPORTED: Final = ""
"""The context of a line that ran while its module was imported."""


@dataclass(frozen=True)
class Reach:
    """The tests that reach each line.

    seconds: CPU time of each test that passes.
    failing: tests that do not pass without any fault.
    lines: by path and line, the tests, the files of tests, and "" for an import.
    importers: by path, the modules that import it.
    """

    seconds: Mapping[str, float]
    failing: frozenset[str]
    lines: Mapping[str, Mapping[int, frozenset[str]]]
    importers: Mapping[str, frozenset[str]]

    def tests(self, path: str, change: Change) -> list[str]:
        """Return the tests that may reach a change, the most promising first.

        A line that runs on import alone, such as a constant, is reached by all tests of its module and of the
        modules that import it. A line that no test reaches may run in a process that a test starts: there all
        tests of the folder count.
        """
        lines = self.lines.get(path, {})
        first, last = change.statement
        contexts = frozenset[str]().union(*(lines.get(line, frozenset()) for line in range(first, last + 1)))
        found = self._expand(contexts)
        if not found and _IMPORTED in contexts:
            for module in (path, *self.importers.get(path, ())):
                found |= self._expand(frozenset[str]().union(*self.lines.get(module, {}).values()))
        area = path.split("/")[0]
        found = found or {test for test in self.seconds if test.split("/")[1] == area}
        return sorted(found, key=lambda test: (test.split("/")[1] != area, self.seconds[test], test))

    def _expand(self, contexts: frozenset[str]) -> set[str]:
        """The tests behind contexts; a file stands for all of its tests."""
        wide = {name for name in contexts if "::" not in name and name != _IMPORTED}
        return {
            test for test in self.seconds if test in contexts or (wide and test.partition("::")[0] in wide)
        }


def reach(root: Path, copy: Path, jobs: int, tell: Callable[[str], None]) -> Reach:
    """Return which tests reach which lines, from the cache or by running all tests once.

    Args:
        root: the repository.
        copy: a copy of its tree, in which the tests run.
        jobs: how many run side by side.
        tell: takes a sentence of progress.
    """
    folder = cache_dir() / "mutation"
    folder.mkdir(parents=True, exist_ok=True)
    tests = tests_of(root)
    shared = code_state(root)
    records = {name: folder / f"{digest(root, [name], shared)}.json" for name in tests}
    missing = [name for name in tests if not records[name].exists()]
    if missing:
        tell(f"recording which lines {len(missing)} test files reach")
        with ThreadPoolExecutor(jobs) as pool:
            # A few files at a time: what was recorded before an interruption is kept.
            shares = [
                part[first : first + _RECORDED_AT_ONCE]
                for part in tree.parts(missing)
                for first in range(0, len(part), _RECORDED_AT_ONCE)
            ]
            list(pool.map(lambda share: _record(copy, share, records), shares))
    known = [path for path in records.values() if path.exists()]
    return _merge([json.loads(path.read_text()) for path in known], importers(root, tree.files(root)))


def _matters(name: str) -> bool:
    """Whether what a test does may depend on the file."""
    top = name.split("/")[0]
    return top in (*FOLDERS, "src", "tests", "eval", "pyproject.toml") and not name.startswith(
        "tests/mutation/"
    )


def tests_of(root: Path) -> list[str]:
    """The files of tests, without the tool's own: it is not judged."""
    return sorted(
        name for name in tree.files(root)
        if name.startswith("tests/") and PurePosixPath(name).match("test_*.py")
        and not name.startswith("tests/mutation/")
    )  # fmt: skip


def code_state(root: Path) -> str:
    """A digest of all files on which tests may depend, without the files of tests."""
    tests = set(tests_of(root))
    return digest(root, [name for name in tree.files(root) if name not in tests and _matters(name)])


def digest(root: Path, names: list[str], seed: str = "") -> str:
    """A digest of files, by their names and contents."""
    made = hashlib.sha256(seed.encode())
    for name in sorted(names):
        path = root / name
        made.update(f"{name}\0".encode() + (b"" if path.is_symlink() else path.read_bytes()))
    return made.hexdigest()[:24]


def _record(copy: Path, tests: list[str], records: Mapping[str, Path]) -> None:
    """Run files of tests once, and write a record for each."""
    if not tests:
        return
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        more = {"LTP_MUTATION_RECORD": file.name}
        ended = tree.pytest(copy, tests, _RECORD_LIMIT_S, ["-p", "mutation.recorder"], more)
        if ended.status not in (0, 1, 5):
            raise RuntimeError(f"the tests do not run: {ended.output[-2000:]}")
        text = file.read()
        if not text:
            raise RuntimeError(f"a test was cut off after its time: {ended.output[-2000:]}")
        record = json.loads(text)
    for name in tests:
        mine = {test: s for test, s in record["tests"].items() if test.partition("::")[0] == name}
        failing = [test for test in record["failing"] if test.partition("::")[0] == name]
        lines = {
            path: {
                line: kept
                for line, contexts in by_line.items()
                if (kept := [c for c in contexts if c == _IMPORTED or c.partition("::")[0] == name])
            }
            for path, by_line in record["lines"].items()
        }
        records[name].write_text(json.dumps({"tests": mine, "failing": failing, "lines": lines}))


def _merge(records: list[dict[str, Any]], importers: Mapping[str, frozenset[str]]) -> Reach:
    seconds: dict[str, float] = {}
    failing: set[str] = set()
    lines: dict[str, dict[int, set[str]]] = {}
    for record in records:
        seconds |= record["tests"]
        failing |= set(record["failing"])
        for path, by_line in record["lines"].items():
            for line, contexts in by_line.items():
                lines.setdefault(path, {}).setdefault(int(line), set()).update(contexts)
    frozen = {path: {line: frozenset(c) for line, c in by.items()} for path, by in lines.items()}
    return Reach(seconds, frozenset(failing), frozen, importers)


def importers(root: Path, names: list[str]) -> dict[str, frozenset[str]]:
    """Return, by path, the modules of the package that import it directly."""
    modules = {
        _dotted(name): name for name in names if name.endswith(".py") and name.split("/")[0] in FOLDERS
    }
    found: dict[str, set[str]] = {}
    for name in modules.values():
        for wanted in _imports(ast.parse((root / name).read_text())):
            if wanted in modules:
                found.setdefault(modules[wanted], set()).add(name)
    return {path: frozenset(by) for path, by in found.items()}


def _dotted(name: str) -> str:
    path = PurePosixPath(name).with_suffix("")
    parts = path.parent.parts if path.name == "__init__" else path.parts
    return ".".join((PACKAGE, *parts))


def _imports(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
