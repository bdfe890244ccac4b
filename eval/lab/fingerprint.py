# SPDX-License-Identifier: Apache-2.0
"""All that a run in the lab depends on, and the hash of it, under which the run's results are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.eval.lab import beside, kernels, qemu
from ltp_switcher.eval.lab.bpftune import bpftune_layers
from ltp_switcher.eval.lab.layers import base_layer, digest, mutant_module
from ltp_switcher.eval.lab.python import python_layers
from ltp_switcher.eval.lab.script import GuestDaemon, asks_network, needs, script
from ltp_switcher.eval.run.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that a run in the lab depends on, except for the parts that all runs share.

    Attributes:
        scenario: the link and the flows.
        seed: seed of the run.
        kernel: series, such as "6.1"; see `kernels.known`.
        daemon: the daemon that the scenario's schemes need; None if they need none.
        overlay: the files that only this run has in its guest, by guest path.
        memory_mb: memory of the guest in MiB.
        layers: further layers of the guest's file system, which not every scenario of this kind has.
        readers: files of this folder whose code reads the raw results from the guest's output.
    """

    scenario: Scenario
    seed: int
    kernel: str
    daemon: GuestDaemon | None
    overlay: Mapping[str, Path | bytes]
    memory_mb: int
    layers: Sequence[Path] = ()
    readers: Sequence[str] = ()

    def fingerprint(self) -> str:
        """Return the hash of everything on which the run and its raw results depend.

        It covers the bytes that the guest gets, so that no input can be forgotten: kernel, userland, our
        programs and modules, the link's schedule, and the daemon's configuration. If the scenario needs
        Python, the hash also covers Python and the package. It also covers QEMU with its options.

        Raises:
            LabError: a part of the lab cannot be fetched or built.
            InvalidValueError: the lab has no such kernel.
        """
        scenario, daemon, chosen = self.scenario, self.daemon, kernels.kernel(self.kernel)
        readers = (digest(Path(__file__).with_name(name)) for name in self.readers)
        parts = [
            scenario.canonical(), str(self.seed), chosen.vmlinux.parent.name, base_layer(chosen).name,
            *qemu.MACHINE, qemu.COMMAND_LINE, qemu.version(), script(scenario, daemon), str(self.memory_mb),
            *(path.name for path in self.layers), *readers,
        ]  # fmt: skip
        for path, content in self.overlay.items():
            parts += [path, digest(content)]
        if needs(scenario, "mutant"):
            parts.append(digest(mutant_module(chosen, REPOSITORY)))
        if daemon and daemon.place == "beside":
            parts += beside.ingredients()
        elif daemon:
            parts += [path.name for path in python_layers(service=asks_network(scenario))]
        parts += [path.name for path in bpftune_layers(scenario)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
