# SPDX-License-Identifier: Apache-2.0
"""Arms that starve, decay, lie or swing on made paths: none of them keeps a flow for long."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.rule_flows import BBR, LTP, STEP_S, VEGAS, run, times_s

from ltp_switcher.daemon.choose.rule.roles import CAREFUL, PROBING
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.choose.rule.surprise import Found, Surprise
from ltp_switcher.daemon.settings.rule_policy import RuleSection

RTT_MS = 40.0
LOOK_S = 0.27
PROBE_S = 2.0
"""The rule's `start_s`."""


def checking() -> RuleChooser:
    """The rule with its self-check."""
    return RuleChooser([BBR, LTP, VEGAS], RuleSection(without=("no-queue",)))


class World:
    """A path on which BBR has the full rate, and the other arms a share that moves as they please."""

    def __init__(self, **arms: tuple[str, float]) -> None:
        self._arms = {LTP: arms.get("ltp", ("steady", 1.0)), VEGAS: arms.get("vegas", ("steady", 1.0))}
        self._arm, self._since_s, self._asked_s = 0, 0.0, 0.0
        self.starving: list[bool] = []
        """Whether the reward was below half of BBR's, a step each."""

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        if arm != self._arm:
            self._arm, self._since_s = arm, t
        share = self._share(arm, t - self._since_s)
        # The run asks twice a step, for the RTT and for the rate.
        if t != self._asked_s:
            self._asked_s = t
            self.starving.append(share**2 < 0.5)
        return RTT_MS, share

    def _share(self, arm: int, for_s: float) -> float:
        if arm not in self._arms:
            return 1.0
        how, least = self._arms[arm]
        return {
            "steady": least,
            "decays": max(least, math.exp(-for_s / 3.0)),
            "lies": 1.0 if for_s < 4.0 else least,
            "swings": least if for_s % 8.0 > 4.0 else 1.0,
        }[how]

    def longest_s(self) -> float:
        """The longest time below half, from the first look on."""
        longest = now = 0
        for starving in self.starving:
            now = now + 1 if starving else 0
            longest = max(longest, now)
        return longest * STEP_S


shares = st.floats(0.02, 0.65)
ways = st.sampled_from(["steady", "decays", "lies", "swings"])


@settings(max_examples=8, deadline=None)
@given(ltp=st.tuples(ways, shares), vegas=st.tuples(ways, shares))
def test_no_arm_stays_where_it_starves(ltp: tuple[str, float], vegas: tuple[str, float]) -> None:
    world = World(ltp=ltp, vegas=vegas)
    run(duration_s=30.0, under=world, chooser=checking())
    # Ten round trips after a switch tell nothing of the arm.
    assert world.longest_s() <= max(2.0, 20 * RTT_MS * 1e-3) + PROBE_S
    # Later and later, so that little of the time is lost.
    assert np.mean(world.starving[-round(15.0 / STEP_S) :]) < 0.34


@pytest.mark.parametrize(("how", "duration_s"), [("steady", 6.0), ("lies", 14.0)])
def test_a_starving_arm_gives_way_to_the_one_that_has_shown_more(how: str, duration_s: float) -> None:
    chooser = checking()
    arms = run(duration_s=duration_s, under=World(ltp=(how, 0.3)), chooser=chooser)
    assert [arm for _, arm in times_s(arms[:, 0])][:3] == [BBR, LTP, BBR]
    why = chooser.reason(np.array([0]))
    assert "starved" in chooser.reasons[why.code[0]]
    assert why.value[0] > 4.0
    # It is told once.
    assert [chooser.starved(np.array([0])).tolist() for _ in range(2)] == [[True], [False]]


def test_arms_that_do_as_well_are_left_alone() -> None:
    """A tenth less of the rate is a fifth of the reward."""
    for share in (1.0, 0.9):
        chooser = checking()
        arms = run(duration_s=30.0, under=World(ltp=("steady", share)), chooser=chooser)
        assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]
        assert not chooser.starved(np.array([0])).any()


