# SPDX-License-Identifier: Apache-2.0
"""The API's listening sockets, whose permissions are set before anyone can connect."""

from __future__ import annotations

import contextlib
import errno
import grp
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from ltp_switcher.errors import ConfigError, ControlError, reason

SOCKET_MODE = 0o660
BACKLOG = 128


@contextlib.contextmanager
def unix_socket(path: Path, group: str | None) -> Iterator[socket.socket]:
    """Bind the UNIX socket `path` with mode 0660, and remove the socket when the context ends. `group` is the
    name of its group; None leaves the group as it is.

    A socket that a dead process left behind is replaced. Raises `ControlError` if a living process listens on
    the socket or the path cannot be used, and `ConfigError` if the group is unknown.
    """
    with contextlib.ExitStack() as undo:
        listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            _remove_stale(path)
            # The socket is made without any permission, so that it is never open to the wrong group.
            umask = os.umask(0o777)
            try:
                listener.bind(str(path))
            finally:
                os.umask(umask)
            undo.callback(_unlink_same, path, path.stat().st_ino)
            if group is not None:
                _give_to_group(path, group)
            path.chmod(SOCKET_MODE)
            listener.listen(BACKLOG)
        except OSError as error:
            raise ControlError(f"cannot listen on {path}: {reason(error)}") from error
        yield listener


def tcp_socket(address: str, key: str = "api.tcp", *, loopback_only: bool = True) -> socket.socket:
    """Bind `address`, "host:port" with an IP address as host.

    Raises:
        ConfigError: `address` is malformed, or lies outside of the loopback although only loopback is
            allowed. The error names the setting `key`.
        ControlError: nothing can listen on the address.
    """
    kind = "a loopback" if loopback_only else "an IP"
    allowed = f"{kind} address and a port, such as 127.0.0.1:9480 or [::1]:9480"
    host, _, port = address.rpartition(":")
    try:
        ip = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        raise ConfigError(key, address, allowed) from None
    if (loopback_only and not ip.is_loopback) or not 0 < number < 65536:
        raise ConfigError(key, address, allowed)
    listener = socket.socket(socket.AF_INET6 if ip.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(ip), number))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ControlError(f"cannot listen on {address}: {reason(error)}") from error
    return listener


def _unlink_same(path: Path, inode: int) -> None:
    """Remove `path` unless someone has put another file there since."""
    with contextlib.suppress(OSError):
        if path.stat().st_ino == inode:
            path.unlink()


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "something that is not a socket is there; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "another process listens there")


def _give_to_group(path: Path, group: str) -> None:
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError("group", group, "the name of a group of this machine") from None
    if path.stat().st_gid != gid:
        os.chown(path, -1, gid)
