# SPDX-License-Identifier: Apache-2.0
"""The module's table of starting arms, kept in step with the chooser's knowledge of destinations.

Most connections end before any daemon can act. So the arm of a prefix goes into the kernel, and a new flow
begins with it.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath import RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import START_DTYPE
from ltp_switcher.daemon.steer import LEARNED

log = logging.getLogger(__name__)


class StartTable(Protocol):
    """The kernel's side; see `Datapath`."""

    def set_starts(self, starts: npt.NDArray[np.void]) -> None:
        """Put prefixes into the table; arm 0 takes one out."""
        ...


class StartingArms:
    """Writes the arms of prefixes into the module's table.

    The word of a chooser starts no flow on a learned arm: its prefix is taken out of the table.
    Prefixes of other network namespaces are left out, because each namespace has a table of its own.

    Args:
        table: the module.
        lifetime_s: how long the word of the chooser counts.
    """

    def __init__(self, table: StartTable, lifetime_s: float) -> None:
        self._table = table
        self._lifetime_s = lifetime_s
        self._refused = False

    def write(self, arms: Mapping[str, int], lifetime_s: float | None = None) -> None:
        """Write these arms by prefix, for `lifetime_s` where the chooser's word is not meant.

        A full table is told of once, and costs no more than the entries.
        """
        wanted = {prefix: 0 if arm in LEARNED else arm for prefix, arm in arms.items() if "@" not in prefix}
        if not wanted:
            return
        try:
            self._table.set_starts(entries(wanted, lifetime_s or self._lifetime_s))
            self._refused = False
        except RequestRefusedError as error:
            if not self._refused:
                log.warning("new prefixes get no starting arm: %s", error)
            self._refused = True


@dataclass(frozen=True, slots=True)
class Chance:
    """An arm among which the visits of a prefix draw, and its weight among the others."""

    arm: int
    weight: int = 1
    law: int = 0
    """Law of a learned arm's first control."""
    values: tuple[int, ...] = ()
    """Values of that control."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The arms of a prefix. Without any the prefix leaves the table."""

    chances: tuple[Chance, ...] = ()
    generation: int = 0


def entries(arms: Mapping[str, int], lifetime_s: float) -> npt.NDArray[np.void]:
    """Entries of one arm each, `START_DTYPE`, shape (n,), from arms by prefix such as 192.0.2.0/24."""
    plans = {prefix: Plan((Chance(arm),) if arm else ()) for prefix, arm in arms.items()}
    return plan_entries(plans, lifetime_s)


def plan_entries(plans: Mapping[str, Plan], lifetime_s: float) -> npt.NDArray[np.void]:
    """Entries of the table, `START_DTYPE`, shape (n,), from plans by prefix such as 192.0.2.0/24."""
    made = np.zeros(len(plans), START_DTYPE)
    for entry, (prefix, plan) in zip(made, plans.items(), strict=True):
        network = ipaddress.ip_network(prefix)
        address = np.frombuffer(network.network_address.packed, np.uint8)
        entry["addr"][: address.size] = address
        entry["family"] = socket.AF_INET if network.version == 4 else socket.AF_INET6
        entry["bits"] = network.prefixlen
        entry["generation"] = plan.generation
        for place, chance in zip(entry["choice"], plan.chances, strict=False):
            place["arm"], place["weight"], place["law"] = chance.arm, chance.weight, chance.law
            place["value"][: len(chance.values)] = chance.values
        entry["lifetime_s"] = max(1, math.ceil(lifetime_s))
    return made
