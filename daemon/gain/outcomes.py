# SPDX-License-Identifier: Apache-2.0
"""The log of flows' outcomes (sums over their lives), and its summary by destination prefix, size, starting
arm and group of an experiment.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain import log, value
from ltp_switcher.daemon.gain.log import Form, Skipped
from ltp_switcher.daemon.gain.rows import Group
from ltp_switcher.daemon.settings.prefixes import PREFIX_BITS_V4, PREFIX_BITS_V6, prefix_of
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.measures import BYTES_TO_MBIT, loss_rate

FOLDER: Final = "outcomes"
"""The log's folder in the state directory."""
ROW_DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("time_s", "=f8"),  # Unix time at which the outcome was reported.
        ("outcome", OUTCOME_DTYPE),  # From the module, but netns is 0 for the daemon's own namespace.
        ("group", "=u1"),  # One of `Group`, by the flow's birth.
        ("block", "=i4"),  # Number of the time block of its birth; -1 if there is none.
    ]
)
OutcomeRows = npt.NDArray[np.void]
"""Rows of the log of outcomes: `ROW_DTYPE`, shape (n,)."""
_WITHOUT_GROUPS: Final[np.dtype[np.void]] = np.dtype([("time_s", "=f8"), ("outcome", OUTCOME_DTYPE)])
"""Type of the rows of earlier versions, which have no groups."""


def _with_groups(rows: OutcomeRows) -> OutcomeRows:
    """Turn rows of earlier versions into present rows, which are in no group."""
    made = np.zeros(len(rows), ROW_DTYPE)
    made["time_s"], made["outcome"] = rows["time_s"], rows["outcome"]
    made["group"], made["block"] = Group.NONE, -1
    return made


