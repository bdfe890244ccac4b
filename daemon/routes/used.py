# SPDX-License-Identifier: Apache-2.0
"""The prefixes that an operator wants under `mutant`, in a file, and their routes kept as the file says."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.routes.kernel import RouteEvents, RoutingTable
from ltp_switcher.daemon.routes.plan import Changes, Network, changes, prefix_of
from ltp_switcher.errors import ConfigError, DatapathError, InvalidValueError

LOOK_S: Final = 1.0
"""How often the file is looked at while following."""
_HEAD: Final = (
    "# Destinations under the congestion control mutant, one prefix a line; see `ltp-switcher use`.\n"
)

log = logging.getLogger(__name__)


def load(file: Path) -> list[Network]:
    """Return the file's prefixes; none if there is no file.

    Raises:
        ConfigError: the file cannot be read, or a line is no prefix.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("prefixes", str(file), f"a file that can be read ({error})") from error
    found: dict[Network, None] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            try:
                found[prefix_of(text)] = None
            except InvalidValueError as error:
                raise ConfigError(f"{file}:{number}", text, error.allowed) from None
    return list(found)


def save(file: Path, prefixes: Iterable[Network]) -> None:
    """Write the file whole, or not at all. Without prefixes there is no file.

    Raises:
        DatapathError: it cannot be written.
    """
    lines = [f"{prefix}\n" for prefix in prefixes]
    try:
        if not lines:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as scratch:
            scratch.write(_HEAD + "".join(lines))
            scratch.flush()
            os.fsync(scratch.fileno())
            os.fchmod(scratch.fileno(), 0o644)
        Path(name).replace(file)
    except OSError as error:
        raise DatapathError(f"cannot write {file}: {error.strerror}; are you root?") from error


def apply(table: RoutingTable, prefixes: Iterable[Network]) -> Changes:
    """Make our routes those that the prefixes need, and return what was done. Raises `DatapathError`."""
    due = changes(prefixes, table.read())
    for route in due.remove:
        table.remove(route)
    for route in due.add:
        table.add(route)
    return due


def follow(file: Path, stopped: Callable[[], bool]) -> None:
    """Keep the routes in step with the file and with the routes that they copy, until told to stop.

    A file that is damaged, and a route that the kernel refuses, is told once, and tried again at each change.
    The routes stay when this ends; without the file they go, and this ends as well.
    """
    table, events = RoutingTable(), RouteEvents()
    told, seen = "", -1.0
    try:
        while not stopped():
            seen = _changed_at(file)
            try:
                due = apply(table, load(file))
            except (ConfigError, DatapathError) as error:
                if str(error) != told:
                    log.warning("%s", error)
                told = str(error)
            else:
                told = ""
                _tell(due)
                if seen < 0:
                    log.info("no prefixes are used any more")
                    return
            while not stopped() and not events.wait(LOOK_S) and _changed_at(file) == seen:
                pass
    finally:
        events.close()
        table.close()


def _tell(due: Changes) -> None:
    for route in due.remove:
        log.info("route for %s removed", route.prefix)
    for route in due.add:
        log.info("route for %s added", route.prefix)


def _changed_at(file: Path) -> float:
    """When the file was changed; -1 without one."""
    try:
        return file.stat().st_mtime
    except OSError:
        return -1.0
