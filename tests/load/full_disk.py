# SPDX-License-Identifier: Apache-2.0
"""A state folder on a full disk, under load: how changes are answered, and whether anything is garbled."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx
import numpy as np

from load.blocks import Load, Process, Tell, told_by
from load.service import Wanted, service
from ltp_switcher.daemon.gain import log

DISK_MB: Final = 4
"""Size of the disk. The log of decisions may take more."""
SETTLE_S: Final = 5.0
CHANGES: Final = 40
PAUSE_S: Final = 0.25


def measure(wanted: Wanted, load: Load, tell: Tell) -> dict[str, object]:
    """Answers to changes while the disk has room, is full, and has room again; and the log that is left."""
    found: dict[str, object] = {}
    with disk(wanted.folder / "state") as state:
        with service(replace(wanted, log_mb=2 * DISK_MB)) as running:
            clients = Process("load.clients", running.api_path, load.clients, load.rate, wanted.seed)
            clients.order("on")
            filler = state / "filler"
            for words in ("with room", "full", "with room again"):
                tell(words)
                if words == "full":
                    _fill(filler)
                else:
                    filler.unlink(missing_ok=True)
                time.sleep(SETTLE_S)
                with running.client() as client:
                    found[f"changes, {words}"] = _changes(client)
            found["clients"] = told_by(clients.end())
            with running.client() as client:
                k = client.get("/v1/k").json()["k"]
        tell("another daemon on the same disk")
        with service(replace(wanted, log_mb=2 * DISK_MB)) as running, running.client() as client:
            found["k, before and after a restart"] = {"before": k, "after": client.get("/v1/k").json()["k"]}
        skipped = log.Skipped()
        rows = np.concatenate([*log.read(state / log.FOLDER, skipped=skipped)])
        found["the log read back"] = {
            "rows": rows.size, "damaged": skipped.damaged, "foreign": skipped.foreign,
            "rows of no number": int((~np.isfinite(rows["acked_bytes"])).sum()),
        }  # fmt: skip
    return found


@contextlib.contextmanager
def disk(place: Path) -> Iterator[Path]:
    """A small disk in memory, which takes root."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def _fill(file: Path) -> None:
    """Take all the room that is left."""
    with file.open("wb", buffering=0) as out:
        try:
            while out.write(bytes(4096)):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _changes(client: httpx.Client) -> dict[str, object]:
    """How changes of k are answered; in force where the next reading tells the new one."""
    answers: Counter[str] = Counter()
    took_ms = []
    for number in range(CHANGES):
        k = 1 + number % 2
        began_s = time.perf_counter()
        answer = client.put("/v1/k", json={"k": k})
        took_ms.append((time.perf_counter() - began_s) * 1e3)
        told = answer.json()
        saved = {True: "saved", False: "not saved"}.get(told.get("saved"), "no word of saving")
        force = "in force" if client.get("/v1/k").json()["k"] == k else "not in force"
        answers[f"{answer.status_code}, {force}, {saved}"] += 1
        time.sleep(PAUSE_S)
    return {**answers, "median ms": round(float(np.median(took_ms)), 1), "slowest ms": round(max(took_ms), 1)}
