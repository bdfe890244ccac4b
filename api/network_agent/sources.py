# SPDX-License-Identifier: Apache-2.0
"""Sources of the counters of a node (a queue): the queue discipline of a network device, or the lab's own
link.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ltp_switcher.errors import ConfigError, DatapathError, reason
from ltp_switcher.policies.runtime.path_knowledge import Counters, CounterSource

_ROOT: Final = 0xFFFFFFFF
"""TC_H_ROOT, the parent of a root queue discipline."""
_ALLOWED: Final = (
    "qdisc:DEVICE or lablink:FILE, and where the link's rate is known @MBIT, as in qdisc:eth0@100"
)


_FULL_SPEED: Final = frozenset(
    {
        "noqueue", "pfifo", "bfifo", "pfifo_fast", "pfifo_head_drop", "fq", "fq_codel", "fq_pie", "codel",
        "pie", "sfq", "sfb", "red", "gred", "choke", "hhf", "mq", "prio", "multiq", "skbprio", "plug",
        "ingress", "clsact",
    }
)  # fmt: skip
"""Queue disciplines that send as fast as their device does. Any other one may send more slowly."""


class UnfitNodeError(DatapathError):
    """The operator named a node (a queue) whose counters can never be read under this name."""


class UnknownRateError(UnfitNodeError):
    """The rate of a queue is unknown. The device's speed cannot replace it: a loaded path would look idle."""

    def __init__(self, device: str, kind: str) -> None:
        super().__init__(
            f"{device} has a queue of kind {kind}, which may be slower than the port; name its rate, as in "
            f"qdisc:{device}@100 for 100 Mbit/s"
        )


