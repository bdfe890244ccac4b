# SPDX-License-Identifier: Apache-2.0
"""Who wins: each way in which a congestion control can be chosen, with and without the program.

Each case opens a connection of this machine and returns the congestion control that it runs. All cases run
twice: before `use`, and with `NAMED` in use.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kmod_guest.harness import Check, Context, require, sh
from kmod_guest.net import choose, congestion, ip, namespace

from .world import NAMED, OTHER, OWN, PEER, SIX, default, is_mutant, reset, using

TABLE = Path("/tmp/winners.json")  # noqa: S108
TCP_FASTOPEN, MSG_FASTOPEN, SYN_DATA = 23, 0x20000000, 32
Case = Callable[[str], str]

DEFAULT = "cubic"


def _listener(family: int = socket.AF_INET, *, far: bool, proto: int = 0) -> socket.socket:
    """A listener for all addresses, at the peer or here."""
    if far:
        with namespace(PEER):
            made = socket.socket(family, proto=proto)
    else:
        made = socket.socket(family, proto=proto)
    made.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))  # noqa: S104
    made.listen(16)
    return made


def _out(address: str, sock: socket.socket, then: Callable[[socket.socket], None] | None = None) -> str:
    """The congestion control of a socket once it is connected to the peer."""
    with _listener(sock.family, far=True) as listener:
        sock.connect((address, listener.getsockname()[1]))
        server, _ = listener.accept()
    if then is not None:
        then(sock)
    name = congestion(sock)
    reset(sock, server)
    return name


def _in(address: str, listener: socket.socket) -> str:
    """The congestion control of the connection that a listener of this machine accepts from the peer."""
    with namespace(PEER):
        client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    client.bind((address, 0))
    client.connect((SIX[OWN] if ":" in address else OWN, listener.getsockname()[1]))
    server, _ = listener.accept()
    name = congestion(server)
    reset(client, server)
    listener.close()
    return name


def a_client(address: str) -> str:
    return _out(address, socket.socket())


def a_server(address: str) -> str:
    return _in(address, _listener(far=False))


def a_client_that_chose_before_connect(address: str) -> str:
    sock = socket.socket()
    choose(sock, "reno")
    return _out(address, sock)


def a_client_that_chose_the_default_by_name(address: str) -> str:
    sock = socket.socket()
    choose(sock, DEFAULT)
    return _out(address, sock)


def a_client_that_chose_after_connect(address: str) -> str:
    return _out(address, socket.socket(), lambda sock: choose(sock, "reno"))


def a_server_whose_listener_chose(address: str) -> str:
    listener = _listener(far=False)
    choose(listener, "reno")
    return _in(address, listener)


def _over_route(address: str, choice: str) -> str:
    ip(f"route add {address}/32 dev near0 congctl {choice}")
    try:
        names = {_out(address, socket.socket()), _in(address, _listener(far=False))}
    finally:
        ip(f"route del {address}/32 dev near0")
    return "/".join(sorted(names)) if len(names) > 1 else names.pop()


def a_route_that_names_another(address: str) -> str:
    return _over_route(address, "reno")


def a_route_that_locks_another(address: str) -> str:
    return _over_route(address, "lock reno")


def a_route_that_locks_the_default(address: str) -> str:
    return _over_route(address, f"lock {DEFAULT}")


def a_route_that_names_the_default(address: str) -> str:
    """This is the one case that the program cannot tell from no choice at all."""
    return _over_route(address, DEFAULT)


def _subflow(local_port: int) -> str:
    """The congestion control of a connection of this machine by its own port, as ss(8) tells it."""
    told = sh(f"ss -tinOH 'sport = :{local_port}'").stdout
    found = re.findall(
        r"tcp-ulp-mptcp.*?\b(cubic|reno|mutant|m/\w+)\b|\b(cubic|reno|m/\w+)\b.*?tcp-ulp-mptcp", told
    )
    require(len(found) == 1, f"no subflow: {told}")
    return "".join(found[0])


def a_subflow_of_a_multipath_client(address: str) -> str:
    with _listener(far=True, proto=socket.IPPROTO_MPTCP) as listener:
        client = socket.socket(proto=socket.IPPROTO_MPTCP)
        client.connect((address, listener.getsockname()[1]))
        server, _ = listener.accept()
    client.send(b"x")
    server.recv(1)
    name = _subflow(client.getsockname()[1])
    client.close()
    server.close()
    time.sleep(0.1)
    return name


def a_subflow_of_a_multipath_server(address: str) -> str:
    with _listener(far=False, proto=socket.IPPROTO_MPTCP) as listener:
        with namespace(PEER):
            client = socket.socket(proto=socket.IPPROTO_MPTCP)
        client.bind((address, 0))
        client.connect((OWN, listener.getsockname()[1]))
        server, _ = listener.accept()
        client.send(b"x")
        server.recv(1)
        name = _subflow(listener.getsockname()[1])
    client.close()
    server.close()
    time.sleep(0.1)
    return name


def a_plain_client_of_a_multipath_listener(address: str) -> str:
    with _listener(far=False, proto=socket.IPPROTO_MPTCP) as listener:
        with namespace(PEER):
            client = socket.socket()
        client.bind((address, 0))
        client.connect((OWN, listener.getsockname()[1]))
        server, _ = listener.accept()
        name = congestion(server)
    reset(client, server)
    return name


def _fast(here: bool, address: str) -> str:
    """Fast Open from one side to the other, the second time with data in the SYN."""
    listener = _listener(far=here)
    listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 16)
    target = (address if here else OWN, listener.getsockname()[1])
    for _ in range(2):
        if here:
            client = socket.socket()
        else:
            with namespace(PEER):
                client = socket.socket()
            client.bind((address, 0))
        client.sendto(b"hello", MSG_FASTOPEN, target)
        server, _address = listener.accept()
        require(server.recv(5) == b"hello", "other data")
        name = congestion(client if here else server)
        fast = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5] & SYN_DATA
        reset(client, server)
    require(bool(fast), "no data in the SYN")
    listener.close()
    return name


@contextmanager
def _fast_open() -> Iterator[None]:
    for inside in ("", f"ip netns exec {PEER} "):
        sh(f"{inside}sysctl -qw net.ipv4.tcp_fastopen=3")
    try:
        yield
    finally:
        for inside in ("", f"ip netns exec {PEER} "):
            sh(f"{inside}sysctl -qw net.ipv4.tcp_fastopen=1; {inside}ip tcp_metrics flush")


def a_client_with_fast_open(address: str) -> str:
    with _fast_open():
        return _fast(True, address)


def a_server_with_fast_open(address: str) -> str:
    with _fast_open():
        return _fast(False, address)


def a_client_over_ipv6(address: str) -> str:
    return _out(SIX[address], socket.socket(socket.AF_INET6))


def a_server_over_ipv6(address: str) -> str:
    return _in(SIX[address], _listener(socket.AF_INET6, far=False))


def a_client_over_v4_mapped_addresses(address: str) -> str:
    return _out(f"::ffff:{address}", socket.socket(socket.AF_INET6))


def a_server_over_v4_mapped_addresses(address: str) -> str:
    return _in(address, _listener(socket.AF_INET6, far=False))


def a_client_in_a_container(address: str) -> str:
    """The peer's namespace stands for a container's: its flow to this machine is none of the initial one."""
    del address
    with _listener(far=False) as listener:
        with namespace(PEER):
            client = socket.socket()
        client.connect((OWN, listener.getsockname()[1]))
        server, _ = listener.accept()
    name = congestion(client)
    reset(client, server)
    return name


STEERED: tuple[Case, ...] = (
    a_client, a_server, a_route_that_names_the_default, a_plain_client_of_a_multipath_listener,
    a_client_with_fast_open, a_server_with_fast_open, a_client_over_ipv6, a_server_over_ipv6,
    a_client_over_v4_mapped_addresses, a_server_over_v4_mapped_addresses,
)  # fmt: skip
LEFT: tuple[Case, ...] = (
    a_client_that_chose_before_connect, a_client_that_chose_the_default_by_name,
    a_client_that_chose_after_connect, a_server_whose_listener_chose, a_route_that_names_another,
    a_route_that_locks_another, a_route_that_locks_the_default, a_subflow_of_a_multipath_client,
    a_subflow_of_a_multipath_server, a_client_in_a_container,
)  # fmt: skip


def _all() -> dict[str, dict[str, str]]:
    """What each case runs, by case and address."""
    return {
        case.__name__: {address: case(address) for address in (NAMED, OTHER)} for case in (*STEERED, *LEFT)
    }


_BEFORE: dict[str, dict[str, str]] = {}
_WITH: dict[str, dict[str, str]] = {}


def every_case_runs_with_and_without_the_program(_context: Context) -> None:
    _BEFORE.update(_all())
    with using([*(f"{address}/32" for address in (NAMED, OWN)), f"{SIX[NAMED]}/128"]):
        _WITH.update(_all())
    TABLE.write_text(json.dumps({case: {"before": _BEFORE[case], "with": _WITH[case]} for case in _BEFORE}))
    require(_all() == _BEFORE, "something else runs after `unuse`")


def _check(case: Case, *, steered: bool) -> Check:
    def check(_context: Context) -> None:
        name = case.__name__
        require(name in _WITH, "the cases did not run")
        before, now = _BEFORE[name], _WITH[name]
        require(now[OTHER] == before[OTHER], f"an unnamed flow ran {before[OTHER]}, and now {now[OTHER]}")
        if steered:
            require(is_mutant(now[NAMED]), f"the named flow runs {now[NAMED]}")
            require(not is_mutant(before[NAMED]), f"it ran {before[NAMED]} before")
        else:
            require(now[NAMED] == before[NAMED], f"the flow ran {before[NAMED]}, and now {now[NAMED]}")

    check.__name__ = case.__name__
    return check


def other_defaults_give_way_to_mutant_for_named_flows_alone(_context: Context) -> None:
    for name in ("reno", "bbr", "cdg", "dctcp"):
        with default(name):
            before: Mapping[str, str] = {address: a_client(address) for address in (NAMED, OTHER)}
            with using():
                for case in (a_client, a_server):
                    require(is_mutant(case(NAMED)), f"{name}, {case.__name__}: {case(NAMED)}")
                require(a_client(OTHER) == before[OTHER], f"{name}: {a_client(OTHER)}")
            require(a_client(NAMED) == before[NAMED], f"{name}: {a_client(NAMED)} after `unuse`")


def mutant_as_the_default_stays(_context: Context) -> None:
    with default("mutant"), using():
        require(is_mutant(a_client(NAMED)) and is_mutant(a_client(OTHER)), "a flow is not under mutant")


CHECKS: tuple[Check, ...] = (
    every_case_runs_with_and_without_the_program,
    *(_check(case, steered=True) for case in STEERED),
    *(_check(case, steered=False) for case in LEFT),
    other_defaults_give_way_to_mutant_for_named_flows_alone,
    mutant_as_the_default_stays,
)
