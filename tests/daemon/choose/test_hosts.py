# SPDX-License-Identifier: Apache-2.0
"""Hosts below their prefix in the learner, and the gain of knowing them by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.service.bench import hosts as bench
from ltp_switcher.daemon.service.bench.learner import SHOWN

ARMS = 3
PREFIX, OTHER, HOST, SECOND = range(4)


def observe(learner: Learner, number: int, arm: int, value: float, at_s: float) -> None:
    one = np.ones(1)
    learner.observe(
        Visits(
            np.array([number]), np.array([arm]), one * value, one * 3, one * 2, one * at_s, np.zeros(1, int)
        )
    )


def taught(worths: list[float], visits: int, seed: int, noise: float = 0.2) -> Learner:
    """A learner that has had so many visits to each arm of a prefix, which are worth this."""
    learner, rng = Learner(ARMS), np.random.default_rng(seed)
    for visit in range(visits):
        for arm, worth in enumerate(worths):
            observe(learner, PREFIX, arm, worth + rng.normal(0.0, noise), visit * 60.0)
    return learner


def planned(learner: Learner, numbers: list[int], at_s: float) -> list[int]:
    incumbents = [learner.plan(np.array([number]), np.ones(1), at_s).incumbents[0] for number in numbers]
    return [int(incumbent) for incumbent in incumbents]


@given(
    st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=2), st.integers(0, 20), st.integers(0, 99),
    st.integers(0, 3),
)  # fmt: skip
def test_a_host_with_few_visits_equals_its_prefix(
    worths: list[float], visits: int, seed: int, own: int
) -> None:
    """Whatever is known of the prefix, and though some visits to the host ran the incumbent."""
    learner = taught([0.0, *worths], visits, seed)
    learner.join(np.array([HOST]), np.array([PREFIX]))
    at_s = visits * 60.0
    prefix, host = (learner.effects(np.array([number]), at_s) for number in (PREFIX, HOST))
    assert host.mean == pytest.approx(prefix.mean)
    assert (host.variance[0, 1:] > prefix.variance[0, 1:]).all()
    before = planned(learner, [PREFIX], at_s)[0]
    for visit in range(own):
        observe(learner, HOST, before, 0.0 if not before else worths[before - 1], at_s + visit * 60.0)
    incumbent, of_host = planned(learner, [PREFIX, HOST], at_s + own * 60.0)
    assert of_host == incumbent == before


@pytest.mark.parametrize("worth", [-1.5, 1.0])
def test_a_host_that_differs_from_its_prefix_gets_its_own_arm(worth: float) -> None:
    """Arm 1 gains 1.5 on the prefix and on one of its hosts, and something else on the other host."""
    learner, rng = taught([0.0, 1.5, -0.5], 30, 1), np.random.default_rng(2)
    learner.join(np.array([HOST, SECOND]), np.array([PREFIX, PREFIX]))
    for visit in range(30):
        for host, gain in ((HOST, worth), (SECOND, 1.5)):
            for arm in (0, 1):
                observe(learner, host, arm, gain * arm + rng.normal(0.0, 0.2), 2000.0 + visit * 60.0)
    of_host, of_second = planned(learner, [HOST, SECOND], 4000.0)
    assert of_second == 1
    assert of_host == (1 if worth > 0 else 0)
    effect = learner.effects(np.array([HOST]), 4000.0).mean[0, 1]
    assert effect == pytest.approx(worth, abs=0.2)


def test_visits_to_hosts_teach_their_prefix_but_no_other_one() -> None:
    learner, rng = taught([0.0, 0.0, 0.0], 5, 1), np.random.default_rng(2)
    observe(learner, OTHER, 0, 0.0, 300.0)
    learner.join(np.array([HOST]), np.array([PREFIX]))
    wider = learner.posteriors.wider(300.0, np.array([OTHER])).mean
    for visit in range(30):
        for arm in (0, 1):
            observe(learner, HOST, arm, 1.5 * arm + rng.normal(0.0, 0.2), 300.0 + visit * 60.0)
    assert planned(learner, [PREFIX, HOST], 2200.0) == [1, 1]
    assert learner.posteriors.wider(300.0, np.array([OTHER])).mean == pytest.approx(wider)


def test_a_host_s_trials_are_paid_from_its_own_flows() -> None:
    learner = taught([0.0, 0.0, 0.0], 5, 1)
    learner.join(np.array([HOST]), np.array([PREFIX]))
    flows = learner.purse.flows[PREFIX]
    observe(learner, HOST, 1, -0.5, 400.0)
    assert (learner.purse.flows[PREFIX], learner.purse.flows[HOST]) == (flows, 2.0)
    assert learner.purse.spent[HOST] > 0


def test_a_forgotten_host_is_a_prefix_like_any_other() -> None:
    learner = taught([0.0, 1.5, -0.5], 30, 1)
    learner.join(np.array([HOST]), np.array([PREFIX]))
    learner.forget(np.array([HOST]))
    fresh, host = (learner.effects(np.array([number]), 2000.0).mean for number in (SECOND, HOST))
    assert host == pytest.approx(fresh)


@pytest.mark.parametrize(("apart", "least", "most"), [(True, 1.03, 2.0), (False, 0.985, 1.1)])
def test_hosts_earn_where_they_are_apart_and_cost_little_where_they_are_alike(
    apart: bool, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "PREFIXES", 12)
    (whole, *_), _, ledger = bench.compared(SHOWN["families"], [1], apart=apart, enough=bench.ENOUGH)
    assert least < whole < most
    assert float(ledger.split("%")[0]) <= 1.0


def test_the_command_prints_a_row_for_each_world(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "PREFIXES", 2)
    monkeypatch.setattr(bench, "VISITS", 4)
    assert bench.main(["--seeds", "1", "--enough", "2"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:2] for row in rows[1:]] == [
        [of, name] for of in ("apart", "alike") for name in SHOWN
    ]
