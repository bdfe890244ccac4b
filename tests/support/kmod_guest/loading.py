# SPDX-License-Identifier: Apache-2.0
"""Loading, parameters, missing and refused arms, unloading. Each check loads the module itself."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ltp_switcher.daemon.datapath import Datapath, RequestRefusedError
from ltp_switcher.daemon.datapath.protocol import ArmKind, ArmState, RestoreMode

from .harness import Context, insmod, require, rmmod, sh
from .net import choose, congestion
from .steering import commands

PARAMETERS = Path("/sys/module/tcp_mutant/parameters")


@contextmanager
def loaded(**parameters: object) -> Iterator[Datapath]:
    """Have the module loaded for a while."""
    insmod(**parameters)
    datapath = Datapath()
    datapath.open_session()
    try:
        yield datapath
    finally:
        datapath.close()
        require(rmmod(), "rmmod is refused although no flow is open")


def loopback(congestion_control: str = "mutant") -> tuple[socket.socket, socket.socket]:
    """A connection over loopback; the client runs the congestion control."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client = socket.socket()
        choose(client, congestion_control)
        client.connect(listener.getsockname())
        return client, listener.accept()[0]


def every_arm_is_found(_: Context) -> None:
    with loaded() as datapath:
        arms = {arm.id: arm for arm in datapath.arms()}
        require(sorted(arms) == list(range(1, 16)), f"ids {sorted(arms)}")
        for number, arm in arms.items():
            kind = ArmKind.KERNEL if number < 12 else ArmKind.LEARNED
            require(arm.available and arm.kind == kind, str(arm))


def an_arm_that_cannot_be_one_is_refused_with_a_reason(_: Context) -> None:
    with loaded() as datapath:
        before = datapath.arms()
        dctcp, mutant, nv, missing = (
            datapath.load_arm(name) for name in ("dctcp", "mutant", "nv", "nosuchcc")
        )
        require(dctcp.state == ArmState.REFUSED and "ECN" in dctcp.reason, str(dctcp))
        require(mutant.state == ArmState.REFUSED and bool(mutant.reason), str(mutant))
        require(nv.state == ArmState.REFUSED and "BPF" in nv.reason, str(nv))
        require(missing.state == ArmState.UNAVAILABLE and bool(missing.reason), str(missing))
        require(datapath.arms() == before, "a refused protocol became an arm")


def a_bpf_program_is_refused_as_an_arm(_: Context) -> None:
    """This one sets `reno` in its own init, which would release the flow in use."""
    program = subprocess.Popen(["/opt/bpf/load", "/opt/bpf/bpfcc.o", "bpfcc"], stdout=subprocess.PIPE)
    ready = program.stdout.readline() if program.stdout else b""
    require(ready == b"ready\n", f"the program is not registered: {ready!r}")
    with loaded() as datapath:
        arm = datapath.load_arm("bpfcc")
        require(arm.state == ArmState.REFUSED and "BPF" in arm.reason, str(arm))
        client, server = loopback()
        flow = datapath.flows()[0]
        if arm.id:
            datapath.select(commands({flow.cookie: arm.id}))
        client.send(bytes(3000))
        time.sleep(0.1)
        require(congestion(client) == "m/cubic", congestion(client))
        client.close()
        server.close()
    program.kill()
    program.wait()