class NoQueueError(UnfitNodeError):
    """The device has no queue. Its counters stay 0 whatever the traffic, so it would always look idle."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"{device} has no queue, so no counter sees its packets; name the device below it, or give it a "
            f"queue: tc qdisc add dev {device} root fq_codel"
        )


def source(text: str) -> CounterSource:
    """Make the source that an argument of `--node` names, such as qdisc:eth0@100. Raises `ConfigError`."""
    kind, _, rest = text.partition(":")
    name, at, rate = rest.partition("@")
    try:
        capacity_bps = float(rate) * 1e6 if at else None
    except ValueError:
        raise ConfigError("--node", text, _ALLOWED) from None
    if not name or (capacity_bps is not None and not 0.0 < capacity_bps < 1e15):
        raise ConfigError("--node", text, _ALLOWED)
    if kind == "qdisc":
        return QdiscSource(name, capacity_bps)
    if kind == "lablink":
        return LablinkSource(name, Path(name), capacity_bps)
    raise ConfigError("--node", text, _ALLOWED)


@dataclass(frozen=True)
class QdiscSource:
    """The root queue discipline of a device of this machine, read from the kernel over rtnetlink.

    `capacity_bps` is the rate of the queue in bits per second. If it is None, the rate comes from the queue
    discipline tbf. If no queue discipline of the device shapes the traffic, the rate is the device's speed.
    """

    name: str
    capacity_bps: float | None = None

    def read(self) -> Counters:
        """Read the counters of the queue.

        Raises `NoQueueError` for a device without a queue, such as a bridge. Raises `UnknownRateError` if the
        operator must give the rate, and `DatapathError` if the kernel does not tell the counters.
        """
        root, *others = qdiscs(self.name)
        at_s = time.monotonic()
        if root["TCA_KIND"] == "noqueue":
            raise NoQueueError(self.name)
        try:
            stats = attributes(root["TCA_STATS2"])
            basic = cast("Mapping[str, int]", stats["TCA_STATS_BASIC"])
            queue = cast("Mapping[str, int]", stats["TCA_STATS_QUEUE"])
            sent, sent_bytes = basic["packets"], basic["bytes"]
            received = sent + queue["drops"] + queue["qlen"]
        except KeyError as error:
            raise DatapathError(f"the kernel tells no {error} of the root queue of {self.name}") from error
        capacity_bps = self.capacity_bps or self._own_rate(root, others)
        return Counters(at_s, received, sent, sent_bytes, capacity_bps)

    def _own_rate(self, root: Mapping[str, object], others: Sequence[Mapping[str, object]]) -> float | None:
        """The rate of a device for which the operator has named none; None if the device has no rate."""
        rate_bps = _qdisc_rate(root)
        for one in others if rate_bps else [root, *others]:
            if one["TCA_KIND"] not in _FULL_SPEED:
                raise UnknownRateError(self.name, str(one["TCA_KIND"]))
        return rate_bps or self._device_speed()

    def _device_speed(self) -> float | None:
        try:
            mbps = int(Path(f"/sys/class/net/{self.name}/speed").read_text(encoding="ascii"))
        except (OSError, ValueError):
            # A device without a speed of its own refuses the question.
            return None
        return mbps * 1e6 if mbps > 0 else None


def qdiscs(device: str) -> list[Mapping[str, object]]:
    """Return the attributes (TCA_*, by name) of a device's queue disciplines, the root first.

    Raises `DatapathError`.
    """
    try:
        index = socket.if_nametoindex(device)
        with IPRoute() as kernel:
            found = [one for one in kernel.get_qdiscs(index=index) if one["index"] == index]
    except (OSError, NetlinkError) as error:
        raise DatapathError(f"the kernel cannot read {device}: {reason(error)}") from error
    found.sort(key=lambda one: bool(one["parent"] != _ROOT))
    if not found or found[0]["parent"] != _ROOT:
        raise DatapathError(f"the kernel tells of no root queue of {device}")
    return [attributes(one) for one in found]


def attributes(nested: object) -> Mapping[str, object]:
    """Return the attributes of a netlink message by name."""
    return dict(cast("list[tuple[str, object]]", cast("Mapping[str, object]", nested)["attrs"]))


def _qdisc_rate(root: Mapping[str, object]) -> float | None:
    """The rate of a token bucket in bits per second. The kernel has this rate in bytes."""
    if root["TCA_KIND"] != "tbf" or "TCA_OPTIONS" not in root:
        return None
    options = attributes(root["TCA_OPTIONS"])
    parameters = cast("Mapping[str, int]", options.get("TCA_TBF_PARMS", {}))
    # A rate of more than 32 bits has an attribute of its own.
    rate_Bps = cast("int", options.get("TCA_TBF_RATE64", 0)) or parameters.get("rate", 0)
    return rate_Bps * 8.0 if rate_Bps > 0 else None


_LABLINK_HEAD: Final = struct.Struct("=QII")
_LABLINK_FLOW: Final = struct.Struct("=QQQQ")
_LABLINK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class LablinkSource:
    """The bottleneck link of the lab, whose counters a file has (`struct lablink_counters` of
    eval/lab/link/lablink.h).

    Random losses happen before the link's queue, so they do not count as congestion.
    """

    name: str
    path: Path
    capacity_bps: float | None = None

    def read(self) -> Counters:
        """Read the counters of the link."""
        try:
            # One read gives one consistent state.
            with self.path.open("rb", buffering=0) as file:
                state = file.read(_LABLINK_BYTES) or b""
        except OSError as error:
            raise DatapathError(f"{self.path} cannot be read: {error.strerror}") from error
        at_s = time.monotonic()
        flows = memoryview(state)[_LABLINK_HEAD.size :]
        if len(state) < _LABLINK_HEAD.size or len(flows) % _LABLINK_FLOW.size:
            raise DatapathError(f"{self.path} gave {len(state)} bytes, which is no state of a link")
        _, queued, _ = _LABLINK_HEAD.unpack_from(state)
        columns = list(zip(*_LABLINK_FLOW.iter_unpack(flows), strict=True)) or [(0,)] * 4
        sent, sent_bytes, dropped, _ = (sum(column) for column in columns)
        return Counters(at_s, sent + dropped + queued, sent, sent_bytes, self.capacity_bps)
