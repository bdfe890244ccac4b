# SPDX-License-Identifier: Apache-2.0
"""The knowledge of other hosts, as a level between a prefix and all flows."""

from __future__ import annotations

import numpy as np
import pytest

from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.daemon.choose.visits.site import EFFECT_MAX, Site
from ltp_switcher.daemon.gain.value import CLIP
from ltp_switcher.errors import ArtifactError

ONE = np.zeros(1, np.int64)


def told(mean: float, variance: float) -> Effects:
    """Of three arms the second is known."""
    return Effects(np.array([[0.0, mean, 0.0]]), np.array([[np.inf, variance, np.inf]]))


def seen(learner: Learner, effect: float, visits: int) -> Learner:
    for number in range(visits):
        arm = number % 2
        value = np.array([effect * arm + 0.05 * (number % 3 - 1)])
        at_s = np.array([number * 60.0])
        learner.observe(Visits(ONE, np.array([arm]), value, np.array([5.0]), np.ones(1), at_s))
    return learner


def test_without_own_visits_the_others_lead_the_plan() -> None:
    learner = Learner(3)
    learner.tell(ONE, told(0.8, 0.01), np.ones(1, np.int64), 0.0)
    plan = learner.plan(ONE, np.ones(1), 0.0)
    assert (plan.incumbents.tolist(), plan.chances.tolist()) == ([1], [0.0])
    unsure = Learner(3)
    unsure.tell(ONE, told(0.2, 0.2), np.ones(1, np.int64), 0.0)
    assert unsure.plan(ONE, np.ones(1), 0.0).incumbents.tolist() == [0]


def test_own_experience_wins() -> None:
    """Ten visits of each arm say that it earns less; others are ever so sure that it earns e^3 as much."""
    learner = seen(Learner(3), -0.5, 20)
    alone = learner.effects(ONE, 1200.0)
    learner.tell(ONE, told(3.0, 1e-4), np.ones(1, np.int64), 1200.0)
    found = learner.effects(ONE, 1200.0)
    assert found.mean[0, 1] < 0
    assert abs(found.mean[0, 1] - alone.mean[0, 1]) < 2.1 * np.sqrt(alone.variance[0, 1])
    assert learner.plan(ONE, np.ones(1), 1200.0).incumbents.tolist() == [0]


def test_where_others_agree_all_is_surer() -> None:
    learner = seen(Learner(3), 0.5, 8)
    alone = learner.effects(ONE, 480.0)
    learner.tell(ONE, told(0.5, 0.01), np.ones(1, np.int64), 480.0)
    found = learner.effects(ONE, 480.0)
    assert found.variance[0, 1] < alone.variance[0, 1]
    assert found.mean[0, 1] == pytest.approx(0.5, abs=0.1)


def test_what_was_told_fades_and_is_forgotten() -> None:
    site, nothing = Site(3), Effects(np.zeros((1, 3)), np.full((1, 3), np.inf))
    site.tell(ONE, told(0.5, 0.01), np.ones(1, np.int64), 0.0)
    at = [site.evidence(ONE, nothing, now_s).variance[0, 1] for now_s in (0.0, 86_400.0, 1e6)]
    assert at == sorted(at)
    # Hosts differ by a variance of 0.005, and so does their word. One that is less sure than that stays so.
    assert at[0] == pytest.approx(0.01)
    site.tell(ONE, told(0.5, 1e-4), np.full(1, 32), 0.0)
    assert site.evidence(ONE, nothing, 0.0).variance[0, 1] == pytest.approx(0.005)
    site.forget(ONE)
    assert np.isinf(site.evidence(ONE, nothing, 0.0).variance).all()


def test_a_restart_keeps_it_and_a_file_from_before_has_none() -> None:
    learner = seen(Learner(3), 0.1, 4)
    learner.tell(ONE, told(0.8, 0.01), np.ones(1, np.int64), 240.0)
    saved = learner.state()
    again = Learner(3)
    again.restore(saved)
    assert again.effects(ONE, 300.0).mean.tolist() == learner.effects(ONE, 300.0).mean.tolist()
    before = Learner(3)
    before.restore({name: array for name, array in saved.items() if not name.startswith("site_")})
    assert before.effects(ONE, 300.0).mean[0, 1] < learner.effects(ONE, 300.0).mean[0, 1]
    for name, damage in (("site_mean", np.nan), ("site_variance", -1.0), ("site_told_s", np.inf)):
        with pytest.raises(ArtifactError):
            Learner(3).restore({**saved, name: saved[name] * damage})


def test_the_largest_effect_is_that_of_clipped_values() -> None:
    assert pytest.approx(2 * CLIP) == EFFECT_MAX
