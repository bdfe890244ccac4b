# SPDX-License-Identifier: Apache-2.0
"""From load to removal: counts, refusals, an absent module, a killed daemon, a reboot, few capabilities."""

from __future__ import annotations

import ctypes
import ipaddress
import json
import random
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kmod_guest.harness import MODULE, Check, Context, require, rmmod, sh
from kmod_guest.net import congestion, namespace

from ltp_switcher.daemon.named.program import Program
from ltp_switcher.daemon.named.rules import flatten
from ltp_switcher.daemon.named.store import POLICIES_FILE
from ltp_switcher.daemon.settings.policies import Policies, Policy
from ltp_switcher.daemon.settings.prefixes import prefix_of

from .winners import a_client, a_server
from .world import (
    CGROUP,
    CLI,
    FILE,
    NAMED,
    OTHER,
    OWN,
    PEER,
    PINS,
    SIX,
    attached,
    cli,
    is_mutant,
    nothing_left,
    refused,
    reset,
    used,
    using,
)

STATE = Path("/var/lib/ltp-switcher")
OTHER_PROGRAM = "/opt/bpf/other.bpf.o"
OTHER_PORT = 7001
CAPABILITIES = {12, 38, 39}
"""CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF."""
PR_CAPBSET_DROP = 24


def use_counts_and_unuse_leaves_nothing(_context: Context) -> None:
    nothing_left()
    with using():
        require(attached() == ["choose_mutant"], f"attached: {attached()}")
        for case in (a_client, a_server, a_client):
            require(is_mutant(case(NAMED)), "a named flow is not under mutant")
        a_client(OTHER)
        told = used()[f"{NAMED}/32"]
        require(told["flows"] == 3, f"{told}")
        require(used()[f"{SIX[NAMED]}/128"]["flows"] == 0, "flows of IPv4 count for IPv6")
        require(told["first"] is not None and told["state"] == "in force", f"{told}")
        # More prefixes leave the counts as they are.
        cli("use 192.0.2.0/24")
        require(used()[f"{NAMED}/32"] == told, f"{used()[f'{NAMED}/32']} and {told}")
    nothing_left()


def what_cannot_be_is_refused_and_changes_nothing(_context: Context) -> None:
    for arguments, words in (
        ("use fe80::1%near0", "without a zone"),
        ("use 203.0.113.1/24", "host bits"),
        ("unuse 203.0.113.0/24", "none: no prefix is used"),
        ("unuse", "--all"),
    ):
        refused(arguments, words)
    for breaking, mending, words in (
        ("mount -t tmpfs none /sys/kernel/btf", "umount /sys/kernel/btf", "no BTF"),
        (f"umount {CGROUP}", f"mount -t cgroup2 none {CGROUP}", "no cgroup2"),
        ("umount /sys/fs/bpf", "mount -t bpf bpf /sys/fs/bpf", "no bpf file system"),
        ("mv /usr/sbin/bpftool /run/kept", "mv /run/kept /usr/sbin/bpftool", "apt install bpftool"),
        ("rmmod tcp_mutant", f"insmod {MODULE}", "modprobe tcp_mutant"),
    ):
        time.sleep(0.5)
        sh(breaking)
        try:
            refused("use 203.0.113.0/24", words)
        finally:
            sh(mending)
        nothing_left()


@contextmanager
def other_program(flags: str) -> Iterator[None]:
    """Another program of type sock_ops at the root control group."""
    pin = "/sys/fs/bpf/other"
    sh(f"bpftool prog load {OTHER_PROGRAM} {pin} type sockops")
    sh(f"bpftool cgroup attach {CGROUP} sock_ops pinned {pin} {flags}")
    try:
        yield
    finally:
        sh(f"bpftool cgroup detach {CGROUP} sock_ops pinned {pin}; rm {pin}")


def beside_an_exclusive_program_use_refuses(_context: Context) -> None:
    for flags in ("", "override"):
        with other_program(flags):
            refused("use 203.0.113.0/24", "holds the root control group for itself")
        nothing_left()


def _to_other_port(address: str) -> tuple[str, int]:
    """The congestion control of a client to the other program's port, and the window that it gives."""
    with namespace(PEER):
        listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, OTHER_PORT))
    listener.listen()
    client = socket.socket()
    client.connect((address, OTHER_PORT))
    server, _ = listener.accept()
    name = congestion(client)
    # tcpi_snd_wnd of struct tcp_info.
    window = int(
        struct.unpack_from("=I", server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232), 228)[0]
    )
    reset(client, server)
    listener.close()
    return name, window


