# SPDX-License-Identifier: Apache-2.0
"""The hash of everything that a run in the lab depends on, under which its results are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.eval.lab import beside, kernels, qemu
from ltp_switcher.eval.lab.bpftune import bpftune_layers
from ltp_switcher.eval.lab.layers import base_layer, digest, mutant_module
from ltp_switcher.eval.lab.python import python_layers
from ltp_switcher.eval.lab.script import GuestDaemon, asks_network, needs, script
from ltp_switcher.eval.run.scenario import Scenario


def fingerprint(
    scenario: Scenario,
    daemon: GuestDaemon | None,
    overlay: Mapping[str, Path | bytes],
    *,
    seed: int,
    kernel: str,
    memory_mb: int,
    layers: Sequence[Path] = (),
    readers: Sequence[str],
) -> str:
    """Return the hash of everything on which a run depends.

    It covers the bytes that the guest gets, so that no input can be forgotten: kernel, userland, our programs
    and modules, the link's schedule, and the daemon's configuration. If the scenario needs Python, the hash
    also covers Python and the package. It also covers QEMU with its options.

    Args:
        scenario: the link and the flows.
        daemon: the daemon that the scenario's schemes need.
        overlay: the files that only this run has in its guest, by guest path.
        seed: seed of the run.
        kernel: series.
        memory_mb: memory of the guest.
        layers: further layers of the guest's file system, which not every scenario of this kind has.
        readers: files of this folder whose code reads the raw results from the guest's output.

    Raises:
        LabError: a part of the lab cannot be fetched or built.
        InvalidValueError: the lab has no such kernel.
    """
    chosen = kernels.kernel(kernel)
    parts = [
        scenario.canonical(), str(seed), chosen.vmlinux.parent.name, base_layer(chosen).name,
        *qemu.MACHINE, qemu.COMMAND_LINE, qemu.version(), script(scenario, daemon), str(memory_mb),
        *(path.name for path in layers), *(digest(Path(__file__).with_name(name)) for name in readers),
    ]  # fmt: skip
    for path, content in overlay.items():
        parts += [path, digest(content)]
    if needs(scenario, "mutant"):
        parts.append(digest(mutant_module(chosen, REPOSITORY)))
    if daemon and daemon.place == "beside":
        parts += beside.ingredients()
    elif daemon:
        parts += [path.name for path in python_layers(service=asks_network(scenario))]
    parts += [path.name for path in bpftune_layers(scenario)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
