# SPDX-License-Identifier: Apache-2.0
"""The module's table of starting arms, and the entries that the daemon writes into it.

Most connections end before any daemon can act. So the arm of a prefix goes into the kernel, and a new flow
begins on this arm.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath import RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import START_DTYPE
from ltp_switcher.daemon.steer import LEARNED

log = logging.getLogger(__name__)


class StartTable(Protocol):
    """The part of the module's client for the table of starting arms; see `Datapath`."""

    def set_starts(self, starts: npt.NDArray[np.void]) -> None:
        """Write entries, `START_DTYPE`, shape (n,). An entry with arm 0 takes its prefix out of the table."""
        ...

    def starts(self) -> npt.NDArray[np.void]:
        """Return the entries of the module's table of starting arms, `START_DTYPE`, shape (n,). Each has
        the arm on which new flows to a prefix begin.
        """
        ...


class StartingArms:
    """Writes the module's table of starting arms: the arm on which new flows to a prefix begin.

    The chooser starts no flow on a learned arm: a prefix with such an arm is taken out of the table. Prefixes
    of other network namespaces are left out, because each namespace has a table of its own.

    Args:
        table: the module.
        lifetime_s: time for which an arm from the chooser counts, in seconds.
    """

    def __init__(self, table: StartTable, lifetime_s: float) -> None:
        self._table = table
        self._lifetime_s = lifetime_s
        self._refused = False

    def write(self, arms: Mapping[str, int], lifetime_s: float | None = None) -> None:
        """Write these ids of arms, by prefix. The arms count for `lifetime_s` seconds, by default as long as
        arms from the chooser.
        """
        wanted = {prefix: 0 if arm in LEARNED else arm for prefix, arm in arms.items() if "@" not in prefix}
        self.put(entries(wanted, lifetime_s or self._lifetime_s))

    def put(self, made: npt.NDArray[np.void]) -> None:
        """Write entries (`START_DTYPE`, shape (n,)), in their order.

        If the table is full, entries are lost. No error is raised, and only the first of several losses in a
        row is logged.
        """
        if not len(made):
            return
        try:
            self._table.set_starts(made)
            self._refused = False
        except RequestRefusedError as error:
            if not self._refused:
                log.warning("new prefixes get no starting arm: %s", error)
            self._refused = True

    def forget_lots(self) -> None:
        """Take out the entries from which visits (groups of flows) draw arms, as an earlier run of the daemon
        wrote them. Such an entry has a generation other than 0.
        """
        told = self._table.starts()
        gone = told[told["generation"] != 0].copy()
        gone["choice"] = np.zeros((), gone.dtype["choice"].base)
        self.put(gone)


def entries(arms: Mapping[str, int], lifetime_s: float) -> npt.NDArray[np.void]:
    """Make an entry, `START_DTYPE`, for the arm of each prefix, shape (n,). A prefix is a text such as
    192.0.2.0/24, and its arm an id.
    """
    made = np.zeros(len(arms), START_DTYPE)
    for entry, (prefix, arm) in zip(made, arms.items(), strict=True):
        network = ipaddress.ip_network(prefix)
        address = np.frombuffer(network.network_address.packed, np.uint8)
        entry["addr"][: address.size] = address
        entry["family"] = socket.AF_INET if network.version == 4 else socket.AF_INET6
        entry["bits"] = network.prefixlen
        entry["choice"][0]["arm"], entry["choice"][0]["weight"] = arm, arm != 0
        entry["lifetime_s"] = max(1, math.ceil(lifetime_s))
    return made
