# SPDX-License-Identifier: Apache-2.0
"""Client and server of the control socket, joined by a real socket."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

import pytest
from support.fake_kernel import Kernel
from support.records import flow

from ltp_switcher.daemon.control import server
from ltp_switcher.daemon.control.answers import JsonList, Params, Result
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choices import Choices
from ltp_switcher.daemon.control.client import (
    LINE_MAX_BYTES,
    ControlClient,
    ControlInternalError,
    ControlInvalidError,
    ControlNotFoundError,
    ControlUnavailableError,
    Json,
)
from ltp_switcher.daemon.control.controlled import Controlled
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.control.server import ControlServer
from ltp_switcher.daemon.datapath import ArmInfo, FlowNotFoundError
from ltp_switcher.daemon.datapath.protocol import ArmId, ArmKind, ArmState
from ltp_switcher.daemon.settings.layers import Layers
from ltp_switcher.daemon.step.events import EventRing
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.errors import ControlError, DatapathError, InvalidValueError

LONG = 20_000
API_UID = 990


def handle(method: str, params: Params, caller: Caller) -> Result:
    if method == "echo":
        return params
    if method == "caller":
        return str(caller)
    if method == "long":
        return JsonList(iter([{"number": i} for i in range(LONG)]))
    if method == "endless":
        return JsonList(itertools.repeat({"x": "y" * 1000}))
    if method == "named":
        return JsonList(iter([1, 2]), "numbers", {"total": 7})
    if method == "invalid":
        raise InvalidValueError("arm", "vegass", "one of bbr, vegas")
    if method == "missing":
        raise FlowNotFoundError(7)
    if method == "kernel":
        raise DatapathError("no module")
    raise RuntimeError("a fault")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A server whose loop has 5 ms between two steps."""
    with serving(tmp_path / "control.sock") as place:
        yield place
    assert not place.exists()


@contextlib.contextmanager
def serving(place: Path) -> Iterator[Path]:
    selector = selectors.SelectSelector()
    server = ControlServer(place, handle, selector, api_uid=API_UID)
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            more = server.pump(time.monotonic() + 0.005)
            for key, _ in selector.select(0 if more else 0.005):
                key.data(key.fd)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield place
    finally:
        stop.set()
        thread.join()
        server.close()
        selector.close()


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


def test_a_reader_that_does_not_read_holds_up_nobody(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf, ControlClient(path) as client:
        deaf.connect(str(path))
        deaf.sendall(b'{"id":1,"method":"long"}\n' * 20)
        for _ in range(20):
            assert client.call("echo") == {}


@pytest.mark.parametrize("method", ["long", "echo"])
def test_a_client_that_never_reads_is_not_read_from(path: Path, method: str) -> None:
    request = b'{"id":1,"method":"%b","params":{"x":"%b"}}\n' % (method.encode(), b"x" * 50)
    with socket.socket(socket.AF_UNIX) as deaf, ControlClient(path) as client:
        deaf.connect(str(path))
        deaf.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                sent += deaf.send(request * 1000)
        assert sent < 8 << 20
        assert client.call("echo") == {}
        deaf.setblocking(True)
        with deaf.makefile("rb") as answers:
            for _ in range(3):
                assert json.loads(answers.readline())["id"] == 1


def test_a_short_answer_does_not_wait_for_a_list(path: Path) -> None:
    """The list is made as long as its reader reads."""
    with ControlClient(path) as client, socket.socket(socket.AF_UNIX) as other:
        other.connect(str(path))
        other.sendall(b'{"id":1,"method":"endless"}\n')
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                other.recv(1 << 20)

        reader = threading.Thread(target=read)
        reader.start()
        for i in range(5):
            assert client.call("echo", number=i) == {"number": i}
        stop.set()
        reader.join()


def test_an_idle_client_is_hung_up_on_and_comes_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.2)
    with socket.socket(socket.AF_UNIX) as idle, ControlClient(path) as client:
        idle.settimeout(30)
        idle.connect(str(path))
        assert client.call("echo") == {}
        assert idle.recv(1) == b""
        time.sleep(0.3)
        assert client.call("echo") == {}


