# SPDX-License-Identifier: Apache-2.0
"""`doctor`: check this machine, and name the remedy for each fault."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from ltp_switcher.daemon.cli.dashboard import ask_api
from ltp_switcher.daemon.cli.main import EXIT_REFUSED, PREFIXES_PATH, settings
from ltp_switcher.daemon.control.client import ControlClient, ControlUnavailableError, Json
from ltp_switcher.daemon.datapath import ArmInfo, Datapath, ModuleMissingError, protocol
from ltp_switcher.daemon.named.program import Program
from ltp_switcher.daemon.named.store import POLICIES_FILE, read, read_policies
from ltp_switcher.daemon.settings import tokens
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.daemon.steer import with_policies
from ltp_switcher.errors import ArtifactError, ControlError, DatapathError, LtpSwitcherError

Verdict = Literal["ok", "warn", "fail"]

_COLOURS: Final[dict[Verdict, str]] = {"ok": "green", "warn": "yellow", "fail": "red"}

INSTALL: Final = "`apt reinstall ltp-switcher-dkms`, or `make install` in the source tree"
KERNEL_TESTED: Final = ((6, 1), (6, 12))
JOIN: Final = "as root: `adduser USER ltp-switcher`; then log in again"
CAP_NET_ADMIN: Final = 12
_DEBIAN_RELEASE: Final = re.compile(
    r"[\d.]+(?:-\d+|\+deb\d+(?:-\d+)?)?-(?P<flavour>(?:cloud-|rt-)?(?:amd64|arm64))"
)
_SYSCTL: Final = Path("/proc/sys")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `advice` is the remedy, and is empty if nothing needs to be done."""

    subject: str
    verdict: Verdict
    detail: str
    advice: str = ""


def doctor(options: argparse.Namespace) -> int:
    """Print the findings. The exit status is 1 if a check has failed."""
    findings = list(examine(settings(options)))
    failed = any(finding.verdict == "fail" for finding in findings)
    if options.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
        return EXIT_REFUSED if failed else 0
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        mark = f"[{_COLOURS[finding.verdict]}]{finding.verdict:<4}[/]"
        console.print(f"{mark}  {finding.subject:<14}  {escape(finding.detail)}")
        if finding.advice:
            console.print(f"{'':<22}[dim]→ {escape(finding.advice)}[/]")
    return EXIT_REFUSED if failed else 0


def examine(config: Config) -> Iterator[Finding]:
    """Check everything that the program needs, the most basic first."""
    yield _kernel()
    yield from _module(config)
    yield capability(Path("/proc/self/status").read_text())
    yield from _sysctls()
    yield from _named(config)
    yield _encoder()
    yield _state(config)
    yield from _set_aside(config)
    yield _tokens(config)
    yield from _daemon(config)
    yield _api(config)


def _kernel() -> Finding:
    release = platform.release()
    numbers = release.split("-")[0].split(".")[:2]
    version = tuple(int(part) for part in numbers if part.isdigit())
    oldest, newest = (".".join(map(str, v)) for v in KERNEL_TESTED)
    if version < KERNEL_TESTED[0]:
        return Finding("kernel", "fail", release, f"the module needs Linux {oldest} or later")
    if version > KERNEL_TESTED[1]:
        return Finding("kernel", "warn", release, f"tested on {oldest} to {newest}; please report problems")
    return Finding("kernel", "ok", release)


def _module(config: Config) -> Iterator[Finding]:
    try:
        with Datapath() as datapath:
            arms = with_policies(datapath.arms(), config.learned)
            module = datapath.config()
    except ModuleMissingError:
        yield missing_module(Path("/lib/modules"), platform.release())
        return
    except DatapathError as error:
        yield Finding("module", "fail", str(error), "see `dmesg`")
        return
    names = {arm.id: arm.name for arm in arms}
    yield Finding(
        "module", "ok",
        f"tcp_mutant is loaded; default {names.get(module.default_arm)}, fallback "
        f"{names.get(module.fallback_arm)} after {module.watchdog_ms} ms",
    )  # fmt: skip
    yield from (_arm(arm) for arm in arms)


