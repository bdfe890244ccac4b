# SPDX-License-Identifier: Apache-2.0
"""The store: the lessons of a site's hosts, on a server of the Redis protocol (Valkey, or Redis 6.2 on).

The store's keys, all below `ltp-switcher:SITE:`, are:

    lessons:PREFIX   hash, a field for each host with its lesson; it expires after a long time without a write
    stamps           sorted set: a number for each prefix, which every write changes; the newest are highest
    hosts            hash, a field for each host with its presence
    whole            after a loss: the time when all hosts have written again; it expires soon after

Only commands for named keys and fields are used, all in pipelines.
"""

from __future__ import annotations

import contextlib
import math
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar, cast

from valkey import Valkey
from valkey.cluster import ClusterNode, ValkeyCluster
from valkey.exceptions import ResponseError, ValkeyError
from valkey.sentinel import Sentinel

from ltp_switcher.daemon.fleet.merge import HOSTS_MAX
from ltp_switcher.daemon.settings.fleet import FleetSection, split_address
from ltp_switcher.errors import StoreError, reason

Client = TypeVar("Client", Valkey, ValkeyCluster)
Item = TypeVar("Item")

TIMEOUT_S: Final = 2.0
"""Time in seconds within which the store has to answer."""
BATCH: Final = 256
"""Largest number of prefixes in one pipeline of commands."""
STAMPS_MAX: Final = 65_536
"""Largest number of prefixes whose stamps the store keeps. The newest stamps are kept."""
HOSTS_SHOWN: Final = 64
"""Largest number of hosts whose presence (a sign of life) is read at a time. If there are more hosts, a
random part is read.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the store, without the lessons themselves. Every write to a prefix changes its stamp, a
    number. A host's presence is a sign of life.
    """

    stamps: list[float | None]
    """The stamp of each prefix that was asked for; None if no host has written a lesson about it."""
    presence: bytes | None
    """This host's own presence, as the store has it."""
    whole_s: float
    """Unix time by which all hosts will have written their lost lessons again; 0 without a loss. The host
    that found the loss set the time.
    """


