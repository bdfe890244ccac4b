# SPDX-License-Identifier: Apache-2.0
"""The listening sockets: their mode, their group, who else may be there."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from ltp_switcher.api.listen import tcp_socket, unix_socket
from ltp_switcher.errors import ConfigError, ControlError


def test_socket_is_0660_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    umask = os.umask(0)
    try:
        with unix_socket(path, None):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
    finally:
        os.umask(umask)
    assert not path.exists()


def test_umask_is_given_back(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with unix_socket(tmp_path / "api.sock", None):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to other groups")
def test_socket_belongs_to_the_group(tmp_path: Path) -> None:
    with unix_socket(tmp_path / "api.sock", "nogroup"):
        assert (tmp_path / "api.sock").group() == "nogroup"


def test_unknown_group_leaves_nothing_behind(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="group: 'no-such-group'"),
        unix_socket(tmp_path / "api.sock", "no-such-group"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(path))
    dead.close()
    with unix_socket(path, None), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))


def test_living_listener_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with unix_socket(path, None):
        with pytest.raises(ControlError, match="another process listens there"), unix_socket(path, None):
            pass
        assert path.exists()


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    path.write_text("precious")
    with pytest.raises(ControlError, match="not a socket"), unix_socket(path, None):
        pass
    assert path.read_text() == "precious"


def test_successors_socket_survives_our_end(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with unix_socket(path, None):
        path.unlink()
        path.write_text("successor")
    assert path.read_text() == "successor"


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:80", "192.0.2.1:80", "[::]:80", "localhost", "127.0.0.1:0", "127.0.0.1:x", ":80", ""],
)
def test_tcp_is_for_the_loopback_alone(address: str) -> None:
    with pytest.raises(ConfigError, match=r"api\.tcp:.*allowed: a loopback address"):
        tcp_socket(address)


def test_tcp_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ControlError, match="in use"):
        tcp_socket(f"127.0.0.1:{taken.getsockname()[1]}")
