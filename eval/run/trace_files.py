# SPDX-License-Identifier: Apache-2.0
"""Find mahimahi traces: one millisecond timestamp a line, one 1500-byte packet may leave then."""

from __future__ import annotations

import difflib
from pathlib import Path

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.scenario import MODEL_TRACE, is_path
from ltp_switcher.policies.simulator.delivery_traces import traces_folder


def locate_trace(trace: str) -> Path | None:
    """Return the file of a trace, or `None` where the seeded LTE-like model stands in for it.

    A path must exist. A name is looked up in the trace folder; where there is no such folder at
    all, the model stands in, and who runs the scenario says so.

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
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".up", ".down"))
    close = difflib.get_close_matches(trace, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise ConfigError(
        "link.trace", trace, f"{', '.join(names) or 'a file'} in {folder}, or {MODEL_TRACE}{hint}"
    )
