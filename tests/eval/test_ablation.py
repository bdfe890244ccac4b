# SPDX-License-Identifier: Apache-2.0
"""The ablation of the rule's special cases: those that act on a recording, and the ratios."""

import numpy as np
import pytest
from support.rule_flows import Rtt, run, step_at

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.datapath.recording import ROW_DTYPE
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.errors import ArtifactError, ConfigError
from ltp_switcher.eval.suite.ablation import acting, worth


class Recorded(RuleChooser):
    """A rule that keeps the rows of its steps as a recording has them."""

    def __init__(self) -> None:
        super().__init__([int(ArmId.BBR), int(ArmId.LTP), int(ArmId.VEGAS)], RuleSection())
        self.rows: list[np.ndarray] = []

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Decide, and keep what was decided on."""
        draw = super().step(slots, records, given)
        self.asks(slots)
        self.drains(slots, records)
        self.begins_anew(slots)
        rows = np.zeros(len(slots), ROW_DTYPE)
        rows["step"], rows["slot"], rows["chosen"], rows["record"] = len(self.rows), slots, draw.arms, records
        self.rows.append(rows)
        return draw


def recording(*rtts: Rtt, rate_pps: float = 2000.0) -> np.ndarray:
    """The rule's recording of flows on these paths."""
    chooser = Recorded()
    run(*rtts, chooser=chooser, rate_pps=rate_pps)
    return np.concatenate(chooser.rows)


def test_a_case_acts_where_it_decides_and_nowhere_else() -> None:
    steady = recording(lambda _: 40.0)
    short = recording(lambda _: 3.0, rate_pps=8000.0)
    assert acting(steady, ["short", "lossy", "rivals"]) == []
    assert acting(short, ["short", "lossy", "rivals"]) == ["short"]


def test_a_longer_path_is_found_to_be_a_change_of_the_floor() -> None:
    longer = recording(step_at(5.0, 40.0, 120.0))
    assert "floor-moves" in acting(longer)
    assert "short" not in acting(longer)


def test_a_recording_of_another_rule_is_refused() -> None:
    rows = recording(lambda _: 40.0)
    rows["chosen"][-1] += 1
    with pytest.raises(ArtifactError, match="make the run again"):
        acting(rows)


class Run:
    """A run of this reward."""

    def __init__(self, reward: float) -> None:
        flow = type("Flow", (), {"scheme": "rule", "reward": reward})
        other = type("Flow", (), {"scheme": "cubic", "reward": 1e9})
        self.summary = type("Summary", (), {"flows": (flow, other)})


def test_the_ratio_is_over_the_whole_rule_and_one_where_nothing_differs() -> None:
    whole = {"a": Run(10.0), "b": Run(3.0)}
    found = worth("short", ["b"], whole, {"b": Run(1.5)})
    assert found.ratios == {"a": 1.0, "b": 0.5}
    assert found.mean.value == pytest.approx(0.5**0.5)
    assert worth("short", ["b"], whole, {}).mean is None


def test_an_unknown_case_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"rule\.without: 'shrt'.*short"):
        RuleSection(without=("shrt",))
