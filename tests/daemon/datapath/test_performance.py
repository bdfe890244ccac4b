# SPDX-License-Identifier: Apache-2.0
"""The numbers that are derived from a record, each against the record's fields by hand."""

from __future__ import annotations

import numpy as np
import pytest
from support.records import record

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.performance import (
    credit_counts,
    known_rtt,
    measure,
    performance,
    step_counts,
)
from ltp_switcher.errors import InvalidValueError


def filled(seed: int, n: int) -> np.ndarray:
    """Records of random bytes."""
    data = np.random.default_rng(seed).integers(0, 256, n * protocol.RECORD_DTYPE.itemsize, np.uint8)
    return np.frombuffer(data.tobytes(), protocol.RECORD_DTYPE)


def heard(**fields: int) -> np.ndarray:
    """A step of 10 ms: 90 packets of 1000 bytes delivered and 10 lost, 4 RTT samples of 30 ms on average."""
    made = record(1, delivered=90, lost=10, samples=5, rtt_samples=4, mss=1000, srtt_us=40_000, arm=3)
    made["rtt_stat"]["sum"] = 120_000
    made["throughput_stat"]["sum"] = 5 * 8_000_000
    for name, value in fields.items():
        made[name] = value
    return made


@pytest.mark.parametrize("n", [0, 1, 7])
def test_columns_are_the_fields_by_name(n: int) -> None:
    records = filled(1, n)
    read = Columns("time_ns", "mdev_stat.max", "credit.1.lost", "mss", "echo.0.rtt_us_min", "echo.1.lost")
    credit, echo = records["credit"], records["echo"]
    wanted = [records["time_ns"], records["mdev_stat"]["max"], credit["lost"][:, 1],
              records["mss"], echo["rtt_us_min"][:, 0], echo["lost"][:, 1]]  # fmt: skip
    np.testing.assert_array_equal(read.read(records), np.array(wanted, np.float64).T)


def test_columns_of_records_that_are_not_side_by_side() -> None:
    records, cookie = filled(2, 8), Columns("cookie")
    np.testing.assert_array_equal(cookie.read(records[::3]), cookie.read(records)[::3])


@pytest.mark.parametrize("names", [("mss", "time_ns"), ("arm",)])
def test_a_field_that_does_not_fit_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValueError, match="64 bits"):
        Columns(*names)


def test_counts_of_a_step_and_of_the_epochs_it_heard_of() -> None:
    records = filled(3, 4)
    counted = [records["interval_ns"], records["delivered"], records["lost"], records["rtt_stat"]["sum"],
               records["rtt_samples"]]  # fmt: skip
    np.testing.assert_array_equal(step_counts(records), np.array(counted, np.float64).T)
    credits = credit_counts(records)
    assert credits.shape == (4, protocol.CREDITS_MAX, 5)
    for epoch in range(protocol.CREDITS_MAX):
        credit = records["credit"][:, epoch]
        counted = [credit[name] for name in ("time_ns", "delivered", "lost", "rtt_us_sum", "rtt_samples")]
        np.testing.assert_array_equal(credits[:, epoch], np.array(counted, np.float64).T)


def test_a_step_is_measured() -> None:
    seen = measure(heard(min_rtt_us=20_000), "acked")
    assert seen.performance.throughput_Bps[0] == pytest.approx(90 * 1000 / 10e-3)
    assert seen.performance.loss_rate[0] == pytest.approx(0.1)
    assert seen.performance.rtt_us[0] == pytest.approx(30_000)
    assert seen.rate_Bps[0] == pytest.approx(8e6)
    assert (seen.sender[0], seen.least_rtt_us[0]) == (3, 20_000)
    assert seen.heard[0]
    assert seen.valid[0]


def test_the_smoothed_rtt_is_second_best() -> None:
    assert measure(heard(rtt_samples=0), "acked").performance.rtt_us[0] == 40_000


def test_nothing_is_made_up_of_a_step_without_acks() -> None:
    seen = measure(record(1, arm=3), "sent")
    assert [float(values[0]) for values in seen.performance] == [0.0, 0.0, 0.0]
    assert not seen.heard[0]
    assert not seen.valid[0]
    assert performance(np.zeros((1, 5)), np.ones(1), np.ones(1)).loss_rate[0] == 0.0


@pytest.mark.parametrize("arm", [0, protocol.ARMS_MAX + 1])
def test_a_step_of_no_known_arm_is_not_valid(arm: int) -> None:
    assert not measure(heard(arm=arm), "acked").valid[0]


def test_samples_belong_to_the_arm_that_sent_most_of_the_data() -> None:
    records = heard()
    records["credit"]["arm"][0, :3] = 5, 7, 3
    records["credit"]["samples"][0, :3] = 1, 3, 2
    assert measure(records, "sent").sender[0] == 7
    assert measure(records, "acked").sender[0] == 3


def test_the_kernels_minimum_before_its_first_sample_is_no_rtt() -> None:
    unknown_us = 0xFFFFFFFF
    assert known_rtt(np.array([0.0, 1.0, unknown_us - 1, unknown_us])).tolist() == [False, True, True, False]
    assert measure(heard(min_rtt_us=unknown_us), "acked").least_rtt_us[0] == np.inf
    assert measure(heard(min_rtt_us=0), "acked").least_rtt_us[0] == np.inf
