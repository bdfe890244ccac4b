# SPDX-License-Identifier: Apache-2.0
"""Finds mahimahi traces. Each line of a trace is a time stamp in ms, at which one 1500-byte
packet may leave.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.scenario import MODEL_TRACE, is_path
from ltp_switcher.policies.simulator.delivery_traces import mean_rate_mbps, read_trace, traces_folder

_SUFFIXES: Final = (".up", ".down")


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """A trace of the folder: its name, its length until it repeats, and its mean rate."""

    name: str
    duration_s: float
    mean_mbps: float

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)


def locate_trace(trace: str) -> Path | None:
    """Return the file of a trace, or `None` if the seeded LTE-like model replaces it.

    A path must exist. A name is looked up in the trace folder. If there is no trace folder, the model
    replaces the trace, and the caller tells the user.

    Raises:
        ConfigError: there is no such file, or no such name in the trace folder.
    """
    if trace == MODEL_TRACE:
        return None
    folder = traces_folder()
    file = Path(trace) if is_path(trace) else folder / trace
    if file.is_file():
        return file
    if is_path(trace):
        raise ConfigError("link.trace", trace, "the path of a file that exists")
    if not folder.is_dir():
        return None
    names = [path.name for path in _files(folder)]
    close = difflib.get_close_matches(trace, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise ConfigError(
        "link.trace", trace, f"{', '.join(names) or 'a file'} in {folder}, or {MODEL_TRACE}{hint}"
    )


def list_traces(folder: Path) -> tuple[list[RecordedTrace], dict[str, str]]:
    """Return the traces of a folder, in order of their names. For each other file, return the reason why it
    is no trace.
    """
    found, unfit = [], {}
    for path in _files(folder):
        try:
            trace = read_trace(path)
        except ConfigError as error:
            unfit[path.name] = str(error)
            continue
        found.append(RecordedTrace(path.name, float(trace[-1]) / 1e3, mean_rate_mbps(trace)))
    return found, unfit


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
