# SPDX-License-Identifier: Apache-2.0
"""Windows that empty a queue."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.datapath.protocol import CONTROL_DTYPE, ControlLaw
from ltp_switcher.daemon.steer.drain import drain

FLOWS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 5000), st.integers(1, 10_000), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(FLOWS, st.randoms(use_true_random=False))
def test_windows_of_the_flows_that_drain_are_half_the_path_and_others_stay(
    flows: list[tuple[bool, int, int, bool]], chance: random.Random
) -> None:
    """A flow: whether it drains, what its path holds, the window wanted, whether the law is another."""
    controls = np.zeros(len(flows), CONTROL_DTYPE)
    controls["cookie"] = np.arange(len(flows)) + 10
    controls["law"] = [int(ControlLaw.AIMD if other else ControlLaw.WINDOW) for *_, other in flows]
    controls["value"][:, 0] = [window for _, _, window, _ in flows]
    rows = [record(i + 10, bdp=bdp) for i, (drains, bdp, _, _) in enumerate(flows) if drains]
    # One more, whose arm decides nothing in this step.
    rows.append(record(5, bdp=40))
    chance.shuffle(rows)
    drain(controls, np.concatenate(rows))
    for given_, (drains, bdp, window, other) in zip(controls["value"][:, 0].tolist(), flows, strict=True):
        assert given_ == (min(window, max(bdp // 2, 4)) if drains and not other else window)
