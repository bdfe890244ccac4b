# SPDX-License-Identifier: Apache-2.0
"""Log lines with fields for systemd's journal, over its native protocol.

Source: https://systemd.io/JOURNAL_NATIVE_PROTOCOL. An entry is a datagram of fields. A value without a line
break is written as NAME=VALUE. Any other value is written as NAME, a line break, its length in bytes (64
bits, little-endian), and its bytes.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
from collections.abc import Mapping
from typing import Final

from ltp_switcher.log_fields import fields_of

ADDRESS: Final = "/run/systemd/journal/socket"
# syslog(3)
PRIORITIES: Final = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}
NOTICE: Final = 5


def reads(descriptor: int, environment: Mapping[str, str] | None = None) -> bool:
    """Whether this file descriptor leads to the journal ($JOURNAL_STREAM, systemd.exec(5))."""
    stream = (os.environ if environment is None else environment).get("JOURNAL_STREAM", "")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return stream == f"{status.st_dev}:{status.st_ino}"


class JournalHandler(logging.Handler):
    """Sends log records with their fields to the journal. If the journal does not take a record, the handler
    `otherwise` gets it.
    """

    def __init__(self, otherwise: logging.Handler, identifier: str, address: str = ADDRESS) -> None:
        super().__init__()
        self._otherwise = otherwise
        self._identifier = identifier
        self._address = address
        # A journal that hangs must not hold the caller.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record."""
        try:
            self._socket.sendto(self._entry(record), self._address)
        except OSError:
            self._otherwise.handle(record)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()

    def _entry(self, record: logging.LogRecord) -> bytes:
        known = {
            "MESSAGE": self.format(record),
            "PRIORITY": str(PRIORITIES.get(record.levelno, NOTICE)),
            "SYSLOG_IDENTIFIER": self._identifier,
            "SYSLOG_PID": str(os.getpid()),
            "CODE_FILE": record.pathname,
            "CODE_LINE": str(record.lineno),
            "CODE_FUNC": record.funcName or "",
        }
        return b"".join(_field(name, value) for name, value in {**known, **fields_of(record)}.items())


def identifier() -> str:
    """The name of the running program, as the journal shows it."""
    return os.path.basename(sys.argv[0]) or "ltp-switcher"  # noqa: PTH119


def _field(name: str, value: str) -> bytes:
    # Text from other machines may contain characters that UTF-8 cannot write.
    data = value.encode(errors="replace")
    if b"\n" not in data:
        return b"%s=%s\n" % (name.encode(), data)
    return b"%s\n%s%s\n" % (name.encode(), struct.pack("<Q", len(data)), data)
