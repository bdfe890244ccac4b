# SPDX-License-Identifier: Apache-2.0
"""The common part of all trainers: arguments, runs over several seeds, choice of weights, export.

A policy's `train.py` describes the policy as a `Trainer` and leaves the rest to this module:

    def main(arguments: Sequence[str] | None = None) -> int:
        return run(JuryTrainer(), parser("jury", __doc__).parse_args(arguments))

A run with `--out DIR` writes `seed-N/` for every seed, with checkpoint, curve and the best weights so far.
Over all seeds it writes `curve.png` and `results.json`. With `--resume` each seed goes on where it stopped,
if its settings are the same.
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Generic

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit(
        "train: PyTorch is missing; `make venv-train` installs it, for .venv-train/bin/python"
    ) from None

from ltp_switcher import artifacts
from ltp_switcher.errors import ArtifactError, InvalidValueError, LtpSwitcherError
from ltp_switcher.files import write_atomically
from ltp_switcher.policies.runtime.export import Card, save
from ltp_switcher.policies.training import curves
from ltp_switcher.policies.training.loop import CHECKPOINT, Row, Schedule, evaluate, train
from ltp_switcher.policies.training.trainer import A, Trainer

CHOSEN_BY: Final = "score"
"""Name of the figure by which the best of several seeds is chosen. Larger is better."""
_VALIDATION_SEED: Final = 1_000_003
"""Seed of the links on which the best episode's weights are chosen. It is the same in all runs, and no run
trains on these links.
"""


@dataclass(frozen=True)
class TrainedSeed:
    """The result of training with one seed.

    `figures` are from the evaluation, `best_episode` is the episode whose weights are kept, and `wall_s` is
    the wall time in seconds. `revision` is the git revision with which the training began.
    """

    figures: dict[str, float]
    best_episode: int
    wall_s: float
    revision: str


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Make the parser of the arguments that all trainers share. A policy may add its own."""
    made = argparse.ArgumentParser(
        prog=f"python -m ltp_switcher.policies.{name}.train",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--out", type=Path, required=True, help="folder for checkpoints, curves and results")
    made.add_argument("--seeds", type=int, nargs="+", default=[1], help="trained one after another (1)")
    made.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out")
    made.add_argument("--episodes", type=int, help="train only so long (default: the policy's own schedule)")
    made.add_argument(
        "--validate-every",
        type=int,
        default=5,
        metavar="N",
        help="every N episodes, and at the end, try the policy on held-out links and keep the best (5)",
    )
    made.add_argument(
        "--export", type=Path, metavar="FILE", help="write the best seed's weights, card and curve"
    )
    made.add_argument("--choose", type=int, metavar="SEED", help="export this seed's weights instead")
    made.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="let the workers of this Dask scheduler train the seeds (docs/cluster.md)",
    )
    made.add_argument("--device", default="cpu", help="PyTorch's device (cpu)")
    made.add_argument("--json", action="store_true", help="print the results as JSON")
    return made


def run(trainer: Trainer[A], options: argparse.Namespace) -> int:
    """Train, evaluate and export as the options of `parser` say; returns the exit status."""
    try:
        _check(options)
        schedule = trainer.schedule
        if options.episodes is not None:
            schedule = replace(schedule, episodes=options.episodes)
        if options.cluster is not None:
            from ltp_switcher.policies.training import elsewhere

            elsewhere.train_seeds(trainer, options)
            options.resume = True
        # More threads would be no faster on networks this small, and would change the sums' last digits.
        torch.set_num_threads(1)
        runs: dict[int, list[Row]] = {}
        outcomes: dict[int, TrainedSeed] = {}
        agents: dict[int, A] = {}
        for seed in options.seeds:
            agents[seed], runs[seed], outcomes[seed] = _one_seed(trainer, schedule, seed, options)
            curves.draw(runs, options.out / "curve.png", title=trainer.name)
        results = {str(seed): asdict(outcome) for seed, outcome in outcomes.items()}
        (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        if options.export is not None:
            # The seed whose weights are exported comes first, also on the card.
            seeds = sorted(
                outcomes, key=lambda seed: (seed != options.choose, -outcomes[seed].figures[CHOSEN_BY])
            )
            card = _card(trainer, schedule, seeds, outcomes)
            save(options.export, trainer.networks(agents[seeds[0]]), card)
            beside = options.export.with_name(f"{options.export.stem}-curve.png")
            curves.draw(runs, beside, title=trainer.name)
    except LtpSwitcherError as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"train: interrupted; the same command with --resume goes on from {options.out}", file=sys.stderr
        )
        return 130
    _print(results, as_json=options.json)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.episodes is not None and options.episodes < 1:
        raise InvalidValueError("--episodes", options.episodes, "1 or more")
    if options.validate_every < 1:
        raise InvalidValueError("--validate-every", options.validate_every, "1 or more")
    if len(set(options.seeds)) < len(options.seeds) or min(options.seeds) < 0:
        raise InvalidValueError("--seeds", options.seeds, "different numbers, 0 or more")
    if options.choose is not None and options.choose not in options.seeds:
        raise InvalidValueError("--choose", options.choose, "one of --seeds")


