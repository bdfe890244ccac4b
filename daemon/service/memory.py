# SPDX-License-Identifier: Apache-2.0
"""The number of flows that fit into the memory that the service may use.

The service manager kills a daemon that takes more than its unit's `MemoryMax=`, and then nothing is steered.
So the daemon lets the kernel module take on no more flows than fit. Any further connection keeps its first
congestion control.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.datapath import FlowCounts

log = logging.getLogger(__name__)

_MB: Final = 1 << 20
BASE_BYTES: Final = {"mutant": 296 * _MB}
"""Memory of the daemon without flows, by policy, including answers that clients have not read yet.

The learning policy has the knowledge of 1024 prefixes, 50 MB, and copies of it during a save.
"""
OTHER_BASE_BYTES: Final = 96 * _MB
FLOW_BYTES: Final = {"mutant": 288 << 10}
"""Memory of a flow that sends all the time, by policy, including copies within a step and spare room in
growing arrays.
"""
OTHER_FLOW_BYTES: Final = 10 << 10
VISITS_BYTES: Final = 64 * _MB
"""Memory that learning from flow to flow adds for 16,384 prefixes, including the copies of a save."""
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_GROUPS: Final = Path("/sys/fs/cgroup")
QUIET_LOOKS: Final = 6
"""Number of looks at the module's counts without a new refusal, after which the lack of room
counts as over.
"""


def flows_that_fit(limit_bytes: int, policy: str, *, visits: bool = False) -> int:
    """The number of flows that fit into `limit_bytes` under a policy. With `visits`, the memory of learning
    from flow to flow is taken off.
    """
    left = limit_bytes - BASE_BYTES.get(policy, OTHER_BASE_BYTES) - visits * VISITS_BYTES
    return max(0, left // FLOW_BYTES.get(policy, OTHER_FLOW_BYTES))


def limit_bytes(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int | None:
    """The least memory limit in bytes of this process's control groups (cgroup v2); None if there is none."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if own is None:
        return None
    place, limits = groups / own, []
    while place != groups.parent:
        try:
            text = (place / "memory.max").read_text().strip()
        except OSError:
            # The root group has no limit.
            text = "max"
        if text.isdecimal():
            limits.append(int(text))
        place = place.parent
    return min(limits, default=None)


class Room:
    """The room for flows in memory. It logs a warning when the module begins to refuse connections.

    Args:
        policy: policy of the daemon.
        limit: memory that the daemon may use, in bytes; None for no limit.
        visits: whether the daemon learns from flow to flow.
    """

    def __init__(self, policy: str, limit: int | None, *, visits: bool = False) -> None:
        self._limit = limit
        self._fits = 2**32 - 1 if limit is None else flows_that_fit(limit, policy, visits=visits)
        self._seen: int | None = None
        self._quiet = 0
        self.most = self._fits
        """Largest number of flows that the module may take on."""
        self.refused = 0
        """Connections since the daemon's start that the module did not take on, because it had no room."""
        self.fault = ""
        """A sentence about the lack of room, with the remedy; empty if there is room."""

    def within(self, flows_max: int) -> int:
        """The number of flows that the module may take on, at most the operator's `flows_max`."""
        self.most = min(flows_max, self._fits)
        return self.most

    def look(self, counts: FlowCounts) -> None:
        """Take in the module's counts of flows and refusals, and set `refused` and `fault`."""
        before = counts.refused if self._seen is None else self._seen
        self._seen = counts.refused
        self.refused += max(0, counts.refused - before)
        if counts.refused > before:
            self._quiet = 0
            if not self.fault:
                self.fault = self._sentence()
                log.warning("%s", self.fault)
        elif self.fault:
            self._quiet += 1
            if self._quiet >= QUIET_LOOKS:
                self.fault = ""
                log.info("there is room for new flows again")

    def _sentence(self) -> str:
        what = f"there is room for {self.most} flows; connections beyond them run their first arm unsteered"
        if self.most < self._fits:
            return f"{what}; raise kernel.flows_max"
        return (
            f"{what}; {(self._limit or 0) // _MB} MB hold no more: raise MemoryMax= of the service "
            "(`systemctl edit ltp-switcher`)"
        )
