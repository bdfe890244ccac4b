# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_kernel import ARMS
from support.records import record

from ltp_switcher.daemon.choose.lab.schedule import ScheduleChooser, parse_schedule
from ltp_switcher.daemon.datapath.protocol import FlowFlags
from ltp_switcher.errors import ConfigError

MS = 1_000_000
IDS = {arm.name: arm.id for arm in ARMS if arm.available}


def at(cookie: int, time_ms: int, **fields: int) -> np.ndarray:
    """A flow's record of 10 ms that ends at this time of the clock."""
    return record(cookie, time_ns=time_ms * MS, interval_ns=10 * MS, **fields)


@given(st.integers(1, 10**6), st.integers(0, 20_000))
def test_the_arm_of_the_last_time_that_has_come(born_ms: int, age_ms: int) -> None:
    chooser = ScheduleChooser(["bbr@0", "cubic@2.5", "bbr@10"], ARMS)
    slots = np.array([3])
    chooser.open(slots, [""])
    chooser.step(slots, at(1, born_ms + 10))
    arm = int(chooser.step(slots, at(1, born_ms + age_ms)).arms[0])
    assert arm == IDS["cubic" if 2500 <= age_ms < 10_000 else "bbr"]


def test_each_flow_has_a_clock_of_its_own() -> None:
    chooser = ScheduleChooser(["bbr@0", "cubic@1"], ARMS)
    slots = np.array([0, 1])
    chooser.open(slots, ["", ""])
    chooser.step(slots[:1], at(1, 5010))
    arms = chooser.step(slots, np.concatenate([at(1, 6100), at(2, 6100)])).arms
    assert arms.tolist() == [IDS["cubic"], IDS["bbr"]]
    # The slot comes again, with another flow.
    chooser.close(slots[:1])
    chooser.open(slots[:1], [""])
    assert chooser.step(slots[:1], at(3, 7000)).arms.tolist() == [IDS["bbr"]]


def test_a_pinned_flow_keeps_its_arm() -> None:
    chooser = ScheduleChooser(["bbr@0"], ARMS)
    chooser.open(np.array([0]), [""])
    pinned = at(1, 100, want_arm=IDS["cubic"], flags=int(FlowFlags.PINNED))
    assert chooser.step(np.array([0]), pinned).arms.tolist() == [IDS["cubic"]]


@pytest.mark.parametrize(
    "entries",
    [[], ["bbr"], ["bbr@1"], ["@0"], ["bbr@0", "cubic@0"], ["bbr@0", "cubic@x"], ["bbr@0", "cubic@inf"]],
)
def test_what_is_no_schedule_is_refused(entries: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"daemon\.schedule"):
        parse_schedule("daemon.schedule", entries)


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        ScheduleChooser(["nosuch@0"], ARMS)
