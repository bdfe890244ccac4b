# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.records import record

from ltp_switcher.daemon.choose import looks
from ltp_switcher.daemon.choose.looks import Looks
from ltp_switcher.daemon.choose.rule import RuleChooser
from ltp_switcher.daemon.settings.rule_policy import RuleSection


@pytest.mark.parametrize("known", range(looks.GAINS + 1))
def test_the_swing_is_the_lesser_of_the_outer_quarters(known: int) -> None:
    rng = np.random.default_rng(known)
    found = Looks(zeta=5.0, kappa=2.0)
    found.grow(20)
    gains = rng.normal(0.0, 0.3, (20, looks.GAINS))
    for row in gains:
        row[rng.permutation(looks.GAINS)[known:]] = np.nan
    found._gains[:20] = gains
    low, high = np.nanquantile(gains, (0.25, 0.75), axis=1) if known else (np.zeros(20), np.zeros(20))
    wanted = np.maximum(np.minimum(-low, high), 0.0) if known >= looks.GAINS_LEAST else np.zeros(20)
    np.testing.assert_allclose(found.swing(np.arange(20)), wanted, rtol=1e-12)


def test_a_flow_without_an_rtt_is_no_error() -> None:
    rule = RuleChooser([2, 12, 3], RuleSection())
    slots = np.array([0])
    rule.open(slots, ["192.0.2.0/24"])
    for step in range(1, 100):
        rule.step(slots, record(1, time_ns=step * 50_000_000, interval_ns=50_000_000, arm=2, want_arm=2))
