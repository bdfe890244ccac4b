# SPDX-License-Identifier: Apache-2.0
"""Steps with very many flows: `python tests/kmod/bench_scale.py [--kernel 6.12] [--live N] [--idle N]`.

Live flows send 1 to 3 packets a second each, idle ones send none. A user without rights asks for flows in a
loop: in a namespace of its own, then in the namespace of the flows. Every 10 ms the program takes a step, as
a daemon does. In the lab a nanosecond is an instruction.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.module_lab import KERNELS, PREPARE, VETHS, program

from ltp_switcher.errors import LtpSwitcherError
from ltp_switcher.eval.lab import boot

LIVE, IDLE, SECONDS, SEED = 10_000, 100_000, 6, 1
DESTINATIONS = 8
MEMORY_MB, TIMEOUT_S = 4096, 1800
RESULT = "/tmp/crowd.json"  # noqa: S108
SCRIPT = (
    PREPARE
    + VETHS
    + "".join(f"ip -n sink address add 10.2.0.{host}/24 dev vb\n" for host in range(3, 2 + DESTINATIONS))
    + """
insmod /lib/mutant/tcp_mutant.ko watchdog_ms=0 || exit 1
sysctl -qw fs.nr_open=2000000 fs.file-max=2000000 net.core.somaxconn=4096
sysctl -qw net.ipv4.ip_local_port_range="1024 65535" net.ipv4.tcp_max_syn_backlog=4096
ip netns exec sink sysctl -qw net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=4096
ulimit -n 1000000
"""
)


@dataclass(frozen=True, slots=True)
class Scale:
    """What one boot measured: times in virtual time, memory in bytes a flow."""

    kernel: str
    live: int
    idle: int
    wall_s: float
    bytes_a_flow: float
    module_bytes_a_flow: float
    flow_get_ms: float
    steps: list[dict[str, Any]]


def measure(kernel: str, live: int, idle: int, seconds: int, module: Path | None = None) -> Scale:
    """Boot, open the flows, and take steps. Raises `LtpSwitcherError`."""
    with TemporaryDirectory() as folder:
        overlay: dict[str, Path | bytes] = {"bin/crowd": program("crowd", Path(folder)).read_bytes()}
        if module is not None:
            overlay["lib/mutant/tcp_mutant.ko"] = module.read_bytes()
        result = boot(
            kernel=kernel,
            script=f"{SCRIPT}crowd sink 10.2.0.2 {live} {idle} {seconds} {SEED} >{RESULT} || exit 2\n",
            overlay=overlay,
            collect=[RESULT],
            parameters="slab_nomerge",
            modules=("veth",),
            memory_mb=MEMORY_MB,
            timeout_s=TIMEOUT_S,
            on_line=lambda line: print(f"bench_scale: {line}", file=sys.stderr, flush=True),
        )
    if not result.ok or result.warnings:
        raise LtpSwitcherError(f"nothing was measured on {kernel}: {result.console[-2000:]}{result.warnings}")
    told = json.loads(result.files[RESULT])
    before, after = told["memory"]["before"], told["memory_after"]["all"]
    grown = {name: after[name] - before[name] for name in before}
    return Scale(
        kernel=kernel,
        live=live,
        idle=idle,
        wall_s=round(result.wall_s, 1),
        bytes_a_flow=round(-grown["available_kb"] * 1024 / (live + idle), 1),
        module_bytes_a_flow=round(
            sum(grown[name] for name in ("mutant_flow", "mutant_measures", "radix_tree_node"))
            / (live + idle),
            1,
        ),
        flow_get_ms=told["flow_get"]["ms"],
        steps=told["steps"],
    )


def table(scale: Scale) -> str:
    """The figures as a table for people."""
    lines = [
        f"kernel {scale.kernel}: {scale.live} live and {scale.idle} idle flows, {scale.wall_s} s of wall",
        f"memory: {scale.module_bytes_a_flow} bytes a flow in the module, {scale.bytes_a_flow} with both "
        "ends of its connection",
        f"flow-get of all flows: {scale.flow_get_ms} ms",
        "flows    who looks on        steps  missed  records a step  p50 µs  p99 µs  max µs",
    ]
    lines += [
        f"{step['flows']:<8} {step['looker']:<18} {step['steps']:>6} {step['missed']:>7} "
        f"{step['records'] / step['steps']:>15.1f} {step['p50_us']:>7.0f} {step['p99_us']:>7.0f} "
        f"{step['max_us']:>7.0f}"
        for step in scale.steps
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return the exit status."""
    parser = argparse.ArgumentParser(description="steps with very many flows")
    parser.add_argument("--kernel", choices=KERNELS, default=KERNELS[-1])
    parser.add_argument("--live", type=int, default=LIVE, help=f"flows that send (default: {LIVE})")
    parser.add_argument("--idle", type=int, default=IDLE, help=f"flows that do not (default: {IDLE})")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="virtual seconds of each measurement")
    parser.add_argument("--module", type=Path, help="another build of the module")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if min(options.live, options.seconds) < 1 or options.idle < 0:
        parser.error("--live and --seconds must be 1 or more, --idle 0 or more")
    try:
        scale = measure(options.kernel, options.live, options.idle, options.seconds, options.module)
    except LtpSwitcherError as error:
        print(f"bench_scale: {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(scale), indent=2) if options.json else table(scale))
    return 0


if __name__ == "__main__":
    sys.exit(main())
