# SPDX-License-Identifier: Apache-2.0
"""A short round on each debug kernel; `make test-debug` runs the long ones, and the planted faults."""

from __future__ import annotations

import pytest

from debug_kernels import rounds
from debug_kernels.build import built

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.parametrize("flavour", ["kasan", "kmemleak", "kcsan"])
def test_short_round_finds_nothing(flavour: str) -> None:
    if not built(flavour):
        pytest.skip(f"the {flavour} kernel is not built: `make test-debug` builds it in half an hour")
    for kept in rounds.run(flavour, rounds.CUT, switches=1, messages=1, seed=1, tell=print):
        assert kept.faults == []
        assert kept.switches >= rounds.CUT.switches
        assert kept.messages >= rounds.CUT.messages
