# SPDX-License-Identifier: Apache-2.0
"""A decision log on a disk that fills up and gets room again: `python -m support.full_disk FOLDER`.

Prints JSON: the writer's counts, and the rows that a reader finds, full and later.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from ltp_switcher.daemon.gain import log
from ltp_switcher.daemon.gain.rows import ROW_DTYPE

PATIENCE_S = 30.0


def numbered(begin: int, n: int) -> np.ndarray:
    """Rows whose times are numbers from `begin` on."""
    made = np.zeros(n, ROW_DTYPE)
    made["time_s"] = np.arange(begin, begin + n)
    return made


def settle(writer: log.DecisionWriter, rows: int) -> None:
    """Wait until so many rows were written or dropped. Raises `TimeoutError`."""
    end_s = time.monotonic() + PATIENCE_S
    while writer.logged + writer.dropped < rows:
        if time.monotonic() > end_s:
            raise TimeoutError(f"{writer.logged} written and {writer.dropped} dropped of {rows}")
        time.sleep(0.001)


def found(folder: Path) -> dict[str, object]:
    """What a reader finds."""
    skipped = log.Skipped()
    times = [int(at) for rows in log.read(folder, skipped=skipped) for at in rows["time_s"]]
    return {"times": times, "damaged": skipped.damaged, "files": len(log.DECISIONS.files_of(folder))}


def main(folder: Path) -> None:
    """Fill the disk by half, and the other half by rows; make room, and go on."""
    log._GATHER_S = 0.0  # type: ignore[misc]
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(100_000))
    writer = log.DecisionWriter(folder / "decisions", 100_000_000, {1: "cubic"})
    batches = 0
    while not writer.dropped:
        writer.append(numbered(100 * batches, 100))
        batches += 1
        settle(writer, 100 * batches)
    full = {"logged": writer.logged, "dropped": writer.dropped, **found(folder / "decisions")}
    ballast.unlink()
    writer.append(numbered(100 * batches, 100))
    settle(writer, 100 * batches + 100)
    writer.close()
    later = {"logged": writer.logged, "dropped": writer.dropped, **found(folder / "decisions")}
    print(json.dumps({"full": full, "later": later}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
