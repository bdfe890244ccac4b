# SPDX-License-Identifier: Apache-2.0
"""The paths of the encoder's data set: splits, pools and flows."""

from __future__ import annotations

from collections import Counter

from ltp_switcher.eval.run.collection import draw_paths, draw_pool


def test_the_paths_and_pools_cover_flows_and_arms_evenly() -> None:
    paths = draw_paths(16.0, seed=1)
    assert Counter(split for split, _ in paths) == {"train": 144, "validation": 24, "test": 48}
    assert len({scenario.name for _, scenario in paths}) == 216
    # All splits grow together, so that a part of the collection is a small data set.
    assert {split for split, _ in paths[:9]} == {"train", "validation", "test"}
    flows = Counter(len(scenario.flows) for _, scenario in paths)
    assert set(flows) == {1, 2, 3}
    assert min(flows.values()) > 50
    for _, scenario in paths:
        starts_s = [flow.start_s for flow in scenario.flows]
        assert starts_s[0] == 0
        assert starts_s == sorted(starts_s)
        assert starts_s[-1] <= 16 / 3 + 0.05
        assert {(flow.scheme, flow.stop_s) for flow in scenario.flows} == {("random", 16.0)}
    pools = [draw_pool(number) for number in range(len(paths))]
    assert all(len(set(pool)) == 6 and {"bbr", "vegas", "ltp"} <= set(pool) for pool in pools)
    others = Counter(arm for pool in pools for arm in pool[3:])
    assert set(others.values()) == {54}
    assert {"jury", "spine", "owl", "cubic"} <= set(others)
    assert len(others) == 12


def test_the_draw_is_the_same_again_and_differs_by_seed() -> None:
    assert draw_paths(16.0, seed=1) == draw_paths(16.0, seed=1)
    assert draw_paths(16.0, seed=1) != draw_paths(16.0, seed=2)
