# SPDX-License-Identifier: Apache-2.0
"""Spine's model in PyTorch: the same as in numpy, and trained as the paper says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.export import Card, load, save
from ltp_switcher.policies.simulator.tasks import Transition
from ltp_switcher.policies.spine import ARM, make_arm
from ltp_switcher.policies.spine.actor import HierarchicalNetwork, layers
from ltp_switcher.policies.spine.hierarchical_td3 import (
    HierarchicalActor,
    HierarchicalTd3,
    PitStopCritic,
)
from ltp_switcher.policies.spine.train import SpineTrainer
from ltp_switcher.policies.training.replay import Sequences
from ltp_switcher.policies.training.td3 import Td3Config


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)


def actor() -> HierarchicalActor:
    return HierarchicalActor(13, 4, layers(4))


CARD = Card("spine", "none", "none", (1,), {}, {"reward": 0.0}, ())


def test_numpy_equals_pytorch_over_a_flows_life(tmp_path: Path) -> None:
    trained = actor().eval()
    for weight in trained.trigger.parameters():  # as often as not, whatever training starts with
        torch.nn.init.normal_(weight) if weight.ndim == 2 else torch.nn.init.zeros_(weight)
    save(tmp_path / "spine.npz", trained.networks(), CARD)
    served = HierarchicalNetwork(load(tmp_path / "spine.npz")[0])
    assert served.state_size == trained.state_size
    inputs = np.random.default_rng(1).normal(size=(40, 60, 13)).astype(np.float32)
    state = served.initial_state(40)
    steps = []
    for step in range(60):
        state, outputs = served.step(state, inputs[:, step])
        steps.append(outputs)
    with torch.no_grad():
        expected, after = trained(torch.from_numpy(inputs), torch.zeros(40, trained.state_size))
    np.testing.assert_allclose(np.stack(steps, axis=1), expected.numpy(), atol=1e-5)
    # The last column counts intervals where PyTorch's tells only that there was one.
    np.testing.assert_allclose(state[:, :-1], after[:, :-1].numpy(), atol=1e-5)
    np.testing.assert_array_equal(state[:, -1:] > 0.0, after[:, -1:].numpy() > 0.0)
    # Both outcomes of the trigger were among them.
    assert set(np.unique(np.stack(steps, axis=1)[:, 1:, -1])) == {-1.0, 1.0}


def test_the_trigger_is_drawn_in_training_only() -> None:
    model = actor()
    inputs, state = torch.zeros(500, 2, 13), torch.zeros(500, model.state_size)
    drawn = model(inputs, state)[0][:, :, -1]
    assert (drawn[:, 0] == 1.0).all()
    assert 0.02 < float((drawn[:, 1] > 0.0).float().mean()) < 0.5
    certain = model.eval()(inputs, state)[0][:, 1, -1]
    assert len(certain.unique()) == 1


def test_the_gradient_passes_through_the_trigger_to_the_watcher() -> None:
    model = actor()
    outputs, _ = model(torch.randn(8, 6, 13), torch.zeros(8, model.state_size))
    outputs[:, -1, :-1].sum().backward()
    for part in (model.watcher, model.trigger, model.generator):
        assert all(float(weight.grad.abs().sum()) > 0.0 for weight in part.parameters())


def test_a_trigger_costs_its_penalty_and_nothing_else() -> None:
    critic = PitStopCritic(13, 5, (), (), penalty=0.03)
    features = torch.randn(2, 3, 13)
    sub_policy = torch.rand(2, 3, 4)
    triggered, not_triggered = (
        critic.value(features, torch.nn.functional.pad(sub_policy, (0, 1), value=sign))
        for sign in (1.0, -1.0)
    )
    torch.testing.assert_close(not_triggered - triggered, torch.full((2, 3), 0.03), atol=1e-6, rtol=0.0)


def test_exploration_and_smoothing_move_new_sub_policies_alone() -> None:
    agent = SpineTrainer(Law.AIMD).agent(1, "cpu")
    assert isinstance(agent, HierarchicalTd3)
    agent._frames = 10_000
    proposed = np.tile(np.array([0.1, 0.2, 0.3, 0.4, 1.0], np.float32), (6, 1))
    proposed[3:, -1] = -1.0
    explored = agent._explored(proposed)
    smoothed = agent._smoothed(torch.from_numpy(proposed)[:, None])[:, 0].numpy()
    for noisy, moved in ((explored, slice(1, 3)), (smoothed, slice(0, 3))):
        np.testing.assert_array_equal(noisy[:, -1], proposed[:, -1])
        np.testing.assert_array_equal(noisy[3:], proposed[3:])
        assert (noisy[moved, :-1] != proposed[moved, :-1]).all()
    np.testing.assert_array_equal(explored[0], proposed[0])  # every fourth flow explores nothing


def test_what_was_recorded_for_an_interval_without_trigger_is_what_was_in_force() -> None:
    agent = SpineTrainer(Law.AIMD).agent(1, "cpu")
    agent.begin(30)
    observations = np.zeros((30, 13), np.float32)
    observations[:, -4:] = 0.25
    seen = Transition(observations, np.zeros(30, np.float32), np.ones(30, np.bool_), over=False)
    agent.act(seen)
    agent._frames = 10_000
    actions = agent.act(seen)
    held = actions[:, -1] < 0.0
    assert held.any()
    assert (actions[held, :-1] == 0.25).all()


@pytest.mark.parametrize("settle_after", [0, 100])
def test_at_the_end_only_the_trigger_learns(settle_after: int) -> None:
    config = Td3Config(batch=4, steps=2, burn_in=1, replay=16, action_weight=0.05)
    agent = HierarchicalTd3(
        actor(),
        13,
        trunk=(),
        penalty=0.03,
        settle_after=settle_after,
        config=config,
        seed=1,
    )
    rng = np.random.default_rng(1)
    agent.replay.add(
        Sequences(
            rng.normal(size=(16, 4, 13)).astype(np.float32),
            rng.uniform(-1.0, 1.0, (16, 4, 5)).astype(np.float32),
            rng.normal(size=(16, 4)).astype(np.float32),
            np.zeros((16, agent.actor.state_size), np.float32),
            np.zeros(16, np.bool_),
        )
    )
    before = {name: weight.clone() for name, weight in agent.actor.named_parameters()}
    agent.learn(4)
    moved = {
        name.split(".")[0] for name, now in agent.actor.named_parameters() if (now != before[name]).any()
    }
    assert moved == ({"trigger"} if settle_after == 0 else {"watcher", "trigger", "generator"})
    proposed = np.ones((4, 5), np.float32) * 0.5
    assert (agent._explored(proposed) == proposed).all() == (settle_after == 0)


def test_an_arm_is_made_from_exported_weights(tmp_path: Path) -> None:
    save(tmp_path / "spine.npz", actor().networks(), CARD)
    arm = make_arm(replace(ARM.variants[0], weights=tmp_path / "spine.npz"), interval_s=0.1)
    assert arm.law is Law.AIMD
    assert arm.interval_s == 0.1
