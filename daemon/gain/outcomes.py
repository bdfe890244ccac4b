# SPDX-License-Identifier: Apache-2.0
"""The log of flows' outcomes, and its summary by destination prefix, size and starting arm."""

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
from ltp_switcher.daemon.settings.prefixes import PREFIX_BITS_V4, PREFIX_BITS_V6
from ltp_switcher.measures import BYTES_TO_MBIT

FOLDER: Final = "outcomes"
"""The log's place in the state directory."""
ROW_DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("time_s", "=f8"),  # Unix time when the outcome was told.
        ("outcome", OUTCOME_DTYPE),  # As the module told it; netns is 0 for the daemon's own namespace.
    ]
)
OutcomeRows = npt.NDArray[np.void]
"""`ROW_DTYPE`, shape (n,)."""
OUTCOMES: Final = Form(FOLDER, ROW_DTYPE, "gain.outcomes_mb")
_KEY: Final = np.dtype([("netns", "=u4"), ("family", "=u2"), ("network", "u1", (PREFIX_BITS_V6 // 8,))])
"""A destination prefix."""
_NORMAL_95: Final = 1.96


def rows_of(outcomes: OutcomeArray, now_s: float, now_ns: int, home_netns: int) -> OutcomeRows:
    """Rows of outcomes, shape (n,). `now_s` (Unix) and `now_ns` (CLOCK_MONOTONIC) are the same moment."""
    rows = np.zeros(len(outcomes), ROW_DTYPE)
    rows["outcome"] = outcomes
    own = rows["outcome"]["netns"] == home_netns
    rows["outcome"]["netns"][own] = 0
    rows["time_s"] = now_s - (now_ns - outcomes["time_ns"].astype(np.int64)) * 1e-9
    return rows


def latest(outcomes: OutcomeArray) -> Bools:
    """True where no later outcome is of the same flow, shape (n,); the order is that in which they were told.

    Cookies begin anew when a machine boots, so ports and address tell flows apart, too.
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
    """The destination prefix of each flow, shape (n,): equal bytes for equal prefixes."""
    keys = np.zeros(len(outcomes), _KEY)
    keys["netns"] = outcomes["netns"]
    keys["family"] = outcomes["family"]
    keys["network"] = outcomes["daddr"][:, : PREFIX_BITS_V6 // 8]
    keys["network"][outcomes["family"] == socket.AF_INET, PREFIX_BITS_V4 // 8 :] = 0
    return keys


def prefix_text(key: np.void) -> str:
    """A prefix as the daemon writes it, such as 192.0.2.0/24."""
    if key["family"] == socket.AF_INET:
        packed, bits = bytes(key["network"][:4]), PREFIX_BITS_V4
    else:
        packed, bits = bytes(key["network"]).ljust(16, b"\0"), PREFIX_BITS_V6
    text = f"{ipaddress.ip_address(packed)}/{bits}"
    return f"{text}@{key['netns']}" if key["netns"] else text


def numbered_prefixes(outcomes: OutcomeArray) -> tuple[list[str], Ints]:
    """The prefixes in text, and for each flow the number of its own: shape (n,)."""
    keys = prefix_keys(outcomes)
    found, numbers = np.unique(keys.view(f"V{_KEY.itemsize}"), return_inverse=True)
    return [prefix_text(key) for key in found.view(_KEY)], numbers.ravel()


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of the flows of a prefix and size class that began on an arm. Totals and means over flows."""

    prefix: str
    size: str
    arm: str
    flows: int
    acked_bytes: int
    goodput_mbps: float
    """Goodput in the busy time."""
    rtt_ms: float
    loss: float
    value: float
    """Mean of the flows' values, relative to the mean of the prefix and size class; see `value`. NaN where it
    is not known."""
    error: float
    """Half of the value's 95 % interval; NaN for fewer than two flows."""
    information: float


def summarised(outcomes: OutcomeArray, names: Mapping[int, str]) -> list[Summary]:
    """What came of the flows by prefix, size class and starting arm; each flow counts once."""
    told = outcomes[latest(outcomes)]
    raw = value.raw_values(told)
    says = ~np.isnan(raw)
    told, raw = told[says], raw[says]
    prefixes, numbers = numbered_prefixes(told)
    classes = value.size_classes(told)
    groups = numbers * len(value.SIZE_NAMES) + classes
    values, information = value.clipped(raw, groups), value.information(told)
    kinds, members = np.unique(groups * 256 + told["arm"], return_inverse=True)
    made = []
    for number, kind in enumerate(kinds.tolist()):
        group, arm = divmod(kind, 256)
        mine = members.ravel() == number
        flows = told[mine]
        mean, error = _mean(values[mine], information[mine])
        made.append(
            Summary(
                prefix=prefixes[group // len(value.SIZE_NAMES)],
                size=value.SIZE_NAMES[group % len(value.SIZE_NAMES)],
                arm=names.get(arm, str(arm)),
                flows=len(flows),
                acked_bytes=int(flows["acked_bytes"].sum()),
                goodput_mbps=float(
                    flows["acked_bytes"].sum() * BYTES_TO_MBIT / (flows["busy_us"].sum() * 1e-6)
                ),
                rtt_ms=float(flows["rtt_us_sum"].sum() / flows["rtt_samples"].sum() * 1e-3),
                loss=float(flows["lost"].sum() / max(int(flows["lost"].sum() + flows["delivered"].sum()), 1)),
                value=mean,
                error=error,
                information=float(information[mine].sum()),
            )
        )
    return made


def _mean(values: Floats, weights: Floats) -> tuple[float, float]:
    """The weighted mean of the finite values, and half of its 95 % interval."""
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
    """The rows of a log's folder or of one file; see `log.read`. Raises `ArtifactError`."""
    return log.read(place, since_s, skipped, OUTCOMES)
