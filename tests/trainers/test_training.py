# SPDX-License-Identifier: Apache-2.0
"""The trainer solves a known problem, resumes exactly, and warms its memory right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.tiny_tasks import Integrator, Power, Recall

from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.simulator import Roster
from ltp_switcher.policies.simulator.regions import Region
from ltp_switcher.policies.simulator.tasks import Environment
from ltp_switcher.policies.training import curves
from ltp_switcher.policies.training.dqn import Dqn, DqnConfig
from ltp_switcher.policies.training.loop import Episodes, Learner, Row, Schedule, evaluate, train
from ltp_switcher.policies.training.networks import Stack
from ltp_switcher.policies.training.replay import Frame, Recorder, Replay, Sequences
from ltp_switcher.policies.training.td3 import Batch, Td3, Td3Config

SMALL = (Layer("dense", 32, "relu"), Layer("dense", 32, "relu"))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def feed_forward(seed: int) -> Td3:
    torch.manual_seed(seed)
    config = Td3Config(
        actor_rate=3e-3, critic_rate=3e-3, discount=0.9, exploration=0.3, random_frames=40, target_rate=0.02
    )
    return Td3(Stack(1, (*SMALL, Layer("dense", 1, "tanh"))), 1, 1, head=SMALL, config=config, seed=seed)


def recurrent(seed: int, cell: str = "gru") -> Td3:
    torch.manual_seed(seed)
    config = Td3Config(
        actor_rate=3e-3,
        critic_rate=3e-3,
        discount=0.5,
        average=0.0,  # of a training this short, a mean would remember the beginning
        steps=6,
        burn_in=4,
        stride=3,
        exploration=0.3,
        random_frames=60,
        target_rate=0.02,
        batch=32,
    )
    layers = (Layer(cell, 24), Layer("dense", 1, "tanh"))
    return Td3(Stack(2, layers), 2, 1, trunk=(Layer(cell, 24),), head=SMALL, config=config, seed=seed)


def dqn(seed: int) -> Dqn:
    config = DqnConfig(rate=3e-3, discount=0.8, epsilon_frames=300, target_every=50)
    return Dqn(1, 3, hidden=SMALL, config=config, seed=seed)


def learned(
    agent: Learner, environment: Episodes, episodes: int, updates: int, seed: int, out: Path
) -> float:
    train(agent, environment, Schedule(episodes, 20, updates), seed=seed, out=out)
    return evaluate(agent, environment, seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_td3_learns_the_integrator(seed: int, tmp_path: Path) -> None:
    # Standing still earns -1/3; the best policy needs 2.5 steps from the far end and earns about -0.012.
    assert learned(feed_forward(seed), Integrator(), 25, 25, seed, tmp_path) > -0.03


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dqn_learns_the_integrator(seed: int, tmp_path: Path) -> None:
    assert learned(dqn(seed), Integrator(), 25, 40, seed, tmp_path) > -0.05


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_recurrent_td3_remembers(seed: int, cell: str, tmp_path: Path) -> None:
    # Without memory the best is -1/3.
    assert learned(recurrent(seed, cell), Recall(), 45, 30, seed, tmp_path) > -0.18


@pytest.mark.slow
def test_td3_learns_to_fill_a_link_without_filling_its_queue(tmp_path: Path) -> None:
    region = Region((10, 100), (10, 60), (0.8, 1.5), (0.0, 0.001), jitter_ms=(0, 0), flows=(1, 1))
    environment = Environment(Power(), region, Roster(window=1), environments=48, duration_s=9.0)
    layers = (Layer("dense", 64, "relu"), Layer("dense", 64, "relu"))
    torch.manual_seed(1)
    actor = Stack(4, (*layers, Layer("dense", 1, "tanh")))
    agent = Td3(actor, 4, 1, head=layers, config=Td3Config(exploration=0.3, random_frames=100), seed=1)
    train(agent, environment, Schedule(5, 10, 20), seed=1, out=tmp_path)
    assert evaluate(agent, environment, seed=1) > 0.8


@pytest.mark.parametrize("make", [feed_forward, recurrent, dqn])
def test_a_resumed_run_is_the_uninterrupted_one(make: object, tmp_path: Path) -> None:
    assert callable(make)
    environment = Recall() if make is recurrent else Integrator()
    whole = make(7)
    rows = train(whole, environment, Schedule(6, 10, 5), seed=7, out=tmp_path / "whole")
    first = make(7)
    train(first, environment, Schedule(3, 10, 5), seed=7, out=tmp_path / "cut")
    torch.manual_seed(99)
    second = make(8)
    resumed = train(second, environment, Schedule(6, 10, 5), seed=7, out=tmp_path / "cut", resume=True)
    assert [(row.reward, row.losses) for row in rows] == [(row.reward, row.losses) for row in resumed]
    for name, value in flatten(whole.state_dict()).items():
        assert same(value, flatten(second.state_dict())[name]), name


def flatten(tree: object, path: str = "") -> dict[str, object]:
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, list):
        items = dict(enumerate(tree)).items()
    else:
        return {path: tree}
    return {key: leaf for name, branch in items for key, leaf in flatten(branch, f"{path}/{name}").items()}


def same(one: object, other: object) -> bool:
    """Whether two leaves of a state are equal."""
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def networks_of(agent: Dqn | Td3) -> dict[str, torch.nn.Module]:
    """An agent's networks by their names in the checkpoints of earlier releases."""
    if isinstance(agent, Dqn):
        return {"network": agent.network, "target": agent._target, "average": agent.average}
    return {
        "actor": agent.actor,
        "average": agent.average,
        "critics": agent.critics,
        "target_actor": agent._target_actor,
        "target_critics": agent._target_critics,
    }


