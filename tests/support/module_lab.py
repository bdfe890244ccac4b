# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the module's lab tests: building the guest's programs and booting with them."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ltp_switcher.eval.lab import BootResult, boot
from ltp_switcher.eval.lab.kernels import kernel as lab_kernel
from ltp_switcher.eval.lab.layers import _strip
from support import chance

REPOSITORY = Path(__file__).resolve().parents[2]
GUEST = REPOSITORY / "tests/support/kmod_guest"
PROBE = REPOSITORY / "tests/kmod/probe_cc"
KERNELS = tuple(os.environ.get("LTP_TEST_KERNELS", "6.1 6.12").split())
EACH_KERNEL = [
    pytest.param(name, marks=[pytest.mark.long] if later else []) for later, name in enumerate(KERNELS)
]
"""A test's parameters. `make test` runs the first kernel, `make test-long` the others."""
FILTERS = ("cls_matchall", "act_mirred")
LEFT = ("report.json", "trace", "stress.json", "fuzz.json", "slab")
PREPARE = "mkdir -p /var && ln -sfn /run /var/run && export PATH PYTHONPATH=/opt/tests\n"

VETHS = """
ip netns add sink
ip link add va type veth peer name vb netns sink
ip address add 10.2.0.1/24 dev va && ip link set va up
ip -n sink address add 10.2.0.2/24 dev vb && ip -n sink link set vb up
ethtool -K va tso off gso off gro off >/dev/null
ip netns exec sink ethtool -K vb tso off gso off gro off >/dev/null
"""
"""To `sink`, for the C programs."""
LINK = VETHS + "tc qdisc add dev va root netem rate 20mbit delay 5ms limit 300 loss 0.3%\n"
"""A path with a bottleneck that also loses packets, so that arms meet losses."""


def program(name: str, folder: Path) -> Path:
    """Build one of the guest's C programs."""
    built = folder / name
    include = REPOSITORY / "kmod-mutant/include/uapi"
    flags = ("-O2", "-static", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-sign-compare")
    sources = sorted(str(path) for path in GUEST.glob(f"{name}*.c"))
    subprocess.run(["gcc", *flags, f"-I{include}", "-o", str(built), *sources], check=True)
    return built


@lru_cache
def probe_module(series: str) -> bytes:
    """Build the congestion control that checks its own private bytes, and return the module."""
    chosen = lab_kernel(series)
    if chosen.built is not None:
        return (chosen.built / "tcp_probecc.ko").read_bytes()
    with TemporaryDirectory() as folder:
        return _built_probe(chosen.release, Path(folder))


def _built_probe(release: str, build: Path) -> bytes:
    for source in ("tcp_probecc.c", "Kbuild"):
        (build / source).write_bytes((PROBE / source).read_bytes())
    headers = f"/lib/modules/{release}/build"
    subprocess.run(["make", "-s", "-C", headers, f"M={build}", "W=1", "modules"], check=True)
    _strip(build / "tcp_probecc.ko")
    return (build / "tcp_probecc.ko").read_bytes()


def bpf_object(source: Path, folder: Path) -> Path:
    """Compile a BPF program, and return its object."""
    headers = f"-I/usr/include/{sysconfig.get_config_var('MULTIARCH') or 'x86_64-linux-gnu'}"
    # The guest reads the object's line table, so a checkout's path would move its clock.
    here = (f"-ffile-prefix-map={source.parent}=.", "-fdebug-compilation-dir=.")
    clang = ["clang", "-O2", "-g", "-target", "bpf", headers, *here, "-Wall", "-Werror"]
    built = folder / f"{source.name.removesuffix('.c')}.o"
    subprocess.run([*clang, "-c", str(source), "-o", str(built)], check=True)
    return built


def bpf_congestion_control(folder: Path) -> dict[str, Path | bytes]:
    """A congestion control in BPF and what registers it, for the guest's /opt/bpf."""
    source = REPOSITORY / "tests/kmod/bpf_cc"
    bpf_object(source / "bpfcc.bpf.c", folder).rename(folder / "bpfcc.o")
    gcc = ["gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", str(folder / "load")]
    subprocess.run([*gcc, str(source / "load.c"), "-lbpf", "-lelf", "-lz"], check=True)
    return {f"opt/bpf/{name}": (folder / name).read_bytes() for name in ("bpfcc.o", "load")}


def guest_files() -> dict[str, Path | bytes]:
    """The guest's Python package, as an overlay."""
    return {f"opt/tests/kmod_guest/{path.name}": path for path in GUEST.glob("*.py")}


def run(
    series: str, script: str, overlay: Mapping[str, Path | bytes], *, python: bool, seed: int = 1
) -> BootResult:
    """Boot the kernel and run a script; the files that its checks leave come back."""
    return boot(
        kernel=series,
        script=PREPARE + chance.SCRIPT + script,
        overlay=dict(overlay),
        # The module's slab caches are to be counted, each by itself.
        parameters="slab_nomerge",
        collect=[f"/tmp/{name}" for name in LEFT],  # noqa: S108
        python=python,
        seed=seed,
        # The checks take a minute or two on an idle processor, and a machine may be busy.
        timeout_s=2400,
        modules=(
            "veth",
            "ifb",
            *(f"sch_{name}" for name in ("netem", "tbf", "fq_codel", "ingress")),
            *FILTERS,
        ),
    )


def run_selected(
    request: pytest.FixtureRequest, names: Sequence[str], boot_one: Callable[..., BootResult]
) -> dict[tuple[str, ...], BootResult]:
    """Boot once for each combination of the parameters `names` that a selected test of the module has.

    Two guests at a time: each takes one core.
    """
    selected = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in selected if isinstance(item, pytest.Function)]
    # A test with fewer parameters boots for itself.
    wanted = dict.fromkeys(
        tuple(str(values[name]) for name in names) for values in params if values.keys() >= set(names)
    )
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(wanted, pool.map(lambda values: boot_one(*values), wanted), strict=True))
