# SPDX-License-Identifier: Apache-2.0
"""Stages, lots and conclusions of a rollout. `tests/eval/test_gain_rollout.py` simulates whole ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.daemon.gain.rollout import Plan, Rollout, StageTrial, Units, unit_of
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Group, Kind

BLOCK_S, WASHOUT_S = 600.0, 60.0
BEGIN_S = 600.0 * 1_000_000
ROUND = {0: (1, 20), 1: (1, 5), 2: (3, 6), 3: (1, 1)}
"""Treated blocks, and blocks, of a round by stage."""
UNITS = np.array([unit_of(f"10.{n // 250}.{n % 250}.0/24".encode()) for n in range(400)], np.uint64)


def plan(units: Units = "blocks", **changed: float) -> Plan:
    values = {"tolerance": 0.05, "stage_min_s": 0.0, "stage_max_s": 1e9, **changed}
    return Plan(units, 7, BLOCK_S, WASHOUT_S, 1, **values)


def stage_trial(stage: int, *, by_prefix: bool, seed: int = 1, first: int = 100) -> StageTrial:
    return StageTrial("rollout", 0.0, BLOCK_S, WASHOUT_S, 1, seed, stage, first, by_prefix)


def treated(trial: StageTrial, block: int) -> np.ndarray:
    return ~(trial.holds(UNITS, block) | trial.pauses(block))


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("by_prefix", [False, True])
def test_each_unit_is_treated_so_many_blocks_of_each_round(stage: int, by_prefix: bool) -> None:
    trial = stage_trial(stage, by_prefix=by_prefix)
    count, blocks = ROUND[stage]
    assert not any(treated(trial, block).any() for block in range(80, 100)), "nothing before its first block"
    found = np.array([treated(trial, 100 + block) for block in range(30 * blocks)]).reshape(30, blocks, -1)
    assert (found.sum(axis=1) == count).all()
    if not by_prefix:
        assert (found == found[:, :, :1]).all(), "one lot for all"
    else:
        # Each place of a round is as likely, and rounds and prefixes are independent.
        shares = found.mean(axis=(0, 2))
        assert shares == pytest.approx(np.full(blocks, count / blocks), abs=0.02)
        assert len({found[number].tobytes() for number in range(30)}) == 30
        assert len({found[:, :, unit].tobytes() for unit in range(400)}) == 400


def test_each_place_is_as_likely_for_one_lot_too() -> None:
    trial = stage_trial(1, by_prefix=False)
    places = [next(p for p in range(5) if treated(trial, 100 + 5 * n + p)[0]) for n in range(2000)]
    assert np.bincount(places) == pytest.approx(np.full(5, 400), abs=80)
    both = np.array(places[:-1]) * 5 + places[1:]
    assert np.bincount(both) == pytest.approx(np.full(25, 80), abs=45), "no round tells of the next"


def test_the_seed_and_the_stage_say_which() -> None:
    def drawn(stage: int, seed: int) -> bytes:
        return stage_trial(stage, by_prefix=True, seed=seed).lots(UNITS, 3).tobytes()

    assert drawn(1, 1) == drawn(1, 1)
    assert len({drawn(1, 1), drawn(1, 2), drawn(0, 1)}) == 3


@given(st.integers(0, 2**32), st.integers(0, 2), st.integers(0, 50), st.integers(0, 2**64 - 1))
def test_a_flow_is_treated_where_the_judge_thinks_so(seed: int, stage: int, number: int, unit: int) -> None:
    trial, units = stage_trial(stage, by_prefix=True, seed=seed), np.array([unit, 1, 2], np.uint64)
    blocks = ROUND[stage][1]
    held = [trial.holds(units, 100 + number * blocks + place) for place in range(blocks)]
    assert (~trial.lots(units, number) == np.array(held).T).all()


def test_the_last_stage_treats_all() -> None:
    for by_prefix in (False, True):
        assert treated(stage_trial(3, by_prefix=by_prefix), 100).all()


def test_rows_are_of_the_group_of_their_time() -> None:
    trial = stage_trial(1, by_prefix=False)
    assert trial.group(100 * BLOCK_S + 59, control=True) == Group.WASHOUT
    assert trial.group(100 * BLOCK_S + 61, control=True) == Group.CONTROL
    assert trial.group(100 * BLOCK_S + 61, control=False) == Group.TREATED
    assert trial.group(99 * BLOCK_S + 61, control=True) == Group.WASHOUT
    assert stage_trial(1, by_prefix=True).group(100 * BLOCK_S + 61, control=False) == Group.WASHOUT


@given(tolerance=st.floats(0.005, 0.15), stage=st.integers(0, 2))
def test_what_may_be_lost_in_the_next_stage_is_the_tolerance(tolerance: float, stage: int) -> None:
    share = (0.2, 0.5, 1.0)[stage]
    assert share * -plan(tolerance=tolerance).excluded(stage) == pytest.approx(tolerance)


class World:
    """A server whose goodput is a prefix's level, times the treatment's factor, times noise."""

    def __init__(self, rollout: Rollout, effect: float, *, spread: float = 0.05, prefixes: int = 10) -> None:
        self.rollout = rollout
        self.now_s = BEGIN_S
        self.proven: list[float | None] = []
        """Lower bounds of the effect when a stage or the rollout ended."""
        self.effect, self.spread, self.units = effect, spread, UNITS[:prefixes]

    def rows(self) -> np.ndarray:
        """Two rows of a block for each prefix: one in the wash-out, and one behind it."""
        trial, block = self.rollout.trial, int(self.now_s // BLOCK_S)
        # The noise is that of the block, and does not depend on what happened before.
        noise = np.random.default_rng(block).standard_normal(self.units.size + 1)
        on = ~(trial.holds(self.units, block) | trial.pauses(block))
        rows = np.zeros(2 * self.units.size, ROW_DTYPE)
        rows["time_s"] = np.repeat([block * BLOCK_S + 5, block * BLOCK_S + WASHOUT_S], self.units.size)
        rows["block"] = block
        rows["busy_s"] = 8.0
        rows["kind"] = np.where(np.tile(on, 2), Kind.CHOSEN, Kind.BASELINE)
        logs = self.spread * (noise[:-1] + noise[-1]) + np.log1p(self.effect) * on
        # What the wash-out shows is far from the truth.
        rows["acked_bytes"] = 8e6 * np.concatenate([np.full(self.units.size, 99.0), np.exp(logs)])
        return rows

    def pass_block(self) -> list[tuple[int, str | None]]:
        """One block: its rows, then looks once a second in the wash-out of the next one."""
        self.rollout.take(self.rows(), np.tile(self.units, 2))
        self.now_s += BLOCK_S
        news = []
        for second in range(120):
            if self.rollout.look(self.now_s + second):
                news.append((self.rollout.stage, self.rollout.end))
                self.proven.append(self.rollout.evidence.lower)
        return news

    def until_the_end(self, blocks: int = 2000) -> list[tuple[int, str | None]]:
        news = []
        for _ in range(blocks):
            news += self.pass_block()
            if self.rollout.end is not None:
                break
        return news


both_units = pytest.mark.parametrize("units", ["blocks", "prefixes"])


@both_units
def test_without_harm_it_goes_on_stage_by_stage(units: Units) -> None:
    world = World(Rollout(plan(units), BEGIN_S), 0.02, spread=0.15)
    assert world.until_the_end() == [(1, None), (2, None), (3, "done")]
    for proven, needed in zip(world.proven, (-0.25, -0.1, -0.05), strict=True):
        assert proven is not None
        assert proven >= needed
    assert not world.rollout.look(world.now_s + 1e6), "that is the end"


@both_units
def test_harm_ends_it_in_an_early_stage(units: Units) -> None:
    world = World(Rollout(plan(units), BEGIN_S), -0.3)
    ((stage, end),) = world.until_the_end()
    assert stage == 0
    assert end == "harm"
    status = world.rollout.status(world.now_s)
    assert status.upper is not None
    assert status.upper <= 0
    assert status.estimate == pytest.approx(-0.3, abs=0.05)


@both_units
def test_a_stage_has_its_least_time(units: Units) -> None:
    day_s = 86_400.0
    world = World(Rollout(plan(units, stage_min_s=day_s), BEGIN_S), 0.05, spread=0.01)
    began_s, times = BEGIN_S, []
    for _ in range(600):
        for _ in world.pass_block():
            times.append(world.now_s - began_s)
            began_s = world.now_s
    assert len(times) == 3
    assert min(times) >= day_s - BLOCK_S
    assert max(times) < day_s + 21 * BLOCK_S


@both_units
def test_without_a_verdict_it_goes_back_after_its_longest_time(units: Units) -> None:
    world = World(Rollout(plan(units, stage_max_s=86_400.0), BEGIN_S), 0.0, spread=9.0)
    assert world.until_the_end() == [(0, "undecided")]
    assert world.now_s - BEGIN_S == pytest.approx(86_400, abs=BLOCK_S)


def test_without_traffic_it_goes_back_too() -> None:
    rollout = Rollout(plan(stage_max_s=86_400.0), BEGIN_S)
    assert not any(rollout.look(BEGIN_S + second) for second in range(0, 86_000, 100))
    assert any(rollout.look(BEGIN_S + second) for second in range(86_400, 87_000, 100))
    assert rollout.end == "undecided"


def test_a_harm_within_the_tolerance_goes_on_only_as_far_as_the_tolerance_allows() -> None:
    """A harm of 15 % costs 3 % of the server at 20 % of the traffic, and 7.5 % at half of it."""
    ends = []
    for seed in range(12):
        rollout = Rollout(Plan("blocks", seed, BLOCK_S, WASHOUT_S, 1, 0.05, 0.0, 1e9), BEGIN_S)
        ends.append(World(rollout, -0.15).until_the_end()[-1])
    assert {end for _, end in ends} == {"harm"}
    assert {stage for stage, _ in ends} <= {0, 1}


@both_units
@settings(max_examples=6, deadline=None)
@given(cuts=st.sets(st.integers(0, 120), max_size=6), effect=st.sampled_from([-0.15, 0.0]))
def test_it_goes_on_where_it_was(units: Units, cuts: set[int], effect: float) -> None:
    """Restarts between blocks change nothing about what is found, and when."""

    def told(cut: Callable[[int], bool]) -> list[object]:
        world = World(Rollout(plan(units), BEGIN_S), effect, prefixes=4)
        found: list[object] = []
        for block in range(150):
            found += [(world.now_s, *one) for one in world.pass_block()]
            if cut(block):
                assert world.rollout.settled
                arrays, words = world.rollout.arrays(), world.rollout.words()
                world.rollout = Rollout.restored(words, arrays)
                assert world.rollout.words() == words
        return [found, world.rollout.evidence.lower, world.rollout.evidence.upper, world.rollout.end]

    assert told(cuts.__contains__) == told(lambda _: False)


def test_blocks_that_the_daemon_missed_do_not_count() -> None:
    world = World(Rollout(plan(), BEGIN_S), 0.0)
    for _ in range(30):
        world.pass_block()
    world.now_s += 57 * BLOCK_S + 1
    world.rollout.look(world.now_s)
    begin = world.rollout.words()["begin"]
    assert isinstance(begin, int)
    assert 0 <= world.now_s // BLOCK_S - begin < 20, "the round under way is the present one"
    assert world.until_the_end()[-1] == (3, "done")


def test_rows_of_an_operator_or_without_time_do_not_count() -> None:
    rollout = Rollout(plan(), BEGIN_S)
    world = World(rollout, 0.0)
    world.now_s += BLOCK_S
    rows = world.rows()
    rows["kind"] = Kind.OPERATOR
    rollout.take(rows, np.tile(world.units, 2))
    rows["kind"], rows["busy_s"] = Kind.CHOSEN, 0.0
    rollout.take(rows, np.tile(world.units, 2))
    assert rollout.status(world.now_s).prefixes == 0
    rows["busy_s"] = 1.0
    rollout.take(rows, np.tile(world.units, 2))
    assert rollout.status(world.now_s).prefixes == 10


def test_no_more_prefixes_are_kept_than_a_verdict_needs() -> None:
    rollout = Rollout(plan("prefixes"), BEGIN_S)
    rows = np.zeros(5000, ROW_DTYPE)
    rows["time_s"], rows["block"] = BEGIN_S + BLOCK_S + 100, int(BEGIN_S // BLOCK_S) + 1
    rows["busy_s"] = rows["acked_bytes"] = 1.0
    for shift in (0, 2500):
        rollout.take(rows, np.arange(5000).astype(np.uint64) + np.uint64(shift))
    assert rollout.status(BEGIN_S).prefixes == 1024


def test_the_status_tells_what_comes_next() -> None:
    world = World(Rollout(plan(), BEGIN_S), 0.0)
    fresh = world.rollout.status(BEGIN_S + 5)
    assert (fresh.stage, fresh.share, fresh.rounds, fresh.stage_s) == (0, 0.05, 0, 5)
    assert (fresh.lower, fresh.upper, fresh.estimate, fresh.detect_s) == (None, None, None, None)
    assert fresh.must_exclude == pytest.approx(-0.25)
    assert fresh.round_s == 20 * BLOCK_S
    for _ in range(22):
        world.pass_block()
    later = world.rollout.status(world.now_s)
    assert later.rounds == 1
    assert later.detect_s is not None
    assert 12_000 <= later.detect_s < 30 * 12_000


def test_an_abort_is_an_end() -> None:
    rollout = Rollout(plan(), BEGIN_S)
    rollout.changed = False
    rollout.abort()
    assert rollout.end == "aborted"
    assert rollout.changed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plan", None), ("plan", {}), ("began_s", "x"), ("began_s", float("nan")), ("stage", 4),
        ("stage", True),
        ("first", -1), ("begin", 1.5), ("rounds", None), ("end", "over"), ("units", np.zeros(3)),
        ("acked", np.zeros((2, 2))), ("difference", np.zeros(1)), ("logs", np.zeros(1)),
        ("power", np.zeros(2)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(name: str, value: object) -> None:
    world = World(Rollout(plan(), BEGIN_S), 0.0)
    world.pass_block()
    world.pass_block()
    words, arrays = world.rollout.words(), world.rollout.arrays()
    assert Rollout.restored(words, arrays).stage == 0
    if name in words:
        words[name] = value
    else:
        assert isinstance(value, np.ndarray)
        arrays[name] = value
    with pytest.raises(ValueError, match=r"is|of"):
        Rollout.restored(words, arrays)


def test_a_state_without_a_part_is_refused() -> None:
    rollout = Rollout(plan(), BEGIN_S)
    for part in rollout.words():
        with pytest.raises(KeyError):
            Rollout.restored({k: v for k, v in rollout.words().items() if k != part}, rollout.arrays())
    for part in rollout.arrays():
        with pytest.raises(KeyError):
            Rollout.restored(rollout.words(), {k: v for k, v in rollout.arrays().items() if k != part})
