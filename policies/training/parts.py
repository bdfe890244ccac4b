# SPDX-License-Identifier: Apache-2.0
"""The saved state of an agent that learns: its parts (networks, optimisers) and its counts,
each by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Agent(ABC):
    """An agent that learns, whose state can be saved: the parts that `_parts` names, and two counts."""

    def __init__(self) -> None:
        self._frames = 0
        """Number of frames recorded so far. The amount of exploration depends on it."""
        self._updates = 0
        """Number of gradient steps so far."""

    @abstractmethod
    def _parts(self) -> dict[str, Part]:
        """Return every network and optimiser, by its name in a checkpoint."""

    def state_dict(self) -> dict[str, dict[str, object]]:
        """Return the state of each part by the part's name, and the counts under `COUNTS`. The recorded
        experience, from which the agent learns, is not in it. Between episodes there is no other state.
        """
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        return {**parts, COUNTS: {"frames": self._frames, "updates": self._updates}}

    def load_state_dict(self, state: Mapping[str, dict[str, object]]) -> None:
        """Restore a state that `state_dict` returned.

        Raises `KeyError` if the state lacks a part or the counts. PyTorch raises `RuntimeError` or
        `ValueError` if a part has another shape.
        """
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        counts = {name: int(str(count)) for name, count in state[COUNTS].items()}
        self._frames, self._updates = counts["frames"], counts["updates"]
