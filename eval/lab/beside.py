# SPDX-License-Identifier: Apache-2.0
"""Runs the daemon as a process of the host, beside the guest (the virtual machine), but by the guest's clock.

In the guest the daemon's Python would be emulated, which takes most of a run's time. A daemon beside the
guest makes only its system calls in the guest. A model tells how long the daemon would have worked there;
`python -m ltp_switcher.eval.lab.delay` measures it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ltp_switcher.eval.lab.layers import GUEST, compiled, digest
from ltp_switcher.eval.lab.packages import building, lab_cache, locked, run, unpacked
from ltp_switcher.eval.lab.python import python_layers
from ltp_switcher.eval.lab.qemu import Companion
from ltp_switcher.eval.run.schemes import LEARNED_ARMS

HOST: Final = Path(__file__).resolve().parent / "host"
PROGRAM: Final = HOST / "daemon.py"
DELAYS: Final = HOST / "delays.json"
AGENT: Final = "lab/bin/agent"
READY: Final = "/run/lab/ready"

# No rounding may depend on the host's processor: libm, numpy and its BLAS run the same code on each.
_ENVIRONMENT: Final = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}
_PLUGIN_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-s")


def companion(config: bytes, policy: str, status: str) -> Companion:
    """Return the process that runs the daemon on the host, with the configuration file `config`. At SIGTERM
    the daemon writes its status to the guest path `status`.

    Raises:
        LabError: a part is missing and cannot be fetched or built.
    """
    command, environment = interpreter()
    given = {"delays_ns": delays(), "policy": policy, "ready": READY, "status": status}
    return Companion(
        plugin=plugin(),
        command=(*command, "-W", "ignore", str(PROGRAM), json.dumps(given)),
        environment=environment,
        files={"daemon.toml": config},
    )


def interpreter() -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command and the environment with which the host runs the guest's Python and this package.

    Raises:
        LabError: a package or wheel cannot be fetched.
    """
    python, *libraries = [_tree(layer) for layer in python_layers(service=False)]
    places = [python / "usr", *(unpacked(package) for package in ("libc6", "zlib1g"))]
    folders = [place / "lib/x86_64-linux-gnu" for place in places]
    loader = folders[1] / "ld-linux-x86-64.so.2"
    search = ":".join(map(str, folders))
    path = ":".join(str(tree / "usr/lib/python3/dist-packages") for tree in libraries)
    command = (str(loader), "--library-path", search, str(python / "usr/bin/python3.11"))
    return command, {**_ENVIRONMENT, "PYTHONPATH": path}


def agent() -> Path:
    """Return the guest's program that makes the daemon's system calls there."""
    return compiled(GUEST / "agent")


def ingredients() -> list[str]:
    """Return the inputs that a daemon beside the guest adds to a run, for the run's hash. The daemon's
    configuration and agent are not among them.
    """
    made = [json.dumps([_ENVIRONMENT, delays()], sort_keys=True), digest(PROGRAM), digest(plugin())]
    return [*made, *(layer.name for layer in python_layers(service=False))]


def delays() -> Mapping[str, Mapping[str, int]]:
    """Return the model of the time that a step of the daemon takes, in ns, by policy and learned arm; see
    `delay.fit`.
    """
    known: dict[str, dict[str, int]] = json.loads(DELAYS.read_text())
    return known


def measured(policy: str, arms: Iterable[str]) -> bool:
    """Return whether the model of the daemon's time knows the policy, and each learned arm among `arms`."""
    known = delays()
    return policy in known and all(arm in known for arm in arms if arm in LEARNED_ARMS)


def plugin() -> Path:
    """Return QEMU's plugin, built if its sources are new.

    Raises:
        LabError: there is no compiler, or it rejects the sources.
    """
    source, header = HOST / "handover.c", GUEST / "agent" / "handover.h"
    sources = (source, HOST / "plugin.h", header)
    compiler = run(["gcc", "--version"], hint="Install gcc and libc6-dev.").splitlines()[0]
    recipe = hashlib.sha256("".join([compiler, *map(digest, sources)]).encode()).hexdigest()[:20]
    target = lab_cache() / "handover" / f"{recipe}.so"
    with locked("handover"):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = target.with_suffix(".part")
            flags: Sequence[str] = (*_PLUGIN_FLAGS, f"-I{header.parent}", f"-ffile-prefix-map={HOST}=.")
            run(["gcc", *flags, "-o", str(scratch), str(source)])
            scratch.rename(target)
    return target


def _tree(layer: Path) -> Path:
    """Return the folder with a layer's files."""
    target = lab_cache() / "trees" / layer.stem
    with locked(f"tree-{layer.stem}"):
        if not target.is_dir():
            busybox = unpacked("busybox-static") / "bin" / "busybox"
            with building(target) as scratch:
                run([str(busybox), "cpio", "-id", "-F", str(layer)], cwd=scratch)
    return target
