# SPDX-License-Identifier: Apache-2.0
"""Progress of labs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ltp_switcher.eval.run.style import colour

TABLE_MAX: Final = 16
"""Largest number of runs that the table shows in every state. With more runs, the table has only the runs
under way, and no plain line comes between a run's start and its end.
"""
ENDED: Final = ("done", "cached", "stopped", "failed")
_LINE_EVERY: Final = 0.125
"""Share of a run between two plain lines about it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a run's first flow, `t_s` virtual seconds after the run's start. Unknown values are NaN.

    `arm` is the flow's arm at this moment. `reward` is Mutant's Eq. 1 over the time since the sample before.
    """

    t_s: float
    arm: str
    cwnd_pkts: float
    srtt_ms: float
    delivery_rate_mbps: float
    reward: float
    switches: int


@dataclass(slots=True)
class _Run:
    label: str
    duration_s: float
    state: str = "waiting"
    sample: Sample | None = None
    started: float = 0.0
    wall_s: float = 0.0
    told: float = 0.0


class Board:
    """The progress of several runs by index. Several threads may update it.

    Use the board as a context manager. On a terminal it redraws a table a few times a second. Elsewhere it
    writes a line when a run starts and ends. With few runs it also writes a line at every eighth of a run.
    """

    def __init__(self, console: Console, runs: Sequence[tuple[str, float]]) -> None:
        """Take for each run its label and its duration in virtual seconds."""
        self._console = console
        self._runs = [_Run(label, duration_s) for label, duration_s in runs]
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._live = (
            Live(get_renderable=self._table, console=console, refresh_per_second=4)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Board:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def start(self, index: int) -> None:
        """Mark a run as begun. Its lab boots now."""
        with self._lock:
            run = self._runs[index]
            run.state, run.started = "starting", time.monotonic()
            self._tell(run, "starting")

    def update(self, index: int, sample: Sample) -> None:
        """Show a run's newest sample."""
        with self._lock:
            run = self._runs[index]
            run.state, run.sample = "running", sample
            if sample.t_s >= run.told and len(self._runs) <= TABLE_MAX:
                run.told = sample.t_s + _LINE_EVERY * run.duration_s
                self._tell(run, _sentence(run, sample))

    def finish(self, index: int, state: str) -> None:
        """Mark a run as ended; `state` is one word: done, cached, stopped, failed."""
        with self._lock:
            run = self._runs[index]
            run.state = state
            run.wall_s = time.monotonic() - run.started if run.started else 0.0
            self._tell(run, f"{state}, {run.wall_s:.0f} s{self._left()}")

    def _left(self) -> str:
        """Tell how many runs have ended, and how long the others will take at the pace so far. The text is
        empty for few runs, and before the first one is done.
        """
        made = [run for run in self._runs if run.state == "done"]
        waiting_s = sum(run.duration_s for run in self._runs if run.state not in ENDED)
        if len(self._runs) <= TABLE_MAX or not made or not waiting_s:
            return ""
        pace = (time.monotonic() - self._began) / sum(run.duration_s for run in made)
        ended = sum(run.state in ENDED for run in self._runs)
        return f"; {ended} of {len(self._runs)} runs, about {pace * waiting_s / 60:.0f} min left"

    def _tell(self, run: _Run, text: str) -> None:
        if self._live is None:
            self._console.print(f"{run.label:<12} {text}", highlight=False, soft_wrap=True, markup=False)

    def _table(self) -> RenderableType:
        with self._lock:
            ended = [run for run in self._runs if run.state in ENDED]
            elapsed_s = time.monotonic() - self._began
            table = Table(
                title=f"{len(ended)} of {len(self._runs)} runs, {elapsed_s:.0f} s{self._left()}",
                title_justify="left", box=None, pad_edge=False,
            )  # fmt: skip
            table.add_column("run", no_wrap=True)
            table.add_column("", no_wrap=True, width=14)
            for name in ("time s", "arm", "cwnd pkt", "srtt ms", "rate Mbit/s", "reward", "switches"):
                table.add_column(name, justify="left" if name == "arm" else "right", no_wrap=True)
            table.add_column("state", no_wrap=True)
            for run in self._runs:
                if len(self._runs) <= TABLE_MAX or run.state in ("starting", "running"):
                    table.add_row(*_row(run))
            return table


def _row(run: _Run) -> list[RenderableType]:
    sample = run.sample
    ended = run.state in ("done", "cached")
    at_s = run.duration_s if ended else sample.t_s if sample else 0.0
    bar = ProgressBar(total=run.duration_s, completed=at_s, width=14)
    if sample is None:
        return [escape(run.label), bar, *[""] * 7, run.state]
    return [
        escape(run.label), bar, f"{at_s:.1f}", Text(sample.arm, style=_style(sample.arm)),
        _number(sample.cwnd_pkts, 0), _number(sample.srtt_ms, 1), _number(sample.delivery_rate_mbps, 2),
        _number(sample.reward, 2), str(sample.switches),
        f"{run.state} {run.wall_s:.0f} s" if ended else run.state,
    ]  # fmt: skip


def _style(arm: str) -> str:
    # The pictures' dark colours are for a white ground, and cannot be read on a dark terminal.
    return f"bold {colour(arm)}" if sum(bytes.fromhex(colour(arm)[1:])) > 250 else "bold"


def _number(value: float, decimals: int) -> str:
    return "" if math.isnan(value) else f"{value:.{decimals}f}"


def _sentence(run: _Run, sample: Sample) -> str:
    return (
        f"{sample.t_s:5.1f}/{run.duration_s:g} s  arm={sample.arm} cwnd={_number(sample.cwnd_pkts, 0)} "
        f"srtt={_number(sample.srtt_ms, 1)} ms rate={_number(sample.delivery_rate_mbps, 2)} Mbit/s "
        f"reward={_number(sample.reward, 2)} switches={sample.switches}"
    )
