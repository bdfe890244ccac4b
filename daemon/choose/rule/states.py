# SPDX-License-Identifier: Apache-2.0
"""The states of a player under the rule, the role of each state, and the states that may follow it.

A player is the flows that share a bottleneck. The rule goes by the state. The reason of a choice is for
people, and several reasons may lead to one state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.choose.rule.roles import CAREFUL, FILLING, PROBING, STEADY

States = npt.NDArray[np.intp]
"""Array of `State` values."""


class State(IntEnum):
    """The states of a player, the flows that share a bottleneck. A state decides which arm these flows run.
    The probing arm is BBR, the steady arm is LTP, the careful arm is Vegas, and the filling arm is Cubic.
    """

    PROBES = 0
    """The probing arm measures a path that is new, or that has changed."""
    COMPARES = 1
    """The probing arm shows the rate of the path, because another arm starved, lost reward, or was the only
    one so far.
    """
    DRAINS = 2
    """The steady arm empties the queue, which shows whether the queue is its own (`drain`)."""
    ASKS = 3
    """The probing arm shows whether a queue that stands is another flow's (`drain`)."""
    BESIDE_RIVAL = 4
    """The probing arm stays for a while, because another flow fills the queue."""
    SHALLOW = 5
    """The probing arm stays, because the rate varies behind a short buffer."""
    STEADY = 6
    """The steady arm runs, because nothing speaks against it."""
    FOLLOWS = 7
    """The careful arm follows a rate that varies. In this state a lower RTT does not mean that the path has
    changed.
    """
    CAREFUL = 8
    """The careful arm runs for another reason than a rate that varies."""
    TRIES = 9
    """The careful arm is on trial in the steady arm's place."""
    FILLS = 10
    """The filling arm is on trial: it shows whether the path has more than arms take that go by the RTT or
    the rate (`way_back`).
    """
    FULL = 11
    """The filling arm stays for a while, because it has earned the most."""


ROLE: Final = np.array(
    (
        PROBING, PROBING, STEADY, PROBING, PROBING, PROBING, STEADY, CAREFUL, CAREFUL, CAREFUL, FILLING,
        FILLING,
    ),
    np.intp,
)  # fmt: skip
"""The role of each state (probing, steady, careful or filling), by the state's value."""
AS_BEST: Final = np.array((State.COMPARES, State.STEADY, State.CAREFUL, State.FULL), np.intp)
"""The state of a player that runs the arm of a role because this arm has earned the most, by the number of
the role (probing, steady, careful, filling).
"""

_JUDGED: Final = frozenset(
    (State.SHALLOW, State.STEADY, State.FOLLOWS, State.CAREFUL, State.COMPARES, State.FILLS, State.FULL)
)
"""The states to which the measurements of a path lead."""
_WATCHED: Final = frozenset((State.PROBES, State.COMPARES))
"""The states that follow a settled arm when its path has changed, or when its reward calls for a comparison
with the probing arm.
"""
NEXT: Final[Mapping[State, frozenset[State]]] = {
    State.PROBES: _JUDGED,
    State.COMPARES: _JUDGED,
    State.DRAINS: frozenset((State.STEADY, State.ASKS)),
    State.ASKS: _JUDGED | {State.BESIDE_RIVAL, State.PROBES},
    State.BESIDE_RIVAL: _JUDGED,
    State.SHALLOW: _JUDGED,
    State.STEADY: _WATCHED | _JUDGED | {State.TRIES, State.DRAINS, State.ASKS},
    State.FOLLOWS: _WATCHED | _JUDGED,
    State.CAREFUL: _WATCHED | _JUDGED,
    State.TRIES: _WATCHED | _JUDGED,
    State.FILLS: _WATCHED | _JUDGED | {State.DRAINS},
    State.FULL: _WATCHED | _JUDGED | {State.DRAINS},
}
"""The states that may follow each state."""
