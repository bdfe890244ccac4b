# SPDX-License-Identifier: Apache-2.0
"""Policies: rules of operators for flows to a prefix or a port, or of a network namespace.

A policy matches by destination prefix, network namespace, destination port, the server's own port, or by
several of these. If several policies match a flow, the one with the longest prefix decides. Among policies
with equally long prefixes, the order is: first those that name the namespace, then those that name the
destination port, then those that name the server's own port.

A policy excludes its flows, or holds them at an arm. Or it restricts the daemon: to some arms, to a number of
arms that team selection picks, or to an arm on which flows start.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, cast

from ltp_switcher import toml_file
from ltp_switcher.daemon.settings.prefixes import Network, prefix_of
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.errors import ConfigError, InvalidValueError

POLICIES_MAX: Final = 256
ARMS_MAX: Final = 20
PORT_MAX: Final = 65535
FIELDS: Final = ("prefix", "netns", "port", "local_port", "exclude", "pin", "pool", "k", "start")

NETNS_FOLDER: Final = Path("/run/netns")
"""The folder in which ip-netns(8) keeps named network namespaces."""
_NETNS_NAME: Final = re.compile(r"(?!\.{1,2}$)[!-.0-~]{1,64}")

Entry = None | bool | int | str | list[str]


NO_NAMESPACES: Final[Mapping[str, int]] = MappingProxyType({})


class Ends(Protocol):
    """The two ends of a flow. `FlowInfo` of the datapath has these members, among others."""

    @property
    def netns(self) -> int:
        """The inode of the flow's network namespace."""
        ...

    @property
    def local_port(self) -> int:
        """The server's own port of the flow."""
        ...

    @property
    def remote_address(self) -> str:
        """The address of the flow's destination."""
        ...

    @property
    def remote_port(self) -> int:
        """The port of the flow's destination."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. A member that is None or empty does not restrict anything."""

    prefix: Network | None = None
    netns: str | None = None
    """Name of a network namespace (ip-netns(8)), or the number of its inode."""
    port: int | None = None
    local_port: int | None = None
    exclude: bool = False
    pin: str | None = None
    pool: tuple[str, ...] = ()
    k: int | None = None
    start: str | None = None

    @property
    def match(self) -> str:
        """The flows that the policy matches, in words. No two policies in force have the same text."""
        parts = [] if self.prefix is None else [str(self.prefix)]
        parts += [] if self.netns is None else [f"namespace {self.netns}"]
        parts += [] if self.port is None else [f"port {self.port}"]
        parts += [] if self.local_port is None else [f"local port {self.local_port}"]
        return ", ".join(parts)

    @property
    def for_whole_prefix(self) -> bool:
        """Whether the policy matches by prefix alone. Only such policies fit in the kernel module's table of
        the arms on which flows begin.
        """
        return self.prefix is not None and not self.netns and not self.ports

    @property
    def ports(self) -> bool:
        """Whether the policy matches by port."""
        return self.port is not None or self.local_port is not None

    @property
    def arms(self) -> set[str]:
        """The arms that the policy names."""
        return {name for name in (self.pin, self.start, *self.pool) if name}

    def __str__(self) -> str:
        says = ["excluded"] if self.exclude else []
        says += [f"pin {self.pin}"] if self.pin else []
        says += [f"pool {' '.join(self.pool)}"] if self.pool else []
        says += [f"k {self.k}"] if self.k is not None else []
        says += [f"start {self.start}"] if self.start else []
        return f"{self.match}: {', '.join(says)}"

    def entry(self) -> dict[str, Entry]:
        """The policy in the form that `parse` takes."""
        fields: dict[str, Entry] = {
            "prefix": None if self.prefix is None else str(self.prefix),
            "netns": self.netns,
            "port": self.port,
            "local_port": self.local_port,
            "exclude": self.exclude or None,
            "pin": self.pin,
            "pool": list(self.pool) or None,
            "k": self.k,
            "start": self.start,
        }
        return {name: value for name, value in fields.items() if value is not None}


