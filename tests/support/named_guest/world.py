# SPDX-License-Identifier: Apache-2.0
"""A peer behind a link with named and other addresses, connections to and from it, and the command line."""

from __future__ import annotations

import json
import os
import shlex
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kmod_guest.harness import MODULE, require, sh
from kmod_guest.net import ip

from ltp_switcher.daemon.cli.main import main

OWN, NAMED, OTHER = "10.1.0.1", "10.1.0.2", "10.1.0.3"
"""Addresses of this machine and of the peer; `NAMED` alone is in a used prefix."""
SIX = {OWN: "2001:db8:1::1", NAMED: "2001:db8:1::2", OTHER: "2001:db8:1::3"}
PREFIXES = ("10.1.0.2/32", "2001:db8:1::2/128")
PEER = "far"
CLI = "python3 -m ltp_switcher.daemon.cli"
FILE = Path("/etc/ltp-switcher/prefixes")
PINS = Path("/sys/fs/bpf/ltp-switcher")
CGROUP = "/sys/fs/cgroup"
SYSCTL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def build() -> None:
    """Mount what the program needs, load the module, and connect the peer."""
    sh(f"mount -t cgroup2 none {CGROUP} && mount -t bpf bpf /sys/fs/bpf && insmod {MODULE}")
    ip(f"netns add {PEER}")
    ip(f"link add near0 type veth peer name far0 netns {PEER}")
    for inside, device, addresses in (("", "near0", [OWN]), (f"-n {PEER} ", "far0", [NAMED, OTHER])):
        ip(f"{inside}link set lo up")
        ip(f"{inside}link set {device} up")
        for address in addresses:
            ip(f"{inside}address add {address}/24 dev {device}")
            ip(f"{inside}address add {SIX[address]}/64 dev {device} nodad")


def command(arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a child of this process; an interpreter of its own would take seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), sys.stdout.fileno())
            os.dup2(err.fileno(), sys.stderr.fileno())
            code: object = 70
            try:
                code = main(shlex.split(arguments))
            except SystemExit as end:
                code = end.code
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 70)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), *texts)


def cli(arguments: str) -> str:
    """Run a command that must succeed; returns its output."""
    done = command(arguments)
    require(done.returncode == 0, f"{arguments}: exit {done.returncode}: {done.stderr} {done.stdout}")
    return done.stdout


def refused(arguments: str, words: str) -> None:
    """Run a command that must be refused, in words with these among them, and without a traceback."""
    done = command(arguments)
    require(done.returncode in (1, 2), f"{arguments}: exit {done.returncode}: {done.stdout}")
    require(words in done.stderr, f"{arguments}: {done.stderr!r} has no {words!r}")
    require("Traceback" not in done.stderr, done.stderr)


def used() -> dict[str, dict[str, object]]:
    """The rules as `used --json` tells them, by what they match."""
    return {one["match"]: one for one in json.loads(cli("used --json"))}


def attached() -> list[str]:
    """The names of the sock_ops programs at the root control group."""
    told = sh(f"bpftool -j cgroup show {CGROUP}").stdout.strip() or "[]"
    return [entry["name"] for entry in json.loads(told)]


def nothing_left() -> None:
    """Neither program nor pin nor file is there."""
    require(not attached(), f"attached: {attached()}")
    require(not PINS.exists(), f"pins: {list(PINS.rglob('*'))}")
    require(not FILE.exists(), "the file of prefixes is there")


@contextmanager
def using(prefixes: Sequence[str] = PREFIXES) -> Iterator[None]:
    """Use prefixes for a while."""
    cli(f"use {' '.join(prefixes)}")
    try:
        yield
    finally:
        cli("unuse --all")


@contextmanager
def default(name: str) -> Iterator[None]:
    """Have another default congestion control for a while."""
    before = SYSCTL.read_text()
    sh(f"modprobe tcp_{name} 2>/dev/null; echo {name} >{SYSCTL}")
    try:
        yield
    finally:
        SYSCTL.write_text(before)


def is_mutant(name: str) -> bool:
    """Whether a socket's congestion control is `mutant` or one of its arms."""
    return name == "mutant" or name.startswith("m/")


def reset(*socks: socket.socket) -> None:
    """Close sockets without a TIME_WAIT."""
    for sock in socks:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        sock.close()
