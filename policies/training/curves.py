# SPDX-License-Identifier: Apache-2.0
"""Learning curves as a picture: reward and losses over the episodes, with one line for each seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ltp_switcher.policies.training.loop import Row


def draw(runs: Mapping[int, Sequence[Row]], path: Path, *, title: str) -> None:
    """Write a PNG with the learning curves of `runs`, by seed. Equal curves give equal bytes."""
    losses = sorted({name for rows in runs.values() for row in rows for name in row.losses})
    panels = ["reward", *losses]
    with mpl.rc_context({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(6.4, 2.2 * len(panels)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            for seed, rows in sorted(runs.items()):
                values = [row.reward if panel == "reward" else row.losses.get(panel, np.nan) for row in rows]
                axis.plot([row.episode for row in rows], values, linewidth=1.2, label=f"seed {seed}")
            axis.set_ylabel(panel.replace("_", " "))
        axes[0].set_title(title)
        axes[0].legend(frameon=False)
        axes[-1].set_xlabel("episode")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Software": None})