def test_root_and_the_api_get_in_where_others_have_every_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = 1000
    monkeypatch.setattr(server, "_credentials", lambda _: Caller(user, 1))
    with contextlib.ExitStack() as opened:

        def come() -> str:
            return str(opened.enter_context(ControlClient(path)).call("caller"))

        for _ in range(server.CLIENTS_MAX):
            # No user has more than its share.
            user += 1
            come()
        with pytest.raises(ControlUnavailableError, match="64 clients are connected"):
            come()
        for user in (0, API_UID):
            assert come() == f"uid {user}, pid 1"


def test_one_user_leaves_places_for_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = 1000
    monkeypatch.setattr(server, "_credentials", lambda _: Caller(user, 1))
    with contextlib.ExitStack() as opened:
        crowd = [opened.enter_context(ControlClient(path)) for _ in range(server.CLIENTS_MAX)]
        for client in crowd[:32]:
            client.call("echo")
        with pytest.raises(ControlUnavailableError, match="uid 1000 has 32 connections"):
            crowd[32].call("echo")
        user = 1001
        assert opened.enter_context(ControlClient(path)).call("caller") == "uid 1001, pid 1"
        # Who leaves makes room.
        user = 1000
        crowd[0].close()
        late = opened.enter_context(ControlClient(path))
        until_s = time.monotonic() + 5
        while time.monotonic() < until_s:
            with contextlib.suppress(ControlUnavailableError):
                assert late.call("caller") == "uid 1000, pid 1"
                break
        else:
            pytest.fail("no place became free")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become other users")
def test_the_users_are_those_that_the_kernel_knows() -> None:
    """100 connections of one user leave a place for another. Both are real users."""
    crowd = "held = [connect() for _ in range(100)]; print(flush=True); sys.stdin.read()"
    other = 'one = connect(); one.sendall(b\'{"id":1,"method":"caller"}\\n\'); print(one.recv(9999).decode())'
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with serving(folder / "control.sock") as place:
            place.chmod(0o666)
            with as_user(65534, crowd, place) as held, as_user(65533, other, place) as asks:
                assert asks.stdout is not None
                answer = asks.stdout.readline()
                asks.communicate(b"", timeout=30)
                held.communicate(b"", timeout=30)
    assert json.loads(answer)["result"] == f"uid 65533, pid {asks.pid}"


