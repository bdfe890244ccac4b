# SPDX-License-Identifier: Apache-2.0
"""Rules for every policy's `Signals` and every learned arm, whatever it has learned.

A new arm of the netlink spec is tested here without a change; so is a new variant of the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import numpy as np
import pytest
from support.simulated_flows import FLOWS, intervals, of, silent

from ltp_switcher.arrays import Float32s, Floats, Indices, Slots
from ltp_switcher.daemon.settings.schema import LearnedSection
from ltp_switcher.daemon.steer.arms import loader
from ltp_switcher.policies.jury.signals import JurySignals
from ltp_switcher.policies.ltp.variants import VARIANTS
from ltp_switcher.policies.runtime.arm import Arm, Law, Signals
from ltp_switcher.policies.runtime.declaration import declarations
from ltp_switcher.policies.runtime.measurements import Interval

ARMS: Final[dict[str, Callable[[], Arm]]] = {
    variant.name: lambda arm=name, variant=variant.name: loader(LearnedSection(variants=(variant,)))(arm)
    for name, arm in declarations().items()
    for variant in arm.variants
}
TRAINED: Final = {v.name for arm in declarations().values() for v in arm.variants if v.weights is not None}
"""The variants with a network, and so with signals."""
PARAMETERS: Final = {
    # A window in packets; Eq. 3 to 5 of Spine; Cubic's β and C.
    Law.WINDOW: np.array([[2.0, 1e6]]),
    Law.AIMD: np.array([[0.0, 0.5], [0.0, 0.5], [0.0, 2.0], [0.0, 1.0]]),
    Law.CUBIC: np.array([[0.0, 1.0], [0.0, 4.0]]),
}
"""The range of each of a law's parameters."""
WINDOWS: Final = np.array([10.0, 60.0, 450.0, 40.0, 200.0, 10.0])
ALL: Final = np.arange(FLOWS)


class Coin:
    """Jury's exploration without chance: no flow's draw depends on how many others there are."""

    def random(self, size: int) -> Floats:
        return np.full(size, 0.5)


class OfSignals:
    """`Signals` with actions that are drawn by flow and time, played as an arm is."""

    def __init__(self, made: Signals) -> None:
        self.signals, self.law, self.interval_s = made, made.law, made.interval_s
        self._steps = 0
        rng = np.random.default_rng(1)
        self._actions = rng.uniform(-1.0, 1.0, (99, FLOWS, made.action_size)).astype(np.float32)

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        self.signals.begin(slots, window_pkts)

    def decide(self, slots: Slots, interval: Interval, flows: Indices = ALL) -> tuple[Float32s, Floats]:
        seen = self.signals.observe(slots, interval)
        actions = self._actions[interval.index % 99, flows]
        return seen, self.signals.control(slots, interval, actions)


class OfArm:
    """A learned arm with its network; it shows parameters alone."""

    def __init__(self, made: Arm) -> None:
        self.arm, self.law, self.interval_s = made, made.law, made.interval_s

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        self.arm.begin(slots, window_pkts)

    def decide(self, slots: Slots, interval: Interval, flows: Indices = ALL) -> tuple[Float32s, Floats]:
        return np.zeros((len(slots), 0), np.float32), self.arm.decide(slots, interval)


Subject = OfSignals | OfArm


def _signals_of(arm: Arm) -> Signals:
    signals = cast("Signals", getattr(arm, "_signals"))  # noqa: B009
    if isinstance(signals, JurySignals):
        signals._rng = cast("np.random.Generator", Coin())
    return signals


def _subjects() -> dict[str, Callable[[], Subject]]:
    made: dict[str, Callable[[], Subject]] = {}
    for name, make in ARMS.items():

        def arm(name: str = name, make: Callable[[], Arm] = make) -> OfArm:
            made = make()
            if name in TRAINED:
                _signals_of(made)
            return OfArm(made)

        made[f"arm {name}"] = arm
        if name in TRAINED:
            made[f"signals {name}"] = lambda make=make: OfSignals(_signals_of(make()))
    for name, variant in VARIANTS.items():
        made[f"variant {name}"] = lambda variant=variant: OfSignals(variant.signals())
    return made


SUBJECTS: Final = _subjects()


SERVED: Final = [name for name in SUBJECTS if not name.startswith("variant")]
"""Those that meet real flows; in the simulator a flow always has an RTT."""


@pytest.fixture(params=SUBJECTS)
def make(request: pytest.FixtureRequest) -> Callable[[], Subject]:
    """Makes the subject, with nothing in it."""
    return SUBJECTS[request.param]


def begun(made: Subject, slots: Slots = ALL, flows: Indices = ALL) -> Subject:
    made.begin(slots, WINDOWS[flows])
    return made


def played(
    made: Subject, seen: tuple[Interval, ...], slots: Slots = ALL, flows: Indices = ALL
) -> tuple[Float32s, Floats]:
    """Observations (intervals, flows, …) and parameters (intervals, flows, …)."""
    cut = of(flows)
    results = [made.decide(slots, cut(interval), flows) for interval in seen]
    return np.stack([one for one, _ in results]), np.stack([other for _, other in results])


def assert_same(one: tuple[Float32s, Floats], other: tuple[Float32s, Floats]) -> None:
    """Matrix products of another number of rows may round differently."""
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-4)