def a_missing_arm_is_unavailable_and_never_selected(_: Context) -> None:
    sh("rmmod tcp_yeah; mkdir -p /tmp/away && mv $(find /lib/modules/ -name 'tcp_yeah.ko*') /tmp/away/")
    home = sh("dirname $(find /lib/modules/ -name 'tcp_vegas.ko*')").stdout.strip()
    with loaded() as datapath:
        yeah = next(arm for arm in datapath.arms() if arm.name == "yeah")
        require(yeah.state == ArmState.UNAVAILABLE and bool(yeah.reason), str(yeah))
        client, server = loopback()
        flow = datapath.flows()[0]
        require(datapath.select(commands({flow.cookie: yeah.id})).refused == 1, "select took it")
        attempts: tuple[Callable[[], None], ...] = (
            lambda: datapath.pin(flow.cookie, yeah.id),
            lambda: datapath.set_config(default_arm=yeah.id),
            lambda: datapath.set_config(fallback_arm=yeah.id),
        )
        for attempt in attempts:
            try:
                attempt()
            except RequestRefusedError as error:
                require(bool(error.reason), f"refused without a reason: {error}")
            else:
                raise AssertionError("an unavailable arm was accepted")
        client.send(bytes(1000))
        require(congestion(client) == "m/cubic", congestion(client))
        # Once the machine has it, it is found on demand.
        sh(f"mv /tmp/away/* {home}/")
        require(datapath.load_arm("yeah").available, "not found on demand")
        require(datapath.select(commands({flow.cookie: yeah.id})).applied == 1, "not applied")
        client.close()
        server.close()


def parameters_are_checked_and_obeyed(_: Context) -> None:
    for bad in ("default_arm=nosuch", "fallback_arm=ltp", "watchdog_ms=3600001", "restore=maybe"):
        require(sh(f"insmod /lib/mutant/tcp_mutant.ko {bad}", check=False).returncode != 0, f"{bad} is taken")
    given = {"default_arm": "vegas", "fallback_arm": "westwood", "watchdog_ms": 250, "restore": "reinit"}
    with loaded(**given) as datapath:
        config = datapath.config()
        names = {arm.id: arm.name for arm in datapath.arms()}
        told = {
            "default_arm": names[config.default_arm],
            "fallback_arm": names[config.fallback_arm],
            "watchdog_ms": config.watchdog_ms,
            "restore": config.restore.name.lower().replace("_", "-"),
        }
        require(told == given, f"{told} is not {given}")
        for client, server in (loopback(),):
            require(congestion(client) == "m/vegas", congestion(client))
            client.close()
            server.close()
        (PARAMETERS / "default_arm").write_text("bic")
        client, server = loopback()
        require(congestion(client) == "m/bic", congestion(client))
        client.close()
        server.close()
        datapath.set_config(restore=RestoreMode.REBASE, watchdog_ms=0)
        require((PARAMETERS / "restore").read_text().strip() == "rebase", "restore is not rebase")
        require((PARAMETERS / "watchdog_ms").read_text().strip() == "0", "watchdog_ms is not 0")
        config = datapath.config()
        try:
            datapath.set_config(default_arm=1, fallback_arm=15)
        except RequestRefusedError:
            require(datapath.config() == config, "half of a refused change was made")
        else:
            raise AssertionError("an unavailable fallback was accepted")


def unloading_with_flows_open_is_refused_then_clean(_: Context) -> None:
    with loaded() as datapath:
        client, server = loopback()
        require(not rmmod(), "rmmod went through with a flow open")
        client.send(b"still here")
        require(server.recv(100) == b"still here", "the flow is broken")
        require(len(datapath.flows()) == 1, "the flow is not known any more")
        client.close()
        server.close()
        # A listener, and a socket that never connected, hold the module too.
        for state in ("closed", "listening"):
            sock = socket.socket()
            choose(sock, "mutant")
            if state == "listening":
                sock.listen()
            require(not rmmod(), f"rmmod went through with a {state} socket open")
            sock.close()


def unloading_lets_go_of_every_protocol(_: Context) -> None:
    with loaded() as datapath:
        require(datapath.load_arm("cdg").available, "no cdg")
        require(not rmmod("tcp_cdg"), "an arm's protocol can be unloaded under it")
    for name in ("tcp_cdg", "tcp_bbr", "tcp_illinois", "tcp_yeah", "tcp_vegas"):
        require(rmmod(name), f"{name} is still held")


CHECKS = (
    every_arm_is_found,
    an_arm_that_cannot_be_one_is_refused_with_a_reason,
    a_bpf_program_is_refused_as_an_arm,
    a_missing_arm_is_unavailable_and_never_selected,
    parameters_are_checked_and_obeyed,
    unloading_with_flows_open_is_refused_then_clean,
    unloading_lets_go_of_every_protocol,
)
