# SPDX-License-Identifier: Apache-2.0
"""The saved state of an agent that learns: its parts (networks, optimisers) and its counts,
each by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

COUNTS: Final = "counts"
"""Key of the counts in an agent's saved state, such as the number of gradient steps. All other keys are names
of parts.
"""


class Part(Protocol):
    """The methods of PyTorch's networks and optimisers that saving needs."""

    def state_dict(self) -> dict[str, object]:
        """Return the part's state."""

    def load_state_dict(self, state: dict[str, object], /) -> object:
        """Restore a state that `state_dict` returned."""


def state_of(parts: Mapping[str, Part], counts: Mapping[str, int]) -> dict[str, dict[str, object]]:
    """Return the state of an agent: each part's state by the part's name, and the counts under `COUNTS`."""
    return {**{name: part.state_dict() for name, part in parts.items()}, COUNTS: dict(counts)}


def restore(parts: Mapping[str, Part], state: Mapping[str, dict[str, object]]) -> dict[str, int]:
    """Load the parts from a state that `state_of` returned, and return the counts.

    Raises `KeyError` if the state lacks a part or the counts. PyTorch raises `RuntimeError` or `ValueError`
    if a part has another shape.
    """
    for name, part in parts.items():
        part.load_state_dict(state[name])
    return {name: int(str(count)) for name, count in state[COUNTS].items()}
