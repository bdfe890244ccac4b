# SPDX-License-Identifier: Apache-2.0
"""The committed weights of Owl and Owl-Loss do on a link of the simulator as the lab notes tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.simulated_flows import intervals, of

from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies import owl
from ltp_switcher.policies.owl import play
from ltp_switcher.policies.owl.signals import OwlSignals
from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster


def weights(variant: str) -> Network:
    return load(Path(owl.__file__).parent / f"{variant}.npz")[0]["q"]


@pytest.mark.parametrize("variant", ["owl", "owl-loss"])
def test_an_arm_acts_by_its_own_weights(variant: str) -> None:
    """It takes the action with the largest value, of Eq. 6's seven, in an interval that is its first."""
    arm = owl.make_arm(owl.ARM.variant(variant))
    arm.begin(np.arange(2), np.array([50.0, 400.0]))
    signals = OwlSignals()
    signals.begin(np.arange(2), np.array([50.0, 400.0]))
    seen = _interval()
    values = weights(variant).step(np.zeros((2, 0), np.float32), signals.observe(np.arange(2), seen))[1]
    changes = np.array([-10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0])[values.argmax(axis=1)]
    np.testing.assert_allclose(arm.decide(np.arange(2), seen)[:, 0], [50.0 + changes[0], 400.0 + changes[1]])


def _interval() -> Interval:
    return of(np.array([1, 2]))(intervals(0.03)[20])


def test_missing_weights_say_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="owl-delay"):
        owl.make_arm(replace(owl.ARM.variants[0], weights=tmp_path / "owl-delay.npz"))


@pytest.mark.parametrize(("variant", "queue"), [("owl", 1.72), ("owl-loss", 1.47)])
def test_alone_owl_fills_a_link_behind_a_long_queue(variant: str, queue: float) -> None:
    """50 Mbit/s, 40 ms, 45 s without the first 9: all of the rate, at 1.72 times the base RTT.

    The queue is the price of holding its own beside Cubic; see docs/lab-notes/owl.md.
    """
    paths = Paths.uniform(1, rate_mbps=50.0, rtt_ms=40.0)
    outcome = play.play(paths, Flows.forever(1, 1), Roster(window=1), weights(variant))
    assert outcome.received_mbps[0, 0] == pytest.approx(50.0, rel=0.01)
    assert outcome.rtt_s[0, 0] / 0.040 == pytest.approx(queue, abs=0.08)