def missing_module(folder: Path, release: str) -> Finding:
    """Find out why the kernel module is not loaded. `folder` is the folder of kernel modules, such as
    /lib/modules, and `release` is the kernel's release.
    """
    modules = folder / release
    if any(modules.rglob("tcp_mutant.ko*")):
        return Finding("module", "fail", "tcp_mutant is installed, not loaded", "run `modprobe tcp_mutant`")
    if not (modules / "build").exists():
        names = " ".join(headers_packages(release))
        advice = f"install the kernel's headers (`apt install {names}`), then {INSTALL}"
        return Finding("module", "fail", "tcp_mutant is not installed, and cannot be built", advice)
    return Finding("module", "fail", "tcp_mutant is not installed", INSTALL)


def headers_packages(release: str) -> list[str]:
    """The names of two Debian packages of a kernel's headers: the package of this release, and the one that
    follows updates.

    The second one is named after the kernel's flavour, such as cloud-amd64 of 6.1.0-56-cloud-amd64. If the
    release has no flavour, it is left out.
    """
    exact = f"linux-headers-{release}"
    found = _DEBIAN_RELEASE.fullmatch(release)
    return [exact] if found is None else [exact, f"linux-headers-{found['flavour']}"]


def _arm(arm: ArmInfo) -> Finding:
    if arm.available:
        return Finding(f"arm {arm.name}", "ok", "available")
    advice = ""
    if arm.kind == protocol.ArmKind.KERNEL:
        advice = f"`modprobe tcp_{arm.name}`, then reload tcp_mutant; or do without"
    return Finding(f"arm {arm.name}", "warn", arm.reason or arm.state.name.lower(), advice)


def capability(status: str) -> Finding:
    """Check whether a process has the capability to change flows. `status` is the content of the process's
    status file (proc(5)).
    """
    for line in status.splitlines():
        if line.startswith("CapEff:") and int(line.split()[1], 16) >> CAP_NET_ADMIN & 1:
            return Finding("permission", "ok", "this user has CAP_NET_ADMIN")
    return Finding(
        "permission", "warn", "this user lacks CAP_NET_ADMIN", "only `run` needs it: use the service, or root"
    )


def _sysctls() -> Iterator[Finding]:
    default = _read("net/ipv4/tcp_congestion_control")
    detail = f"new connections use {default}"
    advice = "" if default == "mutant" else "to change it: kernel.take_default = true, or `sysctl`"
    yield Finding("default", "ok", detail, advice)
    allowed = _read("net/ipv4/tcp_allowed_congestion_control").split()
    if default != "mutant" and "mutant" not in allowed:
        yield Finding(
            "applications", "warn", "only root may choose mutant by setsockopt",
            'to let all: sysctl net.ipv4.tcp_allowed_congestion_control="… mutant"',
        )  # fmt: skip
    qdisc = _read("net/core/default_qdisc")
    if qdisc in ("fq", "fq_codel", "unknown"):
        yield Finding("pacing", "ok", f"default qdisc {qdisc}")
    else:
        advice = "bbr then paces by timers, at more processor time; better: sysctl net.core.default_qdisc=fq"
        yield Finding("pacing", "warn", f"default qdisc {qdisc}", advice)


def _named(config: Config) -> Iterator[Finding]:
    """Check that named flows get `mutant`. Warn if bpftune runs, because it also chooses for flows."""
    program = Program()
    try:
        named = bool(read(PREFIXES_PATH).prefixes)
        if config.daemon.state_dir:
            named |= bool(read_policies(Path(config.daemon.state_dir) / POLICIES_FILE)[0])
        pinned = program.pinned()
    except LtpSwitcherError as error:
        yield Finding("use", "warn", str(error), "run `doctor` as root")
    else:
        yield named_finding(program.obstacle(), named=named, pinned=pinned)
    if runs("bpftune"):
        yield Finding(
            "bpftune", "warn", "bpftune runs; it, too, chooses congestion controls for connections",
            "stop it, or its tuner tcp_conn: of two that choose for a flow, the later wins",
        )  # fmt: skip


