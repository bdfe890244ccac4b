# SPDX-License-Identifier: Apache-2.0
"""The tests that are run for a change."""

from __future__ import annotations

from pathlib import Path

from mutation.operators import Change
from mutation.reach import Reach, importers

SLOW, QUICK, OTHER = (
    "tests/daemon/test_a.py::slow",
    "tests/daemon/test_a.py::quick",
    "tests/eval/test_b.py::other",
)
REACH = Reach(
    seconds={SLOW: 9.0, QUICK: 1.0, OTHER: 0.1},
    failing=frozenset(["tests/daemon/test_a.py::failed"]),
    lines={
        "daemon/a.py": {
            1: frozenset([""]),
            2: frozenset(["", SLOW]),
            3: frozenset([OTHER, SLOW]),
            4: frozenset(["tests/daemon/test_a.py"]),
            5: frozenset(["tests/daemon/test_a.py::failed"]),
        },
        "daemon/user.py": {1: frozenset([QUICK])},
        "daemon/stranger.py": {1: frozenset([OTHER])},
    },
    importers={"daemon/a.py": frozenset(["daemon/user.py"]), "daemon/c.py": frozenset(["daemon/user.py"])},
)


def reaching(path: str, first: int, last: int) -> list[str]:
    return REACH.tests(path, Change(first, 0, 0, "", "", (first, last)))


def test_a_line_is_reached_by_the_tests_that_run_it() -> None:
    assert reaching("daemon/a.py", 2, 2) == [SLOW]


def test_a_line_that_no_test_was_seen_to_run_is_tried_with_all_of_its_folder() -> None:
    for path, line in (("daemon/a.py", 9), ("daemon/a.py", 5), ("daemon/c.py", 1)):
        assert reaching(path, line, line) == [QUICK, SLOW]
    assert reaching("encoder/a.py", 1, 1) == []


def test_tests_of_the_same_folder_come_first_and_then_the_quick() -> None:
    assert reaching("daemon/a.py", 2, 4) == [QUICK, SLOW, OTHER]


def test_a_fixture_of_the_file_stands_for_all_of_its_tests() -> None:
    assert reaching("daemon/a.py", 4, 4) == [QUICK, SLOW]


def test_a_constant_is_reached_by_the_tests_of_its_module_and_of_those_that_import_it() -> None:
    assert reaching("daemon/a.py", 1, 1) == [QUICK, SLOW, OTHER]


def test_importers(tmp_path: Path) -> None:
    sources = {
        "daemon/__init__.py": "",
        "daemon/a.py": "import ltp_switcher.daemon.b",
        "daemon/b.py": "from ltp_switcher.daemon import c",
        "daemon/c.py": "from ltp_switcher.errors import E",
        "mpts/d.py": "def f():\n    from ltp_switcher.daemon.c import x",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert importers(tmp_path, list(sources)) == {
        "daemon/__init__.py": {"daemon/b.py"},
        "daemon/b.py": {"daemon/a.py"},
        "daemon/c.py": {"daemon/b.py", "mpts/d.py"},
    }
