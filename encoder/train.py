# SPDX-License-Identifier: Apache-2.0
"""Train the encoder: `python -m ltp_switcher.encoder.train --data DIR` (needs the extra `train`).

The GRU reads each flow from its beginning. Its state is carried from chunk to chunk (truncated
back-propagation). The training paths fit the weights, and the validation paths say when to stop. The test
paths, which training never sees, judge the result once. With one thread and fixed seeds, the same data give
the same file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import abc
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit(
        "train: PyTorch is missing; `make venv-train` installs it, for .venv-train/bin/python"
    ) from None

from ltp_switcher import artifacts
from ltp_switcher.commands import program, whole
from ltp_switcher.encoder import artifact as files
from ltp_switcher.encoder.baselines import Scores, fit_linear, fit_means, score
from ltp_switcher.encoder.dataset import DATA, Sequence, digest, load_sequences, weights
from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.encoder.model_torch import TorchEncoder

ARMS: Final = 21
"""Number of arm ids, which go from 0 to 20."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters, which the Mutant paper leaves open.

    Training ends after `patience` epochs without improvement. A batch has `batch` flows, and a chunk has
    `chunk` steps. `noise` is the standard deviation of the noise that training adds to the features. The
    first `features` inputs are the features; the one-hot code of the running arm follows them.
    """

    epochs: int = 150
    patience: int = 25
    batch: int = 32
    chunk: int = 200
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    noise: float = 0.25
    features: int = 55
    seed: int = 1


@dataclass(frozen=True)
class Batch:
    """The flows of a split. Shorter ones are padded at their ends to the length of the longest.

    `inputs` has the shape (flows, steps, inputs), all other tensors the shape (flows, steps).
    """

    inputs: torch.Tensor
    arm: torch.Tensor
    reward: torch.Tensor
    weight: torch.Tensor

    @classmethod
    def of(cls, sequences: list[Sequence]) -> Batch:
        """Pad the sequences and stack them. Padding and unknown rewards get the weight 0."""
        steps = max(len(s.arm) for s in sequences)
        inputs = np.zeros((len(sequences), steps, sequences[0].inputs.shape[1]), np.float32)
        arm = np.zeros((len(sequences), steps), np.int64)
        reward = np.zeros((len(sequences), steps), np.float32)
        weight = np.zeros((len(sequences), steps), np.float32)
        for row, sequence in enumerate(sequences):
            length = len(sequence.arm)
            inputs[row, :length] = sequence.inputs
            arm[row, :length] = sequence.arm
            reward[row, :length] = np.nan_to_num(sequence.reward)
            weight[row, :length] = weights(sequence)
        return cls(*(torch.from_numpy(array) for array in (inputs, arm, reward, weight)))

    def chunks(self, size: int) -> list[Batch]:
        """Cut the batch along time into pieces of `size` steps. The last piece may be shorter."""
        tensors = (self.inputs, self.arm, self.reward, self.weight)
        return [Batch(*part) for part in zip(*(t.split(size, dim=1) for t in tensors), strict=True)]

    def drawn(self, size: int) -> list[Batch]:
        """Return the batch in pieces of `size` flows, drawn by lot. The last piece may be smaller."""
        tensors = (self.inputs, self.arm, self.reward, self.weight)
        lots = torch.randperm(len(self.inputs)).split(size)
        return [Batch(*(t[lot] for t in tensors)) for lot in lots]

    def error(self, predicted: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of squared errors of the predictions for the arms that ran.

        `predicted` has the shape (paths, steps, arms).
        """
        told = predicted.gather(2, self.arm[..., None])[..., 0]
        return (self.weight * (told - self.reward) ** 2).sum()


def loss(model: TorchEncoder, batch: Batch) -> float:
    """Return the weighted mean squared error of the predicted rewards over whole paths."""
    model.eval()
    with torch.no_grad():
        z, _ = model(batch.inputs)
        return float(batch.error(model.rewards(z)) / batch.weight.sum())


