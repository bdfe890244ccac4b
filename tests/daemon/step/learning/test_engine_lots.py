# SPDX-License-Identifier: Apache-2.0
"""A step with flows that stay on their lots: who hears of it, and who keeps away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.fake_kernel import Kernel
from support.records import NETNS, flow, record
from support.told import Module, lot, row

from ltp_switcher.daemon.choose.choice import Cause
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.lab.baselines import RandomChooser
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.datapath.protocol import ArmId, FlowFlags
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.daemon.steer import LearnedArms
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.starts import StartingArms

BBR, VEGAS, CUBIC, CHOSEN = int(ArmId.BBR), int(ArmId.VEGAS), int(ArmId.CUBIC), 5
NAMES = {arm: f"arm{arm}" for arm in range(12)}
STEERED = int(FlowFlags.STEERED)


class Hearing(RandomChooser):
    """Keeps what the engine tells it, and asks for more of every path."""

    heard: np.ndarray | None = None

    def step(self, slots: np.ndarray, records: np.ndarray, given: np.ndarray | None = None) -> Draw:
        self.heard = given
        return super().step(slots, records, given)

    def asks(self, slots: np.ndarray) -> np.ndarray:
        return np.ones(slots.size, np.bool_)


class Listing(Teams):
    """Keeps the flows that take part."""

    joined: tuple[int, ...] = ()

    def open(self, slots: np.ndarray, prefixes: Sequence[str]) -> None:
        self.joined += tuple(slots.tolist())
        assert len(slots) == len(prefixes)
        super().open(slots, prefixes)


def made(mode: str = "active", chosen: int = CHOSEN) -> tuple[Engine, Kernel, Hearing, Listing]:
    """Two flows to a prefix whose trial is VEGAS: the first one drew it, the second did not."""
    fields = {"flags": STEERED, "samples": 1}
    kernel = Kernel(
        flow(1, "192.0.2.7", arm=VEGAS, want_arm=VEGAS, **fields, **lot(0, VEGAS, is_trial=True)),
        flow(2, "192.0.2.8", arm=BBR, want_arm=BBR, **fields, **lot(0, VEGAS, is_trial=False)),
    )
    chooser = Hearing([chosen], dwells=(1_000_000,))
    teams = Listing(MptsSection(enabled=False), [chosen], 1, chooser.set_pool, names=NAMES, zeta=5, kappa=2)
    live = LiveLearner([BBR, VEGAS], CUBIC, StartingArms(Module({}, BBR), 600), 600)
    live.take(row(1e9, visit=1), FlowTable(), lambda prefixes: np.ones(len(prefixes), np.bool_), 1e9)
    learned = LearnedArms(0.010, lambda _: None)  # type: ignore[arg-type,return-value]
    engine = Engine(
        kernel, kernel, FlowTable(home_netns=NETNS), chooser, teams, DecisionLog(NAMES, 1000.0, mode),
        learned, mode=mode, visits=live,
    )  # fmt: skip
    engine.resync()
    return engine, kernel, chooser, teams


def test_a_flow_on_its_lot_gets_no_command_and_no_pulse() -> None:
    engine, kernel, chooser, _ = made()
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.sent] == [[2]]
    assert engine.journal.cause(engine.table.slot(1)) == Cause.VISIT
    # Who chooses is told that this flow says nothing of its own choice.
    assert chooser.heard is not None
    assert dict(zip(engine.table.slots(), chooser.heard.tolist(), strict=True)) == {
        engine.table.slot(1): VEGAS, engine.table.slot(2): 0,
    }  # fmt: skip


def test_the_path_of_a_flow_on_its_lot_is_asked_for_no_more() -> None:
    engine, kernel, _, _ = made(chosen=VEGAS)
    engine.step()
    (batch,) = kernel.sent
    assert (batch["cookie"].tolist(), batch["pulse"].tolist()) == ([2], [1])


def test_a_flow_on_its_lot_takes_part_in_no_selection() -> None:
    engine, _, _, teams = made()
    assert teams.joined == (engine.table.slot(2),)
    engine.govern(parse([], arms=[]), {}, CUBIC)
    assert teams.joined == (engine.table.slot(2),) * 2


def test_an_operator_has_the_last_word() -> None:
    engine, kernel, _, _ = made()
    engine.govern(parse([{"prefix": "192.0.2.0/24", "pin": "arm8"}], arms=["arm8"]), {"arm8": 8}, CUBIC)
    engine.step()
    assert [(batch["cookie"].tolist(), batch["arm"].tolist()) for batch in kernel.sent] == [([1, 2], [8, 8])]
    assert engine.journal.cause(engine.table.slot(1)) == Cause.HELD
    # Its outcome says nothing about the lot.
    assert engine.visits is not None
    assert engine.visits.held.foreign[engine.table.slot(1)]


def test_advice_leaves_lots_alone() -> None:
    engine, kernel, _, _ = made("advise")
    engine.step()
    assert kernel.sent == []
    assert engine.journal.advised(engine.table.slot(1)) == f"arm{CHOSEN}"
    # The flow did not draw its arm, whatever it is: it is the decision's once the mode is active.
    engine.mode = "active"
    engine.step()
    assert kernel.sent[-1]["cookie"].tolist() == [1, 2]


def test_the_record_of_a_flow_names_no_lot_where_it_was_switched_before() -> None:
    engine, kernel, _, _ = made()
    changed = record(3, arm=VEGAS, want_arm=VEGAS, switches=4, flags=STEERED, samples=1)
    kernel.table[3] = flow(3, "192.0.2.9", arm=VEGAS, want_arm=VEGAS, switches=4)
    kernel.steps = [changed]
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.sent] == [[3]]


def test_an_older_module_is_named_once_and_its_flows_are_the_decision_s(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine, kernel, _, _ = made()
    assert engine.visits is not None
    kernel.record_version = 5
    engine._plan()
    engine._plan()
    assert not engine.visits.holds
    (told,) = caplog.messages
    assert "version 5" in told
    assert "version 6" in told
    kernel.record_version = 6
    engine._plan()
    assert engine.visits.holds
