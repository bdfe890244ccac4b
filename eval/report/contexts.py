# SPDX-License-Identifier: Apache-2.0
"""The encoder's contexts in different network environments, placed by t-SNE (Mutant Fig. 14).

A flow of each path runs arms at random, and the daemon records its steps. From the recording, the daemon's
own features and encoder compute a context for each step. A silhouette near 1 says that the contexts of a path
lie close together and far from other paths; 0 says that they overlap.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_samples
from sklearn.preprocessing import StandardScaler

from ltp_switcher.arrays import Floats, Indices
from ltp_switcher.daemon.choose.bandit.replay import replay_file
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.report.drawing import headline, picture
from ltp_switcher.eval.report.engine_agreement import shortened
from ltp_switcher.eval.run.collection import collect_path
from ltp_switcher.eval.run.executor import default_parallel
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.palette import SERIES

SECONDS: Final = 16.0
POOL: Final = ("bbr", "vegas", "cubic", "westwood", "illinois")
_START: Final = 200
"""Number of first steps that do not count, because slow start looks alike on all paths."""
_POINTS: Final = 200
"""Number of points that are drawn for each path, evenly over its steps."""
_PERPLEXITY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Contexts:
    """The encoder's outputs (contexts) for the steps of flows on several paths. Row i of each array belongs
    to the same step.

    Attributes:
        names: names of the paths.
        path: index of each row's path, shape (rows,).
        place: t-SNE of the contexts, shape (rows, 2), without a unit.
        silhouettes: mean silhouette of the contexts by path.
        raw_silhouettes: mean silhouette of the encoder's standardised inputs by path.
    """

    names: tuple[str, ...]
    path: Indices
    place: Floats
    silhouettes: Mapping[str, float]
    raw_silhouettes: Mapping[str, float]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "silhouette": float(np.mean(list(self.silhouettes.values()))),
            "raw_silhouette": float(np.mean(list(self.raw_silhouettes.values()))),
            "paths": {
                name: {"silhouette": self.silhouettes[name], "raw_silhouette": self.raw_silhouettes[name]}
                for name in self.names
            },
        }


def measure_contexts(
    scenarios: Sequence[Scenario], encoder: GRUEncoder, progress: Console, *, seed: int, kernel: str
) -> Contexts:
    """Record a flow on each path, compute the encoder's outputs (contexts), and place them by t-SNE.

    Raises:
        LabError: the lab failed.
        ArtifactError: a recording cannot be read, or has several flows.
    """

    def inputs_of(scenario: Scenario) -> Floats:
        shorter = shortened(scenario.with_scheme("random"), min(SECONDS, scenario.duration_s))
        with tempfile.TemporaryDirectory(prefix="ltp-contexts-") as folder:
            recording = Path(folder) / "recording.npy"
            recording.write_bytes(collect_path(shorter, POOL, seed, kernel))
            flows = replay_file(recording, LearningSection())
            if len(flows) != 1:
                raise ArtifactError(f"{scenario.name} must have one flow, not {len(flows)}")
            return flows[0]["inputs"].astype(np.float64)

    with Progress(console=progress) as bar, ThreadPoolExecutor(default_parallel()) as pool:
        task = bar.add_task("recordings", total=len(scenarios))
        futures = [pool.submit(inputs_of, scenario) for scenario in scenarios]
        for future in futures:
            future.add_done_callback(lambda _: bar.advance(task))
        inputs = [future.result() for future in futures]
    names = tuple(scenario.name for scenario in scenarios)
    return place(names, inputs, [encode(encoder, one) for one in inputs])


def encode(encoder: GRUEncoder, inputs: Floats) -> Floats:
    """Return the contexts of one flow's steps, shape (steps, output_size), from inputs of shape (steps,
    75).
    """
    hidden = encoder.initial_state(1)
    contexts = np.empty((len(inputs), encoder.output_size))
    for t, row in enumerate(inputs.astype(np.float32)):
        hidden, context = encoder.step(hidden, row[None])
        contexts[t] = context[0]
    return contexts


def place(names: Sequence[str], inputs: Sequence[Floats], contexts: Sequence[Floats]) -> Contexts:
    """Place the contexts of the paths by t-SNE, and compute the silhouettes.

    Args:
        names: names of the paths, two or more.
        inputs: inputs of each path, shape (steps, inputs); more than `_START` steps.
        contexts: contexts of each path, shape (steps, outputs).
    """
    rows = [np.unique(np.linspace(_START, len(one) - 1, _POINTS).astype(np.int64)) for one in inputs]
    path = np.repeat(np.arange(len(rows)), [at.size for at in rows])
    seen = np.concatenate([one[at] for one, at in zip(contexts, rows, strict=True)])
    raw = np.concatenate([one[at] for one, at in zip(inputs, rows, strict=True)])
    placed = TSNE(n_components=2, perplexity=_PERPLEXITY, init="pca", random_state=1).fit_transform(seen)

    def silhouettes(points: Floats) -> dict[str, float]:
        of = np.asarray(silhouette_samples(points, path))
        return {name: float(of[path == i].mean()) for i, name in enumerate(names)}

    return Contexts(
        tuple(names), path, np.asarray(placed), silhouettes(seen),
        silhouettes(np.asarray(StandardScaler().fit_transform(raw))),
    )  # fmt: skip


def contexts_table(found: Contexts) -> Table:
    """Return a table of the silhouettes, with a row for each path."""
    table = Table("path", "silhouette of the contexts", "of the raw inputs", box=None, pad_edge=False)
    for name in found.names:
        table.add_row(name, f"{found.silhouettes[name]:.2f}", f"{found.raw_silhouettes[name]:.2f}")
    means = [float(np.mean(list(of.values()))) for of in (found.silhouettes, found.raw_silhouettes)]
    table.add_row("mean", *(f"{mean:.2f}" for mean in means))
    return table


def draw_contexts(path: Path, found: Contexts) -> None:
    """Draw the t-SNE of the contexts, with one colour for each path."""
    with picture(path, 7.6, 5.4) as figure:
        axes = figure.subplots()
        for i, name in enumerate(found.names):
            x, y = found.place[found.path == i].T
            axes.scatter(x, y, s=9, color=SERIES[i % len(SERIES)], label=name, linewidths=0)
        axes.set_xticks([])
        axes.set_yticks([])
        mean = float(np.mean(list(found.silhouettes.values())))
        headline(figure, "The encoder's contexts", f"t-SNE, a point a step; mean silhouette {mean:.2f}")
        figure.legend(loc="outside right center", markerscale=2)
