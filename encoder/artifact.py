# SPDX-License-Identifier: Apache-2.0
"""The encoder's file: one .npz with the weights, what LinUCB starts from, metadata and a checksum.

Members: the arrays of `WEIGHT_NAMES` in PyTorch's layout (float32), `prior_A`, `prior_b`, `prior_counts`
(float64, one row for each arm id), `metadata` (JSON, UTF-8 bytes), `checksum` (SHA-256 of all the others
as `digest` reads them). Loading needs neither PyTorch nor pickle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

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
    """Weights by name, and the sums of z z', r z and 1 over the training data for each arm id.

    Shapes, with I inputs, H hidden units, F units between, Z outputs, arm ids 0..N-1 and D = Z + 1 (the
    context with its constant 1): gru_weight_ih (3H, I), gru_weight_hh (3H, H), gru_bias_* (3H,),
    fc1_weight (F, H), fc1_bias (F,), fc2_weight (Z, F), fc2_bias (Z,), prior_A (N, D, D), prior_b (N, D),
    prior_counts (N,).
    """

    weights: Mapping[str, NDArray[np.float32]]
    prior_A: NDArray[np.float64]
    prior_b: NDArray[np.float64]
    prior_counts: NDArray[np.float64]
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights: two encoders with the same digest give the same contexts."""
        return digest(self.weights)


def digest(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    running = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        running.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        running.update(array.tobytes())
    return running.hexdigest()


def save(path: Path, artifact: Artifact) -> str:
    """Write the file and return its checksum. The same artifact gives the same bytes."""
    metadata = json.dumps({**artifact.metadata, "version": VERSION}, sort_keys=True).encode()
    arrays: dict[str, NDArray[np.generic]] = {
        **{name: artifact.weights[name].astype(np.float32) for name in WEIGHT_NAMES},
        "prior_A": artifact.prior_A,
        "prior_b": artifact.prior_b,
        "prior_counts": artifact.prior_counts,
        "metadata": np.frombuffer(metadata, np.uint8),
    }
    checksum = digest(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, checksum=np.frombuffer(checksum.encode(), np.uint8))
    return checksum


def load(path: Path = WEIGHTS) -> Artifact:
    """Read and check the file.

    Raises:
        ArtifactError: it is missing, unreadable, of another version, or fails its checksum.
    """
    if not path.is_file():
        raise ArtifactError(
            f"encoder weights not found at {path}: restore the file from the distribution, or train it "
            "with `make train-encoder`"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        stored = bytes(arrays.pop("checksum")).decode()
        metadata = json.loads(bytes(arrays["metadata"]))
    except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
        raise ArtifactError(f"encoder weights {path} cannot be read: {error}") from error
    if digest(arrays) != stored:
        raise ArtifactError(f"encoder weights {path} are corrupt: their checksum does not match")
    if metadata.get("version") != VERSION:
        raise ArtifactError(
            f"encoder weights {path} are of version {metadata.get('version')}; this release reads {VERSION}"
        )
    missing = {*WEIGHT_NAMES, *_PRIOR_NAMES} - arrays.keys()
    if missing:
        raise ArtifactError(f"encoder weights {path} lack {', '.join(sorted(missing))}")
    return Artifact(
        weights={name: arrays[name] for name in WEIGHT_NAMES},
        prior_A=arrays["prior_A"],
        prior_b=arrays["prior_b"],
        prior_counts=arrays["prior_counts"],
        metadata=metadata,
    )
