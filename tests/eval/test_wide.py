# SPDX-License-Identifier: Apache-2.0
"""Paths drawn from wide ranges."""

from collections import Counter
from pathlib import Path

from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.suite import paths


def drawn(folder: Path, seed: int, count: int) -> dict[str, str]:
    assert cli.main(["draw", "--wide", str(count), "--seed", str(seed), "--out", str(folder)]) == 0
    return {path.stem: path.read_text() for path in folder.glob("*.toml")}


def test_the_first_paths_are_the_same_for_every_count(tmp_path: Path) -> None:
    few, many = drawn(tmp_path / "few", 3, 10), drawn(tmp_path / "many", 3, 30)
    assert len(few) == 10
    assert few.items() <= many.items()
    assert not set(few.values()) & set(drawn(tmp_path / "other", 4, 30).values())


def test_the_paths_cover_the_ranges_and_can_be_run(tmp_path: Path) -> None:
    drawn(tmp_path, 3, 300)
    scenarios = list(paths.load(str(tmp_path)).values())
    assert len(scenarios) == 300
    kinds = Counter(paths.family(one.name) for one in scenarios)
    assert len(kinds) == 9
    assert min(kinds.values()) >= 6
    assert {paths.kind(one) for one in scenarios} == {"static", "changing", "trace"}
    rates = [one.link.rate_mbps for one in scenarios if one.link.rate_mbps is not None]
    rtts = [one.link.rtt_ms for one in scenarios]
    assert min(rates) < 1.5
    assert 100 < max(rates) <= 150
    assert min(rtts) < 3
    assert 200 < max(rtts) <= 300
    assert all((2 <= one.link.jitter_ms <= 40) == one.name.startswith("jitter") for one in scenarios)
    for one in scenarios:
        assert one.link.buffer_packets(one.link.rate_mbps or 0.0) >= 5
        for state in one.link.states():
            assert 2 <= state.rtt_ms <= 300
            assert state.rate_mbps is None or 1 <= state.rate_mbps <= 150