def fit(
    train: Batch, validation: Batch, settings: Settings, *, verbose: bool = True
) -> tuple[TorchEncoder, list[tuple[float, float]]]:
    """Train until the loss on the validation paths stops falling, for at most `settings.epochs` epochs.

    Returns:
        The best model, and the losses (train, validation) of each epoch.
    """
    torch.manual_seed(settings.seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    model = TorchEncoder(train.inputs.shape[2], ARMS)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    best, best_loss, since = model.state_dict(), float("inf"), 0
    curve: list[tuple[float, float]] = []
    for epoch in range(settings.epochs):
        model.train()
        total = 0.0
        for batch in train.drawn(settings.batch):
            state: torch.Tensor | None = None
            for chunk in batch.chunks(settings.chunk):
                inputs = chunk.inputs + settings.noise * torch.randn_like(chunk.inputs)
                # Half of the flows are trained without the one-hot code of the arm, so that the reward is
                # explained by the state and not by the code.
                named = (torch.rand(len(inputs), 1, 1) < 0.5).float()
                names = named * chunk.inputs[..., settings.features :]
                inputs = torch.cat([inputs[..., : settings.features], names], 2)
                z, state = model(inputs, state)
                state = state.detach()
                error = chunk.error(model.rewards(z))
                optimiser.zero_grad()
                (error / (chunk.weight.sum() + 1e-6)).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                total += float(error.detach())
        curve.append((total / float(train.weight.sum()), loss(model, validation)))
        since += 1
        if curve[-1][1] < best_loss:
            best, best_loss, since = {k: v.clone() for k, v in model.state_dict().items()}, curve[-1][1], 0
        if verbose and (epoch % 10 == 0 or since == 0):
            # Epochs are progress, not results, and go to stderr.
            print(
                f"epoch {epoch}: train {curve[-1][0]:.5f}, validation {curve[-1][1]:.5f}",
                file=sys.stderr,
                flush=True,
            )
        if since >= settings.patience:
            break
    model.load_state_dict(best)
    return model, curve


def contexts(model: TorchEncoder, sequence: Sequence) -> Floats:
    """Return the contexts of a path with a constant 1 appended, shape (steps, 17)."""
    model.eval()
    with torch.no_grad():
        z, _ = model(torch.from_numpy(sequence.inputs)[None])
    return np.concatenate([z[0].numpy(), np.ones((len(sequence.arm), 1))], axis=1).astype(np.float64)


def prior(model: TorchEncoder, sequences: list[Sequence]) -> dict[str, Floats]:
    """Return LinUCB's initial state: sums over the training paths for each arm id.

    With contexts z and rewards r, `A` sums z z', shape (ARMS, 17, 17), `b` sums r z, shape (ARMS, 17), and
    `counts` sums 1, shape (ARMS,). Each step counts with its training weight.
    """
    pairs = [(contexts(model, s), s, weights(s).astype(np.float64)) for s in sequences]
    dim = pairs[0][0].shape[1]
    A, b, counts = np.zeros((ARMS, dim, dim)), np.zeros((ARMS, dim)), np.zeros(ARMS)
    for z, sequence, weight in pairs:
        for arm in np.unique(sequence.arm):
            at = (sequence.arm == arm) & (weight > 0)
            A[arm] += (z[at] * weight[at, None]).T @ z[at]
            b[arm] += (weight[at] * sequence.reward[at]) @ z[at]
            counts[arm] += weight[at].sum()
    return {"A": A, "b": b, "counts": counts}


def check_numpy(model: TorchEncoder, exported: files.Artifact, sequence: Sequence) -> float:
    """Return the largest difference between PyTorch's and numpy's contexts over one whole path."""
    encoder = GRUEncoder(exported)
    state = encoder.initial_state(1)
    wanted = contexts(model, sequence)[:, :-1]
    worst = 0.0
    for t in range(len(sequence.arm)):
        state, z = encoder.step(state, sequence.inputs[t : t + 1])
        worst = max(worst, float(np.abs(z[0] - wanted[t]).max()))
    return worst


def cut_unseen_arms(model: TorchEncoder, sequences: list[Sequence], features: int) -> None:
    """Set to 0 the input weights of arms that no training path has run. These weights are still random."""
    seen = np.any([s.inputs[:, features:].any(axis=0) for s in sequences], axis=0)
    with torch.no_grad():
        model.gru.weight_ih_l0[:, features:] *= torch.from_numpy(seen.astype(np.float32))


@program("train")
def main(arguments: abc.Sequence[str] | None) -> int:
    """Train, export and judge the encoder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ltp_switcher.encoder.train", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of sequences ({DATA})")
    parser.add_argument("--out", type=Path, default=files.WEIGHTS)
    parser.add_argument("--seed", type=whole(0, 2**31 - 1), default=1)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    settings = Settings(seed=options.seed)
    data = load_sequences(options.data)
    model, curve = fit(Batch.of(data["train"]), Batch.of(data["validation"]), settings)
    cut_unseen_arms(model, data["train"], settings.features)
    known = prior(model, data["train"])
    results = judge(model, known, data)
    exported = files.Artifact(
        model.arrays(),
        known["A"],
        known["b"],
        known["counts"],
        {
            "command": f"python -m ltp_switcher.encoder.train --seed {settings.seed}",
            "revision": artifacts.revision(),
            "data": digest(data),
            "settings": asdict(settings),
            "flows": {split: len(members) for split, members in data.items()},
            "epochs": len(curve),
            "results": {name: asdict(scores) for name, scores in results.items()},
        },
    )
    checksum = files.save(options.out, exported)
    worst = check_numpy(model, exported, data["test"][0])
    (options.out.parent / "learning_curve.json").write_text(json.dumps(curve) + "\n")
    if options.json:
        figures = {name: asdict(scores) for name, scores in results.items()}
        print(json.dumps({"results": figures, "differs_from_pytorch": float(worst), "sha256": checksum}))
        return 0
    print(f"\n{'on the test paths':34}{'error':>10}{'R²':>8}{'within path R²':>16}")
    for name, scores in results.items():
        print(f"{name:34}{scores.error:10.5f}{scores.r2:8.3f}{scores.within_r2:16.3f}")
    print(f"numpy differs from PyTorch by {worst:.1e} at most; {options.out} has SHA-256 {checksum}")
    return 0


def judge(
    model: TorchEncoder, known: dict[str, Floats], data: dict[str, list[Sequence]]
) -> dict[str, Scores]:
    """Score predictors of rewards on the test paths: LinUCB's linear model on the encoder's contexts, and
    two simpler predictors. Return the scores by the predictor's name.
    """
    train, test = data["train"], data["test"]
    theta = np.linalg.solve(known["A"] + np.eye(known["A"].shape[1]), known["b"][..., None])[..., 0]
    means, linear = fit_means(train, ARMS), fit_linear(train, ARMS)
    return {
        "mean of each arm": score(test, lambda s: means[s.arm]),
        "linear in the raw inputs": score(test, lambda s: (s.inputs * linear[s.arm]).sum(axis=1)),
        "linear in the encoder's context": score(
            test, lambda s: (contexts(model, s) * theta[s.arm]).sum(axis=1)
        ),
    }


if __name__ == "__main__":
    raise SystemExit(main())
