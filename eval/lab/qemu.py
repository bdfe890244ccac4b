# SPDX-License-Identifier: Apache-2.0
"""Run one virtual machine whose time is counted in its own instructions, and read its reports.

The processor executes one instruction per virtual nanosecond (`-icount shift=0`), and idle time is
skipped (`sleep=off`), so a run's course does not depend on the host's speed or load.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.processor import own_processor, settle

CHANNEL_BYTES: Final = 256 << 20
"""Size in bytes of the shared memory through which a guest reports. It is a sparse file."""

# If the processor has ERMS or FSRM, the kernel copies with `rep movsb`, which counts as an instruction for
# each byte here. Without them it copies 8 bytes an instruction. Emulated AVX takes the host nearly twice as
# long as the same work in SSE, and its registers make every context switch longer.
MACHINE: Final = (
    "-accel", "tcg", "-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm",
    "-machine", "pc", "-smp", "1", "-cpu", "max,-erms,-fsrm,-avx,-avx2,-fma,-f16c,-mpx,-pku", "-nic", "none",
    "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
    "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
)  # fmt: skip

# `tsc=reliable`: under icount the TSC is the virtual clock itself, whatever the watchdog believes.
# The rest saves instructions: mitigations of a processor that has nothing to mitigate, zeroed memory,
# security modules without a policy, self-tests, and stopping the tick at each of a million short idles.
COMMAND_LINE: Final = (
    "console=ttyS0 loglevel=5 panic=-1 oops=panic rdinit=/init nokaslr random.trust_cpu=on "
    "tsc=reliable clocksource=tsc no_timer_check nohz=off idle=halt cpuidle.off=1 mitigations=off "
    "init_on_alloc=0 lsm= cgroup_disable=memory cryptomgr.notests=1 audit=0 nowatchdog"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual machine: QEMU's arguments, the kernel's command line, and the host's processors that it uses.

    With `one_processor`, all threads of QEMU stay on one processor, which identical runs need. The idle time
    of such a guest is skipped, so its time limit counts the processor time of QEMU, at any load of the host.
    Other machines run in real time, and their time limit counts real time.
    """

    arguments: tuple[str, ...] = MACHINE
    command_line: str = COMMAND_LINE
    one_processor: bool = True


LAB: Final = Machine()
"""The machine of every measurement."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A process of the host to which the guest hands over control; see `host/handover.c`.

    The command gets two more arguments: the file of the shared memory, and the descriptor of the socket that
    passes control. The process runs in a folder of its own that contains `files`. Files that it leaves there
    are returned together with the guest's files, by `collect`.
    """

    plugin: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, bytes]
    collect: Mapping[str, str] = field(default_factory=dict)
    """Paths in the companion's folder, by guest path. A file that does not exist is left out."""


_MAGIC: Final = 0x62616C2D70746C
_HEADER: Final = struct.Struct("<QQQ")
_RECORD: Final = struct.Struct("<II")
_END: Final = struct.Struct("<qQ")
_OUTPUT, _LIVE, _FILE, _KERNEL_LOG, _ENDED = 1, 2, 3, 4, 5
_POLL_S: Final = 0.02
_LAST_WORDS_S: Final = 10.0
_STALLED_S: Final = 600.0
"""Time in seconds without any work after which a machine counts as halted. A shorter pause may be a wait for
a processor.
"""
_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL", "--")
"""Beginning of a command line. It ends QEMU or its companion together with the thread that waits for them,
even if this thread is killed.
"""


@dataclass
class Report:
    """Everything that a guest sent; `status` is None until the script ends.

    `companion` is the standard error of the process beside the guest.
    """

    output: bytearray = field(default_factory=bytearray)
    files: dict[str, bytes] = field(default_factory=dict)
    kernel_log: str = ""
    serial: str = ""
    status: int | None = None
    virtual_s: float = 0.0
    companion: str = ""


