# SPDX-License-Identifier: Apache-2.0
"""A short round on each kernel finds nothing, and each planted fault is found."""

from __future__ import annotations

import pytest

from debug_kernels.build import FLAVOURS
from debug_kernels.planted import FAULTS, Fault
from debug_kernels.rounds import CUT, catch, one
from ltp_switcher.eval.lab.packages import say

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_short_round_finds_nothing(flavour: str) -> None:
    kept = one(flavour, CUT, seed=1, tell=say)
    assert kept.faults == []
    assert kept.switches >= CUT.switches
    assert kept.messages == CUT.messages


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_planted_fault_is_caught(fault: Fault) -> None:
    assert catch(fault, seed=1, tell=say).faults