@contextlib.contextmanager
def as_user(uid: int, code: str, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user, once its code has printed a first line or ended."""
    head = (
        "import socket, sys\n"
        "def connect():\n"
        "    one = socket.socket(socket.AF_UNIX); one.connect(sys.argv[1]); one.settimeout(20); return one\n"
    )
    command = ["/usr/bin/python3", "-I", "-c", head + code, place]
    with subprocess.Popen(
        command, user=uid, group=uid, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.peek()  # type: ignore[attr-defined]
        yield process


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
        with pytest.raises(InvalidValueError, match="nobody controls it") as caught:
            service.handle("pin", {"cookie": "7", "arm": "ltp"}, Caller(0, 1))
        assert (caught.value.field, caught.value.value) == ("arm", "ltp")
    service.handle("pin", {"cookie": "8", "arm": "bbr"}, Caller(0, 1))
    daemon.mode = "active"
    service.handle("pin", {"cookie": "7", "arm": "ltp"}, Caller(0, 1))
    assert kernel.pinned == [(8, ArmId.BBR), (7, ArmId.LTP)]


def test_the_loop_is_told_whether_answers_are_left(tmp_path: Path) -> None:
    """Without requests it may sleep; while a long answer is under way it may not."""
    selector = selectors.SelectSelector()
    server = ControlServer(tmp_path / "control.sock", handle, selector)
    assert server.pump(time.monotonic() + 1.0) is False
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "control.sock"))
        client.sendall(b'{"id": 1, "method": "long"}\n')
        for _ in range(2):
            for key, _ in selector.select(1.0):
                key.data(key.fd)
        assert server.pump(time.monotonic()) is True
        received = b""
        while not received.endswith(b"\n"):
            server.pump(time.monotonic() + 1.0)
            received += client.recv(1 << 16)
        assert server.pump(time.monotonic() + 1.0) is False
    server.close()
    selector.close()


def test_a_short_answer_and_a_new_client_do_not_wait_for_a_long_list(tmp_path: Path) -> None:
    selector = selectors.SelectSelector()
    answered: list[bool] = []
    with socket.socket(socket.AF_UNIX) as long, socket.socket(socket.AF_UNIX) as short:

        def look(method: str, params: Params, caller: Caller) -> Result:
            if method == "echo":
                return params

            def items() -> Iterator[Json]:
                short.setblocking(False)
                # Small items, so that what waits for its reader does not end the turn.
                for _ in range(100_000):
                    with contextlib.suppress(BlockingIOError):
                        answered.append(b"\n" in short.recv(1000))
                    yield 1

            return JsonList(items())

        served = ControlServer(tmp_path / "control.sock", look, selector)
        for client, method in ((long, "long"), (short, "echo")):
            client.connect(str(tmp_path / "control.sock"))
            client.sendall(b'{"id": 1, "method": "%b"}\n' % method.encode())
        for _ in range(4):
            for key, _ in selector.select(0):
                key.data(key.fd)
        assert served.pump(time.monotonic() + 3600) is True, "nobody else is read while a list is made"
        while not answered and served.pump(time.monotonic() + 3600):
            pass
        assert answered == [True]
        long.close()
        served.close()
    selector.close()


def test_within_a_step_reads_are_answered_and_changes_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BREATHE_AFTER_S", 0.0)
    selector = selectors.SelectSelector()
    called: list[str] = []

    def note(method: str, params: Params, caller: Caller) -> Result:
        called.append(method)
        return {}

    served = ControlServer(tmp_path / "control.sock", note, selector, reads=frozenset({"look"}))
    with socket.socket(socket.AF_UNIX) as reader, socket.socket(socket.AF_UNIX) as writer:
        for client, method in ((writer, "change"), (reader, "look")):
            client.settimeout(5)
            client.connect(str(tmp_path / "control.sock"))
            client.sendall(b'{"id": 1, "method": "%b"}\n' % method.encode() * 2)
        while called != ["look", "look"]:
            served.breathe()
        # Both of the writer's requests are there, too.
        for _ in range(3):
            served.breathe()
        assert called == ["look", "look"]
        assert reader.recv(1000).count(b"\n") == 2
        # Other callbacks of the loop, such as the kernel's events, belong between steps.
        events, tell = socket.socketpair()
        selector.register(events, selectors.EVENT_READ, lambda _: called.append("event"))
        tell.send(b"x")
        served.breathe()
        assert called == ["look", "look"]
        served.pump(time.monotonic() + 5)
        assert called == ["look", "look", "change", "change"]
        assert writer.recv(1000).count(b"\n") == 2
        selector.unregister(events)
        events.close()
        tell.close()
    served.close()
    selector.close()


def test_a_step_does_not_pause_for_clients_that_have_just_been_served(tmp_path: Path) -> None:
    selector = selectors.SelectSelector()
    served = ControlServer(tmp_path / "control.sock", handle, selector, reads=frozenset({"echo"}))
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0.2)
        client.connect(str(tmp_path / "control.sock"))
        client.sendall(b'{"id": 1, "method": "echo"}\n')
        served._pumped_s = time.monotonic() + 3600
        served.breathe()
        with pytest.raises(TimeoutError):
            client.recv(1)
    served.close()
    selector.close()
