# SPDX-License-Identifier: Apache-2.0
"""The careful arm takes the place of the steady one where it keeps a shorter queue, and only there."""

import pytest
from support.rule_flows import BBR, LTP, STEP_S, VEGAS, run, times_s

from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.settings.rule_policy import RuleSection

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


def arms_behind_a_short_buffer(losing: tuple[int, ...], vegas_ms: float) -> list[int]:
    """The arms in 40 s where these arms lose one of 120 packets behind a queue. LTP's queue takes 2 ms."""
    queue_ms = {LTP: 2.0, VEGAS: vegas_ms}
    steps: set[int] = set()

    def under(t: float, arm: int) -> tuple[float, float]:
        if arm in losing:
            steps.add(round(t / STEP_S))
        return BASE_MS + (queue_ms.get(arm, 6.0) if t > 0.5 else 0.0), 1.0

    # A step has 60 packets.
    arms = run(under=under, total_lost=lambda _: len(steps) // 2, duration_s=40.0)
    return [arm for _, arm in times_s(arms[:, 0])]


def test_a_queue_that_overflows_under_the_steady_arm_alone_is_a_reason() -> None:
    assert arms_behind_a_short_buffer((LTP,), 2.0) == [BBR, LTP, VEGAS]


def test_a_careful_arm_that_loses_as_much_goes_again() -> None:
    assert arms_behind_a_short_buffer((LTP, VEGAS), 2.5) == [BBR, LTP, VEGAS, LTP]


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


@pytest.mark.parametrize(
    ("rates", "queues_ms"),
    [((0.5, 0.9, 0.9, 0.9), (2.8,) * 4), ((0.7, 0.9, 0.75, 0.85), (3.8, 2.2, 3.8, 2.2))],
    ids=["one low look in four", "swings"],
)
def test_a_careful_arm_whose_rate_moves_has_to_earn_as_much(
    rates: tuple[float, ...], queues_ms: tuple[float, ...]
) -> None:
    """Vegas halves its window at each loss. It has 0.8 of LTP's rate at a lower RTT."""

    def under(t: float, arm: int) -> tuple[float, float]:
        at = int(t / 0.27) % 4
        queue_ms = {LTP: 4.0, VEGAS: queues_ms[at]}.get(arm, 6.0) if t > 0.5 else 0.0
        return BASE_MS + queue_ms, rates[at] if arm == VEGAS else 1.0

    arms = run(under=under, duration_s=40.0, rate_pps=2400.0)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP, VEGAS, LTP]


@pytest.mark.parametrize(("share", "rate_pps", "waits_ms"), [(0.5, 8000.0, 2.0), (0.3, 2000.0, 8.0)])
def test_a_careful_arm_that_takes_waiting_acks_for_a_queue_gives_way(
    share: float, rate_pps: float, waits_ms: float
) -> None:
    """The self-check finds it: Vegas has this share of the rate on a path of 4 ms, and the other arms all."""
    arms = run(
        # BBR fills a long queue once.
        under=lambda t, arm: (4.0 * (7 if 0.5 < t < 0.6 else 1), share if arm == VEGAS else 1.0),
        waits_ms=waits_ms,
        duration_s=12.0,
        rate_pps=rate_pps,
        chooser=RuleChooser([BBR, LTP, VEGAS], RuleSection()),
    )
    ran = [arm for _, arm in times_s(arms[:, 0])]
    assert ran[:2] == [BBR, VEGAS]
    assert ran[-1] != VEGAS
