# SPDX-License-Identifier: Apache-2.0
"""Access to the measurement agent: only hosts of the networks that the operator names may send requests."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ltp_switcher.api.problems import ProblemError
from ltp_switcher.errors import ConfigError

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
LOOPBACK: Final[tuple[IpNetwork, ...]] = (
    ipaddress.IPv4Network("127.0.0.0/8"),
    ipaddress.IPv6Network("::1/128"),
)

log = logging.getLogger(__name__)


def networks(texts: Sequence[str], *, loopback: bool) -> tuple[IpNetwork, ...]:
    """Parse the networks of the option `--allow`, and add the loopback.

    Raises:
        ConfigError: a value is no network, or there is none although the agent listens beyond the loopback.
    """
    allowed = "a network such as 192.0.2.0/24 or 2001:db8::/32"
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise ConfigError("--allow", text, f"{allowed} ({error})") from None
    if not found and not loopback:
        raise ConfigError("--allow", "", f"{allowed}: the hosts that may ask, since others reach the address")
    return (*LOOPBACK, *found)


class AllowList:
    """ASGI middleware that answers 403 to hosts outside of the networks `allowed`."""

    def __init__(self, app: ASGIApp, allowed: Sequence[IpNetwork]) -> None:
        self.app = app
        self._allowed = tuple(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._permits(scope.get("client")):
            await self.app(scope, receive, send)
            return
        problem = ProblemError(403, "not-allowed", "the agent's --allow names no network of this host")
        await problem.response(scope["path"])(scope, receive, send)

    def _permits(self, client: tuple[str, int] | None) -> bool:
        if client is None:
            return False
        try:
            address = ipaddress.ip_address(client[0].partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._allowed)