def a_second_program_has_the_last_word_whichever_came_first(_context: Context) -> None:
    with other_program("multi"):
        alone = _to_other_port(NAMED)
        require(alone[0] == "reno" and alone[1] > 0, f"{alone}")
        with using():
            require(attached() == ["other", "choose_mutant"], f"{attached()}")
            require(_to_other_port(NAMED) == alone, f"{_to_other_port(NAMED)}, and {alone} without ours")
            require(is_mutant(a_client(NAMED)), "ours does nothing beside another")
    cli("use 10.1.0.2/32")
    with other_program("multi"):
        require(attached() == ["choose_mutant", "other"], f"{attached()}")
        require(_to_other_port(NAMED) == alone, f"{_to_other_port(NAMED)}, and {alone} without ours")
    cli("unuse --all")
    nothing_left()


@contextmanager
def _open_connection() -> Iterator[socket.socket]:
    """A connection to the named address."""
    with namespace(PEER):
        listener = socket.socket()
    listener.bind((NAMED, 0))
    listener.listen()
    client = socket.socket()
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    yield client
    reset(client, server)
    listener.close()


def the_module_may_go_and_come_while_prefixes_are_used(_context: Context) -> None:
    with using():
        with _open_connection() as client:
            require(is_mutant(congestion(client)), "the named flow is not under mutant")
            require(not rmmod(), "the module goes while a flow runs it")
            require(is_mutant(congestion(client)), f"the flow runs {congestion(client)}")
        time.sleep(0.5)
        require(rmmod(), "the program holds the module")
        require(a_client(NAMED) == "cubic", f"{a_client(NAMED)} without the module")
        state = str(used()[f"{NAMED}/32"]["state"])
        require("could not have it" in state, state)
        sh(f"insmod {MODULE}")
        require(is_mutant(a_client(NAMED)), "the module came back, the flow runs another")


