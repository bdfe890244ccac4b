# SPDX-License-Identifier: Apache-2.0
"""Client and server of the control socket, joined by a real socket."""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from support.control_server import LONG, handle, serving
from support.fake_kernel import Kernel
from support.records import flow

from ltp_switcher.daemon.control import server
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choices import Choices
from ltp_switcher.daemon.control.client import (
    LINE_MAX_BYTES,
    ControlClient,
    ControlInternalError,
    ControlInvalidError,
    ControlNotFoundError,
    ControlUnavailableError,
)
from ltp_switcher.daemon.control.controlled import Controlled
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.control.server import ControlServer, listen
from ltp_switcher.daemon.datapath import ArmInfo
from ltp_switcher.daemon.datapath.protocol import ArmId, ArmKind, ArmState
from ltp_switcher.daemon.settings.layers import Layers
from ltp_switcher.daemon.step.events import EventRing
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.errors import ControlError, RefusedError


def test_calls_are_answered_in_order(path: Path) -> None:
    with ControlClient(path) as client:
        for i in range(50):
            assert client.call("echo", number=i) == {"number": i}


def test_a_caller_is_named_as_the_kernel_knows_it(path: Path) -> None:
    with ControlClient(path) as client:
        assert client.call("caller") == f"uid {os.getuid()}, pid {os.getpid()}"


def test_a_long_list_comes_whole(path: Path) -> None:
    with ControlClient(path) as client:
        found = client.call("long")
        assert isinstance(found, list)
        assert len(found) == LONG
        assert found[-1] == {"number": LONG - 1}
        assert client.call("echo") == {}


def test_a_list_can_have_company(path: Path) -> None:
    with ControlClient(path) as client:
        assert client.call("named") == {"total": 7, "numbers": [1, 2]}


