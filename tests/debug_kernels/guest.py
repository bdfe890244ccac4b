# SPDX-License-Identifier: Apache-2.0
"""Boots a debug kernel in real time, most with four processors, and runs one round in it."""

from __future__ import annotations

import io
import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from support.module_lab import program

from debug_kernels.console import Complaint, complaints
from debug_kernels.script import ASKED, CROWD, WORKS, collected
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import cpio, qemu
from ltp_switcher.eval.lab.kernels import Kernel
from ltp_switcher.eval.lab.layers import base_layer

PROCESSORS: Final = 4
# kmemleak takes one lock at each allocation. Virtual processors queue for it, and wait for those of them
# that the host does not run: four get on less than one.
PROCESSORS_KMEMLEAK: Final = 1
MEMORY_MB: Final = 3072

# The arguments of the lab's machine, but for its time and its one processor. `thread=multi` gives each
# virtual processor a thread of the host, so that they really run at once. The debug kernels have no ACPI,
# and the other table of processors names one of each socket.
_CPU: Final = qemu.MACHINE[qemu.MACHINE.index("-cpu") + 1]
_MACHINE: Final = qemu.Machine(
    arguments=(
        "-accel", "tcg,thread=multi", "-machine", "pc", "-cpu", _CPU,
        "-nic", "none", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
    ),
    command_line=(
        "console=ttyS0 loglevel=5 panic=-1 oops=panic rdinit=/init nokaslr random.trust_cpu=on "
        "tsc=reliable clocksource=tsc no_timer_check mitigations=off slab_nomerge kasan_multi_shot "
        # A virtual processor may wait for the host's; a minute without it is no fault of the guest.
        "log_buf_len=16M rcupdate.rcu_cpu_stall_timeout=300"
    ),
    one_processor=False,
)  # fmt: skip

# Of the module's objects: consistency checks, red zones, poison, and who allocated and freed them.
PARAMETERS: Final = "slab_debug=FZPU,mutant_* kfence.sample_interval=5"

WRONG: Final = {
    "stress": (
        "wrong_bytes", "wrong_lengths", "totals_wrong", "credits_wrong", "acked_wrong", "flows_left",
    ),
    "steps": ("sums_wrong",),
}  # fmt: skip
"""Counts of the guest's programs that must be 0."""


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome of one boot.

    Attributes:
        flavour: the kernel, one of `FLAVOURS`.
        seed: of everything random in the guest's programs.
        status: of the script; None if the guest died or did not end.
        wall_s: seconds of the host's time.
        answers: what each of the guest's programs printed, by name.
        faults: reports that count, and answers that are wrong.
        foreign: titles of the kernel's own data races.
        output: of the script.
        console: the kernel's.
    """

    flavour: str
    seed: int
    status: int | None
    wall_s: float
    answers: dict[str, dict[str, object]]
    faults: list[Complaint]
    foreign: list[str]
    output: str
    console: str

    @property
    def switches(self) -> int:
        """Switches that the module counted in the flows of `stress`, and of the crowds."""
        return sum(int(str(answer.get("switches", 0))) for answer in self.answers.values())

    @property
    def messages(self) -> int:
        """Messages of the fuzzer."""
        return int(str(self.answers.get("fuzz", {}).get("messages", 0)))


def programs() -> dict[str, bytes]:
    """Build the guest's C programs."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: program(name, Path(folder)).read_bytes() for name in ("stress", "nlfuzz", "churn")}