def _one_seed(
    trainer: Trainer[A], schedule: Schedule, seed: int, options: argparse.Namespace
) -> tuple[A, list[Row], TrainedSeed]:
    """Train one seed and leave the agent with the weights of its best episode."""
    out = options.out / f"seed-{seed}"
    revision = _begun_with(out, trainer.settings(), resume=options.resume)
    # The result must not depend on earlier work of this process, such as another seed's training.
    torch.manual_seed(seed)
    agent = trainer.agent(seed, options.device)
    best = _Best(trainer, agent, schedule, options.validate_every, out)
    if options.resume:
        best.resume()
    with _Progress(f"{trainer.name} seed {seed}", schedule.episodes) as progress:

        def on_row(row: Row) -> None:
            best.consider(row)
            progress.show(row, best.score)

        rows = train(
            agent,
            trainer.environment(),
            schedule,
            seed=seed,
            out=out,
            resume=options.resume,
            on_row=on_row,
        )
    best.restore()
    figures = dict(trainer.evaluate(agent))
    figures[CHOSEN_BY] = trainer.score(agent, figures["reward"])
    return agent, rows, TrainedSeed(figures, best.episode, sum(row.wall_s for row in rows), revision)


def _begun_with(out: Path, settings: Mapping[str, object], *, resume: bool) -> str:
    """Return the git revision with which the training in `out` began. If the training begins now, write the
    revision and the settings to `out`.

    Raises:
        ArtifactError: the training is to go on, but began with other settings.
    """
    record = out / "begun.json"
    now = {"revision": artifacts.revision(), "settings": json.loads(json.dumps(settings))}
    if not (resume and (out / CHECKPOINT).exists()):
        out.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return str(now["revision"])
    try:
        before = json.loads(record.read_text(encoding="utf-8"))
        same, revision = before["settings"] == now["settings"], str(before["revision"])
    except (OSError, ValueError, LookupError, TypeError):
        same, revision = False, ""
    if not same:
        raise ArtifactError(
            f"{out} was trained with other settings than today's: remove it, or choose another --out"
        )
    return revision


class _Best(Generic[A]):
    """The weights with the best score on links kept for the choice, on disk as `best.pt`."""

    def __init__(self, trainer: Trainer[A], agent: A, schedule: Schedule, every: int, out: Path) -> None:
        self.score = -np.inf
        self.episode = -1
        self._trainer = trainer
        self._agent = agent
        self._environment = trainer.validation()
        self._last = schedule.episodes - 1
        self._every = every
        self._path = out / "best.pt"

    def resume(self) -> None:
        """Take up the best of a run that was cut off."""
        if self._path.exists():
            kept = torch.load(self._path, weights_only=True)
            self.score, self.episode = kept["score"], kept["episode"]

    def consider(self, row: Row) -> None:
        """Judge the agent every `every` episodes and after the last one, and keep the best weights."""
        if (row.episode + 1) % self._every and row.episode != self._last:
            return
        reward = evaluate(self._agent, self._environment, seed=_VALIDATION_SEED)
        score = self._trainer.score(self._agent, reward)
        if score > self.score:
            self.score, self.episode = score, row.episode
            kept = {"agent": self._agent.state_dict(), "score": score, "episode": row.episode}
            content = io.BytesIO()
            torch.save(kept, content)
            write_atomically(self._path, content.getvalue())

    def restore(self) -> None:
        """Give the agent the best weights."""
        # The file may be left from an earlier run, even if no score of this run was good enough to write it.
        if self.episode >= 0:
            self._agent.load_state_dict(torch.load(self._path, weights_only=True)["agent"])


class _Progress:
    """A bar with the time left on a terminal, a line per episode in a log."""

    def __init__(self, title: str, episodes: int) -> None:
        self._console = Console(stderr=True)
        self._title = title
        self._episodes = episodes
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[reward]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=episodes, reward="")
        self._began = time.perf_counter()
        self._shown = 0

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, row: Row, best: float) -> None:
        """Show how training stands after an episode."""
        text = f"reward {row.reward:.3f}, best score on held-out links {best:.3f}"
        self._bar.update(self._task, completed=row.episode + 1, reward=text)
        if not self._console.is_terminal:
            self._shown += 1
            left = self._episodes - row.episode - 1
            left_s = (time.perf_counter() - self._began) / self._shown * left
            print(
                f"{self._title}: episode {row.episode + 1}/{self._episodes}, {text}, {row.wall_s:.1f} s, "
                f"{left_s / 60:.0f} min left",
                file=sys.stderr,
                flush=True,
            )


def _card(
    trainer: Trainer[A], schedule: Schedule, seeds: Sequence[int], outcomes: Mapping[int, TrainedSeed]
) -> Card:
    """Make the card of the first seed's weights. Its results also have all seeds' rewards and scores."""
    settings = {
        **trainer.settings(),
        "schedule": asdict(schedule),
        "best_episode": outcomes[seeds[0]].best_episode,
        "wall_s": round(outcomes[seeds[0]].wall_s, 1),
    }
    others = {
        f"{what}_seed_{seed}": outcomes[seed].figures[what]
        for what in ("reward", CHOSEN_BY)
        for seed in sorted(seeds)
    }
    return Card(
        policy=trainer.name,
        command=shlex.join(["python", "-m", *_module_and_arguments()]),
        revision=outcomes[seeds[0]].revision,
        seeds=tuple(seeds),
        settings=settings,
        results={**outcomes[seeds[0]].figures, **others},
        limits=trainer.limits,
    )


def _module_and_arguments() -> list[str]:
    """Return the module and the arguments with which this process was started. Each path is cut to the name
    of its file or folder.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name if spec is not None else __name__
    return [module, *(Path(argument).name for argument in sys.argv[1:])]


def _print(results: Mapping[str, Mapping[str, object]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(results))
        return
    for seed, outcome in results.items():
        figures = outcome["figures"]
        assert isinstance(figures, dict)  # noqa: S101 (a TrainedSeed as a dictionary)
        told = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        print(f"seed {seed}: {told}")