def a_killed_daemon_leaves_named_flows_on_the_default_arm(_context: Context) -> None:
    Path("/run/ltp-switcher").mkdir(exist_ok=True)
    config = Path("/run/named.toml")
    config.write_text('[daemon]\nmode = "active"\n[kernel]\nwatchdog_ms = 500\n')
    STATE.mkdir(parents=True, exist_ok=True)
    with using():
        daemon = subprocess.Popen(
            [*CLI.split(), "run", "--config", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while sh(f"{CLI} status --config {config}", check=False).returncode:
            require(time.monotonic() < until and daemon.poll() is None, "the daemon does not start")
            time.sleep(0.2)
        require(is_mutant(a_client(NAMED)), "no mutant with the daemon")
        daemon.kill()
        daemon.wait()
        require(a_client(NAMED) == "m/cubic", f"{a_client(NAMED)} after the daemon's death")
        require(a_client(OTHER) == "cubic", f"{a_client(OTHER)}, which nobody named")


def prefixes_outlive_this_boot(_context: Context) -> None:
    cli(f"use {NAMED}/32")
    require(is_mutant(a_client(NAMED)), "not in force")


def prefixes_come_into_force_at_boot(_context: Context) -> None:
    """Another boot has left the file. The service does no more than `used --apply`."""
    require(not PINS.exists() and not attached(), f"{attached()}")
    require(a_client(NAMED) == "cubic", a_client(NAMED))
    cli("used --apply")
    require(is_mutant(a_client(NAMED)), f"the named flow runs {a_client(NAMED)}")
    require(a_client(OTHER) == "cubic", f"another runs {a_client(OTHER)}")
    cli("unuse --all")
    nothing_left()


def a_line_that_is_no_prefix_stays_and_the_others_count(_context: Context) -> None:
    FILE.write_text(f"no prefix\n{NAMED}/32\n")
    cli("used --apply")
    require(is_mutant(a_client(NAMED)), "not in force")
    cli("used --withdraw")
    require(not PINS.exists() and not attached(), f"{attached()}")
    require(a_client(NAMED) == "cubic", a_client(NAMED))
    cli("unuse --all")
    require(FILE.read_text() == "no prefix\n", FILE.read_text())
    FILE.unlink()
    nothing_left()


def another_object_takes_over_with_the_counts(_context: Context) -> None:
    """An upgrade may bring another program."""
    installed = next(path for path in Path("/usr/lib").rglob("choose.bpf.o"))
    kept = installed.read_bytes()
    with using():
        a_client(NAMED)
        (before,) = PINS.iterdir()
        shutil.copy("/opt/bpf/next.bpf.o", installed)
        try:
            cli("used --apply")
            (after,) = PINS.iterdir()
            require(after != before, "the pins are the same")
            require(attached() == ["choose_mutant"], f"{attached()}")
            require(used()[f"{NAMED}/32"]["flows"] == 1, f"{used()}")
            require(is_mutant(a_client(NAMED)), "the new program does nothing")
        finally:
            installed.write_bytes(kept)
    nothing_left()


def what_somebody_detached_or_pulled_out_is_put_back_or_cleared(_context: Context) -> None:
    with using():
        (folder,) = PINS.iterdir()
        sh(f"bpftool cgroup detach {CGROUP} sock_ops pinned {folder}/program")
        cli("used --apply")
        require(attached() == ["choose_mutant"], f"{attached()}")
        sh(f"rm -r {PINS}")
        require(attached() == ["choose_mutant"], "the kernel keeps what is attached")
        cli("used --withdraw")
        require(not attached(), f"{attached()}")


def _with_three_capabilities() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(41):
        if capability not in CAPABILITIES and libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def three_capabilities_are_enough_for_the_service(_context: Context) -> None:
    def apply() -> None:
        done = subprocess.run(
            [*CLI.split(), "used", "--apply"],
            preexec_fn=_with_three_capabilities,
            capture_output=True,
            text=True,
            check=False,
        )
        require(done.returncode == 0, f"{done.stdout} {done.stderr}")

    FILE.write_text(f"{NAMED}/32\n")
    apply()
    require(attached() == ["choose_mutant"], f"{attached()}")
    FILE.write_text(f"{NAMED}/32\n192.0.2.0/24\n")
    apply()
    require(len(used()) == 2 and is_mutant(a_client(NAMED)), f"{used()}")
    FILE.unlink()
    apply()
    nothing_left()


def policies_name_and_exclude_flows(_context: Context) -> None:
    STATE.mkdir(parents=True, exist_ok=True)
    file = STATE / POLICIES_FILE
    file.write_text(
        json.dumps([{"prefix": f"{OTHER}/32", "pin": "bbr"}, {"prefix": f"{NAMED}/32", "exclude": True}])
    )
    try:
        cli("use 10.1.0.0/24")
        require(is_mutant(a_client(OTHER)), "a policy names the flow")
        require(a_client(NAMED) == "cubic", "a policy excludes the flow")
        told = used()
        require([one["by"] for one in told.values()] == ["policy", "policy", "use"], f"{told}")
    finally:
        file.unlink()
        cli("unuse --all")
    nothing_left()


RULE_SETS = 30
PORTS = (7002, 7003)


def _random_policies(draw: random.Random) -> Policies:
    found: dict[str, Policy] = {}
    for _ in range(draw.randrange(7)):
        policy = Policy(
            prefix=prefix_of(draw.choice([f"{NAMED}/32", "10.1.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "::/0"]))
            if draw.random() < 0.8 else None,
            port=draw.choice(PORTS) if draw.random() < 0.5 else None,
            local_port=draw.choice(PORTS) if draw.random() < 0.4 else None,
            exclude=draw.random() < 0.5,
        )  # fmt: skip
        if policy.match:
            found[policy.match] = policy
    return Policies(found.values())


class _Ends:
    def __init__(self, remote_address: str, remote_port: int, local_port: int) -> None:
        self.netns = 0
        self.remote_address, self.remote_port, self.local_port = remote_address, remote_port, local_port


def the_kernels_table_decides_as_the_matcher(_context: Context) -> None:
    draw, program = random.Random(7), Program()
    listeners = []
    for port in PORTS:
        with namespace(PEER):
            listener = socket.socket()
        listener.bind(("0.0.0.0", port))  # noqa: S104
        listener.listen()
        listeners.append(listener)
    for number in range(RULE_SETS):
        policies = _random_policies(draw)
        prefixes = [prefix_of(text) for text in ("10.1.0.2/32", "10.1.0.0/24", "::/0") if draw.random() < 0.3]
        program.put(flatten(prefixes, policies, {}, 1))
        for listener, remote_port in zip(listeners, PORTS, strict=True):
            for address in (NAMED, OTHER):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                own_port = draw.choice([*PORTS, 0])
                client.bind((OWN, own_port))
                client.connect((address, remote_port))
                server, _ = listener.accept()
                policy = policies.of(_Ends(address, remote_port, client.getsockname()[1]))
                wanted = not policy.exclude if policy else any(
                    prefix.version == 4 and ipaddress.ip_address(address) in prefix for prefix in prefixes
                )  # fmt: skip
                name = congestion(client)
                reset(client, server)
                told = [*map(str, policies.entries), *map(str, prefixes)]
                require(is_mutant(name) == wanted, f"{number}: {address}:{remote_port} runs {name}: {told}")
    for listener in listeners:
        listener.close()
    program.withdraw()
    nothing_left()


CHECKS: tuple[Check, ...] = (
    use_counts_and_unuse_leaves_nothing,
    what_cannot_be_is_refused_and_changes_nothing,
    beside_an_exclusive_program_use_refuses,
    a_second_program_has_the_last_word_whichever_came_first,
    the_module_may_go_and_come_while_prefixes_are_used,
    a_killed_daemon_leaves_named_flows_on_the_default_arm,
    a_line_that_is_no_prefix_stays_and_the_others_count,
    another_object_takes_over_with_the_counts,
    what_somebody_detached_or_pulled_out_is_put_back_or_cleared,
    three_capabilities_are_enough_for_the_service,
    policies_name_and_exclude_flows,
    the_kernels_table_decides_as_the_matcher,
)
