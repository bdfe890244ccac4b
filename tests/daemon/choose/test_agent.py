# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from support.bandit_world import STEP_NS, World, random_artifact, random_encoder
from support.slots import begun

from ltp_switcher.daemon.choose.bandit import ArmTable, MutantAgent
from ltp_switcher.daemon.choose.bandit.credit import Decisions
from ltp_switcher.daemon.datapath.protocol import RECORD_DTYPE, FlowFlags
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.encoder import GRUEncoder
from ltp_switcher.errors import ArtifactError, InvalidValueError

ARMS = ArmTable((1, 2, 3, 5), ("cubic", "bbr", "vegas", "hybla"))
STEP_MS = STEP_NS / 1e6
# Arm 3 is best: full rate without a queue.
SHARES = {1: (1.0, 2.0), 2: (0.8, 1.2), 3: (1.0, 1.05), 5: (0.5, 1.5)}


def run(agent: MutantAgent, world: World, steps: int) -> np.ndarray:
    """Arms run at each step, shape (steps, n)."""
    n = len(world.active)
    slots = np.arange(n)
    wanted: np.ndarray | None = None
    out = np.zeros((steps, n), np.uint8)
    for t in range(steps):
        result = agent.step(slots, world.step(wanted))
        wanted = out[t] = result.arms
    return out


@pytest.mark.parametrize("config", [
    LearningSection(alpha=0.8, trained_cap=0),
    LearningSection(alpha=0.2, trained_cap=0, ucb="algorithm1"),
])  # fmt: skip
@pytest.mark.parametrize(("rate", "rtt"), [(1.25e4 * 4, 5e4), (3e6, 4e4), (1.25e9, 1e3)])
def test_finds_the_best_arm_at_any_scale(config: LearningSection, rate: float, rtt: float) -> None:
    agent = MutantAgent(config, STEP_MS, ARMS, random_encoder(), seed=1)
    agent.open(np.arange(4), ["192.0.2.0/24"] * 4)
    arms = run(agent, World(4, SHARES, rate, rtt), 2500)
    share = (arms[-1000:] == 3).mean()
    assert share > 0.6


def test_the_paper_preset_learns_too() -> None:
    """On a path short enough that the ACK tells about the arm in force."""
    agent = MutantAgent(LearningSection.paper(), STEP_MS, ARMS, random_encoder(), seed=1)
    agent.open(np.arange(3), [""] * 3)
    world = World(3, SHARES, 3e6, 5e3)
    arms = run(agent, world, 3000)
    best = (arms[-1000:] == 3).mean()
    print(f"paper preset: best arm {best:.0%} of the last steps, chance 25 %")
    assert best > 0.35


def test_follows_a_path_that_changes() -> None:
    config = LearningSection(alpha=0.5, trained_cap=0, discount=0.95)
    agent = MutantAgent(config, STEP_MS, ARMS, random_encoder(), seed=2)
    agent.open(np.arange(4), [""] * 4)
    world = World(4, SHARES, 3e6, 2e4)
    run(agent, world, 1500)
    world.rate_Bps = 1.2e7
    world.arms = {1: (0.3, 1.5), 2: (1.0, 1.0), 3: (0.25, 1.05), 5: (0.3, 1.2)}
    assert (run(agent, world, 2500)[-500:] == 2).mean() > 0.7


def test_credit_goes_to_the_arm_that_sent() -> None:
    """With an RTT of 200 ms and decisions shorter than that, the ACK's own arm is the wrong one."""
    means = {}
    for credit in ("sent", "acked"):
        config = LearningSection(alpha=0.0, epsilon=1.0, epsilon_decay=1e9, hold_rtts=0.0, hold_ms=50,
                             credit=credit, trained_cap=0, discount=1.0, keep_on_change=1.0)  # fmt: skip
        agent = MutantAgent(config, STEP_MS, ARMS, random_encoder(), seed=3)
        agent.open(np.arange(2), [""] * 2)
        run(agent, World(2, SHARES, 3e6, 2e5), 3000)
        rows = agent.knowledge
        # The last entry of b is the sum of rewards, beside the number of updates.
        means[credit] = rows._b[0, :, -1] / rows._counts[0]
    spread = {credit: float(np.ptp(value)) for credit, value in means.items()}
    print(f"spread of the arms' mean rewards: {spread}")
    assert means["sent"].argmax() == 2
    assert spread["sent"] > 3 * spread["acked"]


