# SPDX-License-Identifier: Apache-2.0
"""Paths that play a set's recorded traces from other offsets.

A path with a trace plays one piece of the trace, and another piece may be another kind of path. Here each
path of a set begins at several offsets. All offsets lie in the set's own span of the trace. So the runs of
the tuning set and of the test set never share a second of a trace.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.suite.paths import FOLDER, SETS, TRACE, TRACE_HALF_S, trace_begin_s

RUN_S: Final = 30
"""Length of a run in seconds. It is half of the usual time, so that there is room for different offsets."""
COUNT_MAX: Final = int(TRACE_HALF_S) - RUN_S + 1
"""Largest number of offsets of a trace, because offsets are whole seconds."""


def draw_offsets(set_name: str, count: int) -> dict[str, str]:
    """Return the files of a set's traces at `count` offsets each: TOML by path's name, such as `trace-1-065`.

    Args:
        set_name: one of `SETS`.
        count: offsets of each trace, 1 to `COUNT_MAX`, evenly spread.

    Raises:
        ConfigError: there is no such set.
    """
    if set_name not in SETS:
        raise ConfigError("--set", set_name, " or ".join(SETS))
    offsets_s = trace_begin_s(SETS[set_name]) + np.round(np.linspace(0, TRACE_HALF_S - RUN_S, count))
    drawn: dict[str, str] = {}
    for file in sorted((FOLDER / set_name).glob(f"{TRACE}-*.toml")):
        text = _with(file.read_text(), "duration_s", f"{RUN_S}")
        for offset_s in offsets_s:
            name = f"{file.stem}-{offset_s:03.0f}"
            drawn[name] = _with(_with(text, "name", f'"{name}"'), "offset_s", f"{offset_s:.1f}")
    return drawn


def _with(text: str, key: str, value: str) -> str:
    return re.sub(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