def optimisers_of(agent: Dqn | Td3) -> dict[str, torch.optim.Optimizer]:
    """An agent's optimisers by their names in the checkpoints of earlier releases."""
    if isinstance(agent, Dqn):
        return {"optimiser": agent._optimiser}
    return {"actor_optimiser": agent._actor_optimiser, "critic_optimiser": agent._critic_optimiser}


@pytest.mark.parametrize("make", [feed_forward, dqn])
def test_the_checkpoints_of_earlier_releases_load(make: Callable[[int], Dqn | Td3], tmp_path: Path) -> None:
    """The state is built by name, and each part has weights that no other part has."""
    made, taken = make(1), make(2)
    train(made, Integrator(), Schedule(4, 10, 5), seed=1, out=tmp_path)
    for place, network in enumerate(networks_of(made).values()):
        for weights in network.parameters():
            torch.nn.init.constant_(weights, float(place))
    old = {name: part.state_dict() for name, part in {**networks_of(made), **optimisers_of(made)}.items()}
    state = {**old, "counts": {"frames": 70, "updates": 8}}

    taken.load_state_dict(state)

    assert (taken._frames, taken._updates) == (70, 8)
    for place, (name, network) in enumerate(networks_of(taken).items()):
        assert all(bool((weights == place).all()) for weights in network.parameters()), name
    for name, optimiser in optimisers_of(taken).items():
        loaded, expected = flatten(optimiser.state_dict()), flatten(old[name])
        assert loaded.keys() == expected.keys()
        assert any("exp_avg" in leaf for leaf in loaded), "the optimiser has done steps"
        for leaf, value in expected.items():
            assert same(value, loaded[leaf]), f"{name}{leaf}"
    assert list(taken.state_dict()) == list(state), (
        "the next checkpoint has the same entries in the same order"
    )
    assert taken.state_dict()["counts"] == state["counts"]


def test_a_torn_checkpoint_is_an_error_that_says_so(tmp_path: Path) -> None:
    train(feed_forward(1), Integrator(), Schedule(1, 10, 1), seed=1, out=tmp_path)
    next(tmp_path.glob("checkpoint-*/agent.pt")).write_bytes(b"nonsense")
    with pytest.raises(ArtifactError, match="cannot be resumed"):
        train(feed_forward(1), Integrator(), Schedule(2, 10, 1), seed=1, out=tmp_path, resume=True)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_stored_state_and_burn_in_give_back_the_actions_that_were_taken(cell: str) -> None:
    agent = recurrent(5, cell)
    environment = Recall(slots=6)
    agent.config = Td3Config(**{**agent.config.__dict__, "exploration": 0.0, "random_frames": 0})
    seen = environment.reset(3)
    agent.begin(environment.slots)
    while not seen.over:
        seen = environment.step(agent.act(seen))
    batch = agent.replay.sample(64, np.random.default_rng(0))
    assert np.abs(batch.states).max() > 0.0  # not only sequences from a flow's first step
    with torch.no_grad():
        outputs, _ = agent.actor(torch.from_numpy(batch.observations), torch.from_numpy(batch.states))
        unrolled = agent._actions_of(agent.actor, agent_batch(batch))
    # The action after frame k is noted in frame k + 1.
    np.testing.assert_allclose(outputs[:, :-1], batch.actions[:, 1:], atol=1e-6)
    np.testing.assert_allclose(unrolled[:, :-1], batch.actions[:, agent.config.burn_in + 1 :], atol=1e-6)