def test_new_flows_start_from_what_the_path_has_taught() -> None:
    config = LearningSection(alpha=0.3, trained_cap=0)
    agent = MutantAgent(config, STEP_MS, ARMS, random_encoder(), seed=4)
    agent.open(np.arange(3), ["192.0.2.0/24"] * 3)
    world = World(3, SHARES, 3e6, 4e4)
    run(agent, world, 2000)
    agent.close(np.array([0]))
    agent.open(np.array([0]), ["192.0.2.0/24"])
    first = run(agent, world, 300)[:, 0]
    assert (first == 3).mean() > 0.9


def test_a_decision_lasts_as_long_as_it_must() -> None:
    config = LearningSection(
        alpha=0.0, epsilon=1.0, epsilon_decay=1e9, hold_rtts=2, hold_ms=50, decide_on_change=False
    )
    agent = MutantAgent(config, STEP_MS, ARMS, random_encoder(), seed=5)
    agent.open(np.arange(1), [""])
    arms = run(agent, World(1, dict.fromkeys(ARMS.ids, (1.0, 1.0)), 3e6, 1e5), 2000)[:, 0]
    changes = np.flatnonzero(np.diff(arms)) + 1
    assert len(changes) > 30
    assert np.diff(changes).min() >= 19


def test_pool_pin_and_repeatability() -> None:
    runs = []
    for _ in range(2):
        agent = MutantAgent(LearningSection(alpha=1.0), STEP_MS, ARMS, random_encoder(), seed=6)
        agent.set_pool([1, 5])
        assert agent.pool == (1, 5)
        agent.open(np.arange(5), [""] * 5)
        runs.append(run(agent, World(5, SHARES, 3e6, 4e4), 500))
    assert set(np.unique(runs[0])) <= {1, 5}
    np.testing.assert_array_equal(*runs)
    pinned = World(5, SHARES, 3e6, 4e4).step(None)
    pinned["flags"] = int(FlowFlags.PINNED)
    pinned["arm"] = 2
    pinned["time_ns"] = 10**13
    assert (agent.step(np.arange(5), pinned).arms == 2).all()


def test_estimates_are_of_the_pool_and_the_reason_is_the_promise() -> None:
    agent = MutantAgent(LearningSection(alpha=0.3), STEP_MS, ARMS, random_encoder(), seed=6)
    agent.set_pool([1, 3, 5])
    agent.open(np.arange(2), [""] * 2)
    assert agent.estimates(0) == ()
    assert agent.reasons[agent.reason(np.array([1])).code[0]].startswith("the flow was new")
    arms = run(agent, World(2, SHARES, 3e6, 4e4), 800)
    found = {estimate.arm: estimate for estimate in agent.estimates(1)}
    assert set(found) == {1, 3, 5}
    assert all(estimate.lower < estimate.mean < estimate.upper for estimate in found.values())
    code, value = (part[0] for part in agent.reason(np.array([1])))
    chosen = found[int(arms[-1, 1])]
    assert chosen.lower - 0.1 <= value <= chosen.upper + 0.1
    best = max(found.values(), key=lambda estimate: estimate.mean)
    assert agent.reasons[code].startswith("it promised" if best is chosen else "its reward was uncertain")


def test_step_reports_reward_of_the_step() -> None:
    agent = MutantAgent(LearningSection(), STEP_MS, ARMS, random_encoder(), seed=7)
    agent.open(np.arange(2), ["", ""])
    world = World(2, {1: (1.0, 1.0), 2: (1.0, 1.0), 3: (1.0, 1.0), 5: (1.0, 1.0)}, 6e6, 3e4)
    for _ in range(50):
        result = agent.step(np.arange(2), world.step(None))
    assert result.arms.dtype == np.uint8
    assert ((result.reward > 0.6) & (result.reward <= 1)).all()
    silent = world.step(None)
    silent["samples"] = silent["rtt_samples"] = 0
    np.testing.assert_array_equal(agent.step(np.arange(2), silent).reward, result.reward)
    empty = agent.step(np.zeros(0, np.intp), np.zeros(0, RECORD_DTYPE))
    assert empty.arms.shape == (0,)


