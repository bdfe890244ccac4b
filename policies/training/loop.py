# SPDX-License-Identifier: Apache-2.0
"""Episodes of collecting and learning, with a checkpoint after each (LTP, Appendix D).

An episode's links, losses and start times follow from the run's seed and the episode's number alone, and
checkpoints fall between episodes. So a run that was interrupted and resumed equals an uninterrupted run step
for step, on the same machine and with the same number of threads.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Final, Protocol

import numpy as np
import torch

from ltp_switcher.errors import ArtifactError, reason
from ltp_switcher.files import write_atomically
from ltp_switcher.policies.simulator.tasks import Actions, Transition
from ltp_switcher.policies.training.replay import Replay

CHECKPOINT: Final = "checkpoint.json"
"""Name of a file in a run's folder. The file names the run's last checkpoint."""


class Learner(Protocol):
    """The methods of an agent, `Td3` or `Dqn`, that the loop needs."""

    rng: np.random.Generator
    replay: Replay

    def begin(self, slots: int) -> None:
        """Start an episode with this number of agent slots."""

    def act(self, seen: Transition, *, explore: bool = True) -> Actions:
        """Choose the actions for the next step, with exploration or without."""

    def finish(self, seen: Transition) -> None:
        """Record `seen`, the last transition of an episode. No action follows it."""

    def learn(self, updates: int) -> dict[str, float]:
        """Do this number of gradient steps, and return the losses by name."""

    def state_dict(self) -> dict[str, dict[str, object]]:
        """Return the state for a checkpoint."""

    def load_state_dict(self, state: dict[str, dict[str, object]]) -> None:
        """Restore the state from a checkpoint."""


class Episodes(Protocol):
    """The methods of `simulator.tasks.Environment` that the loop needs."""

    @property
    def slots(self) -> int:
        """Number of agent slots."""

    def reset(self, seed: int) -> Transition:
        """Draw the episode of this seed, and return its first transition."""

    def step(self, actions: Actions) -> Transition:
        """Carry out the actions, and return the transition after one step."""


@dataclass(frozen=True)
class Schedule:
    """Length of a training: `episodes` episodes. After every `steps` control steps there are `updates`
    gradient steps.
    """

    episodes: int
    steps: int
    updates: int


@dataclass(frozen=True)
class Row:
    """One episode of the learning curve. `reward` is the mean reward of an active flow in a control step."""

    episode: int
    reward: float
    losses: dict[str, float]
    wall_s: float


def episode_seed(seed: int, episode: int) -> int:
    """Return the seed of one episode of a run. Evaluation uses negative episode numbers."""
    return int(np.random.SeedSequence((seed, episode + (1 << 32))).generate_state(1, np.uint64)[0] >> 1)


def train(
    agent: Learner,
    environment: Episodes,
    schedule: Schedule,
    *,
    seed: int,
    out: Path,
    resume: bool = False,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Train, and write `curve.json` and the last checkpoint to `out`; returns the learning curve.

    With `resume`, training continues from the checkpoint in `out`, if there is one.

    Raises:
        ArtifactError: the checkpoint cannot be read.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows = _resume(agent, out) if resume and (out / CHECKPOINT).exists() else []
    for episode in range(len(rows), schedule.episodes):
        began = time.perf_counter()
        reward, losses = _episode(agent, environment, schedule, episode_seed(seed, episode))
        row = Row(episode, reward, losses, time.perf_counter() - began)
        rows.append(row)
        on_row(row)
        _checkpoint(agent, rows, out)
        (out / "curve.json").write_text(
            json.dumps([asdict(r) for r in rows], indent=1) + "\n", encoding="utf-8"
        )
    return rows


def evaluate(agent: Learner, environment: Episodes, *, seed: int, episodes: int = 1) -> float:
    """Run held-out episodes without exploration, and return the mean reward of an active flow in a control
    step.
    """
    total, count = 0.0, 0
    for episode in range(episodes):
        seen = environment.reset(episode_seed(seed, -1 - episode))
        agent.begin(environment.slots)
        while not seen.over:
            seen = environment.step(agent.act(seen, explore=False))
            total += float(seen.rewards[seen.active].sum())
            count += int(seen.active.sum())
    return total / max(1, count)


def _episode(
    agent: Learner, environment: Episodes, schedule: Schedule, seed: int
) -> tuple[float, dict[str, float]]:
    seen = environment.reset(seed)
    agent.begin(environment.slots)
    total, count, step = 0.0, 0, 0
    losses: dict[str, list[float]] = {}
    while not seen.over:
        seen = environment.step(agent.act(seen))
        total += float(seen.rewards[seen.active].sum())
        count += int(seen.active.sum())
        step += 1
        if seen.over:
            agent.finish(seen)
        if seen.over or step % schedule.steps == 0:
            for name, value in agent.learn(schedule.updates).items():
                losses.setdefault(name, []).append(value)
    return total / max(1, count), {name: float(np.mean(values)) for name, values in losses.items()}


def _checkpoint(agent: Learner, rows: list[Row], out: Path) -> None:
    """Write a checkpoint to a folder of its own, then point to it: a crash leaves the old or the new one."""
    folder = out / f"checkpoint-{len(rows):06d}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    torch.save({"agent": agent.state_dict(), "torch_rng": torch.get_rng_state()}, folder / "agent.pt")
    np.savez(folder / "replay.npz", allow_pickle=False, **agent.replay.dump())
    progress = {"rows": [asdict(row) for row in rows], "rng": agent.rng.bit_generator.state}
    (folder / "progress.json").write_text(json.dumps(progress), encoding="utf-8")
    write_atomically(out / CHECKPOINT, json.dumps({"folder": folder.name}).encode())
    for old in out.glob("checkpoint-*"):
        if old != folder:
            shutil.rmtree(old)


def _resume(agent: Learner, out: Path) -> list[Row]:
    try:
        folder = out / str(json.loads((out / CHECKPOINT).read_text(encoding="utf-8"))["folder"])
        saved = torch.load(folder / "agent.pt", weights_only=True)
        agent.load_state_dict(saved["agent"])
        torch.set_rng_state(saved["torch_rng"])
        with np.load(folder / "replay.npz", allow_pickle=False) as arrays:
            agent.replay.restore(arrays)
        progress = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
        agent.rng.bit_generator.state = progress["rng"]
        return [Row(**row) for row in progress["rows"]]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, UnpicklingError) as error:
        raise ArtifactError(
            f"checkpoint in {out} cannot be resumed; remove it to start again: "
            f"{reason(error).splitlines()[0]}"
        ) from error
