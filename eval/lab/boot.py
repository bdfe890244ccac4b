# SPDX-License-Identifier: Apache-2.0
"""Boot a stock kernel, run a shell script in it, and bring back its output and files."""

from __future__ import annotations

import io
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.eval.lab import cpio, kernels, qemu
from ltp_switcher.eval.lab.layers import MERGED, base_layer, mutant_module
from ltp_switcher.eval.lab.python import python_layers

# These are the kernel's words for a fault of its own, at any log level.
_KERNEL_TROUBLE: Final = re.compile(
    r"WARNING: |BUG: |Oops|Kernel panic|general protection|INFO: (?:task|rcu)|suspicious RCU|Call Trace"
    r"|unregister_netdevice: waiting|refcount_t:|list_(?:add|del) corruption|KASAN|UBSAN"
)


@dataclass(frozen=True, slots=True)
class BootResult:
    """The outcome of one boot.

    Attributes:
        ok: the script ended with status 0.
        exit_code: exit code of the script; 255 if the guest died before the script ended.
        console: the script's output. If the guest died, the kernel's console follows.
        files: the collected files by guest path; a file that did not exist is missing.
        virtual_s: virtual seconds since power-on.
        wall_s: seconds of the host's time.
        kernel: the kernel's full release.
        kernel_log: all of `dmesg`. If the guest died too early, it is the kernel's console.
        warnings: the lines of `kernel_log` that report a fault.
    """

    ok: bool
    exit_code: int
    console: str
    files: dict[str, bytes]
    virtual_s: float
    wall_s: float
    kernel: str
    kernel_log: str
    warnings: tuple[str, ...]


def boot(
    *,
    kernel: str = "6.1",
    script: str,
    overlay: Mapping[str, Path | bytes] | None = None,
    collect: Sequence[str] = (),
    python: bool | Literal["service"] = False,
    seed: int = 1,
    memory_mb: int = 1024,
    timeout_s: float = 600,
    on_line: Callable[[str], None] | None = None,
    modules: Sequence[str] = (),
    mutant: bool = True,
    parameters: str = "",
    layers: Sequence[Path] = (),
    companion: qemu.Companion | None = None,
) -> BootResult:
    """Boot a guest, run `script` in it as root with /bin/sh, and return when it has ended.

    Args:
        kernel: series, such as "6.1"; see `kernels.known`.
        script: text of the shell script; its exit status becomes `exit_code`.
        overlay: files to add to the guest, by guest path: content, or a path of the host. A file whose host
            path is executable is executable in the guest; content given as bytes always is.
        collect: guest paths of files to return after the script.
        python: whether to add Python 3.11, numpy and the package; "service" also adds the API's libraries.
        seed: seed of everything that is random in the guest.
        memory_mb: memory of the guest in MiB.
        timeout_s: seconds of QEMU's processor time after which the guest is killed.
        on_line: function that takes each line which the script writes to /run/lab/live (or with `lab-say`).
        modules: modules to load before the script, by name.
        parameters: further parameters of the kernel's command line.
        layers: further layers of the guest's file system.
        companion: a process of the host to run beside the guest. If the script fails, the end of `console`
            has the output of this process.
        mutant: whether to put tcp_mutant.ko at /lib/mutant/tcp_mutant.ko. It is built first if it is missing.

    Raises:
        LabError: the guest could not be built or started, or did not end in time.
        InvalidValueError: `kernel` or a path of `overlay` is not allowed.
    """
    chosen = kernels.kernel(kernel)
    entries: dict[str, cpio.Entry] = {
        "lab/script": cpio.regular(script.encode()),
        "lab/collect": cpio.regular("\n".join(collect).encode()),
        "lab/modules": cpio.regular("".join(f"{name}\n" for name in modules).encode()),
    }
    if mutant:
        entries[_below_usr("lib/mutant/tcp_mutant.ko")] = cpio.regular(mutant_module(chosen, REPOSITORY))
    for path, data in (overlay or {}).items():
        executable = isinstance(data, bytes) or bool(data.stat().st_mode & 0o111)
        entries[_below_usr(path)] = cpio.regular(data, executable=executable)
    below = [base_layer(chosen), *layers]
    if python:
        below += python_layers(service=python == "service")
    started = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="ltp-lab-", suffix=".cpio") as top:
        archive = io.BytesIO()
        cpio.write(archive, entries)
        top.write(archive.getbuffer())
        top.flush()
        report = qemu.execute(
            chosen.vmlinux,
            [*below, Path(top.name)],
            seed=seed,
            memory_mb=memory_mb,
            parameters=parameters,
            timeout_s=timeout_s,
            on_line=on_line,
            companion=companion,
        )
    log = report.kernel_log or report.serial
    console = report.output.decode(errors="replace")
    if report.status:
        console += report.companion
    return BootResult(
        ok=report.status == 0,
        exit_code=255 if report.status is None else report.status,
        console=console if report.status is not None else console + report.serial,
        files=report.files,
        virtual_s=report.virtual_s,
        wall_s=time.monotonic() - started,
        kernel=chosen.release,
        kernel_log=log,
        warnings=tuple(line for line in log.splitlines() if _KERNEL_TROUBLE.search(line)),
    )


def _below_usr(path: str) -> str:
    """Return the guest path below /usr if its first folder is a link into /usr. An archive's own folder `lib`
    would replace this link.
    """
    name = path.lstrip("/")
    return f"usr/{name}" if name.split("/")[0] in MERGED else name
