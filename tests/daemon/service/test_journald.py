# SPDX-License-Identifier: Apache-2.0
"""Log lines with fields, as a socket in the journal's place receives them."""

from __future__ import annotations

import io
import logging
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fake_kernel import BBR, CUBIC
from support.records import flow, record

from ltp_switcher.daemon.service.journald import JournalHandler, reads
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.log_fields import fields

LINE = logging.getLogger("test.journald")


def entry(data: bytes) -> dict[str, str]:
    """The fields of a datagram, by the protocol's own text."""
    found = {}
    while data:
        line, _, data = data.partition(b"\n")
        name, given, value = line.partition(b"=")
        if not given:
            (length,) = struct.unpack("<Q", data[:8])
            value, data = data[8 : 8 + length], data[8 + length :]
            assert data[:1] == b"\n"
            data = data[1:]
        found[name.decode()] = value.decode()
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.settimeout(5)
        yield listener


@pytest.fixture
def stderr(tmp_path: Path) -> Iterator[io.StringIO]:
    """Where lines go that the journal does not take, while the root logger logs to the journal."""
    text = io.StringIO()
    handler = JournalHandler(logging.StreamHandler(text), "program", str(tmp_path / "socket"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel("INFO")
    yield text
    root.removeHandler(handler)
    root.setLevel(before)
    handler.close()


def test_a_line_has_its_fields(journal: socket.socket, stderr: io.StringIO) -> None:
    LINE.warning("flow %d fell back", 7, extra=fields(cookie=7, arm="cubic"))
    found = entry(journal.recv(65_536))
    assert found["MESSAGE"] == "flow 7 fell back"
    assert (found["LTP_COOKIE"], found["LTP_ARM"]) == ("7", "cubic")
    assert (found["PRIORITY"], found["SYSLOG_IDENTIFIER"]) == ("4", "program")
    assert found["SYSLOG_PID"] == str(os.getpid())
    assert Path(found["CODE_FILE"]).name == Path(__file__).name
    assert stderr.getvalue() == ""


def test_a_value_with_line_breaks_makes_no_other_fields(journal: socket.socket, stderr: io.StringIO) -> None:
    LINE.info("first\nLTP_COOKIE=8", extra=fields(reason="one\ntwo\n"))
    found = entry(journal.recv(65_536))
    assert (found["MESSAGE"], found["LTP_REASON"]) == ("first\nLTP_COOKIE=8", "one\ntwo\n")
    assert "LTP_COOKIE" not in found


def test_what_is_no_unicode_is_written(journal: socket.socket, stderr: io.StringIO) -> None:
    (handler,) = (one for one in logging.getLogger().handlers if isinstance(one, JournalHandler))
    # Not through the logger: a test's process could not send pytest's own record of the line.
    handler.handle(logging.LogRecord("test", logging.INFO, __file__, 1, "half \ud800 a pair", None, None))
    assert entry(journal.recv(65_536))["MESSAGE"] == "half ? a pair"


@pytest.mark.parametrize("hurdle", ["gone", "full"])
def test_a_journal_that_takes_nothing_holds_nobody(
    hurdle: str, journal: socket.socket, stderr: io.StringIO
) -> None:
    if hurdle == "gone":
        journal.close()
    else:
        for _ in range(10_000):
            LINE.info("many")
    LINE.info("the last")
    assert "the last\n" in stderr.getvalue()


def test_stderr_is_the_journal_s_only_where_the_stream_is_the_same(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream:
        status = os.fstat(stream.fileno())
        same = f"{status.st_dev}:{status.st_ino}"
        assert reads(stream.fileno(), {"JOURNAL_STREAM": same})
        assert not reads(stream.fileno(), {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino + 1}"})
        assert not reads(stream.fileno(), {})


def test_a_decision_is_found_by_its_flow_s_cookie(journal: socket.socket, stderr: io.StringIO) -> None:
    table = FlowTable()
    slots = np.array(table.resync([flow(cookie, arm=CUBIC, want_arm=CUBIC) for cookie in (5, 4)], 0).opened)
    decisions = DecisionLog({CUBIC: "cubic", BBR: "bbr"}, 1.0, "active")
    records = np.concatenate([record(cookie, want_arm=CUBIC, arm=CUBIC) for cookie in (5, 4)])
    arms = np.full(2, BBR, np.uint8)
    decisions.decided(table, slots, records, arms, lambda _: "it is faster")
    found = entry(journal.recv(65_536))
    wanted = {"COOKIE": "5", "ARM_BEFORE": "cubic", "ARM": "bbr", "REASON": "it is faster", "MODE": "active"}
    assert {name: found[f"LTP_{name}"] for name in wanted} == wanted