def test_a_slower_link_is_probed_and_then_left_alone() -> None:
    """All arms have a third from 8 s on: nothing that was shown before counts."""

    class Slower(World):
        def __call__(self, t: float, arm: int) -> tuple[float, float]:
            return RTT_MS, 1.0 if t < 8.0 else 0.33

    arms = run(duration_s=30.0, under=Slower(), chooser=checking())
    (_, first), (_, second), (probe_s, third), (back_s, fourth) = times_s(arms[:, 0])
    assert (first, second, third, fourth) == (BBR, LTP, BBR, LTP)
    assert 8.0 < probe_s < 10.0
    assert back_s - probe_s < PROBE_S + 1.0


def _look(
    surprise: Surprise,
    role: int,
    earned: np.ndarray,
    whole: np.ndarray,
    now_ns: float,
    stretch: float = 0.0,
    *,
    elsewhere: bool = False,
) -> Found:
    """The findings of one look at player 0, on a path whose RTT floor is 40 ms. `stretch`, `elsewhere`: see
    `look`.
    """
    slot, floor_us, no = np.array([0]), np.array([4e4]), np.array([False])
    stretched, back = np.array([stretch]), np.array([elsewhere])
    return surprise.look(
        slot, np.array([role]), earned, whole, floor_us, np.array([now_ns]), no, stretched, back
    )


def _alarms(noise: float, lack: float, looks: int, seed: int) -> int:
    """Alarms of a steady arm whose log reward is `lack` below another arm's, with this noise."""
    rng = np.random.default_rng(seed)
    surprise = Surprise()
    slot, now_ns, alarms = np.array([0]), 1e9, 0
    surprise.reset(slot)
    for look in range(looks):
        role = 0 if look < 8 else 1
        if look == 8:
            surprise.other_arm(slot)
        level = 10.0 if role == 0 else 10.0 - lack
        earned = np.array([rng.normal(level, noise)])
        now_ns += LOOK_S * 1e9
        found = _look(surprise, role, earned, earned, now_ns)
        alarms += int(found.starves[0]) + int(found.fell[0])
        if found.starves[0]:
            break
    return alarms


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6])
def test_noise_raises_hardly_an_alarm(noise: float) -> None:
    """Twenty flows of five minutes: at one alarm in ten minutes each, ten would be usual."""
    assert sum(_alarms(noise, 0.1, 1111, seed) for seed in range(20)) <= 10


@pytest.mark.parametrize(("noise", "within_s"), [(0.1, 2.0), (0.3, 4.0), (0.6, 8.0)])
def test_a_fourfold_lack_is_noticed_in_time(noise: float, within_s: float) -> None:
    looks = 8 + round(within_s / LOOK_S)
    assert sum(_alarms(noise, 1.4, looks, seed) for seed in range(20)) >= 18


def _found(levels: list[tuple[int, float]], noise: float, seed: int) -> str:
    """What is found first for a player that runs these roles, a look each, at these log rewards."""
    rng = np.random.default_rng(seed)
    surprise, slot, now_ns, before = Surprise(), np.array([0]), 1e9, 0
    surprise.reset(slot)
    for role, level in levels:
        if role != before:
            surprise.other_arm(slot)
        before, now_ns = role, now_ns + LOOK_S * 1e9
        earned = np.array([rng.normal(level, noise)])
        found = _look(surprise, role, earned, earned, now_ns)
        for name, where in found._asdict().items():
            if where[0]:
                return name
    return ""


def test_the_reward_of_others_is_told_by_levels_and_not_by_the_last_look() -> None:
    """Eight looks under role 0 at 10, eight under role 1 at 9, and then one bad look of role 1 at 5."""
    surprise, slot, role = Surprise(), np.array([0]), np.array([1])
    surprise.reset(slot)
    for look in range(17):
        if look == 8:
            surprise.other_arm(slot)
        earned = np.array([10.0 if look < 8 else 9.0 if look < 16 else 5.0])
        _look(surprise, 0 if look < 8 else 1, earned, earned, (1.0 + look * LOOK_S) * 1e9)
        if look == 15:
            surprise.bar(slot, role, 0)
            assert surprise.more(slot, role)[0] == pytest.approx(math.e)
    # A level is a mean over eight looks, so one look moves it by half.
    assert surprise.more(slot, role)[0] == pytest.approx(math.exp(1.5), rel=0.01)


