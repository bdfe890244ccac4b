# SPDX-License-Identifier: Apache-2.0
"""A store behind a real sentinel, which fails over to a replica."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ports import free_port
from support.sharing import until
from support.site_store import server, site_store
from support.told_daemon import ToldDaemon
from valkey import Valkey
from valkey.exceptions import ValkeyError

from ltp_switcher.daemon.fleet.exchange import Exchange
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.settings.fleet import FleetSection

PREFIX, SERVICE = "192.0.2.0/24", "lessons"
PATIENCE_S = 120.0


@contextlib.contextmanager
def sentinel(folder: Path, of: int) -> Iterator[int]:
    """A sentinel that watches a store's port; its own port."""
    port, settings = free_port(), folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor {SERVICE} 127.0.0.1 {of} 1\n"
        f"sentinel down-after-milliseconds {SERVICE} 500\nsentinel failover-timeout {SERVICE} 5000\n"
    )
    process = subprocess.Popen([server(), settings, "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        with Valkey(port=port) as client:

            def knows_the_replica() -> bool:
                try:
                    (replica,) = client.execute_command("SENTINEL", "REPLICAS", SERVICE)
                except (ValkeyError, ValueError):
                    return False
                told = dict(zip(replica[::2], replica[1::2], strict=True))
                return bool(told[b"master-link-status"] == b"ok")

            until(knows_the_replica, PATIENCE_S)
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_hosts_follow_a_failover(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    folders = [tmp_path / name for name in ("first", "second")]
    options = [["--port", str(port), "--bind", "127.0.0.1"] for port in ports]
    options[1] += ["--replicaof", f"127.0.0.1 {ports[0]}"]
    for folder in folders:
        folder.mkdir()
    with (
        site_store(folders[0], options[0]) as first,
        site_store(folders[1], options[1]) as second,
        sentinel(tmp_path, ports[0]) as port,
    ):
        settings = FleetSection(
            store=(f"127.0.0.1:{port}",), kind="sentinel", service=SERVICE, tls="off"
        )  # fmt: skip
        daemons = {name: ToldDaemon() for name in ("a", "b")}
        exchanges = [Exchange(settings, name, each, Store(settings)) for name, each in daemons.items()]

        def exchange() -> None:
            for each in exchanges:
                each.run(time.time())

        daemons["a"].learn(PREFIX, bbr=(0.5, 0.05))
        daemons["b"].learn(PREFIX)
        exchange()
        exchange()
        assert daemons["b"].told[PREFIX]["bbr"][0] == pytest.approx(0.5, rel=1e-3)
        until(lambda: second.lessons(PREFIX), PATIENCE_S)
        first.kill()
        daemons["a"].learn(PREFIX, bbr=(0.9, 0.05))
        exchange()
        assert "cannot be reached" in daemons["b"].status["error"]
        assert daemons["b"].told[PREFIX]["bbr"][0] == pytest.approx(0.5, rel=1e-3)

        def is_known() -> bool:
            exchange()
            return bool(daemons["b"].told[PREFIX]["bbr"][0] > 0.8)

        until(is_known, PATIENCE_S)
        assert second.client.info("replication")["role"] == "master"  # type: ignore[index]
        assert all(each.status["reachable"] for each in daemons.values())
        for each in exchanges:
            each._store.close()
