# SPDX-License-Identifier: Apache-2.0
"""The arms of a machine, as columns of the bandit's arrays. An arm is a congestion control."""

from __future__ import annotations

from dataclasses import dataclass

from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class ArmTable:
    """The arms that this machine offers, in the order of the bandit's columns.

    `ids` has the kernel's arm ids, 1 to ARMS_MAX, and `names` has a name for each id.

    Raises:
        InvalidValueError: there is no arm, an id appears twice or is out of range, or the numbers of ids and
            names differ.
    """

    ids: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the table."""
        if not self.ids or len(set(self.ids)) != len(self.ids):
            raise InvalidValueError("ids", self.ids, "one or more ids, each once")
        if any(not 1 <= arm <= ARMS_MAX for arm in self.ids):
            raise InvalidValueError("ids", self.ids, f"1 to {ARMS_MAX}")
        if len(self.names) != len(self.ids):
            raise InvalidValueError("names", self.names, f"{len(self.ids)} names, one for each id")

    def __len__(self) -> int:
        """Number of arms."""
        return len(self.ids)