def play(
    chosen: Kernel,
    module: Path,
    text: str,
    *,
    flavour: str,
    seed: int,
    timeout_s: float,
    on_line: Callable[[str], None] | None = None,
    first: bool = False,
) -> Round:
    """Boot and run the script `text`. With `first`, the first report ends the round.

    Raises:
        LabError: the guest's file system cannot be built, or QEMU cannot run.
    """
    entries: dict[str, cpio.Entry] = {
        "lab/script": cpio.regular(text.encode()),
        "lab/collect": cpio.regular("\n".join(collected()).encode()),
        "lab/modules": cpio.regular(b"veth\nsch_netem\n" if flavour == "stock" else b""),
        "usr/lib/mutant/tcp_mutant.ko": cpio.regular(module.read_bytes()),
    }
    for name, image in programs().items():
        entries[f"usr/bin/{name}"] = cpio.regular(image, executable=True)
    archive = io.BytesIO()
    cpio.write(archive, entries)
    began = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="ltp-debug-", suffix=".cpio") as top:
        top.write(archive.getbuffer())
        top.flush()
        try:
            report = qemu.execute(
                chosen.vmlinux,
                [base_layer(chosen), Path(top.name)],
                seed=seed,
                memory_mb=MEMORY_MB,
                parameters=" ".join([_parameters(flavour)] + ["panic_on_warn=1"] * first),
                timeout_s=timeout_s,
                on_line=on_line,
                machine=machine(flavour),
            )
        except LabError as error:
            # A guest that hangs is a finding. One that did not boot is an error of ours.
            if not str(error).startswith("the guest"):
                raise
            report = qemu.Report(serial=str(error))
    return judged(report, flavour, seed, time.monotonic() - began)


def machine(flavour: str) -> qemu.Machine:
    """Return the machine of a flavour, with its processors."""
    count = PROCESSORS_KMEMLEAK if flavour == "kmemleak" else PROCESSORS
    return replace(_MACHINE, arguments=(*_MACHINE.arguments, "-smp", f"{count},sockets={count}"))


def _parameters(flavour: str) -> str:
    if flavour == "stock":
        return PARAMETERS
    # QEMU shows the guest the host's own TSC. Without ACPI there is no other clock to measure it by.
    rate = re.search(r"cpu MHz\s*: ([\d.]+)", Path("/proc/cpuinfo").read_text())
    if rate is None:
        raise LabError("/proc/cpuinfo does not tell the processor's frequency")
    own = {"kasan": "kmemleak=off", "kmemleak": "kmemleak=on", "kcsan": "kcsan.skip_watch=1000"}[flavour]
    return f"tsc_early_khz={float(rate[1]) * 1000:.0f} {own}"


def judged(report: qemu.Report, flavour: str, seed: int, wall_s: float) -> Round:
    """Read a guest's report."""
    files = {Path(path).name: data.decode(errors="replace") for path, data in report.files.items()}
    found = complaints(report.serial + "\n" + files.get("leaks", ""))
    answers = {
        name.removesuffix(".json"): _json(text) for name, text in files.items() if name.endswith(".json")
    }
    faults = [complaint for complaint in found if complaint.counted]
    faults += [
        Complaint("answer", line, "end", line, counted=True) for line in wrong(answers, files, report.status)
    ]
    return Round(
        flavour=flavour,
        seed=seed,
        status=report.status,
        wall_s=wall_s,
        answers=answers,
        faults=faults,
        foreign=[complaint.title for complaint in found if not complaint.counted],
        output=report.output.decode(errors="replace"),
        console=report.serial,
    )


def wrong(
    answers: Mapping[str, Mapping[str, object]], files: Mapping[str, str], status: int | None
) -> list[str]:
    """What the guest's programs found wrong, a line each."""
    lines = []
    if status != 0:
        lines.append("the guest died or did not end" if status is None else f"the script ended with {status}")
    # The sums of all steps are the socket's own counters, whatever ran between the steps.
    for worker, counts in WRONG.items():
        answer = answers.get(worker, {})
        lines += [f"{worker}: {count} = {answer[count]}" for count in counts if answer.get(count)]
    if answers.get("fuzz", {}).get("works") is False:
        lines.append("nlfuzz: the module does not work any more")
    if status == 0:
        # A program that did nothing proves nothing.
        lines += [
            f"{name}: no round was whole"
            for name in (*WORKS, CROWD)
            if name in answers and not _whole(answers[name])
        ]
        lines += [
            f"{name}: nobody asked"
            for name in (f"unload-{kind}" for kind in ASKED)
            if name in answers and not answers[name].get("asked")
        ]
    for line in files.get("slab", "").splitlines():
        cache, active = line.split()[:2]
        if int(active):
            lines.append(f"{active} objects are left in {cache}")
    return lines


def _whole(answer: Mapping[str, object]) -> bool:
    return int(str(answer.get("rounds", 0))) > int(str(answer.get("broken", 0)))


def _json(text: str) -> dict[str, object]:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}