def _bars_for_s(looks: int, noise: float) -> float:
    """The time for which an arm is barred after these looks, at a fifth of the reward of another arm."""
    surprise, slot, now_ns = Surprise(), np.array([0]), int(1e9)
    surprise.reset(slot)
    other = [(0, 10.0 - noise), (0, 10.0 + noise)] * 12
    for role, earned in other + [(1, 10.0 - math.log(5.0))] * looks:
        now_ns += round(LOOK_S * 1e9)
        _look(surprise, role, np.array([earned]), np.array([earned]), now_ns)
    role = np.array([1])
    surprise.bar(slot, role, now_ns)
    return next(s for s in range(1000) if not surprise.barred(slot, role, now_ns + round(s * 1e9))[0])


def test_one_look_on_a_noisy_path_bars_for_the_shortest_time_only() -> None:
    assert _bars_for_s(looks=1, noise=0.8) == 10
    assert _bars_for_s(looks=1, noise=0.1) == 160


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.15, 0.5])
def test_a_link_that_slows_down_is_no_proof_against_an_arm(seed: int, noise: float) -> None:
    """The probing arm had shown 10.0. The other one did better, and then all lost three quarters."""
    fell = [(0, 10.0)] * 8 + [(1, 10.4)] * 20 + [(1, 8.6)] * 20
    starves = [(0, 10.0)] * 8 + [(1, 8.6)] * 40
    assert _found(fell, noise, seed) == "fell"
    # With much noise a probe may come first, and shows the same.
    assert _found(starves, 0.15, seed) == "starves"


def test_a_careful_arm_that_was_never_compared_is_compared_once() -> None:
    """The steady arm needs no such probe: it keeps its path full."""
    assert _found([(2, 10.0)] * 12, 0.1, 1) == "alone"
    assert _found([(0, 10.0)] * 8 + [(2, 10.0)] * 12, 0.1, 1) == ""
    assert _found([(1, 10.0)] * 12, 0.1, 1) == ""


def test_a_fall_soon_after_a_probe_is_probed_as_soon_as_one_is_due() -> None:
    """All arms lose some at 8 s. BBR then meets a queue, and the steady one starves from 14 s on."""

    class Twice(World):
        def __call__(self, t: float, arm: int) -> tuple[float, float]:
            full = 1.0 if t < 8.0 else 0.5
            queued = arm == BBR and 8.0 < t < 12.0
            return RTT_MS * (4.0 if queued else 1.0), full * (0.55 if arm == LTP and t > 14.0 else 1.0)

    arms = run(duration_s=30.0, under=Twice(), chooser=checking())
    probes_s = [at_s for at_s, arm in times_s(arms[:, 0]) if arm == BBR]
    assert len(probes_s) == 3
    assert 8.0 < probes_s[1] < 11.0
    assert probes_s[1] + 9.0 < probes_s[2] < probes_s[1] + 11.0
    assert int(arms[-1, 0]) == BBR, "it has shown more"


def test_a_comparison_behind_a_queue_takes_no_longer_than_on_an_empty_path() -> None:
    """The link falls to a fifth, and the careful arm's packets queue. As on cellular links, it swings."""

    def slows(t: float, arm: int) -> tuple[float, float]:
        if t < 1.0:
            # The careful arm follows a rate that varies.
            return 40.0 if t < 0.5 else 400.0, 1.0
        return (40.0, 1.0) if t < 12.0 else (45.0 if round(t * 4) % 4 == 0 else 700.0, 0.2)

    arms = run(duration_s=30.0, under=slows, chooser=checking())
    (began_s, ended_s), *_ = [
        (at_s, after_s)
        for (at_s, arm), (after_s, _) in itertools.pairwise(times_s(arms[:, 0]))
        if arm == BBR and at_s > 12.0
    ]
    # Two looks of two round trips, instead of 16 round trips of half a second.
    assert ended_s - began_s < 3.5