class _Channel:
    """Reads the records of `guest/lab.c` out of the shared file as they appear."""

    def __init__(self, path: Path, report: Report, on_line: Callable[[str], None] | None) -> None:
        self._file = path.open("rb", buffering=0)
        self._at = _HEADER.size
        self._report = report
        self._on_line = on_line

    def read(self) -> None:
        self._file.seek(0)
        magic, tail, lost = _HEADER.unpack(self._file.read(_HEADER.size))
        if magic != _MAGIC:
            return
        if lost:
            raise LabError(
                f"the guest handed back {lost} bytes more than the {CHANNEL_BYTES >> 20} MiB there are"
            )
        while self._at < tail:
            self._file.seek(self._at)
            kind, length = _RECORD.unpack(self._file.read(_RECORD.size))
            self._take(kind, self._file.read(length))
            self._at += _RECORD.size + (length + 7) // 8 * 8

    def _take(self, kind: int, data: bytes) -> None:
        if kind == _OUTPUT:
            self._report.output += data
        elif kind == _LIVE and self._on_line:
            self._on_line(data.decode(errors="replace"))
        elif kind == _FILE:
            path, _, content = data.partition(b"\0")
            self._report.files[path.decode()] = content
        elif kind == _KERNEL_LOG:
            self._report.kernel_log = data.decode(errors="replace")
        elif kind == _ENDED:
            status, uptime_ns = _END.unpack(data)
            self._report.status, self._report.virtual_s = status, uptime_ns / 1e9

    def close(self) -> None:
        self._file.close()


class _Limit:
    """The time that a machine may run."""

    def __init__(self, pids: Sequence[int], timeout_s: float, *, in_processor_time: bool) -> None:
        self._stats = {Path(f"/proc/{pid}/stat"): 0 for pid in pids}
        self._timeout_s = timeout_s
        self._in_processor_time = in_processor_time
        self._began_s = self._advanced_s = time.monotonic()
        self._spent_s = 0.0

    def over(self) -> str:
        """Return a text that names the limit that the machine has reached, such as `600 s of processor time`;
        empty before.
        """
        now_s = time.monotonic()
        if not self._in_processor_time:
            return f"{self._timeout_s:g} s of wall time" if now_s - self._began_s > self._timeout_s else ""
        spent_s = self._processor_s()
        if spent_s > self._spent_s:
            self._spent_s, self._advanced_s = spent_s, now_s
        if spent_s > self._timeout_s:
            return f"{self._timeout_s:g} s of processor time"
        return f"{_STALLED_S:g} s without any work" if now_s - self._advanced_s > _STALLED_S else ""

    def _processor_s(self) -> float:
        """Processor time of the machine's processes until now; proc(5), fields 14 and 15."""
        for stat in self._stats:
            # A process that has just ended keeps its last count.
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                self._stats[stat] = int(fields[11]) + int(fields[12])
        return sum(self._stats.values()) / os.sysconf("SC_CLK_TCK")


