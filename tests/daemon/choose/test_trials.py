# SPDX-License-Identifier: Apache-2.0
"""The careful arm takes the place of the steady one where it keeps a shorter queue, and only there."""

import pytest
from support.rule_flows import BBR, LTP, VEGAS, run, times_s

from ltp_switcher.daemon.datapath.protocol import FlowFlags

BASE_MS = 8.0


def arms_on(ltp_ms: float, vegas_ms: float, *, lost: float = 0.0) -> list[int]:
    """The arms in 40 s, by the queue that each keeps. A packet takes 0.5 ms."""
    queue_ms = {LTP: ltp_ms, VEGAS: vegas_ms}
    arms = run(
        under=lambda t, arm: (BASE_MS + (queue_ms.get(arm, 6.0) if t > 0.5 else 0.0), 1.0),
        lost=lambda _: lost,
        duration_s=40.0,
    )
    return [arm for _, arm in times_s(arms[:, 0])]


def test_a_shorter_queue_is_found_and_kept() -> None:
    assert arms_on(4.0, 1.5) == [BBR, LTP, VEGAS]


def test_an_arm_that_earns_less_than_expected_goes_for_good() -> None:
    assert arms_on(4.0, 4.8) == [BBR, LTP, VEGAS, LTP]


@pytest.mark.parametrize("ltp_ms", [0.5, 2.5])
def test_a_queue_as_short_as_the_careful_arms_stays(ltp_ms: float) -> None:
    """Five packets take 2.5 ms."""
    assert arms_on(ltp_ms, 1.0) == [BBR, LTP]


def test_a_queue_that_is_not_the_arms_own_is_no_reason() -> None:
    assert VEGAS not in arms_on(30.0, 1.0)


def test_losses_without_a_queue_keep_the_careful_arm_away() -> None:
    assert arms_on(4.0, 1.5, lost=0.02) == [BBR, LTP]


def arms_after(before: float, after: float) -> list[int]:
    """The arms in 40 s where the rate changes at 15 s, under Vegas. At 1 a packet takes 0.5 ms."""
    queue_ms = {LTP: 4.0, VEGAS: 1.5}
    arms = run(
        under=lambda t, arm: (
            BASE_MS + (queue_ms.get(arm, 6.0) if t > 0.5 else 0.0),
            before if t < 15 else after,
        ),
        duration_s=40.0,
    )
    return [arm for _, arm in times_s(arms[:, 0])]


@pytest.mark.parametrize("after", [2.0, 8.0])
def test_another_rate_of_the_path_is_no_disappointment(after: float) -> None:
    assert arms_after(4.0, after) == [BBR, LTP, VEGAS]


def test_a_path_that_has_become_slow_gets_the_steady_arm_back() -> None:
    """Five packets take 5 ms, twice the steady arm's queue."""
    assert arms_after(1.0, 0.5) == [BBR, LTP, VEGAS, LTP]


def arms_before_waiting_acks(
    *, share: float = 0.5, waits_ms: float = 2.0, least_ms: float = 4.0, queue_ms: float = 0.0,
    flags: int = 0, rate_pps: float = 8000.0,
) -> list[int]:  # fmt: skip
    """The arms in 12 s on a path of this rate; BBR fills a long queue once.

    Five packets take 0.6 ms at 8,000 packets/s. `share`: of the rate, under Vegas. `waits_ms`: how long an
    ACK waits in the mean. `queue_ms`: a standing queue under Vegas.
    """
    arms = run(
        under=lambda t, arm: (
            least_ms * (7 if 0.5 < t < 0.6 else 1) + queue_ms * (arm == VEGAS),
            share if arm == VEGAS else 1.0,
        ),
        waits_ms=waits_ms,
        flags=lambda t: flags if t > 1.0 else 0,
        duration_s=12.0,
        rate_pps=rate_pps,
    )
    return [arm for _, arm in times_s(arms[:, 0])]


def test_a_careful_arm_that_takes_waiting_acks_for_a_queue_gives_way() -> None:
    assert arms_before_waiting_acks() == [BBR, VEGAS, LTP]


def test_the_few_packets_of_a_starving_arm_do_not_explain_its_rtt() -> None:
    """Five packets take 2.5 ms, but 8.3 ms at the arm's own rate. An RTT of 12 ms is not Vegas's queue."""
    arms = arms_before_waiting_acks(rate_pps=2000.0, share=0.3, waits_ms=8.0)
    assert arms == [BBR, VEGAS, LTP]


@pytest.mark.parametrize(
    "path",
    [
        {"share": 0.9},
        {"waits_ms": 1.0},
        {"queue_ms": 0.8},
        {"flags": int(FlowFlags.APP_LIMITED)},
        {"least_ms": 40.0, "waits_ms": 20.0},
    ],
)
def test_a_careful_arm_stays_where_it_does_not_starve_or_something_else_may_be_the_cause(
    path: dict[str, float],
) -> None:
    """It fills the path; no ACK waits; another's queue stands; the application pauses; a cellular link."""
    arms = arms_before_waiting_acks(**path)
    assert arms[:2] == [BBR, VEGAS]
    assert LTP not in arms
