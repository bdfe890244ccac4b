# SPDX-License-Identifier: Apache-2.0
"""Places: destination prefixes and single hosts below them. The daemon keeps its knowledge from earlier flows
by place.
"""

from __future__ import annotations

import socket
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Bools
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.gain.outcomes import network_text
from ltp_switcher.daemon.settings.prefixes import PREFIX_BITS_V4, PREFIX_BITS_V6

PLACE: Final = np.dtype([("netns", "=u4"), ("family", "=u2"), ("bits", "=u2"), ("address", "u1", (16,))])
"""Type of a place: its network namespace, its address family, and the first `bits` of its address. The rest
of the address is 0.
"""
Places = npt.NDArray[np.void]
"""An array of places, `PLACE`, shape (n,)."""
_OPAQUE: Final = np.dtype(f"V{PLACE.itemsize}")


def of_prefixes(keys: npt.NDArray[np.void]) -> Places:
    """Turn prefixes, `gain.outcomes.PREFIX_KEY`, into places, shape (n,)."""
    made = np.zeros(len(keys), PLACE)
    made["netns"], made["family"] = keys["netns"], keys["family"]
    made["bits"] = np.where(keys["family"] == socket.AF_INET, PREFIX_BITS_V4, PREFIX_BITS_V6)
    made["address"][:, : keys["network"].shape[1]] = keys["network"]
    return made


def hosts_of(outcomes: OutcomeArray) -> Places:
    """The hosts to which flows went, shape (n,)."""
    made = np.zeros(len(outcomes), PLACE)
    made["netns"], made["family"], made["address"] = (
        outcomes["netns"], outcomes["family"], outcomes["daddr"]
    )  # fmt: skip
    is_v4 = outcomes["family"] == socket.AF_INET
    made["bits"] = np.where(is_v4, 32, 128)
    made["address"][is_v4, 4:] = 0
    return made


def prefixes_of(hosts: Places) -> Places:
    """The prefixes in which hosts are, shape (n,)."""
    made = hosts.copy()
    is_v4 = hosts["family"] == socket.AF_INET
    made["bits"] = np.where(is_v4, PREFIX_BITS_V4, PREFIX_BITS_V6)
    made["address"][is_v4, PREFIX_BITS_V4 // 8 :] = 0
    made["address"][~is_v4, PREFIX_BITS_V6 // 8 :] = 0
    return made


def are_hosts(places: Places) -> Bools:
    """True for places that are single hosts, shape (n,)."""
    found: Bools = places["bits"] == np.where(places["family"] == socket.AF_INET, 32, 128)
    return found


def names_of(places: Places) -> list[bytes]:
    """Return the bytes of each place, which serve as a key. Different places have different bytes."""
    names: list[bytes] = np.ascontiguousarray(places).view(_OPAQUE).tolist()
    return names


def text_of(place: np.void) -> str:
    """A place as the daemon writes it, such as 192.0.2.0/24, or 192.0.2.7/32 for a host."""
    size = 4 if place["family"] == socket.AF_INET else 16
    return network_text(bytes(place["address"][:size]), place["bits"], place["netns"])