class Policer:
    """A path that drops all above its rate. BBR loses a quarter of its packets for 20 round trips after each
    start, and none later. The other arms lose a quarter for good.
    """

    def __init__(self) -> None:
        self._arm, self._since_s, self._asked_s, self._lost_pkts = 0, 0.0, 0.0, 0.0

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        if arm != self._arm:
            self._arm, self._since_s = arm, t
        # The run asks twice a step, for the RTT and for the rate.
        if t != self._asked_s:
            self._asked_s = t
            loses = arm != BBR or t - self._since_s < 20 * 0.2
            self._lost_pkts += loses * 50.0 * STEP_S / 3.0
        return 200.0, 1.0

    def lost(self, _: float) -> int:
        return int(self._lost_pkts)


def test_an_arm_that_loses_most_of_its_reward_gives_way_to_one_that_loses_none() -> None:
    path = Policer()
    arms = run(duration_s=60.0, under=path, total_lost=path.lost, rate_pps=50.0, chooser=checking())
    assert (arms[:, 0] == LTP).any()
    assert (arms[round(20.0 / STEP_S) :, 0] == BBR).all()


def _losing(looks: list[tuple[int, float, float]]) -> tuple[Surprise, list[str]]:
    """The findings of these looks, and what found them: role, log reward, log reward without losses."""
    surprise, now_ns, before, names = Surprise(), 1e9, 0, []
    surprise.reset(np.array([0]))
    for role, earned, whole in looks:
        if role != before:
            surprise.other_arm(np.array([0]))
        before, now_ns = role, now_ns + LOOK_S * 1e9
        found = _look(surprise, role, np.array([earned]), np.array([whole]), now_ns)
        names += [name for name, where in found._asdict().items() if where[0]]
    return surprise, names


def test_losses_that_take_half_of_the_reward_call_for_one_comparison() -> None:
    for left, found in ((0.6, []), (0.4, ["losing"])):
        earned = 10.0 + math.log(left)
        looks = [(0, earned, 10.0)] * 8 + [(1, earned, 10.0)] * 20
        assert _losing(looks)[1] == found


def test_the_first_look_with_a_reward_begins_the_level() -> None:
    dead = [(0, -math.inf, 10.0)] * 20
    surprise, _ = _losing([(1, 8.0, 8.0), *dead, (0, 10.0, 10.0)])
    assert surprise.instead(np.array([0]), 0) == np.array([0])


def test_a_fall_by_losses_alone_leaves_the_levels_of_the_path() -> None:
    path = [(1, 10.0, 10.0)] * 8 + [(0, 10.0, 10.0)] * 8
    losses, slower = [(0, 7.0, 10.0)] * 3, [(0, 7.0, 7.0)] * 3
    other = np.array([1])
    surprise, _ = _losing([*path, *losses, *[(1, 4.0, 10.0)] * 1])
    assert surprise.instead(np.array([0]), 0) == other
    surprise, _ = _losing([*path, *slower])
    assert surprise.instead(np.array([0]), 0) != other


@pytest.mark.parametrize(
    ("fallen", "freed"),
    [(3.0, True), (4.5, True), (6.0, False)],
    ids=["to less than the barred arm had", "to 1.6 times as much", "to seven times as much"],
)
def test_a_bar_ends_when_the_arm_that_replaced_the_barred_one_earns_no_more(
    fallen: float, freed: bool
) -> None:
    """The careful arm starves beside the probing arm at 10. Then the link falls, and the probing arm too."""
    before, now_ns, slot, careful = 10.0, 20 * 10**9, np.array([0]), np.array([2])
    surprise, _ = _losing([*[(0, before, before)] * 8, *[(2, 4.0, 4.0)] * 3])
    surprise.other_arm(slot)
    surprise.bar(slot, careful, now_ns)
    found = []
    for look in range(8):
        earned = np.array([fallen])
        found.append(_look(surprise, 0, earned, earned, now_ns + look * LOOK_S * 1e9).freed.any())
    assert any(found) == freed
    assert surprise.barred(slot, careful, now_ns).any() != freed


class FallsTwice(World):
    """A path whose RTT once rises tenfold, so that the careful arm comes. Its link then falls to a half, and
    this arm starves beside the probing arm's level. A second later the link falls to a tenth.
    """

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        rtt_ms, _ = super().__call__(t, arm)
        return 10.0 * rtt_ms if 1.6 < t < 1.9 else rtt_ms, 1.0 if t < 2.6 else 0.5 if t < 3.6 else 0.1


