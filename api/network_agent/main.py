# SPDX-License-Identifier: Apache-2.0
"""`ltp-owl-agent`: the program that reads this router's queues every second, and serves the result until it
is stopped.
"""

from __future__ import annotations

import argparse
import ipaddress
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Final

import uvicorn

import ltp_switcher
from ltp_switcher.api.listen import tcp_socket
from ltp_switcher.api.network_agent.allowed import networks
from ltp_switcher.api.network_agent.app import create_app
from ltp_switcher.api.network_agent.collector import Collector
from ltp_switcher.api.network_agent.sources import UnfitNodeError, source
from ltp_switcher.api.protocol import server_config
from ltp_switcher.daemon.service import log as logs
from ltp_switcher.errors import ConfigError, DatapathError, LtpSwitcherError
from ltp_switcher.policies.runtime.path_knowledge import CounterSource

LISTEN: Final = "127.0.0.1:9481"
PATH_NODES_MAX: Final = 255
"""Largest number of nodes that a packet can pass on its way (RFC 791, Time to Live)."""
log = logging.getLogger("ltp_switcher.network_agent")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        logs.set_up("info")
        serve(_sources(options.node), options.path_nodes, options.listen, options.allow or [])
    except LtpSwitcherError as error:
        print(f"ltp-owl-agent: {error}", file=sys.stderr)
        return 1
    return 0


def serve(
    sources: Sequence[CounterSource], path_nodes: int | None, address: str, allow: Sequence[str]
) -> None:
    """Read this router's queues and answer requests until SIGTERM or SIGINT.

    Raises:
        ConfigError: an argument is out of range.
        ControlError: nothing can listen on the address.
        UnfitNodeError: a node can never be measured.
    """
    nodes = len(sources) if path_nodes is None else path_nodes
    if not len(sources) <= nodes <= PATH_NODES_MAX:
        raise ConfigError("--path-nodes", nodes, f"{len(sources)}, the number of --node, to {PATH_NODES_MAX}")
    for node in sources:
        _check(node)
    collector = Collector(sources, nodes)
    # uvicorn raises the signal again when it has shut down. By then our work is done.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with tcp_socket(address, "--listen", loopback_only=False) as listener:
        loopback = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        config = server_config(create_app(collector, networks(allow, loopback=loopback)))
        log.info("network knowledge on %s", listener.getsockname())
        collector.start()
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            collector.stop()


def _check(node: CounterSource) -> None:
    try:
        node.read()
    except UnfitNodeError:
        raise
    except DatapathError:
        # The node may come up later, and the collector logs it then.
        return


def _sources(texts: Sequence[str]) -> list[CounterSource]:
    sources = [source(text) for text in texts]
    if len({made.name for made in sources}) < len(sources):
        raise ConfigError("--node", list(texts), "each node once")
    return sources


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="ltp-owl-agent", description="Partial network knowledge of this router, over REST."
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {ltp_switcher.__version__}")
    made.add_argument(
        "--node",
        action="append",
        required=True,
        metavar="KIND:NAME[@MBIT]",
        help="a queue to read, and its link's rate, which a queue that may shape, such as htb, needs: "
        "qdisc:DEVICE, or lablink:FILE; may be repeated",
    )
    made.add_argument(
        "--path-nodes", type=int, metavar="N", help="nodes of the path in all (default: those given)"
    )
    made.add_argument(
        "--allow",
        action="append",
        metavar="NETWORK",
        help="hosts that may ask, beside this one; may be repeated, and is needed beyond the loopback",
    )
    made.add_argument("--listen", default=LISTEN, metavar="HOST:PORT", help=f"address (default {LISTEN})")
    return made


if __name__ == "__main__":
    sys.exit(main())
