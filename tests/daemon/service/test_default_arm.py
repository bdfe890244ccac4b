# SPDX-License-Identifier: Apache-2.0
"""`kernel.default_arm` is changed while the daemon runs: the module, the rule and the learner all follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.api_client import asker
from support.fake_kernel import BBR, CUBIC, VEGAS, Kernel
from support.records import flow, record
from support.rule_flows import RATE_PPS, run
from support.running_daemon import make_daemon, running
from support.told import row

from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.settings.load import load
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning.live import LiveLearner

SLOT = np.array([0])


def losing_start(chooser: Chooser) -> None:
    """A flow whose start under BBR lost 15 % of its packets, so that the next ones begin gently."""
    run(
        lambda _: 40.0,
        duration_s=0.6,
        chooser=chooser,
        total_lost=lambda t: int(RATE_PPS * 0.15 / 0.85 * t),
    )
    chooser.close(SLOT)


def gentle(chooser: Chooser, at_s: float) -> int:
    """The arm of a new flow's gentle start, if the kernel began the flow on BBR."""
    chooser.open(SLOT, [""])
    made = record(1, time_ns=round(at_s * 1e9), arm=BBR, want_arm=BBR)
    (arm,) = chooser.step(SLOT, made).arms.tolist()
    chooser.close(SLOT)
    return int(arm)


def begins(learner: LiveLearner) -> int:
    """The arm on which the flows of the decision's lot begin."""
    lot = np.array([[0, BBR]], np.uint8)
    return int(learner._starting(learner.prefixes.numbers(), lot, 1e9)[0, 0])


@pytest.mark.parametrize("policy", ["rule", "mutant"])
def test_a_change_over_rest_reaches_the_module_the_rule_and_the_learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    kernel, control = Kernel(flow(7, "198.51.100.7")), tmp_path / "control.sock"
    values = {
        "daemon.control_socket": str(control),
        "daemon.state_dir": str(tmp_path),
        "daemon.policy": policy,
        "daemon.mode": "active",
        "visits.learn": "on",
    }
    daemon = make_daemon(kernel, load(None, {}, values), monkeypatch)
    chooser, learner = daemon.engine.chooser, daemon.engine.visits
    assert learner is not None
    losing_start(chooser)
    # The flow is to no prefix, so the daemon cannot write the arm on which the next ones begin.
    assert chooser.starts() == {"": CUBIC}
    learner.take(row(1e9, visit=1), FlowTable(), lambda prefixes: np.ones(len(prefixes), np.bool_), 1e9)
    assert (gentle(chooser, 10.0), begins(learner)) == (CUBIC, CUBIC)
    with running(daemon):
        answer = asker(control)("PATCH", "/v1/config", json={"values": {"kernel": {"default_arm": "vegas"}}})
        assert answer.status_code == 200, answer.text
    assert kernel.settings[-1]["default_arm"] == VEGAS
    assert (gentle(chooser, 11.0), begins(learner)) == (VEGAS, VEGAS)