def test_an_arm_that_starved_beside_a_faster_link_returns_when_the_next_arm_falls_too() -> None:
    arms = run(duration_s=10.0, under=FallsTwice(), chooser=checking())
    (_, first), (_, second), (bbr_s, third), (back_s, fourth) = times_s(arms[:, 0])[:4]
    assert (first, second, third, fourth) == (BBR, VEGAS, BBR, VEGAS)
    assert back_s - bbr_s < PROBE_S


class Dips(World):
    """A path whose RTT once rises tenfold, so that the careful arm comes. When it has come, its link has a
    sixth of its rate and a queue, for two seconds. `rival`: only the careful arm has that little, and for
    good.
    """

    def __init__(self, *, rival: bool = False) -> None:
        super().__init__()
        self._rival = rival

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        rtt_ms, share = super().__call__(t, arm)
        if t > 1.8 and (arm == VEGAS if self._rival else t < 3.8):
            return (2.0 + 2.0 * (t % 0.7)) * rtt_ms, share / 6
        return 10.0 * rtt_ms if 1.5 < t < 1.7 else rtt_ms, share


def test_the_careful_arm_does_not_starve_behind_its_queue_on_a_slower_link() -> None:
    """Two seconds of looks without any other arm's level call for the probing arm."""
    chooser = checking()
    arms = run(duration_s=5.0, under=Dips(), chooser=chooser)
    assert not chooser.starved(np.array([0])).any()
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, VEGAS]


def test_the_careful_arm_starves_where_the_way_back_has_the_delay() -> None:
    """Its RTT is as long as behind its own queue, but TCP's timestamps tell that nothing waits there."""
    chooser = checking()
    run(duration_s=5.0, under=Dips(rival=True), chooser=chooser, back=lambda _: 1.0)
    assert chooser.starved(np.array([0])).all()


def test_behind_another_flows_queue_the_probing_arm_soon_shows_more() -> None:
    arms = run(duration_s=20.0, under=Dips(rival=True), chooser=checking())
    assert np.mean(arms[round(10.0 / STEP_S) :] == VEGAS) < 0.1


class Varying(World):
    """A path whose RTT once rises tenfold, so that the careful arm comes, which starves there.

    From `swings_s` on, the rate loses a third for 0.4 s of each 0.8 s.
    """

    def __init__(self, ltp: float = 1.0, swings_s: float = math.inf) -> None:
        super().__init__(vegas=("steady", 0.2), ltp=("steady", ltp))
        self._swings_s = swings_s

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        rtt_ms, share = super().__call__(t, arm)
        swung = t > self._swings_s and t % 0.8 > 0.4
        return 10.0 * rtt_ms if 1.6 < t < 1.9 else rtt_ms, share * (0.7 if swung else 1.0)


def test_where_the_careful_arm_starves_the_steady_arm_gets_its_turn_after_the_probe() -> None:
    """Only the probing arm has shown more, but nothing speaks against an arm that has never run."""
    chooser = checking()
    arms = run(duration_s=30.0, under=Varying(), chooser=chooser)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, VEGAS, BBR, LTP]
    (code,) = chooser.reason(np.array([0])).code
    assert chooser.reasons[code] == "another arm starved, and this one had not run on the path yet"


def test_the_steady_arm_gives_way_in_turn_if_it_starves_too() -> None:
    arms = run(duration_s=30.0, under=Varying(ltp=0.2), chooser=checking())
    *_, (ltp_s, third), (bbr_s, fourth) = times_s(arms[:, 0])
    assert (third, fourth) == (LTP, BBR)
    assert bbr_s - ltp_s < 2.5


def test_a_careful_arm_that_starves_is_no_reason_to_leave_the_steady_arm() -> None:
    """A rate that swings calls for the careful arm, which is barred. The probing arm has shown no less."""
    arms = run(duration_s=40.0, under=Varying(swings_s=24.0), chooser=checking())
    assert set(arms[round(25.0 / STEP_S) :, 0].tolist()) == {LTP}