class Store:
    """The lessons and hosts of a site. Every method connects to the store if needed, and raises `StoreError`.

    A lesson is the packed knowledge of one host about a prefix. A prefix's stamp is a number that every write
    to it changes. A host's presence is a sign of life.

    Args:
        settings: the store's addresses, and how to reach them.
        password: the store's password; empty for none.
    """

    def __init__(self, settings: FleetSection, password: str = "") -> None:
        self._settings = settings
        self._password = password
        self._space = f"ltp-switcher:{settings.site}:"
        self._client: Valkey | ValkeyCluster | None = None

    @property
    def address(self) -> str:
        """The store's addresses as text, with commas between them."""
        return ", ".join(self._settings.store)

    def look(self, prefixes: Sequence[str], host: str) -> Look:
        """Read the stamps of prefixes, the presence of a host, and the time that a host has set after a loss
        of data.
        """
        stamps: list[float | None] = []
        for batch in _batches(prefixes):
            (found,) = self._ask(("ZMSCORE", f"{self._space}stamps", *batch))
            stamps += [None if score is None else float(cast("float", score)) for score in _list(found)]
        presence, whole = self._send([("HGET", f"{self._space}hosts", host), ("GET", f"{self._space}whole")])
        return Look(stamps, cast("bytes | None", self._granted(presence)), _time_s(whole, 0.0))

    def write(self, host: str, lessons: Mapping[str, bytes], stamp: int, keep_s: float) -> list[str]:
        """Write lessons of a host. Returns the prefixes whose lessons the store refused, for example because
        the store is full.

        Args:
            host: name of the host. It is the field in each prefix's hash.
            lessons: the host's packed lesson by prefix.
            stamp: new stamp of these prefixes, greater than every earlier one.
            keep_s: time in seconds without a write after which the store drops the lessons about a prefix.
        """
        refused = []
        for batch in _batches(list(lessons)):
            commands: list[tuple[str | bytes | int, ...]] = []
            for prefix in batch:
                key = f"{self._space}lessons:{prefix}"
                commands += [
                    ("HSET", key, host, lessons[prefix]),
                    ("EXPIRE", key, int(keep_s)),
                    ("ZADD", f"{self._space}stamps", stamp, prefix),
                ]
            found = self._send(commands)
            refused += [
                prefix
                for place, prefix in enumerate(batch)
                if any(isinstance(result, Exception) for result in found[3 * place : 3 * place + 3])
            ]
        return refused

    def greet(self, host: str, presence: bytes) -> bool:
        """Write a host's presence, and drop the oldest stamps beyond `STAMPS_MAX`. Call this after `write`,
        so that the presence shows that the lessons have arrived.

        Returns false if the store refuses the presence, for example because the store is full.
        """
        stamps = f"{self._space}stamps"
        found = self._send([
            ("HSET", f"{self._space}hosts", host, presence),
            ("ZREMRANGEBYRANK", stamps, 0, -STAMPS_MAX - 1),
        ])  # fmt: skip
        return not isinstance(found[0], Exception)

    def whole_again(self, at_s: float, keep_s: float) -> float:
        """Return the Unix time by which all hosts have written the lost lessons again.

        The first host that finds the loss sets the time, and all other hosts get the same one.

        Args:
            at_s: the time that this host sets if it is the first.
            keep_s: time in seconds after which the store forgets the set time.
        """
        key = f"{self._space}whole"
        # A user without the right to this key cannot share the time, so each host goes by its own.
        _, found = self._send([("SET", key, f"{at_s:.3f}", "NX", "PX", int(keep_s * 1000)), ("GET", key)])
        return _time_s(found, at_s)

    def read(self, prefixes: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Read the lessons about each prefix, by host. If more than `HOSTS_MAX` hosts have one, a random part
        of them is read.
        """
        made = []
        for batch in _batches(prefixes):
            made += self._ask(
                *(("HRANDFIELD", f"{self._space}lessons:{name}", HOSTS_MAX, "WITHVALUES") for name in batch)
            )
        return [_pairs(found) for found in made]

    def newest(self, count: int) -> list[str]:
        """The `count` prefixes with the latest writes, the latest first."""
        (found,) = self._ask(("ZREVRANGE", f"{self._space}stamps", 0, count - 1))
        return [cast("bytes", name).decode(errors="replace") for name in _list(found)]

    def hosts(self) -> tuple[int, dict[bytes, bytes]]:
        """The number of the site's hosts, and the presence of at most `HOSTS_SHOWN` hosts, by name."""
        key = f"{self._space}hosts"
        count, found = self._ask(("HLEN", key), ("HRANDFIELD", key, HOSTS_SHOWN, "WITHVALUES"))
        return int(cast("int", count)), _pairs(found)

    def drop(self, fields: Sequence[tuple[str, bytes]]) -> None:
        """Remove lessons of hosts that have long been silent. Each field is a prefix and the name
        of a host.
        """
        for batch in _batches(fields):
            self._ask(*(("HDEL", f"{self._space}lessons:{prefix}", host) for prefix, host in batch))

    def forget_host(self, host: bytes) -> None:
        """Remove the presence of a host that has long been silent."""
        self._ask(("HDEL", f"{self._space}hosts", host))

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        if self._client is not None:
            with contextlib.suppress(ValkeyError, OSError):
                self._client.close()
            self._client = None

    def _ask(self, *commands: tuple[str | bytes | int, ...]) -> list[object]:
        """Send commands, and return their results. Raises `StoreError` if the store refuses one of them."""
        return [self._granted(result) for result in self._send(commands)]

    def _granted(self, result: object) -> object:
        if isinstance(result, Exception):
            raise StoreError(f"the store at {self.address} refuses: {result}") from result
        return result

    def _send(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[object]:
        """Send commands in one pipeline, and return their results. If the store refuses a command, its result
        is the error.
        """
        try:
            if self._client is None:
                self._client = self._connect()
            with self._client.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                results = cast("list[object]", pipeline.execute(raise_on_error=False))
        except (ValkeyError, OSError) as error:
            self.close()
            raise StoreError(f"the store at {self.address} cannot be reached: {reason(error)}") from error
        for result in results:
            # A pipeline over several connections reports a lost connection in the same way as a refusal.
            if isinstance(result, ValkeyError | OSError) and not isinstance(result, ResponseError):
                self.close()
                raise StoreError(f"the store at {self.address} cannot be reached: {result}") from result
        return results

    def _connect(self) -> Valkey | ValkeyCluster:
        settings = self._settings
        security: dict[str, object] = {
            "username": settings.user or None, "password": self._password or None,
            "socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S,
        }  # fmt: skip
        if settings.store[0].startswith("/"):
            return _of(Valkey)(unix_socket_path=settings.store[0], **security)
        if settings.tls == "on":
            security |= {
                "ssl": True, "ssl_ca_certs": settings.tls_ca or None, "ssl_check_hostname": True,
                "ssl_min_version": ssl.TLSVersion.TLSv1_2,
            }  # fmt: skip
        places = [split_address(each, "fleet.store") for each in settings.store]
        if settings.kind == "sentinel":
            # The sentinels take the same user and password as the store, or none.
            sentinels = Sentinel(places, sentinel_kwargs=security, **security)
            return cast("Valkey", sentinels.master_for(settings.service))
        if settings.kind == "cluster":
            nodes = [ClusterNode(host, port) for host, port in places]
            return _of(ValkeyCluster)(startup_nodes=nodes, **security)
        host, port = places[0]
        return _of(Valkey)(host=host, port=port, **security)


def _of(made: type[Client]) -> Callable[..., Client]:
    """Return a client's class as a function that takes any options. The options come from a dictionary of
    values of several types, which the class's own signature does not allow.
    """
    return cast("Callable[..., Client]", made)


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _time_s(found: object, rest: float) -> float:
    """Return the Unix time that a host has written into the store; `rest` if there is none."""
    try:
        told_s = float(found) if isinstance(found, bytes) else rest
    except ValueError:
        return rest
    return told_s if math.isfinite(told_s) else rest


def _list(found: object) -> list[object]:
    return cast("list[object]", found or [])


def _pairs(found: object) -> dict[bytes, bytes]:
    """Return the values by field, from a list in which fields and values alternate."""
    flat = cast("list[bytes]", _list(found))
    return dict(zip(flat[::2], flat[1::2], strict=True))
