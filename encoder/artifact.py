# SPDX-License-Identifier: Apache-2.0
"""The file of a trained encoder: its weights, and LinUCB's initial state. `ltp_switcher.artifacts` defines
the format.

The file's arrays are the `WEIGHT_NAMES` in PyTorch's layout (float32), and `prior_A`, `prior_b`,
`prior_counts` (float64, one row for each arm id).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher import artifacts
from ltp_switcher.errors import ArtifactError

VERSION: Final = 1
WEIGHTS: Final = Path(__file__).parent / "weights" / "encoder.npz"
WEIGHT_NAMES: Final = (
    "gru_weight_ih", "gru_weight_hh", "gru_bias_ih", "gru_bias_hh",
    "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias",
)  # fmt: skip
_PRIOR_NAMES: Final = ("prior_A", "prior_b", "prior_counts")


@dataclass(frozen=True)
class Artifact:
    """Weights by name, and LinUCB's initial state: sums over the training data for each arm id.

    With contexts z and rewards r, `prior_A` sums z z', `prior_b` sums r z, and `prior_counts` sums 1.

    Shapes, with I inputs, H hidden units, F units in the first dense layer, Z outputs, arm ids 0..N-1 and D =
    Z + 1 (the context with its constant 1): gru_weight_ih (3H, I), gru_weight_hh (3H, H), gru_bias_* (3H,),
    fc1_weight (F, H), fc1_bias (F,), fc2_weight (Z, F), fc2_bias (Z,), prior_A (N, D, D), prior_b (N, D),
    prior_counts (N,).
    """

    weights: Mapping[str, NDArray[np.float32]]
    prior_A: NDArray[np.float64]  # noqa: N815 - the name of the papers
    prior_b: NDArray[np.float64]
    prior_counts: NDArray[np.float64]
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights. Two encoders with the same digest give the same contexts."""
        return artifacts.digest(self.weights)


def save(path: Path, artifact: Artifact) -> str:
    """Write the file and return its checksum. The same artifact gives the same bytes."""
    arrays: dict[str, NDArray[np.generic]] = {
        **{name: artifact.weights[name].astype(np.float32) for name in WEIGHT_NAMES},
        "prior_A": artifact.prior_A,
        "prior_b": artifact.prior_b,
        "prior_counts": artifact.prior_counts,
    }
    return artifacts.write(path, arrays, artifact.metadata, version=VERSION)


def load(path: Path = WEIGHTS) -> Artifact:
    """Read and check the file.

    Raises:
        ArtifactError: the file is missing, unreadable, of another version, or fails its checksum.
    """
    arrays, metadata = artifacts.read(
        path,
        what="encoder weights",
        version=VERSION,
        remedy="restore the file from the distribution, or train it with `make train-encoder`",
    )
    missing = {*WEIGHT_NAMES, *_PRIOR_NAMES} - arrays.keys()
    if missing:
        raise ArtifactError(f"encoder weights {path} lack {', '.join(sorted(missing))}")
    return Artifact(
        weights={name: arrays[name].astype(np.float32) for name in WEIGHT_NAMES},
        prior_A=arrays["prior_A"].astype(np.float64),
        prior_b=arrays["prior_b"].astype(np.float64),
        prior_counts=arrays["prior_counts"].astype(np.float64),
        metadata=metadata,
    )
