# SPDX-License-Identifier: Apache-2.0
"""The settings of the exchange of knowledge between hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ltp_switcher.daemon.settings.rules import Section, key
from ltp_switcher.errors import ConfigError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME_RULE: Final = "up to 64 letters, digits, dots, dashes and underscores, the first a letter or digit"
_ADDRESS_RULE: Final = "HOST:PORT with a port from 1 to 65535, [IPV6]:PORT, or the path of a UNIX socket"


@dataclass(frozen=True, slots=True)
class FleetSection(Section):
    """The exchange of knowledge between the hosts of a site (`ltp-switcher-fleet`); see docs/fleet.md."""

    share: str = key(
        "off",
        "on: the service ltp-switcher-fleet shares what visits have taught with the other hosts of the site, "
        "over a store of the Redis protocol. This takes visits.learn = on.",
        choices=("off", "on"),
    )
    store: tuple[str, ...] = key(
        ("127.0.0.1:6379",),
        "Addresses of the store, HOST:PORT: one of a single store, some of the sentinels or of the nodes of "
        "a cluster. A path names a UNIX socket.",
    )
    kind: str = key(
        "single",
        "single: one store. sentinel: the addresses belong to sentinels. cluster: the addresses "
        "belong to the nodes of a cluster.",
        choices=("single", "sentinel", "cluster"),
    )
    service: str = key("ltp-switcher", "With sentinels: the name by which they know the store.")
    tls: str = key(
        "on",
        "off: others can read and change the data on the way to the store and back. A UNIX socket"
        " has no TLS.",
        choices=("on", "off"),
    )
    tls_ca: str = key(
        "",
        "File with the certificates to which the store's certificate must lead. Empty: the "
        "system's certificates.",
    )
    user: str = key(
        "",
        "User of the store. The password is the credential fleet-password (LoadCredential of systemd.exec).",
    )
    site: str = key("default", "Name of the site. Hosts of different sites do not hear each other.")
    host: str = key(
        "", "Name of this host. No other host of the site may have the same name. Empty: the machine's name."
    )
    shut_out: tuple[str, ...] = key((), "Names of hosts whose lessons do not count.")
    period_s: float = key(1.5, "Mean time between two exchanges with the store, s.", minimum=0.1, maximum=600)
    age_s: float = key(
        604_800.0, "Largest age of a host's lessons that count, s.", minimum=3600, maximum=31_536_000
    )

    def __post_init__(self) -> None:
        """Check addresses and names."""
        Section.__post_init__(self)
        if not self.store:
            raise ConfigError("fleet.store", list(self.store), "at least one address")
        for place, address in enumerate(self.store):
            if not address.startswith("/"):
                split_address(address, f"fleet.store[{place}]")
            elif self.kind != "single":
                raise ConfigError(f"fleet.store[{place}]", address, "HOST:PORT of a sentinel or node")
        if self.kind == "single" and len(self.store) > 1:
            raise ConfigError("fleet.store", list(self.store), "one address, unless fleet.kind is another")
        names = [("fleet.site", self.site), ("fleet.service", self.service)]
        names += [("fleet.host", self.host)] if self.host else []
        names += [(f"fleet.shut_out[{place}]", name) for place, name in enumerate(self.shut_out)]
        for field, name in names:
            if not NAME.fullmatch(name):
                raise ConfigError(field, name, _NAME_RULE)


def split_address(address: str, field: str) -> tuple[str, int]:
    """Split an address into host and port. Raises `ConfigError`, which names the setting `field`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ConfigError(field, address, _ADDRESS_RULE)
    return host, int(port)