def named_finding(obstacle: str, *, named: bool, pinned: bool) -> Finding:
    """Judge whether the flows that an operator has named with `use` or in a policy get `mutant`.

    `obstacle` says why the BPF program that does this cannot run, and is empty if it can. `named` tells
    whether an operator has named any flows, and `pinned` whether the program is loaded.
    """
    if not named:
        if obstacle:
            return Finding("use", "warn", f"`ltp-switcher use` would be refused: {obstacle}")
        return Finding("use", "ok", "no prefix or policy names flows")
    if pinned:
        return Finding("use", "ok", "named flows get mutant; `ltp-switcher used` counts them")
    advice = "`systemctl restart ltp-switcher-use`, then see `journalctl -u ltp-switcher-use`"
    return Finding("use", "fail", f"named flows do not get mutant: {obstacle or 'it is not loaded'}", advice)


def runs(name: str) -> bool:
    """Whether a process with this name runs."""
    for file in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if file.read_text().strip() == name:
                return True
    return False


def _encoder() -> Finding:
    from ltp_switcher.encoder import GRUEncoder

    try:
        GRUEncoder.from_file()
    except ArtifactError as error:
        return Finding("encoder", "fail", str(error), "reinstall, or `make train-encoder`")
    return Finding("encoder", "ok", "weights are there, their checksum is right")


def _state(config: Config) -> Finding:
    if not config.daemon.state_dir:
        return Finding("state", "warn", "nothing is saved", "set daemon.state_dir")
    place = Path(config.daemon.state_dir)
    if not place.is_dir():
        return Finding("state", "warn", f"{place} does not exist", "the service makes it when it starts")
    if not os.access(place, os.W_OK):
        return Finding("state", "ok", f"{place} exists; this user may not write it")
    return Finding("state", "ok", f"{place} can be written")


def _set_aside(config: Config) -> Iterator[Finding]:
    """Warn of files that a daemon could not use and renamed."""
    if not config.daemon.state_dir:
        return
    try:
        names = sorted(path.name for path in Path(config.daemon.state_dir).glob("*.corrupt-*"))
    except OSError:
        return
    if names:
        advice = "the log says why each was set aside; remove those that you no longer need"
        yield Finding("set aside", "warn", f"{config.daemon.state_dir} holds {', '.join(names)}", advice)


def _tokens(config: Config) -> Finding:
    path = Path(config.api.token_file)
    try:
        count = len(tokens.load(path))
    except ArtifactError as error:
        if isinstance(error.__cause__, PermissionError):
            return Finding("tokens", "ok", f"{path} exists; this user may not read it")
        advice = "restore the file, or remove it and make the tokens anew: `ltp-switcher token add`"
        return Finding("tokens", "fail", f"{error}; so no token is taken", advice)
    return Finding("tokens", "ok", f"{count} in {path}" if count else "none; only the UNIX socket serves")


def _api(config: Config) -> Finding:
    try:
        found = ask_api(config.api.socket, "GET", "/health", {}, http.client.OK)
    except ControlUnavailableError as error:
        if isinstance(error.__cause__, PermissionError):
            return Finding("api", "warn", str(error), JOIN)
        if isinstance(error.__cause__, FileNotFoundError):
            return Finding("api", "warn", str(error), "where you want it: install ltp-switcher-api")
        return Finding("api", "fail", str(error), "`systemctl enable --now ltp-switcher-api`")
    except ControlError as error:
        return Finding("api", "fail", str(error), "see `journalctl -u ltp-switcher-api`")
    return Finding("api", "ok", f"it answers at {config.api.socket}, mode {found.get('mode')}")


def _daemon(config: Config) -> Iterator[Finding]:
    path = config.daemon.control_socket
    try:
        with ControlClient(path) as client:
            status = cast("dict[str, Json]", client.call("status"))
    except ControlUnavailableError as error:
        advice = "`systemctl enable --now ltp-switcher`"
        if isinstance(error.__cause__, PermissionError):
            advice = JOIN
        yield Finding("daemon", "fail", str(error), advice)
        return
    except ControlError as error:
        yield Finding("daemon", "fail", str(error), "see `journalctl -u ltp-switcher`")
        return
    yield Finding("daemon", "ok", f"mode {status['mode']}, {status['flows']} flows, at {path}")
    # A daemon of an earlier release has no list of faults.
    for fault in cast("list[str]", status.get("faults", [])):
        yield Finding("daemon", "fail", fault)


def _read(name: str) -> str:
    try:
        return (_SYSCTL / name).read_text().strip()
    except OSError:
        return "unknown"