def test_refusals_are_exceptions_of_their_kind(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ControlClient(path) as client:
        with pytest.raises(ControlInvalidError, match="vegass") as caught:
            client.call("invalid")
        assert (caught.value.field, caught.value.value, caught.value.allowed) == (
            "arm",
            "vegass",
            "one of bbr, vegas",
        )
        with pytest.raises(ControlNotFoundError, match="cookie 7"):
            client.call("missing")
        with pytest.raises(ControlUnavailableError, match="no module"):
            client.call("kernel")
        with pytest.raises(ControlInternalError, match="its log says why"):
            client.call("fault")
        assert "a fault" in caplog.text
        assert client.call("echo") == {}


@pytest.mark.parametrize(
    "line",
    [
        b"junk",
        b"[1]",
        b'{"method":3}',
        b'{"method":"echo","params":[1]}',
        b"\xff\xfe",
        b'{"id":1}',
        b"[" * 60_000,
        b'{"method":"echo","params":{"x":NaN}}',
        b'{"method":"echo","params":{"x":1e999}}',
        b'{"method":"echo","params":{"x":"\\ud800"}}',
        b'{"method":"echo","params":{"x":%s}}' % (b"9" * 5000),
    ],
)
def test_what_is_no_request_is_refused_and_the_next_is_served(path: Path, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(5)
        raw.connect(str(path))
        raw.sendall(line + b'\n{"id":2,"method":"echo"}\n')
        with raw.makefile("rb") as answers:
            assert json.loads(answers.readline())["error"]["code"] == "invalid"
            assert json.loads(answers.readline()) == {"id": 2, "result": {}}


def test_a_request_in_pieces_and_several_at_once(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as raw, raw.makefile("rb") as answers:
        raw.settimeout(5)
        raw.connect(str(path))
        raw.sendall(b'{"id":1,"method":"ec')
        time.sleep(0.02)
        raw.sendall(b'ho"}\n{"id":2,"method":"long"}\n{"id":3,"method":"echo"}\n')
        assert [json.loads(answers.readline())["id"] for _ in range(3)] == [1, 2, 3]


def test_a_request_without_end_is_cut_off(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as raw, raw.makefile("rb") as answers:
        raw.settimeout(5)
        raw.connect(str(path))
        raw.sendall(b"x" * (LINE_MAX_BYTES + 10))
        assert json.loads(answers.readline())["error"]["code"] == "invalid"
        assert answers.readline() == b""


def test_many_clients(path: Path) -> None:
    clients = [ControlClient(path) for _ in range(40)]
    assert [client.call("echo", number=i) for i, client in enumerate(clients)] == [
        {"number": i} for i in range(40)
    ]
    for client in clients:
        client.close()


def test_the_socket_is_closed_to_others_and_has_one_server(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o660
    with pytest.raises(ControlError, match="another daemon"):
        ControlServer(path, handle, selectors.SelectSelector())


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_stays(tmp_path: Path, kind: str) -> None:
    place, other = tmp_path / "c.sock", tmp_path / "precious"
    other.write_text("content")
    if kind == "file":
        place.write_text("content")
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to(other)
    with pytest.raises(ControlError, match="no socket"):
        listen(place)
    assert other.read_text() == "content"
    assert place.is_dir() if kind == "directory" else place.read_text() == "content"


def test_a_socket_that_a_crash_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))
    selector = selectors.SelectSelector()
    ControlServer(tmp_path / "control.sock", handle, selector).close()
    selector.close()


def test_no_daemon_is_said_with_advice(tmp_path: Path) -> None:
    with pytest.raises(ControlUnavailableError, match="is it running"):
        ControlClient(tmp_path / "none.sock").call("status")


def test_a_daemon_that_is_not_ours_to_ask_is_said_with_advice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may connect to every socket, so the kernel's refusal is made."""

    def refuse(self: socket.socket, address: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(ControlUnavailableError, match="become root or a member of the socket's group"):
        ControlClient(path).call("ping")


def test_a_daemon_that_does_not_answer_is_said_with_the_time(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        with pytest.raises(ControlUnavailableError, match=r"no answer within 0\.05 s"):
            ControlClient(tmp_path / "silent.sock", timeout_s=0.05).call("ping")


def test_a_client_outlives_a_restart_of_the_daemon(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    client = ControlClient(place)
    for _ in range(2):
        selector = selectors.SelectSelector()
        server = ControlServer(place, handle, selector)
        stop = threading.Event()

        def turn(server: ControlServer = server, selector: selectors.BaseSelector = selector) -> None:
            while not stop.is_set():  # noqa: B023 # the thread ends before the next turn
                server.pump(time.monotonic() + 0.01)
                for key, _ in selector.select(0.01):
                    key.data(key.fd)

        thread = threading.Thread(target=turn)
        thread.start()
        assert client.call("echo") == {}
        stop.set()
        thread.join()
        server.close()
        selector.close()
    client.close()


def test_a_learned_arm_can_be_pinned_only_where_it_is_controlled() -> None:
    kernel = Kernel(flow(7), flow(8))
    table = FlowTable()
    table.resync(kernel.flows(), now_ns=0)
    arms = [
        ArmInfo(ArmId.BBR, "bbr", ArmState.AVAILABLE, ArmKind.KERNEL, ""),
        ArmInfo(ArmId.LTP, "ltp", ArmState.AVAILABLE, ArmKind.LEARNED, ""),
    ]
    daemon = SimpleNamespace(
        arms=arms,
        mode="advise",
        names={arm.id: arm.name for arm in arms},
        datapath=kernel,
        engine=SimpleNamespace(
            table=table, events=EventRing(), journal=SimpleNamespace(note=lambda *_: None)
        ),
        choices=Choices(Layers(), None, lambda _: None),
    )
    service = Methods(cast("Controlled", daemon))
    for mode in ("advise", "off"):
        daemon.mode = mode
        with pytest.raises(RefusedError, match=f"nobody controls in mode {mode}"):
            service.handle("pin", {"cookie": "7", "arm": "ltp"}, Caller(0, 1))
    service.handle("pin", {"cookie": "8", "arm": "bbr"}, Caller(0, 1))
    daemon.mode = "active"
    service.handle("pin", {"cookie": "7", "arm": "ltp"}, Caller(0, 1))
    assert kernel.pinned == [(8, ArmId.BBR), (7, ArmId.LTP)]


@pytest.mark.parametrize("claim", [{"uid": 0, "pid": 1}, {"token": "deploy"}])
@pytest.mark.parametrize(("uid", "trusted"), [(990, True), (1000, False), (0, False)])
def test_only_the_user_of_the_api_speaks_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: dict[str, object], uid: int, trusted: bool
) -> None:
    """The API of this server has the user 990. The daemon's own user is somebody else here."""
    monkeypatch.setattr(server, "peer_of", lambda _: (uid, 7))
    monkeypatch.setattr(os, "geteuid", lambda: 991)
    with serving(tmp_path / "c.sock") as path, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(json.dumps({"id": 1, "method": "caller", "for": claim}).encode() + b"\n")
        answer = json.loads(client.recv(10_000))
    if trusted:
        assert answer["result"] in ("uid 0, pid 1, by way of uid 990, pid 7", "uid 990, pid 7, token deploy")
    else:
        assert (answer["error"]["code"], answer["error"]["field"]) == ("invalid", "for")
