# SPDX-License-Identifier: Apache-2.0
"""Where a node's counters come from: the queue discipline of a device, or the lab's own link."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.errors import ConfigError, DatapathError
from ltp_switcher.policies.runtime.path_knowledge import Counters, CounterSource

TC_TIMEOUT_S: Final = 1.0
_ALLOWED: Final = (
    "qdisc:DEVICE or lablink:FILE, and where the link's rate is known @MBIT, as in qdisc:eth0@100"
)


class NoQueueError(DatapathError):
    """A device whose counters stay 0 whatever passes: it would be told to be empty."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"{device} has no queue, so no counter sees its packets; name the device below it, or give it a "
            f"queue: tc qdisc add dev {device} root fq_codel"
        )


def source(text: str) -> CounterSource:
    """Make the source that an argument names. Raises `ConfigError`."""
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
    """The root queue discipline of a device of this machine, as `tc -s -j qdisc show` prints it.

    The capacity is the given one, else the rate of the queue discipline (tbf), else the device's speed.
    """

    name: str
    capacity_bps: float | None = None

    def read(self) -> Counters:
        """See `CounterSource`. Raises `NoQueueError` for a device without a queue, such as a bridge."""
        # Not everyone who may run it has it in their path.
        tc = shutil.which("tc", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or "tc"
        command = [tc, "-s", "-j", "qdisc", "show", "dev", self.name, "root"]
        try:
            told = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=TC_TIMEOUT_S
            ).stdout
            at_s = time.monotonic()
            root = next(entry for entry in json.loads(told) if entry.get("root"))
            if root["kind"] == "noqueue":
                raise NoQueueError(self.name)
            sent, dropped, queued = (int(root[key]) for key in ("packets", "drops", "qlen"))
            sent_bytes = int(root["bytes"])
        except subprocess.CalledProcessError as error:
            raise DatapathError(f"tc cannot read {self.name}: {error.stderr.strip()}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DatapathError(f"tc cannot be run: {error}") from error
        except (StopIteration, ValueError, TypeError, AttributeError, KeyError) as error:
            raise DatapathError(f"tc tells nothing of the root queue of {self.name} ({error!r})") from error
        capacity_bps = self.capacity_bps or _qdisc_rate(root) or self._device_speed()
        return Counters(at_s, sent + dropped + queued, sent, sent_bytes, capacity_bps)

    def _device_speed(self) -> float | None:
        try:
            mbps = int(Path(f"/sys/class/net/{self.name}/speed").read_text(encoding="ascii"))
        except (OSError, ValueError):
            # A device without a speed of its own refuses to tell one.
            return None
        return mbps * 1e6 if mbps > 0 else None


def _qdisc_rate(root: dict[str, object]) -> float | None:
    """The rate that a queue discipline keeps to, bits a second; tc tells bytes."""
    options = root.get("options")
    rate_Bps = options.get("rate") if isinstance(options, dict) else None
    return rate_Bps * 8.0 if isinstance(rate_Bps, int | float) and rate_Bps > 0 else None


_LABLINK_HEAD: Final = struct.Struct("=QII")
_LABLINK_FLOW: Final = struct.Struct("=QQQQ")
_LABLINK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class LablinkSource:
    """The bottleneck of the lab (`struct lablink_counters` of eval/lab/link/lablink.h).

    Random losses happen ahead of the queue and are no congestion.
    """

    name: str
    path: Path
    capacity_bps: float | None = None

    def read(self) -> Counters:
        """See `CounterSource`."""
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
