# SPDX-License-Identifier: Apache-2.0
"""The model of the path: a look's numbers, their means, and those that were not observed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.rule_flows import BBR, LTP, VEGAS, run, step_at

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.daemon.choose.path.looks import Look
from ltp_switcher.daemon.choose.path.model import PathModel, fold, tell
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.settings.rule_policy import RuleSection

ONE = np.array([0])
S = 1_000_000_000


def look(count: int = 1, **changed: float) -> Look:
    """Looks at a path of 12 Mbit/s (1,000 packets/s of 1,500 bytes) and 40 ms that show nothing unusual."""
    usual = {
        "rate_Bps": 1.5e6, "rate_before_Bps": 1.5e6, "floor_us": 40_000.0, "least_us": 40_000.0,
        "most_us": 41_000.0, "time_us": 250_000.0, "acks": 125.0, "delivered_pkts": 250.0, "lost_pkts": 0.0,
        "quiet_lost_pkts": 0.0, "drained": False, "idle": False,
    }  # fmt: skip
    return Look(**{name: np.full(count, value) for name, value in {**usual, **changed}.items()})


def told(**changed: float) -> dict[str, float]:
    """The numbers that such a look tells, without those that it does not."""
    row = tell(look(**changed))[0]
    return {number.name: row[number] for number in Number if not np.isnan(row[number])}


def test_a_usual_look_tells_what_it_can_and_nothing_of_buffers_or_others() -> None:
    assert told() == {
        "RATE": 1.5e6, "VARIATION": 0.0, "PROPAGATION": 40_000.0, "ACK_GAP": 2000.0, "QUIET_LOSS": 0.0,
        "APPLICATION": 0.0,
    }  # fmt: skip


def test_a_pause_of_the_application_tells_of_the_application_and_not_of_the_rate() -> None:
    found = told(rate_Bps=np.nan, idle=True, delivered_pkts=3.0, acks=1.0)
    assert found["APPLICATION"] == 1.0
    assert not {"RATE", "VARIATION", "QUIET_LOSS", "ACK_GAP"} & found.keys()


def test_losses_behind_a_queue_show_the_buffer_in_packets() -> None:
    # 30 ms of queue at 1,000 packets/s.
    assert told(most_us=70_000.0, lost_pkts=5.0)["BUFFER"] == pytest.approx(30.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"lost_pkts": 5.0, "quiet_lost_pkts": 5.0, "most_us": 70_000.0},
        {"lost_pkts": 5.0, "most_us": 41_000.0},
        {"lost_pkts": 0.0, "most_us": 70_000.0},
    ],
    ids=["without a queue", "behind none", "no loss"],
)
def test_other_looks_show_no_buffer(changed: dict[str, float]) -> None:
    assert "BUFFER" not in told(**changed)


def test_a_share_of_few_packets_says_nothing() -> None:
    assert "QUIET_LOSS" not in told(delivered_pkts=9.0, lost_pkts=1.0, quiet_lost_pkts=1.0)
    assert told(delivered_pkts=90.0, lost_pkts=10.0, quiet_lost_pkts=10.0)["QUIET_LOSS"] == pytest.approx(0.1)


def test_only_an_empty_queue_of_ones_own_shows_a_queue_of_others() -> None:
    assert "OTHERS_QUEUE" not in told(least_us=65_000.0)
    assert told(least_us=65_000.0, drained=True)["OTHERS_QUEUE"] == pytest.approx(25_000.0)


def test_the_propagation_rtt_is_told_by_looks_near_the_lowest_alone() -> None:
    assert "PROPAGATION" not in told(least_us=43_000.0)
    assert told(least_us=41_000.0)["PROPAGATION"] == 41_000.0


def test_a_path_before_its_first_sample_tells_nothing_of_rtts() -> None:
    found = told(least_us=np.inf, floor_us=np.inf, most_us=0.0, acks=0.0, lost_pkts=1.0)
    assert not {"PROPAGATION", "BUFFER", "ACK_GAP", "OTHERS_QUEUE"} & found.keys()


def model(*looks: Look, every_s: float = 0.25) -> PathModel:
    made = PathModel()
    made.reset(ONE)
    for place, one in enumerate(looks, 1):
        made.look(ONE, one, np.array([place * every_s * S]))
    return made


def test_what_no_look_told_is_not_observed_and_has_no_age() -> None:
    number = model(look()).numbers(ONE, S)
    for field in number:
        assert np.isnan(field[0, Number.BUFFER])
    assert number.value[0, Number.RATE] == 1.5e6
    assert np.isnan(number.error[0, Number.RATE])  # of one look


def test_an_age_counts_from_the_last_look_that_told_the_number() -> None:
    made = model(look(most_us=70_000.0, lost_pkts=5.0), look(), look(), look())
    age_s = made.numbers(ONE, 3 * S).age_s[0]
    assert age_s[Number.BUFFER] == pytest.approx(2.75)
    assert age_s[Number.RATE] == pytest.approx(2.0)


def test_another_path_forgets_all_but_the_application() -> None:
    made = model(look(), look(idle=True, rate_Bps=np.nan))
    made.forget(ONE)
    value = made.numbers(ONE, S).value[0]
    assert np.isnan(np.delete(value, Number.APPLICATION)).all()
    assert value[Number.APPLICATION] == 0.5


def test_a_new_rate_is_known_after_some_looks_and_its_doubt_passes() -> None:
    steady = [look(rate_Bps=1.5e6 + 1e3 * (-1) ** n) for n in range(20)]
    changed = [look(rate_Bps=3e6 + 1e3 * (-1) ** n) for n in range(60)]
    before, soon, later = (model(*steady, *changed[:n]).numbers(ONE, S) for n in (0, 4, 60))
    assert before.value[0, Number.RATE] == pytest.approx(1.5e6, rel=0.01)
    assert soon.error[0, Number.RATE] > 50 * before.error[0, Number.RATE]
    assert later.value[0, Number.RATE] == pytest.approx(3e6, rel=0.01)
    assert later.error[0, Number.RATE] < soon.error[0, Number.RATE] / 10


FEW = arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1e6))


@given(FEW)
def test_the_mean_and_the_variance_of_few_looks_are_those_of_the_numbers(seen: Floats) -> None:
    count = mean = spread2 = np.zeros((1, 1))
    for one in seen:
        count, mean, spread2 = fold(count, mean, spread2, np.array([[one]]))
    assert count[0, 0] == seen.size
    assert mean[0, 0] == pytest.approx(seen.mean(), abs=1e-6)
    assert spread2[0, 0] == pytest.approx(seen.var(), rel=1e-6, abs=1e-3)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=40))
def test_looks_that_tell_nothing_change_nothing_and_a_mean_stays_in_range(seen: list[float | None]) -> None:
    count = mean = spread2 = np.zeros((1, 1))
    for one in seen:
        before = count, mean, spread2
        count, mean, spread2 = fold(*before, np.array([[np.nan if one is None else one]]))
        if one is None:
            assert (count, mean, spread2) == before
    known = [one for one in seen if one is not None]
    if known:
        assert min(known) - 1e-6 <= mean[0, 0] <= max(known) + 1e-6
        assert spread2[0, 0] >= 0
    else:
        assert count[0, 0] == 0


@given(st.integers(1, 5), st.integers(0, 4))
def test_players_do_not_touch_each_other(count: int, which: int) -> None:
    which %= count
    made = PathModel()
    made.reset(np.arange(count))
    made.look(np.array([which]), look(), np.array([float(S)]))
    value = made.numbers(np.arange(count), S).value
    assert not np.isnan(value[which, Number.RATE])
    assert np.isnan(np.delete(value, which, axis=0)).all()


def test_the_rule_tells_the_path_of_a_flow() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], RuleSection())
    run(lambda _: 40.0, chooser=chooser)
    found = chooser.path(ONE)
    # 2,000 packets of 1,448 bytes in a second.
    assert found.value[0, Number.RATE] == pytest.approx(2_896_000, rel=0.02)
    assert found.value[0, Number.PROPAGATION] == pytest.approx(40_000)
    assert np.isnan(found.value[0, Number.BUFFER])
    assert found.age_s[0, Number.RATE] < 1.0


def test_a_longer_path_is_another_one_whose_rtt_is_told_anew() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], RuleSection())
    run(step_at(6.0, 40.0, 120.0), chooser=chooser)
    assert chooser.path(ONE).value[0, Number.PROPAGATION] == pytest.approx(120_000)