def test_a_flows_first_decisions_are_learned_from_where_that_is_asked_for() -> None:
    """Two slots, of which the second's flow comes at frame 4; a burn-in of 2, and 3 frames after it."""
    for burn_in in (0, 2):
        replay = Replay(50, 4, 1, 1, 1)
        recorder = Recorder(replay, 4, 5, burn_in)
        recorder.begin()
        for time in range(1, 13):
            column = np.full((2, 1), float(time), np.float32)
            here = np.array([True, time > 4])
            recorder.add(Frame(column, column, column[:, 0], column, here))
        kept = replay.dump()
        found = [
            (starts, row[:, 0].tolist())
            for starts, row in zip(kept["starts"].tolist(), kept["observations"], strict=True)
        ]
        later = [(False, [1.0, 2.0, 3.0, 4.0, 5.0]), *[(False, [6.0, 7.0, 8.0, 9.0, 10.0])] * 2]
        starts = [(True, [0.0, 0.0, 1.0, 2.0, 3.0]), (True, [0.0, 0.0, 5.0, 6.0, 7.0])]
        assert sorted(found) == sorted(later + starts * (burn_in > 0))


def test_nothing_is_remembered_where_a_flow_starts() -> None:
    agent = recurrent(5)
    frames = agent.config.burn_in + agent.config.steps + 1
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(2, frames, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, (2, frames, 1)).astype(np.float32)
    states = rng.normal(size=(2, agent.actor.state_size)).astype(np.float32)
    rewards, starts = np.zeros((2, frames), np.float32), np.array([True, False])
    batch = Batch(Sequences(observations, actions, rewards, states, starts), torch.device("cpu"))
    after = torch.from_numpy(observations[:, agent.config.burn_in :])
    with torch.no_grad():
        fresh = agent.actor(after, torch.zeros(2, agent.actor.state_size))[0]
        same = torch.isclose(agent._actions_of(agent.actor, batch), fresh).all(dim=(1, 2))
    assert same.tolist() == [True, False]


def agent_batch(batch: Sequences) -> object:
    return Batch(batch, torch.device("cpu"))


def test_no_gradient_flows_into_the_burn_in() -> None:
    agent = recurrent(5)
    burn_in = agent.config.burn_in
    frames = burn_in + agent.config.steps + 1
    rng = np.random.default_rng(0)
    batch = agent_batch(
        Sequences(
            rng.normal(size=(4, frames, 2)).astype(np.float32),
            rng.uniform(-1, 1, (4, frames, 1)).astype(np.float32),
            rng.normal(size=(4, frames)).astype(np.float32),
            np.zeros((4, agent.actor.state_size), np.float32),
            np.zeros(4, np.bool_),
        )
    )
    batch.observations.requires_grad_(True)
    agent._actions_of(agent.actor, batch).sum().backward()
    gradient = batch.observations.grad.abs().sum(dim=(0, 2))
    assert (gradient[:burn_in] == 0.0).all()
    assert (gradient[burn_in:] > 0.0).all()


def test_replay_forgets_the_oldest() -> None:
    replay = Replay(5, 1, 1, 1, 0)
    for value in range(4):
        full = np.full((2, 2, 1), value, np.float32)
        replay.add(Sequences(full, full, full[..., 0], np.zeros((2, 0), np.float32), np.zeros(2, np.bool_)))
    seen = set(replay.sample(200, np.random.default_rng(0)).rewards.ravel().tolist())
    assert seen == {1.0, 2.0, 3.0}
    # The fifth place and the first hold the last batch, so the first is the third batch's other half.
    assert replay.dump()["rewards"][:, 0].tolist() == [2.0, 3.0, 3.0, 1.0, 2.0]


def test_every_sequence_may_be_drawn() -> None:
    replay = Replay(9, 1, 1, 1, 0)
    for value in range(3):
        one = np.full((1, 2, 1), value, np.float32)
        replay.add(Sequences(one, one, one[..., 0], np.zeros((1, 0), np.float32), np.zeros(1, np.bool_)))
    drawn = replay.sample(600, np.random.default_rng(0)).rewards[:, 0]
    assert np.bincount(drawn.astype(np.int64)).tolist() == pytest.approx([200, 200, 200], abs=50)


@pytest.mark.parametrize("make", [feed_forward, dqn])
def test_the_last_frame_of_an_episode_is_learned_from(make: object, tmp_path: Path) -> None:
    """Of 20 steps there are 21 frames, and a sequence of two frames for each step and slot."""
    assert callable(make)
    agent, environment = make(3), Integrator(slots=2)
    train(agent, environment, Schedule(1, 20, 0), seed=1, out=tmp_path)
    assert len(agent.replay) == 2 * 20


def test_curves_are_drawn(tmp_path: Path) -> None:
    rows = [Row(episode, -1.0 / (episode + 1), {"loss": 0.1}, 0.0) for episode in range(5)]
    curves.draw({1: rows, 2: rows}, tmp_path / "curve.png", title="tiny")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_curve_is_kept_as_json(tmp_path: Path) -> None:
    rows = train(feed_forward(1), Integrator(), Schedule(2, 10, 1), seed=1, out=tmp_path)
    assert [row["reward"] for row in json.loads((tmp_path / "curve.json").read_text())] == [
        row.reward for row in rows
    ]
