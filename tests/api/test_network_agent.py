# SPDX-License-Identifier: Apache-2.0
"""The measurement agent: counters of real and of described queues, what follows from them, and its API."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from ask import asker_of

from ltp_switcher.api.network_agent import main as agent
from ltp_switcher.api.network_agent import sources
from ltp_switcher.api.network_agent.app import create_app
from ltp_switcher.api.network_agent.collector import Collector
from ltp_switcher.api.network_agent.sources import LablinkSource, QdiscSource, source
from ltp_switcher.errors import ConfigError, DatapathError
from ltp_switcher.policies.network import Counters


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
    assert ask("POST", "/v1/network").json()["allowed"] == "GET"


@pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc of iproute2")
def test_the_loopbacks_queue_can_be_read() -> None:
    counters = QdiscSource("lo", 1e9).read()
    assert counters.capacity_bps == 1e9
    assert counters.received_pkts >= counters.sent_pkts >= 0


@pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc of iproute2")
def test_a_device_that_is_not_there_says_so() -> None:
    with pytest.raises(DatapathError, match="nosuchdev0"):
        QdiscSource("nosuchdev0").read()


def test_a_token_bucket_knows_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        {"kind": "ingress", "handle": "ffff:"},
        {
            "kind": "tbf", "root": True, "options": {"rate": 1_250_000}, "bytes": 3000, "packets": 2,
            "drops": 5, "qlen": 7,
        },
    ]  # fmt: skip
    monkeypatch.setattr(
        sources.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess((), 0, json.dumps(told))
    )
    counters = QdiscSource("eth9").read()
    assert (counters.received_pkts, counters.sent_pkts, counters.sent_bytes) == (14, 2, 3000)
    assert counters.capacity_bps == 10e6


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
        (["--node", "qdisc:lo", "--node", "qdisc:lo"], "--node"),
        (["--node", "qdisc:lo", "--path-nodes", "0"], "--path-nodes"),
        (["--node", "qdisc:lo", "--listen", "router:1"], "--listen"),
    ],
)
def test_bad_arguments_are_named(
    arguments: list[str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agent.main(arguments) == 1
    assert field in capsys.readouterr().err
