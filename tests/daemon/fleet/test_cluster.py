# SPDX-License-Identifier: Apache-2.0
"""A store of three nodes, each of which has a third of the keys."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ports import free_port
from support.sharing import until
from support.site_store import SiteStore, site_store
from support.told_daemon import ToldDaemon

from ltp_switcher.daemon.fleet.exchange import Exchange
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.settings.fleet import FleetSection

SLOTS = ("0 5460", "5461 10922", "10923 16383")
"""Keys of each node, by the hash of their names."""
PREFIXES = [f"192.0.{third}.0/24" for third in range(12)]
PATIENCE_S = 60.0


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[list[str], list[SiteStore]]]:
    """A cluster's addresses and nodes."""
    ports = [free_port() for _ in SLOTS]
    with contextlib.ExitStack() as stack:
        nodes = []
        for port in ports:
            own = folder / str(port)
            own.mkdir()
            options = ["--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"]
            # By itself a node takes a port that is larger by 10,000, which may not exist.
            nodes.append(stack.enter_context(site_store(own, [*options, "--cluster-port", str(free_port())])))
        for node, slots in zip(nodes, SLOTS, strict=True):
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", *slots.split())
        for port, node in zip(ports[1:], nodes[1:], strict=True):
            bus = int(node.client.config_get("cluster-port")["cluster-port"])  # type: ignore[index]
            nodes[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        until(
            lambda: all(
                b"cluster_state:ok" in node.client.execute_command("CLUSTER", "INFO") for node in nodes
            ),
            PATIENCE_S,
        )
        yield [f"127.0.0.1:{port}" for port in ports], nodes


def test_hosts_share_through_a_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path) as (addresses, nodes):
        settings = FleetSection(store=tuple(addresses), kind="cluster", tls="off")
        daemons = {name: ToldDaemon() for name in ("a", "b")}
        exchanges = [Exchange(settings, name, each, Store(settings)) for name, each in daemons.items()]
        for prefix in PREFIXES:
            daemons["a"].learn(prefix, bbr=(0.5, 0.05))
            daemons["b"].learn(prefix)
        for _ in range(2):
            for each in exchanges:
                each.run(time.time())
        for prefix in PREFIXES:
            assert daemons["b"].told[prefix]["bbr"][0] == pytest.approx(0.5, rel=1e-3)
        assert all(each.status["reachable"] and not each.status["error"] for each in daemons.values())
        kept = [node.client.dbsize() for node in nodes]
        assert sum(kept) >= len(PREFIXES)
        assert min(kept) > 0, "each node has a part"
        for exchange in exchanges:
            exchange._store.close()
