# SPDX-License-Identifier: Apache-2.0
"""The committed weights of Owl: they load, fit Owl's observations, and pass short versions of its claims."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies import owl
from ltp_switcher.policies.owl import play
from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster


@pytest.mark.parametrize("variant", ["owl", "owl-loss"])
def test_the_weights_make_an_arm(variant: str) -> None:
    arm = owl.make_arm(variant)
    arm.begin(np.arange(3), np.full(3, 10.0))


def test_missing_weights_say_so() -> None:
    with pytest.raises(ArtifactError, match="owl-delay"):
        owl.make_arm("owl-delay")


def test_alone_owl_fills_a_link_and_keeps_its_queue_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "DURATION_S", 8.0)
    monkeypatch.setattr(play, "WARM_UP_S", 4.0)
    networks, _ = load(Path(owl.__file__).parent / "owl.npz")
    paths = Paths.uniform(1, rate_mbps=50.0, rtt_ms=40.0)
    outcome = play.play(paths, Flows.forever(1, 1), Roster(window=1), networks["q"])
    assert outcome.received_mbps[0, 0] > 45.0
    assert outcome.rtt_s[0, 0] < 0.055
