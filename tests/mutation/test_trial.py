# SPDX-License-Identifier: Apache-2.0
"""A fault in a small repository is planted, caught or not, and reported."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mutation import report, tree
from mutation.faults import Mutant
from mutation.kept import Kept
from mutation.operators import Change
from mutation.reach import reach
from mutation.sites import changes
from mutation.trial import Outcome, attempt

MODULE = """
HALF = 0.5

def half(x: float) -> float:
    return x * HALF

def unseen(x: float) -> float:
    return -x

def count() -> int:
    n = 0
    while n < 3:
        n += 1
    return n
"""
CONFTEST = """
from ltp_switcher.mpts import constant
import pytest

@pytest.fixture
def number() -> int:
    return constant.NUMBER
"""
TEST = """
from ltp_switcher.mpts.small import count, half
import pytest

def test_half() -> None:
    assert half(2.0) == 1.0

@pytest.mark.parametrize("n", [count()])
def test_count(n: int) -> None:
    assert count() == n

def test_fails() -> None:
    assert half(2.0) == 7.0

def test_constant(number: int) -> None:
    assert number == 1
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one module, of which not everything is tested."""
    root = tmp_path_factory.mktemp("repository")
    for name, text in {
        "mpts/small.py": MODULE,
        "mpts/__init__.py": "",
        "mpts/constant.py": "NUMBER = 1\n\ndef number() -> int:\n    return NUMBER\n",
        "tests/mpts/conftest.py": CONFTEST.replace("constant.NUMBER", "constant.number()"),
        "src/ltp_switcher/__init__.py": "",
        "tests/mpts/test_small.py": TEST,
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['lab', 'slow']",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "src/ltp_switcher/mpts").symlink_to("../../mpts")
    (root / "tests/mutation").symlink_to(Path(__file__).parent)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture(scope="module")
def outcomes(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcome of some changes, by the line as it reads afterwards."""
    with tree.working_copy(repository) as base, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LTP_CACHE", str(tmp_path_factory.mktemp("cache")))
        reached = reach(repository, base, 1, lambda said: None)
        again = reach(repository, Path("/nowhere"), 1, lambda said: pytest.fail("not cached"))
        assert again == reached
        found = {}
        for change in changes("mpts/small.py", MODULE):
            mutant = Mutant("mpts/small.py", change, MODULE)
            line = mutant.text.splitlines()[change.line - 1].strip()
            if line in {"HALF = 1.0", "return x / HALF", "return x", "while n < 4:", "n -= 1"}:
                found[line] = attempt(mutant, base, reached)
        change, _ = changes("mpts/constant.py", (repository / "mpts/constant.py").read_text())
        mutant = Mutant("mpts/constant.py", change, (repository / "mpts/constant.py").read_text())
        found["NUMBER = 2"] = attempt(mutant, base, reached)
        return found


@pytest.mark.parametrize(
    ("line", "caught", "by"),
    [
        ("NUMBER = 2", True, "tests/mpts/test_small.py::test_constant"),
        ("HALF = 1.0", True, "tests/mpts/test_small.py::test_half"),
        ("return x / HALF", True, "tests/mpts/test_small.py::test_half"),
        ("return x", False, "tests pass"),
        ("n -= 1", True, "time or memory"),
        ("while n < 4:", False, "tests pass"),
    ],
)
def test_what_comes_of_a_fault(outcomes: dict[str, Outcome], line: str, caught: bool, by: str) -> None:
    assert outcomes[line].caught is caught
    assert by in outcomes[line].by


def test_the_repository_is_left_as_it_was(repository: Path, outcomes: dict[str, Outcome]) -> None:
    assert (repository / "mpts/small.py").read_text() == MODULE


def test_outcomes_are_kept_until_their_judges_change(
    repository: Path, outcomes: dict[str, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTP_CACHE", str(tmp_path))
    caught, survived, never = (outcomes[line] for line in ("HALF = 1.0", "while n < 4:", "return x"))

    def known() -> list[bool]:
        kept = Kept(repository)
        assert kept.of(caught.mutant) in (caught, None)
        return [kept.of(outcome.mutant) is not None for outcome in (caught, survived, never)]

    for outcome in (caught, survived):
        Kept(repository).keep(outcome)
    assert known() == [True, True, False]
    for path, text, expected in (
        ("tests/mpts/test_other.py", "", [True, False, False]),
        ("tests/mpts/test_small.py", TEST + "\n", [False, False, False]),
        ("mpts/small.py", MODULE + "\n", [False, False, False]),
    ):
        before = (repository / path).read_text() if (repository / path).exists() else None
        (repository / path).write_text(text)
        assert known() == expected
        if before is None:
            (repository / path).unlink()
        else:
            (repository / path).write_text(before)
        assert known() == [True, True, False]


def _run(caught: int, planted: int) -> report.Run:
    mutant = Mutant("mpts/a.py", Change(1, 4, 5, "change constant", "2", (1, 1)), "x = 1\n")
    outcomes = [Outcome(mutant, n < caught, "tests/mpts/test_a.py::test_x", 1.0) for n in range(planted)]
    return report.Run(outcomes, 3, 7, "abc", 60.0)


def test_the_last_line_counts() -> None:
    lines = report.terminal(_run(9, 10)).splitlines()
    assert lines[-1] == "caught 9 of 10"
    assert lines[:3] == [
        "mpts/a.py:1  change constant  (tests/mpts/test_a.py::test_x)",
        "    -x = 1",
        "    +x = 2",
    ]


@pytest.mark.parametrize(("caught", "enough"), [(9, True), (8, False)])
def test_nine_tenths_are_enough(caught: int, enough: bool) -> None:
    assert _run(caught, 10).enough is enough


def test_json_and_page_hold_the_count() -> None:
    found = json.loads(report.as_json(_run(9, 10)))
    assert (found["caught"], found["planted"], found["excused"], found["seed"]) == (9, 10, 3, 7)
    assert found["faults"][9]["diff"] == ["-x = 1", "+x = 2"]
    page = report.page(_run(9, 10))
    assert "**caught 9 of 10**, at revision abc, seed 7.\nThe run took 1 minutes" in page
    assert "| mpts | 10 | 9 |" in page
    assert page.endswith("# mpts/a.py\n-x = 1\n+x = 2\n```\n")
