# SPDX-License-Identifier: Apache-2.0
"""The file of a trained policy: weights, checksum, and a card that says how the policy was made.

The card is in the file. A copy for people is beside the file as `<name>.json`, which no program reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher import artifacts
from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies.runtime.inference import Layer, Network

VERSION: Final = 1


@dataclass(frozen=True)
class Card:
    """The description of a trained policy: how it was made, and its limits.

    Attributes:
        policy: "ltp", "jury", "spine", "owl" or a variant's name.
        command: the command that trains the policy again.
        revision: git revision of the code.
        seeds: all seeds with which the policy was trained under the same settings. The weights are from the
            first.
        settings: hyperparameters, the training region of links, and the roster of flows.
        results: figures of the final evaluation, by name.
        limits: conditions in which the policy was not trained or is known to fail, one sentence each.
    """

    policy: str
    command: str
    revision: str
    seeds: tuple[int, ...]
    settings: Mapping[str, object]
    results: Mapping[str, float]
    limits: tuple[str, ...]


def save(
    path: Path,
    networks: Mapping[str, tuple[Sequence[Layer], Mapping[str, NDArray[np.generic]]]],
    card: Card,
) -> str:
    """Write networks by name, and their card, to one file; return the file's checksum.

    Raises:
        ArtifactError: the weights do not fit the layers, are not finite, or the file cannot be written.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    layers: dict[str, list[dict[str, object]]] = {}
    for name, (stack, weights) in networks.items():
        Network(stack, weights)
        layers[name] = [layer.describe() for layer in stack]
        for key, value in weights.items():
            if not np.isfinite(value).all():
                raise ArtifactError(f"{card.policy}: weights {name}/{key} are not finite")
            arrays[f"{name}/{key}"] = np.asarray(value, np.float32)
    description = {"card": asdict(card), "layers": layers}
    checksum = artifacts.write(path, arrays, description, version=VERSION)
    readable = json.dumps({**asdict(card), "sha256": checksum}, indent=2, sort_keys=True)
    path.with_suffix(".json").write_text(readable + "\n", encoding="utf-8")
    return checksum


def load(path: Path) -> tuple[dict[str, Network], dict[str, object]]:
    """Read a file that `save` wrote, and return the networks by name and the card.

    Raises:
        ArtifactError: the file is missing, corrupt or of another version, or its weights do not fit its
            layers.
    """
    ours = path.resolve().parent.parent == Path(__file__).resolve().parents[1]
    remedy = (
        f"restore it from the distribution, or train it with `make train-{path.parent.name}`"
        if ours
        else "check the path"
    )
    arrays, metadata = artifacts.read(path, what="policy weights", version=VERSION, remedy=remedy)
    networks: dict[str, Network] = {}
    try:
        described = dict(metadata["layers"])  # type: ignore[call-overload]
        for name, stack in described.items():
            prefix = f"{name}/"
            weights = {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
            networks[name] = Network([Layer(**layer) for layer in stack], weights)
        card = dict(metadata["card"])  # type: ignore[call-overload]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"policy weights {path}: the metadata cannot be understood ({error})") from error
    return networks, card
