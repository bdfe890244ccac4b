# SPDX-License-Identifier: Apache-2.0
"""Train single seeds on the workers of a Dask cluster: `--cluster ADDRESS`.

A seed's training depends on its trainer and on the options alone. So a worker trains the seed in a folder of
its own and sends the folder back. Then the command continues as with `--resume`, and finds nothing left to
train.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Generic

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from ltp_switcher.cluster import Cluster
from ltp_switcher.errors import ClusterError, LtpSwitcherError
from ltp_switcher.files import write_atomically
from ltp_switcher.policies.training import command
from ltp_switcher.policies.training.loop import CHECKPOINT
from ltp_switcher.policies.training.trainer import A, Trainer

Files = dict[str, bytes]
"""Contents of the files in a seed's folder, by their path in this folder."""

_POLICIES: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Seed(Generic[A]):
    """The training of one seed as a `cluster.Task`, which a worker carries out."""

    trainer: Trainer[A]
    episodes: int | None
    validate_every: int
    device: str
    seed: int

    def fingerprint(self) -> str:
        """Return a hash of everything on which the result depends: the sources of all policies, the versions
        of PyTorch and numpy, and all options.
        """
        options = (self.episodes, self.validate_every, self.device, self.seed)
        trainer = (self.trainer.name, self.trainer.settings(), asdict(self.trainer.schedule))
        known = hashlib.sha256(json.dumps([*trainer, *options]).encode())
        known.update(f"{torch.__version__} {np.__version__}".encode())
        for source in sorted(_POLICIES.rglob("*.py")):
            known.update(f"{source.relative_to(_POLICIES)}\n".encode() + source.read_bytes())
        return known.hexdigest()[:32]

    def make(self, on_news: Callable[[None], None], /) -> Files:
        """Train the seed on this machine.

        Returns:
            The files of the seed's folder.

        Raises:
            ClusterError: the training failed.
        """
        with tempfile.TemporaryDirectory(prefix="ltp-train-") as folder:
            arguments = [
                f"--out={folder}", f"--seeds={self.seed}", f"--device={self.device}",
                f"--validate-every={self.validate_every}",
            ]  # fmt: skip
            if self.episodes is not None:
                arguments.append(f"--episodes={self.episodes}")
            options = command.parser(self.trainer.name, None).parse_args(arguments)
            if command.run(self.trainer, options):
                raise ClusterError(f"{self.trainer.name} seed {self.seed} failed; the worker's log says why")
            own = Path(folder, f"seed-{self.seed}")
            return {
                str(path.relative_to(own)): path.read_bytes() for path in own.rglob("*") if path.is_file()
            }


def train_seeds(trainer: Trainer[A], options: argparse.Namespace) -> None:
    """Let a cluster's workers train the seeds, and put their folders into `--out`.

    With `--resume`, a seed that has a checkpoint on this machine is left out and continues here.

    Args:
        trainer: the policy.
        options: the options of `command.parser`.

    Raises:
        ConfigError: the address, or Dask, cannot be used.
        ClusterError: a training failed, or the cluster was lost.
    """
    folders = {seed: options.out / f"seed-{seed}" for seed in options.seeds}
    if options.resume:
        folders = {seed: at for seed, at in folders.items() if not (at / CHECKPOINT).exists()}
    if not folders:
        return
    console = Console(stderr=True)
    with (
        Cluster(options.cluster) as cluster,
        ThreadPoolExecutor(len(folders)) as pool,
        Progress(console=console, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task(f"{trainer.name}: seeds", total=len(folders))

        def make(seed: int) -> Files:
            task = Seed(trainer, options.episodes, options.validate_every, options.device, seed)
            return cluster.make(
                task, lambda: console.print(f"seed {seed}: a worker trains it"), lambda _: None
            )

        asked = {pool.submit(make, seed): seed for seed in folders}
        try:
            for done in as_completed(asked):
                for name, content in done.result().items():
                    path = folders[asked[done]] / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(path, content)
                console.print(f"seed {asked[done]}: trained")
                progress.advance(bar)
        except (LtpSwitcherError, KeyboardInterrupt):
            cluster.stop()
            raise