OUTCOMES: Final = Form(FOLDER, ROW_DTYPE, "gain.outcomes_mb", {_WITHOUT_GROUPS: _with_groups})
PREFIX_KEY: Final = np.dtype([("netns", "=u4"), ("family", "=u2"), ("network", "u1", (PREFIX_BITS_V6 // 8,))])
"""Type of the key of a destination prefix."""
_NORMAL_95: Final = 1.96
VISIT_GAP_S: Final = 1.0
"""Time in seconds without a flow to a prefix after which the next flow begins a new visit, as in the kernel
module. A visit is a group of flows that began near each other.
"""
VISIT_MAX_S: Final = 60.0
"""Longest time in seconds between the births of the first and the last flow of a visit (a group of flows to a
prefix), as in the kernel module.
"""


def rows_of(outcomes: OutcomeArray, now_s: float, now_ns: int, home_netns: int) -> OutcomeRows:
    """Make rows of the log from outcomes, shape (n,). The rows are in no group of an experiment.

    `now_s` (Unix time) and `now_ns` (CLOCK_MONOTONIC) are the same moment. `home_netns` is the inode of the
    daemon's network namespace.
    """
    rows = np.zeros(len(outcomes), ROW_DTYPE)
    rows["outcome"], rows["group"], rows["block"] = outcomes, Group.NONE, -1
    own = rows["outcome"]["netns"] == home_netns
    rows["outcome"]["netns"][own] = 0
    rows["time_s"] = now_s - (now_ns - outcomes["time_ns"].astype(np.int64)) * 1e-9
    return rows


def born_s(rows: OutcomeRows) -> Floats:
    """Unix times of the flows' births, shape (n,)."""
    found: Floats = rows["time_s"] - rows["outcome"]["age_ns"] * 1e-9
    return found


def latest(outcomes: OutcomeArray) -> Bools:
    """Return true for the last outcome of each flow, shape (n,). The outcomes are in the order in which the
    module sent them.

    The kernel's cookies of sockets begin anew when a machine boots, so ports and address also distinguish
    flows.
    """
    if not len(outcomes):
        return np.zeros(0, np.bool_)
    parts = [outcomes[name].copy().view(np.uint8).reshape(len(outcomes), -1) for name in _WHO]
    keys = np.ascontiguousarray(np.concatenate(parts, axis=1)[::-1])
    _, last = np.unique(keys.view(f"V{keys.shape[1]}").ravel(), return_index=True)
    found = np.zeros(len(outcomes), np.bool_)
    found[len(outcomes) - 1 - last] = True
    return found


_WHO: Final = ("cookie", "netns", "daddr", "sport", "dport")


def prefix_keys(outcomes: OutcomeArray) -> npt.NDArray[np.void]:
    """The key of each flow's destination prefix, shape (n,). Equal prefixes have equal bytes."""
    keys = np.zeros(len(outcomes), PREFIX_KEY)
    keys["netns"] = outcomes["netns"]
    keys["family"] = outcomes["family"]
    keys["network"] = outcomes["daddr"][:, : PREFIX_BITS_V6 // 8]
    keys["network"][outcomes["family"] == socket.AF_INET, PREFIX_BITS_V4 // 8 :] = 0
    return keys


def prefix_text(key: np.void) -> str:
    """The text of a prefix, such as 192.0.2.0/24, from its key. A prefix of another network namespace than
    the daemon's has the namespace's inode behind an @.
    """
    if key["family"] == socket.AF_INET:
        packed, bits = bytes(key["network"][:4]), PREFIX_BITS_V4
    else:
        packed, bits = bytes(key["network"]).ljust(16, b"\0"), PREFIX_BITS_V6
    return network_text(packed, bits, key["netns"])


def network_text(packed: bytes, bits: int, netns: int) -> str:
    """Return the text of a network from its address (4 or 16 bytes) and its length in bits. If `netns` is not
    0, an @ and `netns` follow.
    """
    text = f"{ipaddress.ip_address(packed)}/{bits}"
    return f"{text}@{netns}" if netns else text


def prefix_key(text: str) -> np.void:
    """The key of a prefix in the daemon's network namespace, from its text.

    Raises:
        InvalidValueError: the text is not an IPv4 prefix of 24 bits or an IPv6 prefix of 48 bits. Only flows
            to such a prefix share their knowledge.
    """
    network = prefix_of(text, "prefix")
    bits = PREFIX_BITS_V4 if network.version == 4 else PREFIX_BITS_V6
    if network.prefixlen != bits:
        raise InvalidValueError("prefix", text, f"a network of {bits} bits")
    keys = np.zeros(1, PREFIX_KEY)
    packed = np.frombuffer(network.network_address.packed, np.uint8)[: keys.dtype["network"].itemsize]
    keys["family"] = socket.AF_INET if network.version == 4 else socket.AF_INET6
    keys["network"][0, : packed.size] = packed
    key: np.void = keys[0]
    return key


def numbered_prefixes(outcomes: OutcomeArray) -> tuple[list[str], Ints]:
    """Return the texts of the flows' destination prefixes, each once, and the index of each flow's prefix
    among them, shape (n,).
    """
    keys = prefix_keys(outcomes)
    found, numbers = np.unique(keys.view(f"V{PREFIX_KEY.itemsize}"), return_inverse=True)
    return [prefix_text(key) for key in found.view(PREFIX_KEY)], numbers.ravel()


@dataclass(frozen=True, slots=True)
class VisitTable:
    """Visits by column, each array with the shape (m,). A visit is a group of flows to a prefix that began on
    one arm, near each other in time.

    A flow's value is the logarithm of its reward. Its information is the weight of the value, 0 to 1.
    """

    names: list[str]
    """Text of each prefix. `prefixes` has the index in this list."""
    prefixes: Ints
    """Index of each visit's prefix in `names`."""
    arms: Ints
    """Id of the arm on which each visit's flows began."""
    values: Floats
    """Mean of the flows' values, each relative to the line of its prefix and size class
    (`value.about_lines`), weighted by information.
    """
    information: Floats
    """Sum of the flows' information."""
    flows: Floats
    """Number of the visit's flows that have a value."""
    ended_s: Floats
    """Unix time at which the visit's last flow ended."""


def visits_of(rows: OutcomeRows) -> VisitTable:
    """Find the visits (groups of flows to a prefix) in rows of the log, in the order of their ends. Flows
    without a value are left out.

    The module numbers the visits of prefixes in its table. For other prefixes the same rule is applied here
    to the times of birth and end. A new visit begins when there was no flow for `VISIT_GAP_S`, or when the
    visit has taken flows for `VISIT_MAX_S`.
    """
    rows = rows[latest(rows["outcome"])]
    raw = value.raw_values(rows["outcome"])
    rows, raw = rows[~np.isnan(raw)], raw[~np.isnan(raw)]
    told = rows["outcome"]
    names, prefixes = numbered_prefixes(told)
    ended_s, births_s = rows["time_s"], born_s(rows)
    groups = prefixes * len(value.SIZE_NAMES) + value.size_classes(told)
    values = value.about_lines(raw, groups, told["acked_bytes"])
    information = value.information(told)
    numbers = np.where(
        told["visit"] > 0,
        _numbered_visits(prefixes, told["visit"].astype(np.int64), births_s),
        -timed_visits(prefixes, births_s, ended_s),
    )
    keys = np.stack([prefixes, told["arm"].astype(np.int64), numbers], axis=1)
    says = ~np.isnan(values) & (information > 0)
    kinds, members = np.unique(keys[says], axis=0, return_inverse=True)
    members, weights = members.ravel(), information[says]
    sums = np.bincount(members, weights=weights, minlength=len(kinds)).astype(np.float64)
    means: Floats = np.bincount(members, weights=weights * values[says], minlength=len(kinds)) / sums
    ends = np.zeros(len(kinds))
    np.maximum.at(ends, members, ended_s[says])
    order = np.argsort(ends, kind="stable")
    flows = np.bincount(members, minlength=len(kinds)).astype(np.float64)
    return VisitTable(
        names, kinds[order, 0], kinds[order, 1], means[order], sums[order], flows[order], ends[order]
    )


def _numbered_visits(prefixes: Ints, visits: Ints, born_s: Floats) -> Ints:
    """Return the number of each flow's visit, shape (n,), from 1 on. `visits` has the module's numbers.

    The module's numbers begin anew when the machine boots. A visit takes flows for `VISIT_MAX_S` at most, so
    flows with the same number that were born further apart belong to different visits.
    """
    order = np.lexsort((born_s, visits, prefixes))
    begins = (np.diff(prefixes[order]) != 0) | (np.diff(visits[order]) != 0)
    begins |= np.diff(born_s[order]) > VISIT_MAX_S
    numbers = np.ones(len(order), np.int64)
    numbers[order[1:]] += np.cumsum(begins)
    return numbers


def timed_visits(prefixes: Ints, born_s: Floats, ended_s: Floats) -> Ints:
    """Return the number of each flow's visit, shape (n,), from 1 on, found from the times of birth and end
    alone. A visit is a group of flows to a prefix that began near each other.
    """
    numbers = np.zeros(len(prefixes), np.int64)
    number, prefix, began_s, busy_until_s = 0, -1, 0.0, 0.0
    for place in np.lexsort((born_s, prefixes)).tolist():
        same = prefix == prefixes[place] and born_s[place] - busy_until_s < VISIT_GAP_S
        if not same or born_s[place] - began_s >= VISIT_MAX_S:
            number, began_s = number + 1, born_s[place]
        busy_until_s = max(ended_s[place], busy_until_s if prefix == prefixes[place] else 0.0)
        numbers[place], prefix = number, prefixes[place]
    return numbers


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcomes of flows with the same prefix, size class, group and starting arm.

    Members are totals or means over these flows.
    """

    prefix: str
    size: str
    arm: str
    group: str
    """The flows' group in the experiment: the name in `Group`, in small letters."""
    flows: int
    acked_bytes: int
    goodput_mbps: float
    """Goodput while the flows were busy, in Mbit/s."""
    rtt_ms: float
    loss: float
    value: float
    """Mean of the flows' values, which are logarithms of rewards (`value`), relative to the mean of the
    prefix and size class. NaN if it is not known.
    """
    error: float
    """Half the width of the 95 % interval of `value`; NaN for fewer than two flows."""
    information: float


def summarised(rows: OutcomeRows, names: Mapping[int, str]) -> list[Summary]:
    """Summarise outcomes by prefix, size class, starting arm and group. Each flow counts once. `names` has
    the arms' names by id.
    """
    rows = rows[latest(rows["outcome"])]
    raw = value.raw_values(rows["outcome"])
    says = ~np.isnan(raw)
    rows, raw = rows[says], raw[says]
    told = rows["outcome"]
    prefixes, numbers = numbered_prefixes(told)
    classes = value.size_classes(told)
    groups = numbers * len(value.SIZE_NAMES) + classes
    values, information = value.clipped(raw, groups), value.information(told)
    kinds, members = np.unique(
        np.stack([groups, told["arm"], rows["group"]], axis=1), axis=0, return_inverse=True
    )
    made = []
    for number, (group, arm, part) in enumerate(kinds.tolist()):
        mine = members.ravel() == number
        flows = told[mine]
        mean, error = _mean(values[mine], information[mine])
        made.append(
            Summary(
                prefix=prefixes[group // len(value.SIZE_NAMES)],
                size=value.SIZE_NAMES[group % len(value.SIZE_NAMES)],
                arm=names.get(arm, str(arm)),
                group=Group(part).name.lower(),
                flows=len(flows),
                acked_bytes=int(flows["acked_bytes"].sum()),
                goodput_mbps=float(
                    flows["acked_bytes"].sum() * BYTES_TO_MBIT / (flows["busy_us"].sum() * 1e-6)
                ),
                rtt_ms=float(flows["rtt_us_sum"].sum() / flows["rtt_samples"].sum() * 1e-3),
                loss=float(loss_rate(flows["lost"].sum(), flows["delivered"].sum())),
                value=mean,
                error=error,
                information=float(information[mine].sum()),
            )
        )
    return made


def _mean(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return the weighted mean of the finite values, and half the width of its 95 % interval. The mean is NaN
    without a finite value, and the width is NaN with fewer than two.
    """
    finite = np.isfinite(values)
    values, weights = values[finite], weights[finite]
    if not values.size:
        return float("nan"), float("nan")
    mean = float(np.average(values, weights=weights))
    if values.size < 2:
        return mean, float("nan")
    share = weights / weights.sum()
    variance = float(np.average((values - mean) ** 2, weights=weights)) * float((share**2).sum())
    return mean, _NORMAL_95 * float(np.sqrt(variance / (1 - (share**2).sum())))


def read(place: Path, since_s: float = 0.0, skipped: Skipped | None = None) -> Iterator[OutcomeRows]:
    """Read the rows of a log of outcomes, or of one of its files, as `log.read` does. Raises
    `ArtifactError`.
    """
    return log.read(place, since_s, skipped, OUTCOMES)
