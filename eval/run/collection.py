# SPDX-License-Identifier: Apache-2.0
"""Collect the encoder's data in the lab: `python -m ltp_switcher.eval.run.collection --out DIR`.

Every path is one run of one to three flows. The arm of each flow is drawn anew every 20 to 160 steps (policy
"dwell-random"). The daemon itself records the run. A path's pool is bbr, vegas, ltp and three other arms. If
all arms ran in turn, the queue would be full on every path. Then the data would lack the short queues that
careful arms, such as vegas, keep. Paths are drawn from the paper's ranges (Mutant §6.1: 12-96 Mbit/s,
10-120 ms, 1-20 BDP). A third of them lose packets at random, and half of them change under the flows. A
collection that was interrupted continues where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track

from ltp_switcher.commands import program, seconds, whole
from ltp_switcher.encoder.dataset import DATA
from ltp_switcher.eval.lab.run import boot_scenario
from ltp_switcher.eval.lab.script import GuestDaemon
from ltp_switcher.eval.run.executor import default_parallel
from ltp_switcher.eval.run.results import KERNELS
from ltp_switcher.eval.run.scenario import Flow, Link, LinkStep, Scenario
from ltp_switcher.files import write_atomically

SPLITS: Final = {"train": 144, "validation": 24, "test": 48}
"""Number of paths in each split. The encoder is fitted to the first split. The second split tells when to
stop the fitting, and the third one judges the encoder.
"""

CAREFUL: Final = ("bbr", "vegas", "ltp")
OTHERS: Final = (
    "cubic", "westwood", "hybla", "htcp", "veno", "yeah", "bic", "highspeed", "illinois", "jury", "spine",
    "owl",
)  # fmt: skip
FLOWS_MAX: Final = 3

RATE_MBPS: Final = (12.0, 96.0)
RTT_MS: Final = (10.0, 120.0)
BUFFER_BDP: Final = (1.0, 20.0)
LOSS: Final = (0.001, 0.02)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_path(name: str, seed: int, duration_s: float) -> Scenario:
    """Draw a path from the paper's ranges, with one to `FLOWS_MAX` flows. The first flow begins at once, and
    the others in the first third of the run.
    """
    rng = np.random.default_rng(seed)

    def rate_mbps() -> float:
        return round(_log_uniform(rng, *RATE_MBPS), 1)

    def rtt_ms() -> float:
        return round(_log_uniform(rng, *RTT_MS), 1)

    def loss() -> float:
        return round(_log_uniform(rng, *LOSS), 4) if rng.random() < 1 / 3 else 0.0

    steps: tuple[LinkStep, ...] = ()
    start = LinkStep(0.0, rate_mbps(), rtt_ms(), loss())
    if rng.random() < 0.5:
        # Two properties change, one after the other, as on the roads and radio links that the paper's steps
        # imitate.
        kinds = rng.choice(["rate", "rtt", "loss"], 2, replace=False)
        steps = tuple(
            LinkStep(
                round(duration_s * share, 1),
                rate_mbps=rate_mbps() if kind == "rate" else None,
                rtt_ms=rtt_ms() if kind == "rtt" else None,
                loss=loss() if kind == "loss" else None,
            )
            for share, kind in zip((1 / 3, 2 / 3), kinds, strict=True)
        )
    link = Link(
        rate_mbps=start.rate_mbps,
        rtt_ms=start.rtt_ms or RTT_MS[0],
        buffer_bdp=round(_log_uniform(rng, *BUFFER_BDP), 2),
        loss=start.loss or 0.0,
        steps=steps,
    )
    later_s = np.sort(rng.uniform(0.0, duration_s / 3, rng.integers(FLOWS_MAX))).round(1).tolist()
    flows = tuple(Flow("random", start_s, duration_s) for start_s in (0.0, *later_s))
    return Scenario(name, duration_s, link, flows)


def draw_pool(number: int) -> tuple[str, ...]:
    """Return the pool of the path with this number: all arms of `CAREFUL`, and three of `OTHERS`. Four paths
    in a row share out all of `OTHERS`, so each of them is drawn equally often.
    """
    row, place = divmod(number, 4)
    turn = np.random.default_rng(row).permutation(OTHERS)
    return (*CAREFUL, *(str(arm) for arm in turn[3 * place : 3 * place + 3]))


def draw_paths(duration_s: float, seed: int) -> list[tuple[str, Scenario]]:
    """Return the split and the scenario of each path, in the order of collection. In this order all splits
    grow together.
    """
    order = sorted(((i + 0.5) / count, split, i) for split, count in SPLITS.items() for i in range(count))
    return [
        (split, draw_path(f"{split}-{index:03d}", seed * 1000 + number, duration_s))
        for number, (_, split, index) in enumerate(order)
    ]


def collect_path(scenario: Scenario, pool: tuple[str, ...], seed: int, kernel: str) -> bytes:
    """Run one path under the arms of `pool` and return the daemon's recording.

    Raises:
        LabError: the guest failed, or its kernel complained.
    """
    with tempfile.TemporaryDirectory(prefix="ltp-collection-") as folder:
        recording = Path(folder) / "recording.npy"
        settings = (("daemon.state_dir", ""), ("daemon.record", str(recording)), ("pool.arms", pool))
        daemon = GuestDaemon("dwell-random", place="beside")
        boot_scenario(scenario.with_settings(settings), seed=seed, kernel=kernel, daemon=daemon, collect=[])
        return recording.read_bytes()


@program("collection")
def main(arguments: Sequence[str] | None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ltp_switcher.eval.run.collection", description=__doc__)
    parser.add_argument("--out", type=Path, default=DATA, help=f"folder of the data set ({DATA})")
    parser.add_argument("--duration-s", type=seconds(1, 3600), default=16.0, help="length of each path's run")
    parser.add_argument("--seed", type=whole(0, 2**31 - 1), default=1)
    parser.add_argument("--kernel", choices=KERNELS, default="6.1")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    def collect(number: int, split: str, scenario: Scenario) -> None:
        target = options.out / f"{scenario.name}.npy"
        if target.is_file():
            return
        pool = draw_pool(number)
        recording = collect_path(scenario, pool, options.seed * 1000 + number, options.kernel)
        told = {"split": split, "pool": pool, "flows": len(scenario.flows)}
        target.with_suffix(".json").write_text(json.dumps(told | dataclasses.asdict(scenario.link)) + "\n")
        write_atomically(target, recording)

    paths = draw_paths(options.duration_s, options.seed)
    with ThreadPoolExecutor(default_parallel()) as executor:
        runs = [executor.submit(collect, number, *path) for number, path in enumerate(paths)]
        try:
            for run in track(runs, "runs", console=Console(stderr=True)):
                run.result()
        finally:
            executor.shutdown(cancel_futures=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