def test_a_careful_arm_that_showed_less_is_barred_when_a_swing_calls_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its level is low, and no bar holds: a slower link had ended it."""
    monkeypatch.setattr(Surprise, "lacks", lambda _, slots, role: role == CAREFUL)
    chooser = checking()
    swings = lambda t: 0.7 if t > 4.0 and t % 0.8 > 0.4 else 1.0  # noqa: E731
    arms = run(lambda _: RTT_MS, duration_s=9.0, rate=swings, chooser=chooser)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]
    assert chooser.starved(np.array([0])).all()


def test_an_arm_is_unseen_until_it_has_run_and_while_it_is_not_barred() -> None:
    surprise, slot, earned = Surprise(), np.array([0]), np.array([10.0])
    surprise.reset(slot)
    _look(surprise, 0, earned, earned, 1e9)
    assert surprise.unseen(slot, 1, 2 * 10**9).all()
    surprise.bar(slot, np.array([1]), 2 * 10**9)
    assert not surprise.unseen(slot, 1, 3 * 10**9).any()
    assert surprise.unseen(slot, 1, 200 * 10**9).all()
    _look(surprise, 1, earned, earned, 201e9)
    assert not surprise.unseen(slot, 1, 202 * 10**9).any()


def _lacks(noise: float, gap: float, looks: int) -> bool:
    """Whether an arm lacks reward after so many looks, this far below another arm's level."""
    surprise, slot, now_ns = Surprise(), np.array([0]), 1e9
    surprise.reset(slot)
    other = [(0, 10.0 - noise), (0, 10.0 + noise)] * 12
    for role, earned in other + [(1, 10.0 - gap)] * looks:
        now_ns += LOOK_S * 1e9
        _look(surprise, role, np.array([earned]), np.array([earned]), now_ns)
    return bool(surprise.lacks(slot, np.array([1]))[0])


@given(st.floats(0.05, 2.0), st.floats(0.0, 5.0), st.integers(1, 8))
@example(0.1, 0.4, 8)
@example(0.1, 1.0, 8)
@settings(max_examples=40, deadline=None)
def test_an_arm_lacks_reward_beyond_the_noise_of_its_path(noise: float, gap: float, looks: int) -> None:
    """A change by twice the noise from look to look has a standard deviation of the noise times root 2."""
    error = max(math.sqrt(2) * noise, 0.15) * math.sqrt(1 / looks + 1 / 8)
    least = max(math.log(2), 3 * error)
    assume(abs(gap - least) > 0.35 * least)
    assert _lacks(noise, gap, looks) == (gap > least)


def _falls(probing: float, careful: tuple[float, float], *, elsewhere: bool) -> tuple[Surprise, Found]:
    """The findings at the first alarm after a fall of the careful arm, whose log rewards before and after it
    are `careful`. The probing arm ran before, with the log reward `probing`. `elsewhere`: whether the RTT is
    high by the way back from the fall on.
    """
    surprise, slot = Surprise(), np.array([0])
    surprise.reset(slot)
    before, after = careful
    earned = [(PROBING, probing)] * 8 + [(CAREFUL, before)] * 8 + [(CAREFUL, after)] * 8
    for look, (role, log_reward) in enumerate(earned):
        if look == 8:
            surprise.other_arm(slot)
        value, back = np.array([log_reward]), elsewhere and look >= 16
        found = _look(surprise, role, value, value, (look + 1) * LOOK_S * 1e9, elsewhere=back)
        if found.starves[0] or found.fell[0]:
            return surprise, found
    raise AssertionError("no alarm")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_arm_far_below_another_starves_behind_a_longer_way_back(elsewhere: bool) -> None:
    """The careful arm did as well as the probing arm, and has a tenth of it now."""
    _, found = _falls(10.0, (10.0, 10.0 - math.log(10.0)), elsewhere=elsewhere)
    assert (bool(found.starves[0]), bool(found.fell[0])) == (elsewhere, not elsewhere)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_levels_stay_where_the_way_back_is_longer(elsewhere: bool) -> None:
    """The careful arm falls to three quarters of the probing arm's level, and a probe is due."""
    surprise, found = _falls(9.2, (10.0, 8.9), elsewhere=elsewhere)
    assert found.fell[0]
    assert np.isfinite(surprise.level(np.array([0]), PROBING)[0]) == elsewhere
