# SPDX-License-Identifier: Apache-2.0
"""The measurement agent: counters of real and of described queues, its values from them, and its API."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from support.api_client import asker_of
from support.ports import free_port

from ltp_switcher.api.network_agent import main as agent
from ltp_switcher.api.network_agent import sources
from ltp_switcher.api.network_agent.allowed import networks
from ltp_switcher.api.network_agent.app import create_app
from ltp_switcher.api.network_agent.collector import Collector
from ltp_switcher.api.network_agent.sources import LablinkSource, QdiscSource, source
from ltp_switcher.errors import ConfigError, DatapathError
from ltp_switcher.policies.runtime.path_knowledge import Counters


class Scripted:
    """A node that gives these counters one after another, and then cannot be read."""

    def __init__(self, name: str, *counters: Counters) -> None:
        self.name = name
        self._left = list(counters)

    def read(self) -> Counters:
        if not self._left:
            raise DatapathError("gone")
        return self._left.pop(0)


def test_two_nodes_become_one_answer_and_a_lost_node_is_unknown() -> None:
    congested = Scripted("a", Counters(0.0, 100, 100, 10_000, 1e6), Counters(1.0, 350, 200, 110_000, 1e6))
    idle = Scripted("b", *(Counters(float(at), 100 * at, 100 * at, 12_500 * at, 1e6) for at in range(3)))
    collector = Collector([congested, idle], path_nodes=5)
    ask = asker_of(create_app(collector))
    collector.read()
    refused = ask("GET", "/v1/network")
    assert refused.status_code == 503
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["type"] == "urn:ltp-switcher:problem:nothing-known"
    collector.read()
    told = ask("GET", "/v1/network").json()
    assert (told["pnc_pkts"], told["pna"], told["known"]) == pytest.approx((150.0, 0.2, 0.4))
    assert [node["name"] for node in told["nodes"]] == ["a", "b"]
    collector.read()
    told = ask("GET", "/v1/network").json()
    assert (told["pnc_pkts"], told["pna"], told["known"]) == pytest.approx((0.0, 0.9, 0.2))


def test_what_is_not_there_is_a_problem_too() -> None:
    ask = asker_of(create_app(Collector([], 1)))
    assert ask("GET", "/v1/nothing").json()["status"] == 404
    assert ask("POST", "/v1/network").json()["allowed"] == "GET, HEAD"


def kernel_tells(monkeypatch: pytest.MonkeyPatch, *told: dict[str, object]) -> None:
    monkeypatch.setattr(sources, "qdiscs", lambda _: list(told))


def nested(**attributes: object) -> dict[str, object]:
    return {"attrs": list(attributes.items())}


def counted(packets: int, sent_bytes: int, drops: int, qlen: int) -> dict[str, object]:
    return nested(
        TCA_STATS_BASIC={"packets": packets, "bytes": sent_bytes},
        TCA_STATS_QUEUE={"drops": drops, "qlen": qlen},
    )


@pytest.fixture
def inside() -> Iterator[Callable[[str], str]]:
    """Runs Python in a network namespace whose loopback has a token bucket, after a connection over it."""
    name = f"ltp-agent-{uuid.uuid4().hex[:8]}"
    if os.geteuid():
        pytest.skip("needs root, for a network namespace of its own")
    for command in (
        f"ip netns add {name}",
        f"ip -n {name} link set lo up",
        f"tc -n {name} qdisc add dev lo root tbf rate 8mbit burst 32k latency 50ms",
    ):
        subprocess.run(command.split(), check=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    yield lambda program: subprocess.run(
        ["ip", "netns", "exec", name, sys.executable, "-c", program],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_devices_queue_can_be_read(inside: Callable[[str], str]) -> None:
    """The counters of a real queue, of packets that really passed."""
    counters = inside(
        "import socket\n"
        "from ltp_switcher.api.network_agent.sources import QdiscSource\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    with socket.create_connection(server.getsockname()) as client:\n"
        "        client.sendall(bytes(5000)); peer, _ = server.accept()\n"
        "        left = 5000\n"
        "        while left: left -= len(peer.recv(left))\n"
        "        c = QdiscSource('lo').read()\n"
        "print(c.received_pkts, c.sent_pkts, c.sent_bytes, c.capacity_bps)"
    ).split()
    received, sent, sent_bytes, capacity_bps = map(float, counters)
    assert received >= sent >= 4
    assert sent_bytes > 5000
    assert capacity_bps == 8e6


NO_QUEUE = {"TCA_KIND": "noqueue", "TCA_STATS2": counted(0, 0, 0, 0)}
"""What the kernel tells of a bridge, a VLAN, a veth or the loopback, whatever passes."""


def test_a_device_without_a_queue_is_no_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its counters stay 0, and a loaded path would be told to be empty."""
    kernel_tells(monkeypatch, NO_QUEUE)
    with pytest.raises(DatapathError, match="br0 has no queue"):
        QdiscSource("br0").read()
    monkeypatch.setattr(agent.logs, "set_up", lambda _: None)
    monkeypatch.setattr(agent.uvicorn.Server, "run", lambda *_, **__: None)
    assert agent.main(["--node", "qdisc:br0@100", "--listen", f"127.0.0.1:{free_port()}"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ltp-owl-agent: br0 has no queue")
    assert "tc qdisc add dev br0 root fq_codel" in told


@pytest.mark.parametrize(
    ("kinds", "known"),
    [
        (["htb", "fq_codel"], False),
        (["hfsc"], False),
        (["cake"], False),
        (["netem"], False),
        (["prio", "fq", "tbf"], False),
        (["mq", "fq_codel", "htb"], False),
        (["mq", "fq_codel", "clsact"], True),
        (["fq"], True),
        (["a_new_one"], False),
    ],
)
def test_the_port_s_speed_is_the_capacity_only_where_nothing_shapes(
    kinds: list[str], known: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class of 100 Mbit/s on a port of 10 Gbit/s would look idle when it is full."""
    kernel_tells(monkeypatch, *({"TCA_KIND": kind, "TCA_STATS2": counted(10, 1000, 1, 2)} for kind in kinds))
    monkeypatch.setattr(QdiscSource, "_device_speed", lambda _: 10e9)
    assert QdiscSource("eth9", 100e6).read().capacity_bps == 100e6
    if known:
        assert QdiscSource("eth9").read().capacity_bps == 10e9
        return
    monkeypatch.setattr(agent.logs, "set_up", lambda _: None)
    assert agent.main(["--node", "qdisc:eth9", "--listen", f"127.0.0.1:{free_port()}"]) == 1
    assert "qdisc:eth9@100 for 100 Mbit/s" in capsys.readouterr().err


def test_a_token_bucket_over_a_queue_that_shapes_knows_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = {
        "TCA_KIND": "tbf", "TCA_STATS2": counted(10, 1000, 1, 2),
        "TCA_OPTIONS": nested(TCA_TBF_PARMS={"rate": 1_000_000}),
    }  # fmt: skip
    kernel_tells(monkeypatch, bucket, {"TCA_KIND": "bfifo"})
    assert QdiscSource("eth9").read().capacity_bps == 8e6
    kernel_tells(monkeypatch, bucket, {"TCA_KIND": "netem"})
    with pytest.raises(DatapathError, match="netem"):
        QdiscSource("eth9").read()


def test_a_device_may_come_after_the_agent(tmp_path: Path) -> None:
    with Process(tmp_path / "later") as process:
        assert httpx.get(process.url).status_code == 503


def test_a_device_that_is_not_there_says_so() -> None:
    with pytest.raises(DatapathError, match="nosuchdev0"):
        QdiscSource("nosuchdev0").read()


def test_a_token_bucket_knows_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "TCA_KIND": "tbf",
        "TCA_OPTIONS": nested(TCA_TBF_PARMS={"rate": 1_250_000}),
        "TCA_STATS2": counted(2, 3000, 5, 7),
    }
    kernel_tells(monkeypatch, told)
    counters = QdiscSource("eth9").read()
    assert (counters.received_pkts, counters.sent_pkts, counters.sent_bytes) == (14, 2, 3000)
    assert counters.capacity_bps == 10e6
    told["TCA_OPTIONS"] = nested(TCA_TBF_PARMS={"rate": 2**32 - 1}, TCA_TBF_RATE64=5_000_000_000)
    assert QdiscSource("eth9").read().capacity_bps == 40e9


def test_the_labs_link_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "lablink"
    flows = struct.pack("=8Q", 10, 15_000, 3, 1, 20, 30_000, 4, 2)
    path.write_bytes(struct.pack("=QII", 5, 6, 2) + flows)
    counters = LablinkSource("link", path, 12e6).read()
    assert (counters.received_pkts, counters.sent_pkts, counters.sent_bytes) == (43, 30, 45_000)
    path.write_bytes(b"short")
    with pytest.raises(DatapathError, match="5 bytes"):
        LablinkSource("link", path).read()


def test_nodes_are_named_by_kind_and_rate() -> None:
    assert source("qdisc:eth0@100") == QdiscSource("eth0", 100e6)
    assert source("lablink:/dev/lablink") == LablinkSource("/dev/lablink", Path("/dev/lablink"))


@pytest.mark.parametrize("text", ["eth0", "qdisc:", "qdisc:eth0@fast", "qdisc:eth0@0", "tc:eth0"])
def test_other_names_of_nodes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--node"):
        source(text)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--node", "lablink:/no", "--node", "lablink:/no"], "--node"),
        (["--node", "lablink:/no", "--path-nodes", "0"], "--path-nodes"),
        (["--node", "lablink:/no", "--listen", "router:1"], "--listen"),
        (["--node", "lablink:/no", "--allow", "192.0.2.1/24"], "--allow"),
        (["--node", "lablink:/no", "--listen", "0.0.0.0:9"], "--allow"),
    ],
)
def test_bad_arguments_are_named(
    arguments: list[str],
    field: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent.logs, "set_up", lambda _: None)
    assert agent.main(arguments) == 1
    assert field in capsys.readouterr().err


@pytest.mark.parametrize(
    ("client", "status"),
    [
        ("127.0.0.1", 503), ("::1", 503), ("192.0.2.77", 503), ("::ffff:192.0.2.77", 503),
        ("2001:db8::5", 503),
        ("192.0.3.1", 403), ("2001:db9::5", 403), ("fe80::1%eth0", 403), ("nobody", 403),
    ],
)  # fmt: skip
def test_only_named_hosts_are_answered(client: str, status: int) -> None:
    app = create_app(Collector([], 1), networks(["192.0.2.0/24", "2001:db8::/32"], loopback=False))
    transport = httpx.ASGITransport(app, client=(client, 40000))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as user:
            return await user.get("/v1/network")

    answer = asyncio.run(ask())
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


class Process:
    """The program on a link's counters, from the first answer on."""

    def __init__(self, counters: Path) -> None:
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}/v1/network"
        program = [sys.executable, "-m", "ltp_switcher.api.network_agent.main"]
        self._process = subprocess.Popen(
            [*program, "--node", f"lablink:{counters}", "--listen", address],
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Process:
        while self._process.poll() is None:
            try:
                httpx.get(self.url)
            except httpx.ConnectError:
                time.sleep(0.01)
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit status after a signal, and what it said in all."""
        self._process.send_signal(number)
        _, said = self._process.communicate(timeout=60)
        return self._process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_order(number: signal.Signals, tmp_path: Path) -> None:
    with Process(tmp_path / "lablink") as process:
        status, said = process.end(number)
    assert status == 0
    assert "Traceback" not in said