def test_flows_come_and_go() -> None:
    rng = np.random.default_rng(8)
    agent = MutantAgent(LearningSection(), STEP_MS, ARMS, random_encoder(), seed=8)
    alive: set[int] = set()
    worlds = World(300, SHARES, 3e6, 4e4)
    for _ in range(150):
        new = [slot for slot in rng.integers(0, 300, 6).tolist() if slot not in alive]
        new = sorted(set(new))
        agent.open(np.array(new, np.intp), [f"p{slot % 7}" for slot in new])
        alive.update(new)
        slots = np.array(sorted(alive), np.intp)
        result = agent.step(slots, worlds.step(None)[slots])
        assert np.isin(result.arms, ARMS.ids).all()
        gone = slots[rng.random(len(slots)) < 0.05]
        agent.close(gone)
        alive -= set(gone.tolist())


def test_state_is_restored_and_refused() -> None:
    agent = MutantAgent(LearningSection(alpha=0.3), STEP_MS, ARMS, random_encoder(), seed=9)
    agent.open(np.arange(2), ["192.0.2.0/24"] * 2)
    run(agent, World(2, SHARES, 3e6, 4e4), 2000)
    state = agent.state()
    other = MutantAgent(LearningSection(alpha=0.3), STEP_MS, ARMS, random_encoder(), seed=9)
    other.restore(state)
    for name, array in other.state().items():
        np.testing.assert_array_equal(array, state[name])
    with pytest.raises(ArtifactError, match="another encoder"):
        MutantAgent(LearningSection(), STEP_MS, ARMS, random_encoder(1), seed=9).restore(state)
    with pytest.raises(ArtifactError, match="for the arms"):
        MutantAgent(
            LearningSection(), STEP_MS, ArmTable((1, 2), ("a", "b")), random_encoder(), seed=9
        ).restore(state)
    with pytest.raises(ArtifactError, match="version"):
        other.restore({**state, "version": np.array(99)})
    with pytest.raises(ArtifactError, match="fit"):
        other.restore({name: array for name, array in state.items() if name != "b"})


def test_an_encoder_for_other_inputs_is_refused() -> None:
    with pytest.raises(ArtifactError, match="inputs"):
        MutantAgent(LearningSection(), STEP_MS, ARMS, GRUEncoder(random_artifact(inputs=12)), seed=1)


@pytest.mark.parametrize("pool", [[], [4], [1, 99]])
def test_bad_pool(pool: list[int]) -> None:
    with pytest.raises(InvalidValueError, match="arms"):
        MutantAgent(LearningSection(), STEP_MS, ARMS, random_encoder(), seed=1).set_pool(pool)


def test_arm_table_is_checked() -> None:
    for ids, names in [((), ()), ((1, 1), ("a", "b")), ((0,), ("a",)), ((1,), ())]:
        with pytest.raises(InvalidValueError):
            ArmTable(ids, names)


def test_a_full_ring_forgets_the_oldest_decision() -> None:
    ring = begun(Decisions(2, "sent", depth=3))
    slot = np.zeros(1, np.intp)
    for i in range(10):
        ring.make(slot, np.array([1 + i % 2]), np.zeros((1, 2)), np.array([i * STEP_NS]))
    record = np.zeros(1, RECORD_DTYPE)
    record["srtt_us"] = 25_000
    record["credit"]["arm"][0] = (2, 1, 0, 0)
    record["credit"]["time_ns"][0, :2] = STEP_NS
    record["credit"]["delivered"][0, :2] = (5, 7)
    now = np.array([10 * STEP_NS])
    ring.fold(slot, record, now)
    outcome = ring.ripe(slot, np.array([50 * STEP_NS]), np.array([25_000.0]))
    assert outcome.arms.tolist() == [2]
    assert outcome.counts[0, 1] == 5
    outcome = ring.ripe(slot, np.array([50 * STEP_NS]), np.array([25_000.0]))
    assert outcome.arms.tolist() == [1]
    assert outcome.counts[0, 1] == 7
