# SPDX-License-Identifier: Apache-2.0
"""Replays of the live learner in true time, on flows that are made here."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.errors import RefusedError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.report import traffic_replay
from ltp_switcher.eval.report.traffic_flows import FLOW_DTYPE, FlowSet, flows_csv, read_flows

PATHS = ("better", "worse")
SPEEDS = {"switcher": (1.0, 2.0), "vegas": (2.2, 0.8), "bbr": (0.9, 1.5)}
"""Mbit/s of each scheme on each path."""


def made(speeds: dict[str, tuple[float, float]], flows: int = 60, tails: float = 0.0) -> FlowSet:
    """Visits of two flows of 100 KB each, every 30 s, with an RTT of 50 ms and noise in their speed.

    With `tails` the noise is Student's t with three degrees of freedom and this standard deviation.
    """
    parts = []
    for scheme, of_path in enumerate(speeds.values()):
        for path, mbps in enumerate(of_path):
            run = np.zeros(flows, FLOW_DTYPE)
            rng = np.random.default_rng((scheme, path))
            noise = tails * rng.standard_t(3, flows) / math.sqrt(3) if tails else rng.normal(0.0, 0.1, flows)
            run["scheme"], run["seed"], run["path"] = scheme, 1, path
            run["at_s"] = 30.0 * (np.arange(flows) // 2) + np.arange(flows) % 2 * 0.1
            run["asked_bytes"], run["delivered"], run["rtt_ms"] = 100_000, 70, 50.0
            run["took_s"] = 0.8 / mbps * np.exp(noise)
            run["information"] = 1.0
            parts.append(run)
    return FlowSet(tuple(speeds), PATHS, np.concatenate(parts))


def test_gains_are_those_of_the_speeds() -> None:
    """A reward is the square of the speed where RTT and losses are equal."""
    better, worse = traffic_replay.measured(made(SPEEDS), "switcher")
    for path, of_path in ((better, 0), (worse, 1)):
        assert {lot: len(visits) for lot, visits in path.visits.items()} == dict.fromkeys(path.visits, 30)
        for scheme, speeds in SPEEDS.items():
            lot = 0 if scheme == "switcher" else int(ArmId[scheme.upper()])
            expected = 2 * math.log(speeds[of_path] / SPEEDS["switcher"][of_path])
            assert path.gains[lot] == pytest.approx(expected, abs=0.1)


def test_the_learner_finds_the_better_arm_within_its_budget() -> None:
    paths = traffic_replay.measured(made(SPEEDS), "switcher")
    for seed in (1, 2):
        found = traffic_replay.replay(paths, seed, 150)
        assert found == traffic_replay.replay(paths, seed, 150)
        assert [(window.first, window.last) for window in found.windows] == [
            (1, 10), (11, 30), (31, 100), (101, 150),
        ]  # fmt: skip
        assert found.windows[-1].closed > 0.6
        # Half of the log gap of two paths is on one of them.
        assert found.windows[-1].reward == pytest.approx(2.2 ** found.windows[-1].closed, rel=0.08)
        assert found.ledger <= 0.02
        assert found.path_changes <= 1


def test_where_no_arm_is_better_it_stays_with_the_decision() -> None:
    worse = {"switcher": (1.0, 2.0), "vegas": (0.7, 1.2)}
    found = traffic_replay.replay(traffic_replay.measured(made(worse), "switcher"), 1, 100)
    assert math.isnan(found.windows[-1].closed)
    assert 0.97 <= found.windows[-1].reward <= 1.0


def test_where_all_arms_are_alike_hardly_a_visit_runs_on_another_incumbent() -> None:
    """Log rewards of flows differ by 1, with heavy tails, and a server has two prefixes."""
    paths = traffic_replay.alike(traffic_replay.measured(made(SPEEDS, flows=400, tails=0.5), "switcher"))
    for path in paths:
        assert len({id(visits) for visits in path.visits.values()}) == 1
    found = [traffic_replay.replay(paths, seed, 200) for seed in (1, 2, 3, 4)]
    assert [window.reward for one in found for window in one.windows] == [1.0] * 16
    assert np.mean([window.others for one in found for window in one.windows]) < 0.03
    assert max(window.others for one in found for window in one.windows) < 0.2
    assert sum(window.trials for one in found for window in one.windows) > 0


def test_the_command_prints_means_and_gives_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flows.csv").write_text(flows_csv(made(SPEEDS)))
    command = ["traffic-replay", str(tmp_path), "--visits", "30", "--replays", "2"]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    assert "2 replays of better, worse" in out
    assert "11 to 30" in out
    assert cli.main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["replays"]) == 2
    assert found["paths"]["better"][str(int(ArmId.VEGAS))] == pytest.approx(1.58, abs=0.1)


def test_flows_without_arms_are_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text(flows_csv(made({"switcher": (1.0, 1.0)})))
    with pytest.raises(RefusedError, match="--schemes switcher,ltp,bbr"):
        traffic_replay.measured(read_flows([tmp_path]), "switcher")


def test_a_path_with_few_visits_is_not_replayed() -> None:
    flows = made(SPEEDS).flows
    # Vegas keeps four visits, one less than a lot needs, on the second path.
    few = (flows["scheme"] == 1) & (flows["path"] == 1) & (flows["at_s"] >= 4 * 30.0)
    paths = traffic_replay.measured(FlowSet(tuple(SPEEDS), PATHS, flows[~few]), "switcher")
    assert [path.path for path in paths] == ["better"]
    one_more = few & (flows["at_s"] >= 5 * 30.0)
    paths = traffic_replay.measured(FlowSet(tuple(SPEEDS), PATHS, flows[~one_more]), "switcher")
    assert [path.path for path in paths] == ["better", "worse"]
