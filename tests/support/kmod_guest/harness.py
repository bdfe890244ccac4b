# SPDX-License-Identifier: Apache-2.0
"""Runs a list of checks one after the other and writes down the result of each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ltp_switcher.daemon.datapath import Datapath

from .net import Flow, Link, Traffic

MODULE = "/lib/mutant/tcp_mutant.ko"
REPORT = Path("/tmp/report.json")  # noqa: S108
LIVE = Path("/run/lab/live")


@dataclass
class Context:
    """What a check works with: the module, a link between two namespaces, and the traffic on it."""

    datapath: Datapath
    link: Link
    traffic: Traffic
    notes: dict[str, object] = field(default_factory=dict)

    def flow(self, congestion: str | None = "mutant") -> Flow:
        """A new connection over the link, already moving data. Somebody has asked for its steps."""
        flow = self.link.connect(congestion)
        self.datapath.close_step()
        self.traffic.add(flow)
        self.traffic.pump(0.1)
        return flow

    def arm_id(self, name: str) -> int:
        """The id of an arm by name."""
        return next(arm.id for arm in self.datapath.arms() if arm.name == name)

    def end(self, *flows: Flow) -> None:
        """Let the flows end; all that was sent must have arrived."""
        for flow in flows:
            self.traffic.finish(flow)
        # Listeners are told a little later, outside of the socket's lock.
        time.sleep(0.1)


Check = Callable[[Context], None]


def require(condition: bool, what: str) -> None:
    """Raise `AssertionError` with `what` unless the condition holds."""
    if not condition:
        raise AssertionError(what)


def sh(command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a shell command; its output is kept for the error text."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(
            f"{command}: exit {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}"
        )
    return done


def insmod(**parameters: object) -> None:
    """Load the module under test."""
    sh(f"insmod {MODULE} " + " ".join(f"{k}={v}" for k, v in parameters.items()))


def rmmod(name: str = "tcp_mutant") -> bool:
    """Unload a module; whether the kernel let it go."""
    return sh(f"rmmod {name}", check=False).returncode == 0


def run(checks: Sequence[Check], context: Context | None = None) -> None:
    """Run the checks in order and write the report. A failed check does not stop the others."""
    report: dict[str, object] = {}
    for check in checks:
        started = time.monotonic()
        detail = ""
        try:
            check(context)  # type: ignore[arg-type]
        except Exception as error:
            detail = "".join(traceback.format_exception(error)[-3:])
        if context is not None:
            context.traffic.abandon()
        report[check.__name__] = {"detail": detail, "virtual_s": round(time.monotonic() - started, 3)}
        say(f"{check.__name__}: {detail or 'ok'}")
    if context is not None:
        report["notes"] = context.notes
    REPORT.write_text(json.dumps(report), encoding="utf-8")


def say(line: str) -> None:
    """Tell the host what is going on."""
    print(line, file=sys.stderr, flush=True)
