# SPDX-License-Identifier: Apache-2.0
"""Makes `mutant` the congestion control of new connections while the daemon runs.

The earlier congestion control is remembered on disk, so that a daemon that starts after a crash can restore
it. If an administrator has set another default meanwhile, that default stays.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from ltp_switcher.errors import ArtifactError, ArtifactMissingError
from ltp_switcher.files import STATE_MODE, read_whole, write_atomically

log = logging.getLogger(__name__)

SYSCTL: Final = Path("/proc/sys/net/ipv4/tcp_congestion_control")
OURS: Final = "mutant"
FILE_NAME: Final = "replaced-congestion-control"
_NAME: Final = re.compile(r"[!-.0-~]{1,15}")
_NAME_BYTES: Final = 64


class Takeover:
    """Sets and restores the default congestion control of new connections. Failures are logged, and none is
    fatal.
    """

    def __init__(self, state_dir: Path | None, *, sysctl: Path = SYSCTL) -> None:
        self._sysctl = sysctl
        self._memory = state_dir / FILE_NAME if state_dir is not None else None
        self._replaced: str | None = None

    def take(self) -> None:
        """Make `mutant` the default, and remember the earlier default."""
        found = self._read()
        if found is None:
            return
        remembered = self._remembered()
        if found == OURS:
            if remembered:
                log.info(
                    "new connections already use %s; a daemon that crashed replaced %s", OURS, remembered
                )
                self._replaced = remembered
            else:
                log.info("new connections already use %s: an administrator's choice, left alone", OURS)
            return
        self._remember(found)
        if self._write(OURS):
            self._replaced = found
            log.info("new connections use %s from now on, instead of %s", OURS, found)
        else:
            self._forget()

    def recover(self) -> None:
        """Restore the default that a crashed daemon replaced."""
        self._replaced = self._remembered()
        self.give_back()

    def give_back(self) -> None:
        """Restore the default that `take` replaced, unless somebody has set another default."""
        if self._replaced is None:
            return
        found = self._read()
        if found == OURS:
            if self._write(self._replaced):
                log.info("new connections use %s again, as before the daemon", self._replaced)
        else:
            log.info("new connections use %s, set by somebody else meanwhile: left alone", found)
        self._replaced = None
        self._forget()

    def _read(self) -> str | None:
        try:
            return self._sysctl.read_text().strip()
        except OSError as error:
            log.warning("cannot read %s: %s", self._sysctl, error.strerror)
            return None

    def _write(self, name: str) -> bool:
        try:
            self._sysctl.write_text(name)
        except OSError as error:
            log.warning("cannot make %s the default congestion control: %s", name, error.strerror)
            return False
        return True

    def _remembered(self) -> str | None:
        if self._memory is None:
            return None
        try:
            name = read_whole(self._memory, _NAME_BYTES).decode().strip()
        except ArtifactMissingError:
            return None
        except (ArtifactError, UnicodeDecodeError) as error:
            log.warning("it is not known what %s replaced: %s: %s", OURS, self._memory, error)
            return None
        if not _NAME.fullmatch(name):
            log.warning("it is not known what %s replaced: %s holds no name", OURS, self._memory)
            return None
        return name

    def _remember(self, name: str) -> None:
        if self._memory is not None:
            try:
                write_atomically(self._memory, name.encode(), mode=STATE_MODE)
            except ArtifactError as error:
                log.warning("after a crash %s would stay the default: %s", OURS, error)

    def _forget(self) -> None:
        if self._memory is not None:
            try:
                self._memory.unlink(missing_ok=True)
            except OSError as error:
                log.warning("cannot remove %s: %s", self._memory, error.strerror)