class _Beside:
    """A running companion. QEMU needs `arguments` on its command line, and inherits `descriptors`."""

    def __init__(self, companion: Companion, folder: Path, channel: Path, processor: int | None) -> None:
        folder.mkdir()
        self._collect = {path: folder / name for path, name in companion.collect.items()}
        for name, content in companion.files.items():
            (folder / name).write_bytes(content)
        ours, self._qemus = socket.socketpair()
        self._errors = folder / "errors"
        with ours, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*_WITH_US, *companion.command, str(channel), str(ours.fileno())],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                cwd=folder, env=dict(companion.environment), pass_fds=(ours.fileno(),),
            )  # fmt: skip
        if processor is not None:
            os.sched_setaffinity(self.process.pid, {processor})
        self.descriptors = (self._qemus.fileno(),)
        self.arguments = ("-plugin", f"{companion.plugin},socket={self._qemus.fileno()}")

    def close_qemus_end(self) -> None:
        """Close this process's copy of QEMU's end of the socket. The companion then sees when QEMU ends."""
        self._qemus.close()

    def end(self) -> str:
        """Wait until the companion ends, which it does after QEMU, and return its output. If it does not end
        within `_LAST_WORDS_S`, kill it.
        """
        try:
            self.process.wait(_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self._errors.read_text(errors="replace")

    def files(self) -> dict[str, bytes]:
        """Return the files that the companion left, by guest path."""
        return {path: file.read_bytes() for path, file in self._collect.items() if file.exists()}


def command(
    vmlinux: Path,
    initramfs: Path,
    channel: Path,
    serial: Path,
    *,
    seed: int,
    memory_mb: int,
    parameters: str,
    machine: Machine,
) -> list[str]:
    """Return QEMU's command line."""
    return [
        "qemu-system-x86_64", *machine.arguments, "-m", str(memory_mb), "-seed", str(seed),
        "-kernel", str(vmlinux), "-initrd", str(initramfs),
        "-append", f"{machine.command_line} {parameters}".strip(),
        "-serial", f"file:{serial}",
        "-object", f"memory-backend-file,id=channel,share=on,size={CHANNEL_BYTES},mem-path={channel}",
        "-device", "ivshmem-plain,memdev=channel",
    ]  # fmt: skip


def version() -> str:
    """Return the first line of QEMU's own version text.

    Raises:
        LabError: QEMU is not installed.
    """
    try:
        done = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise LabError("qemu-system-x86_64 does not run. Install the package qemu-system-x86.") from error
    return done.stdout.splitlines()[0]


def execute(
    vmlinux: Path,
    layers: Sequence[Path],
    *,
    seed: int,
    memory_mb: int,
    parameters: str,
    timeout_s: float,
    on_line: Callable[[str], None] | None,
    machine: Machine = LAB,
    companion: Companion | None = None,
) -> Report:
    """Boot `vmlinux` with the concatenated `layers`, follow the guest to its end, and return its report.

    With a `companion`, that process runs beside the guest, on the same processor.

    Raises:
        LabError: QEMU cannot run, or the guest needs longer than `timeout_s` seconds; see `Machine`.
    """
    report = Report()
    processors = own_processor() if machine.one_processor else contextlib.nullcontext()
    with tempfile.TemporaryDirectory(prefix="ltp-lab-") as name, processors as processor:
        folder = Path(name)
        initramfs, channel, serial = folder / "initramfs", folder / "channel", folder / "serial"
        with initramfs.open("wb") as archive:
            for path in layers:
                archive.write(path.read_bytes())
        with channel.open("wb") as file:
            file.truncate(CHANNEL_BYTES)
        serial.touch()
        arguments = command(
            vmlinux,
            initramfs,
            channel,
            serial,
            seed=seed,
            memory_mb=memory_mb,
            parameters=parameters,
            machine=machine,
        )
        beside = None if companion is None else _Beside(companion, folder / "companion", channel, processor)
        try:
            process = subprocess.Popen(
                [*_WITH_US, *arguments, *(beside.arguments if beside else ())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=beside.descriptors if beside else (),
            )
        except FileNotFoundError as error:
            raise LabError("setpriv is not installed (package util-linux)") from error
        if beside:
            beside.close_qemus_end()
        if processor is not None:
            settle(process.pid, processor)
        reader = _Channel(channel, report, on_line)
        pids = [process.pid, *([beside.process.pid] if beside else [])]
        limit = _Limit(pids, timeout_s, in_processor_time=machine.one_processor)
        try:
            while process.poll() is None:
                reader.read()
                if over := limit.over():
                    process.kill()
                    process.wait()
                    tail = (serial.read_bytes()[-2000:] + report.output[-2000:]).decode(errors="replace")
                    raise LabError(f"the guest did not end within {over}\n{tail}")
                time.sleep(_POLL_S)
            reader.read()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            reader.close()
            errors = process.stderr.read() if process.stderr else ""
            if process.stderr:
                process.stderr.close()
            if beside:
                report.companion = beside.end()
                report.files |= beside.files()
        report.serial = serial.read_text(errors="replace")
        if report.status is None and not report.serial:
            plugin = " Its plugin is for QEMU 7.2; `--daemon inside` needs none." if companion else ""
            raise LabError(
                f"QEMU ended without booting the guest: {errors.strip() or 'no message'}. "
                f"Does qemu-system-x86_64 run (package qemu-system-x86)?{plugin}"
            )
    return report