def test_there_is_a_subject_for_each_arm() -> None:
    assert {"ltp", "jury", "spine", "spine-cubic", "owl", "owl-loss"} <= TRAINED
    assert len(SUBJECTS) == len(ARMS) + len(TRAINED) + len(VARIANTS)


def test_shapes_types_and_ranges(make: Callable[[], Subject]) -> None:
    made = begun(make())
    decided = False
    for interval in intervals(made.interval_s):
        seen, parameters = made.decide(ALL, interval)
        assert seen.dtype == np.float32
        if isinstance(made, OfSignals):
            assert seen.shape == (FLOWS, made.signals.observation_size)
        assert np.isfinite(seen).all()
        assert np.abs(seen).max(initial=0.0) < 50.0
        low, high = PARAMETERS[made.law].T
        assert (parameters.dtype, parameters.shape) == (np.float64, (FLOWS, len(low)))
        missing = np.isnan(parameters)
        assert (missing.all(axis=1) == missing.any(axis=1)).all()
        assert ((parameters >= low) & (parameters <= high) | missing).all()
        decided |= not missing.all()
    assert decided


def test_equal_makings_do_the_same(make: Callable[[], Subject]) -> None:
    one, other = begun(make()), begun(make())
    seen = intervals(one.interval_s)
    for mine, theirs in zip(played(one, seen), played(other, seen), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_flows_do_not_touch_each_other(make: Callable[[], Subject]) -> None:
    together = begun(make())
    seen = intervals(together.interval_s)
    observed, parameters = played(together, seen)
    for flow in range(FLOWS):
        row = np.array([flow])
        alone = played(begun(make(), ALL[:1], row), seen, ALL[:1], row)
        assert_same(alone, (observed[:, row], parameters[:, row]))


def test_it_does_not_matter_which_slots_flows_have_nor_in_which_order(make: Callable[[], Subject]) -> None:
    plain = begun(make())
    seen = intervals(plain.interval_s)
    observed, parameters = played(plain, seen)
    order, slots = np.array([4, 0, 5, 2, 1, 3]), np.array([7, 300, 0, 41, 6, 12])
    other = played(begun(make(), slots, order), seen, slots, order)
    assert_same(other, (observed[:, order], parameters[:, order]))


def test_flows_that_pause_go_on_while_others_come(make: Callable[[], Subject]) -> None:
    """Slots 0 and 1 skip ten intervals, in which 64 flows begin. Nothing changes for the others."""
    plain, crowded = begun(make()), begun(make())
    seen = intervals(plain.interval_s)
    some = ALL[2:]
    played(plain, seen[:10]), played(crowded, seen[:10])
    more = np.arange(100, 164)
    crowded.begin(more, np.full(64, 10.0))
    for interval in seen[10:20]:
        plain.decide(ALL, interval)
        crowded.decide(some, of(some)(interval), some)
        crowded.decide(more[:2], of(ALL[:2])(interval), ALL[:2])
    observed, parameters = played(plain, seen[20:])
    assert_same(played(crowded, seen[20:], some, some), (observed[:, 2:], parameters[:, 2:]))


def test_a_slot_s_next_flow_knows_nothing_of_the_last(make: Callable[[], Subject]) -> None:
    """Slots 1 and 3 begin anew, the others go on."""
    used, fresh, plain = begun(make()), begun(make()), begun(make())
    seen = intervals(used.interval_s)
    played(used, seen[:20])
    before = played(plain, seen)
    anew = np.array([1, 3])
    used.begin(anew, WINDOWS[anew])
    observed, parameters = played(used, seen[20:])
    assert_same((observed[:, anew], parameters[:, anew]), played(fresh, seen[20:], anew, anew))
    others = np.array([0, 2, 4, 5])
    assert_same(
        (observed[:, others], parameters[:, others]), (before[0][20:, others], before[1][20:, others])
    )


def test_no_flow_is_no_problem(make: Callable[[], Subject]) -> None:
    made = begun(make())
    nobody = np.arange(0)
    made.begin(nobody, np.zeros(0))
    for interval in intervals(made.interval_s)[:3]:
        seen, parameters = made.decide(nobody, of(nobody)(interval), nobody)
        assert (len(seen), parameters.shape) == (0, (0, len(PARAMETERS[made.law])))


@pytest.mark.parametrize("name", SERVED)
def test_flows_that_hear_nothing_are_decided_for_with_finite_numbers(name: str) -> None:
    made = begun(SUBJECTS[name]())
    for interval in intervals(made.interval_s)[:10]:
        seen, parameters = made.decide(ALL, silent(interval))
        assert np.isfinite(seen).all()
        assert np.isfinite(parameters).all() or made.law is not Law.WINDOW
        assert not np.isinf(parameters).any()


@pytest.mark.parametrize("name", [name for name in SERVED if SUBJECTS[name]().law is Law.WINDOW])
def test_a_window_that_nobody_uses_does_not_grow(name: str) -> None:
    made = begun(SUBJECTS[name]())
    for interval in intervals(made.interval_s)[:20]:
        _, parameters = made.decide(ALL, silent(interval))
        assert (parameters[:, 0] <= WINDOWS).all()