class Policies:
    """The operators' policies, and the search for a flow's policy. `entries` are in the order in which the
    policies are tried.
    """

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self.entries = tuple(sorted(policies, key=_specificity))
        self._by_length: dict[tuple[int, int], dict[int, list[Policy]]] = {}
        self._anywhere: list[Policy] = []
        for policy in self.entries:
            if policy.prefix is None:
                self._anywhere.append(policy)
            else:
                key = policy.prefix.version, policy.prefix.prefixlen
                address = int(policy.prefix.network_address)
                self._by_length.setdefault(key, {}).setdefault(address, []).append(policy)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def namespaces(self) -> dict[str, int]:
        """The inodes of the network namespaces that policies name, by name. Namespaces that do not exist are
        left out.
        """
        names = {policy.netns for policy in self.entries if policy.netns is not None}
        found = {name: namespace_inode(name) for name in names}
        return {name: inode for name, inode in found.items() if inode is not None}

    def of(self, flow: Ends, namespaces: Mapping[str, int] = NO_NAMESPACES) -> Policy | None:
        """The policy for a flow; None if no policy matches. `namespaces` is the result of the method
        `namespaces`.
        """
        for policy in self._towards(ipaddress.ip_address(flow.remote_address)):
            if (
                policy.port in (None, flow.remote_port)
                and policy.local_port in (None, flow.local_port)
                and (policy.netns is None or namespaces.get(policy.netns) == flow.netns)
            ):
                return policy
        return None

    def start_of(self, prefix: str) -> Policy | None:
        """The policy that decides on which arm flows to a whole prefix start, whatever their ports; None if
        no policy covers the prefix.

        The prefix must be one of the daemon's own network namespace, so its text has no @.
        """
        network = ipaddress.ip_network(prefix)
        for policy in self._towards(network.network_address):
            covers = policy.prefix is None or policy.prefix.prefixlen <= network.prefixlen
            if covers and not policy.netns and not policy.ports:
                return policy
        return None

    def starts(self) -> dict[str, str]:
        """The names of the arms on which flows start, by prefix. Only policies for whole prefixes count."""
        found = {}
        for policy in self.entries:
            arm = policy.start or policy.pin
            if policy.for_whole_prefix and arm:
                found[str(policy.prefix)] = arm
        return found

    def _towards(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Iterable[Policy]:
        number, most = int(address), address.max_prefixlen
        for (version, length), networks in self._by_length.items():
            if version == address.version:
                yield from networks.get(number >> (most - length) << (most - length), ())
        yield from self._anywhere


def parse(entries: object, *, arms: Sequence[str] | None = None, field: str = "policies") -> Policies:
    """Parse policies from a list of tables, as a TOML or JSON document has it. Raises `ConfigError`, which
    names the faulty place.

    `arms` are the names of the available arms. If it is None, any name passes.
    """
    if not isinstance(entries, list):
        raise ConfigError(field, entries, "a list of policies")
    if len(entries) > POLICIES_MAX:
        raise ConfigError(field, len(entries), f"at most {POLICIES_MAX} policies")
    found: list[Policy] = []
    places: dict[str, int] = {}
    for number, entry in enumerate(entries):
        place = f"{field}[{number}]"
        policy = _policy(entry, place, arms)
        if policy.match in places:
            raise ConfigError(
                place, policy.match, f"one policy for {policy.match}: see {field}[{places[policy.match]}]"
            )
        places[policy.match] = number
        found.append(policy)
    return Policies(found)


def read(path: Path) -> list[Mapping[str, object]]:
    """Read the tables `[[policy]]` of a TOML file. Their content is not checked. Raises `ConfigError`."""
    content = toml_file.read(path, "policies")
    unknown = [name for name in content if name != "policy"]
    entries = content.get("policy", [])
    if unknown or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError("policies", unknown[0] if unknown else "policy", "tables [[policy]]")
    return entries


def to_toml(policies: Policies) -> str:
    """The policies as a file that `read` takes, in the order in which the policies are tried."""
    return "\n".join(
        "".join(["[[policy]]\n", *(f"{name} = {_toml(value)}\n" for name, value in policy.entry().items())])
        for policy in policies.entries
    )


def _toml(value: Entry) -> str:
    # Texts, lists, numbers and true look the same in JSON and TOML, except for one mark.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def difference(before: Policies, after: Policies) -> tuple[list[Policy], list[Policy]]:
    """The policies that are removed, and the policies that are added. A policy that changes is in both
    results.
    """
    old, new = set(before.entries), set(after.entries)
    return [p for p in before.entries if p not in new], [p for p in after.entries if p not in old]


def namespace_inode(name: str) -> int | None:
    """The inode of a network namespace; None if no namespace has this name."""
    if name.isdecimal():
        return int(name)
    try:
        return (NETNS_FOLDER / name).stat().st_ino
    except OSError:
        return None


def _specificity(policy: Policy) -> tuple[int, bool, bool, bool, str]:
    length = -1 if policy.prefix is None else policy.prefix.prefixlen
    return -length, policy.netns is None, policy.port is None, policy.local_port is None, policy.match


def _policy(entry: object, place: str, arms: Sequence[str] | None) -> Policy:
    if not isinstance(entry, dict):
        raise ConfigError(place, entry, "a table")
    for name in entry:
        if name not in FIELDS:
            raise ConfigError(
                f"{place}.{name}", entry[name], f"{', '.join(FIELDS)}{did_you_mean(str(name), FIELDS)}"
            )
    fields = _Fields(cast("dict[str, object]", entry), place, arms)
    policy = Policy(
        prefix=fields.network("prefix"),
        netns=fields.namespace("netns"),
        port=fields.number("port", PORT_MAX),
        local_port=fields.number("local_port", PORT_MAX),
        exclude=fields.switch("exclude"),
        pin=fields.arm("pin"),
        pool=fields.pool(),
        k=fields.number("k", ARMS_MAX),
        start=fields.arm("start"),
    )
    _check(policy, place)
    return policy


def _check(policy: Policy, place: str) -> None:
    """Refuse combinations that nobody can mean."""
    if not policy.match:
        raise ConfigError(place, str(policy), "prefix, netns, port or local_port: the flows that it is for")
    says = [name for name in ("exclude", "pin", "pool", "k", "start") if getattr(policy, name)]
    if not says:
        raise ConfigError(place, policy.match, "exclude, pin, pool, k or start: what to do with the flows")
    alone = next((name for name in ("exclude", "pin") if name in says), "")
    if alone and len(says) > 1:
        raise ConfigError(f"{place}.{alone}", getattr(policy, alone), f"{alone} alone, without {says[-1]}")
    if policy.start and not policy.for_whole_prefix:
        allowed = "a start with a prefix alone, without port and namespace, as the kernel knows no more"
        raise ConfigError(f"{place}.start", policy.start, allowed)
    if policy.pool and policy.k is not None and policy.k > len(policy.pool):
        raise ConfigError(f"{place}.k", policy.k, f"at most {len(policy.pool)}, the arms of its pool")


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of one entry, each checked when it is asked for."""

    entry: Mapping[str, object]
    place: str
    arms: Sequence[str] | None

    def network(self, name: str) -> Network | None:
        text = self.entry.get(name)
        if text is None:
            return None
        try:
            return prefix_of(text, f"{self.place}.{name}")
        except InvalidValueError as error:
            raise ConfigError(error.field, error.value, error.allowed) from None

    def namespace(self, name: str) -> str | None:
        value = self.entry.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**64:
            return str(value)
        if value is None or (isinstance(value, str) and _NETNS_NAME.fullmatch(value)):
            return value
        allowed = f"the name of a network namespace in {NETNS_FOLDER}, or the number of its inode"
        raise ConfigError(f"{self.place}.{name}", value, allowed)

    def number(self, name: str, most: int) -> int | None:
        value = self.entry.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ConfigError(f"{self.place}.{name}", value, f"a whole number from 1 to {most}")
        return value

    def switch(self, name: str) -> bool:
        value = self.entry.get(name, False)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.place}.{name}", value, "true or false")
        return value

    def arm(self, name: str) -> str | None:
        value = self.entry.get(name)
        return None if value is None else self._named(value, f"{self.place}.{name}")

    def pool(self) -> tuple[str, ...]:
        value = self.entry.get("pool")
        place = f"{self.place}.pool"
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not 0 < len(value) <= ARMS_MAX:
            raise ConfigError(place, value, f"a list of 1 to {ARMS_MAX} names of arms")
        names = tuple(self._named(name, f"{place}[{number}]") for number, name in enumerate(value))
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ConfigError(f"{place}[{number}]", name, "each arm once")
        return names

    def _named(self, value: object, place: str) -> str:
        if not isinstance(value, str) or (self.arms is not None and value not in self.arms):
            known = [] if self.arms is None else list(self.arms)
            allowed = f"one of {', '.join(known)}" if known else "the name of an arm"
            raise ConfigError(place, value, allowed + did_you_mean(str(value), known))
        return value
