# SPDX-License-Identifier: Apache-2.0
"""The lists fit the code, and the sample follows from its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutation.faults import Excuse, MovedError, draw, excuses, named, stale

ROOT = Path(__file__).parents[2]
SOURCES = {"daemon/a.py": "x = 1\ny = 2\n", "mpts/b.py": "z = a < b\n"}


def test_every_named_fault_is_in_the_code() -> None:
    assert {fault.name for fault in named(ROOT)} >= {"LTP: O_j = 0", "TD3: min → max of the critics"}


def test_every_excuse_fits_the_code() -> None:
    assert stale(ROOT, excuses()) == []


def test_an_excuse_that_fits_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    fits, moved = Excuse("a.py", "x = 1", "x = 2", ""), Excuse("a.py", "y = 1", "y = 2", "")
    assert stale(tmp_path, [fits, moved, Excuse("gone.py", "", "", "")]) == [
        moved,
        Excuse("gone.py", "", "", ""),
    ]


@pytest.mark.parametrize("source", ["x = 2\n", "x = 1\nx = 1\n", None])
def test_a_fault_that_has_moved_is_named(tmp_path: Path, source: str | None) -> None:
    listed = tmp_path / "faults.toml"
    listed.write_text('[[fault]]\nname = "one"\npath = "a.py"\nold = "x = 1"\nnew = "x = 3"\n')
    if source:
        (tmp_path / "a.py").write_text(source)
    with pytest.raises(MovedError, match=r"'one': a\.py holds 'x = 1' [02] times"):
        named(tmp_path, listed)


def test_a_named_fault_is_planted(tmp_path: Path) -> None:
    listed = tmp_path / "faults.toml"
    listed.write_text('[[fault]]\nname = "one"\npath = "a.py"\nold = "β = 1"\nnew = "β = 0"\n')
    (tmp_path / "a.py").write_text("α = 1\nβ = 1\n")
    (fault,) = named(tmp_path, listed)
    assert (fault.text, fault.place, fault.diff) == ("α = 1\nβ = 0\n", "a.py:2", ("-β = 1", "+β = 0"))


def test_the_seed_draws_the_sample() -> None:
    sources = {"daemon/a.py": "".join(f"x{i} = {i}\n" for i in range(200))}
    samples = [[fault.place for fault in draw(sources, seed, 20).mutants] for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert len(set(samples[0])) == 20


def test_an_excused_fault_is_replaced() -> None:
    listed = [Excuse("daemon/a.py", "x = 1", "x = 2", "why")]
    for seed in range(5):
        sample = draw(SOURCES, seed, 9, listed)
        assert sample.excused == listed
        assert sorted(fault.place for fault in sample.mutants) == ["daemon/a.py:2", "mpts/b.py:1"]
