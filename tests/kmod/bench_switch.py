# SPDX-License-Identifier: Apache-2.0
"""Guest instructions per switch: `python tests/kmod/bench_switch.py [--kernel 6.1] [--json]`.

The traffic of the stress test switches flows at random among the kernel's 11 protocols while the
kernel's function graph tracer times `mutant_switch`: freezing one arm, restoring or starting the
other. In the lab a nanosecond is an instruction. The tracer's own part is in the figures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from support.module_lab import KERNELS, LINK, program, run

from ltp_switcher.errors import LtpSwitcherError

FLOWS, SWITCHES, SEED = 64, 5000, 1
TRACED = "mutant_switch"
SCRIPT = f"""{LINK}
insmod /lib/mutant/tcp_mutant.ko watchdog_ms=0 || exit 1
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
cd /sys/kernel/tracing || exit 1
echo 65536 >buffer_size_kb && echo {TRACED} >set_ftrace_filter || exit 1
echo function_graph >current_tracer || exit 1
stress {FLOWS} {SWITCHES} {SEED} sink 10.2.0.2 >/dev/null || exit 2
grep {TRACED} trace >/tmp/trace
"""


@dataclass(frozen=True, slots=True)
class SwitchCost:
    """Instructions of one call of `mutant_switch`, over `switches` calls."""

    kernel: str
    switches: int
    mean: float
    median: float
    p99: float


def measure(kernel: str) -> SwitchCost:
    """Boot, switch, and read the tracer's times. Raises `LtpSwitcherError`."""
    with TemporaryDirectory() as folder:
        result = run(kernel, SCRIPT, {"bin/stress": program("stress", Path(folder))}, python=False)
    lines = result.files.get("/tmp/trace", b"").decode()  # noqa: S108
    found = np.array([float(us) * 1000 for us in re.findall(rf"([\d.]+) us\s*\|\s*{TRACED}", lines)])
    if not result.ok or not found.size:
        raise LtpSwitcherError(f"nothing was measured on {kernel}: {result.console[-2000:]}")
    return SwitchCost(
        kernel, found.size, float(found.mean()), float(np.median(found)), float(np.percentile(found, 99))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return the exit status."""
    parser = argparse.ArgumentParser(description="guest instructions per switch")
    parser.add_argument("--kernel", choices=KERNELS, help="one kernel only (default: both)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        costs = [measure(kernel) for kernel in ([options.kernel] if options.kernel else KERNELS)]
    except LtpSwitcherError as error:
        print(f"bench_switch: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
        return 0
    print("guest instructions per switch\nkernel  switches   mean  median    p99")
    for cost in costs:
        print(f"{cost.kernel:6}  {cost.switches:8}  {cost.mean:5.0f}  {cost.median:6.0f}  {cost.p99:5.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
