# SPDX-License-Identifier: Apache-2.0
"""Draw the learning curve of the encoder's training."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from ltp_switcher.commands import program
from ltp_switcher.encoder.artifact import WEIGHTS
from ltp_switcher.errors import reason


@program("figure")
def main(arguments: Sequence[str] | None) -> int:
    """Read learning_curve.json and write learning_curve.png; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ltp_switcher.encoder.figure", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=WEIGHTS.parent, help="of the curve and its picture (the weights')"
    )
    folder = parser.parse_args(arguments).folder
    try:
        curve = json.loads((folder / "learning_curve.json").read_text())
    except (OSError, ValueError) as error:
        print(f"figure: the learning curve cannot be read: {reason(error)}", file=sys.stderr)
        return 1
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for values, label in zip(zip(*curve, strict=True), ("training paths", "validation paths"), strict=True):
        axes.plot(values, label=label)
    axes.set(xlabel="epoch", ylabel="squared error of the reward", yscale="log")
    axes.legend()
    figure.savefig(folder / "learning_curve.png", dpi=110, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
