# SPDX-License-Identifier: Apache-2.0
"""The table of starting arms: its entries, and the prefixes that get none."""

import logging

import numpy as np
import pytest
from support.fake_kernel import Kernel

from ltp_switcher.daemon.datapath import RequestRefusedError
from ltp_switcher.daemon.datapath.netlink import NetlinkError
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.step.starts import StartingArms, entries


def test_entries_carry_prefix_arm_and_lifetime() -> None:
    v4, v6 = entries({"192.0.2.0/24": 3, "2001:db8:7::/48": 0}, lifetime_s=90.2)
    assert v4["addr"].tolist() == [192, 0, 2, *[0] * 13]
    assert (int(v4["family"]), int(v4["bits"]), int(v4["lifetime_s"])) == (2, 24, 91)
    assert (v4["choice"]["arm"].tolist(), v4["choice"]["weight"].tolist()) == ([3, 0, 0, 0], [1, 0, 0, 0])
    assert v6["addr"].tolist() == [0x20, 0x01, 0x0D, 0xB8, 0, 7, *[0] * 10]
    assert (int(v6["family"]), int(v6["bits"]), v6["choice"]["arm"].any()) == (10, 48, False)


def test_a_learned_arm_takes_its_prefix_out_and_other_namespaces_are_left_out() -> None:
    kernel = Kernel()
    starts = StartingArms(kernel, 600)
    starts.write({"192.0.2.0/24": int(ArmId.VEGAS), "198.51.100.0/24@4026532281": int(ArmId.VEGAS)})
    assert kernel.started == {"192.0.2.0/24": 3}
    starts.write({"192.0.2.0/24": int(ArmId.LTP)})
    assert kernel.started == {"192.0.2.0/24": 0}


def test_a_full_table_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Full(Kernel):
        def set_starts(self, starts: np.ndarray) -> None:
            raise RequestRefusedError("start-set", NetlinkError(28, "full"))

    starts = StartingArms(Full(), 600)
    with caplog.at_level(logging.WARNING):
        starts.write({"192.0.2.0/24": 3})
        starts.write({"198.51.100.0/24": 3})
    assert len(caplog.records) == 1
    assert "new prefixes get no starting arm" in caplog.text
