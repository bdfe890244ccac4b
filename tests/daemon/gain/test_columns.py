# SPDX-License-Identifier: Apache-2.0
"""Reports from kept columns equal the plain definition, also while the log grows and turns over."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import plain_report

from ltp_switcher.daemon.gain import columns, log
from ltp_switcher.daemon.gain import report as reports
from ltp_switcher.daemon.gain.columns import Columns, KeptLog
from ltp_switcher.daemon.gain.effect import Switchback
from ltp_switcher.daemon.gain.report import Report, report
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, RTT_SAMPLES
from ltp_switcher.errors import ArtifactError

NAMES = {1: "cubic", 2: "bbr", 3: "vegas"}
SIZE = ROW_DTYPE.itemsize


def traffic(seed: int, n: int, prefixes: int, blocks: int, active: float) -> np.ndarray:
    """Rows of all kinds, in the order of their times; those of the last design come last."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(n, ROW_DTYPE)
    rows["time_s"] = 1e9 + np.cumsum(rng.uniform(0.1, 3, n))
    rows["duration_s"] = rng.choice([0.5, 10.0], n)
    rows["busy_s"] = rows["duration_s"] * rng.uniform(0.1, 1, n)
    rows["cookie"] = rng.integers(1, max(n // 3, 2), n)
    names = np.array([f"10.{i // 7}.{i * 13 % 256}.0/24".encode() for i in range(prefixes)])
    rows["prefix"] = names[rng.integers(0, prefixes, n) * rng.integers(0, 2, n)]
    rows["arm"], rows["ran"] = rng.integers(1, 4, n), rng.integers(1, 5, n)
    rows["kind"] = rng.integers(0, 5, n)
    rows["active"] = rng.random(n) < active
    rows["ended"] = rng.random(n) < 0.3
    rows["life_s"] = rng.choice([0.0, 1.5, 40.0], n)
    rows["block"] = rng.integers(0, blocks, n) if blocks else -1
    treated = rows["block"] % 2 == 0 if blocks else rows["prefix"] > names[prefixes // 2]
    rows["group"] = np.where(treated, 1, 2)
    rows["group"][rng.random(n) < 0.2] = 3
    rows["group"][: n // 3] = 0
    if n > 10:
        # Of an earlier design.
        rows["block"][n // 3 : n // 2] = -1 if blocks else 5
    rows["reward"] = np.where(rng.random(n) < 0.2, np.nan, rng.random(n))
    rows["acked_bytes"] = rng.choice([0.0, 1e3, 1e6], n) * rng.integers(1, 9, n)
    rows["delivered"] = rows["acked_bytes"] // 1448
    rows["retrans"] = rng.binomial(rows["delivered"].astype(int), 0.02)
    rows["rtt_us"] = np.where(
        rng.random((n, RTT_SAMPLES)) < 0.5, np.nan, rng.integers(0, 90_000, (n, RTT_SAMPLES))
    )
    return rows


def same(one: Report, other: Report) -> None:
    """All figures, to the last digits that another order of a sum moves."""
    found, wanted = flat(dataclasses.asdict(one)), flat(dataclasses.asdict(other))
    for place, value in wanted.items():
        if isinstance(value, float):
            wanted[place] = pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True)
    assert found == wanted


def flat(value: object, path: str = "") -> dict[str, object]:
    """Every figure by its place; the order of the keys counts."""
    parts: dict[object, object] = {}
    if isinstance(value, dict):
        parts = value
    elif isinstance(value, tuple):
        parts = dict(enumerate(value))
    else:
        return {path: value}
    found: dict[str, object] = {path: list(parts)}
    for name, part in parts.items():
        found |= flat(part, f"{path}/{name}")
    return found


some_traffic = st.builds(
    traffic,
    st.integers(0, 2**32 - 1),
    st.integers(0, 400),
    st.integers(1, 60),
    st.sampled_from([0, 6, 40]),
    st.sampled_from([0.0, 0.5, 1.0]),
)


@given(some_traffic, st.sampled_from([0.0, 0.3, 0.9, 2.0]), st.sampled_from([1, 40, 1 << 19]))
def test_a_report_is_the_one_of_the_plain_definition(rows: np.ndarray, cut: float, at_once: int) -> None:
    times = rows["time_s"]
    since_s = float(times[0] + cut * np.ptp(times)) if cut and rows.size else 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltp_switcher.daemon.gain.report._ROWS_AT_ONCE", at_once)
        same(report(rows, NAMES, since_s), plain_report.report(rows, NAMES, since_s))


@settings(max_examples=12)
@given(some_traffic, st.lists(st.integers(10, 150), min_size=1, max_size=4), st.integers(16 * 10, 16 * 30))
def test_kept_columns_are_those_of_the_log(rows: np.ndarray, parts: list[int], bytes_rows: int) -> None:
    """After each part that was added and each file that made room."""
    with TemporaryDirectory() as name:
        folder, kept, begin = Path(name), None, 0
        while begin < len(rows):
            for part in parts:
                writer = log.DecisionWriter(folder, bytes_rows * SIZE, NAMES)
                writer.append(rows[begin : begin + part])
                begin += part
                writer.close()
                kept = kept or KeptLog(folder)
                kept.refresh()
                assert not kept.refresh()
        if kept is None:
            return
        left = np.concatenate([np.zeros(0, ROW_DTYPE), *log.read(folder)])
        assert len(kept.columns) == len(left)
        same(report(kept.columns, kept.names), report(left, NAMES))
        assert set(kept.columns.prefixes) == set(left["prefix"].tolist())


def test_the_latest_design_is_the_last_one_written() -> None:
    """The clock was put back between two experiments."""
    early, late = traffic(1, 90, 8, 0, 1.0), traffic(2, 90, 8, 6, 1.0)
    late["block"][30:] = 2
    late["time_s"] -= 10_000
    assert report(np.concatenate([early, late]), NAMES).design == "switchback"
    assert report(np.concatenate([late, early]), NAMES).design == "holdback"


def test_a_log_that_is_too_large_counts_by_its_newest_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_FILE_BYTES", 100 * SIZE)
    rows = traffic(3, 1000, 9, 0, 1.0)
    for begin in range(0, 1000, 50):
        writer = log.DecisionWriter(tmp_path, 10**9, NAMES)
        writer.append(rows[begin : begin + 50])
        writer.close()
    monkeypatch.setattr(columns, "BYTES_MAX", 330 * SIZE)
    kept = KeptLog(tmp_path)
    kept.refresh()
    assert kept.columns.time_s.tolist() == rows["time_s"][-300:].tolist()
    assert kept.skipped.old == 14


def test_files_that_somebody_else_removed_are_no_fault(tmp_path: Path) -> None:
    rows = traffic(4, 120, 9, 0, 1.0)
    for part in np.split(rows, 4):
        writer = log.DecisionWriter(tmp_path, 10**9, NAMES)
        writer.append(part)
        writer.close()
    kept = KeptLog(tmp_path)
    kept.refresh()
    log.DECISIONS.files_of(tmp_path)[1].unlink()
    assert kept.refresh()
    assert kept.columns.time_s.tolist() == np.delete(rows["time_s"], np.s_[30:60]).tolist()
    for file in log.DECISIONS.files_of(tmp_path):
        file.unlink()
    with pytest.raises(ArtifactError, match="no decisions"):
        kept.refresh()


def test_dropping_rows_forgets_their_prefixes() -> None:
    rows = traffic(5, 200, 50, 0, 1.0)
    kept = Columns.of(rows)
    kept.drop(150)
    same(report(kept, NAMES), report(rows[150:], NAMES))
    assert set(kept.prefixes) == set(rows["prefix"][150:].tolist())
    kept.append(rows[:150])
    same(report(kept, NAMES), report(np.concatenate([rows[150:], rows[:150]]), NAMES))
    assert math.isclose(kept.rtt_us.sum(), np.nansum(rows["rtt_us"]), rel_tol=1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.sampled_from([1, 7, 1 << 16]))
def test_an_effect_does_not_depend_on_the_size_of_the_pieces(seed: int, n: int, at_once: int) -> None:
    """Nor on whether a prefix fits into one."""
    rng = np.random.default_rng(seed)
    prefix = np.repeat(np.arange(n), rng.integers(1, 40, n))
    block = rng.integers(0, 60, prefix.size)
    treated, values = (rng.random(60) < 0.5)[block], rng.normal(size=prefix.size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltp_switcher.daemon.gain.effect._AT_ONCE", at_once)
        found = Switchback(treated, block, prefix).effect(values)
    wanted = plain_report.within(values, treated, block, prefix) if n else None
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        assert flat(dataclasses.astuple(found)) == {
            place: pytest.approx(value, rel=1e-6, abs=1e-8) if isinstance(value, float) else value
            for place, value in flat(dataclasses.astuple(wanted)).items()
        }


@pytest.mark.parametrize("largest", [5, 2**40])
def test_rows_are_grouped_whatever_the_size_of_their_keys(largest: int) -> None:
    keys = np.random.default_rng(1).choice(np.linspace(0, largest, 6).astype(np.int64), 300)
    groups = reports._Groups(np.arange(300, dtype=np.uint32), keys)
    distinct, unit = np.unique(keys, return_inverse=True)
    assert groups.count == distinct.size
    assert np.array_equal(groups.ordered, np.argsort(keys, kind="stable"))
    assert np.array_equal(keys[groups.last], distinct)
    assert np.array_equal(groups.total(lambda at: at), np.bincount(unit, np.arange(300)))
