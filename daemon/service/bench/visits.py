# SPDX-License-Identifier: Apache-2.0
"""Measures how long learning from flow to flow takes: `python -m ltp_switcher.daemon.service.bench.visits`.

Once a second the learner takes the outcomes of the flows that ended. A step later it plans for a tenth of the
prefixes, on which arms their next flows begin. Here flows end at a fixed rate, each to a random prefix. Each
flow is a visit of its own, and draws its arm from the plan that the learner has made. With `--numbers` each
flow also tells the numbers that describe its path. The measured time is processor time.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import time
from collections.abc import Sequence
from typing import Final

# The benchmark measures one core. The setting comes before numpy, which reads it when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.daemon.datapath.protocol import START_DTYPE, ArmId, StartCause
from ltp_switcher.daemon.gain.outcomes import ROW_DTYPE, OutcomeRows
from ltp_switcher.daemon.settings.prefixes import PREFIX_BITS_V4
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.starts import StartingArms

SEED: Final = 1
BEGIN_S: Final = 1.8e9
"""Unix time at which the measurement begins."""
EARLIER: Final = 10_000.0
"""Number of earlier flows to each known prefix, as after some days. A share of their reward becomes the
budget for trials (flows on another arm) when half of the measurement is over.
"""


class _Table:
    """The module's table of starting arms, for the prefixes of 10.0.0.0/8. An index is made of the two middle
    bytes of the address.

    Entries of single hosts are left out: their flows draw an arm by the prefix's entry.
    """

    def __init__(self) -> None:
        self.entries = np.zeros(1 << 16, START_DTYPE)

    def set_starts(self, starts: npt.NDArray[np.void]) -> None:
        starts = starts[starts["bits"] == PREFIX_BITS_V4]
        self.entries[starts["addr"][:, 1] * np.int64(256) + starts["addr"][:, 2]] = starts

    def starts(self) -> npt.NDArray[np.void]:
        found: npt.NDArray[np.void] = self.entries[self.entries["choice"]["arm"][:, 0] != 0]
        return found


class _Flows:
    """Flows that end: each one is a visit."""

    def __init__(self, table: _Table, prefixes: int, a_second: int, hosts: int) -> None:
        self._rng = np.random.default_rng(SEED)
        self._table, self._prefixes, self._hosts = table, prefixes, hosts
        self._visits = np.zeros(prefixes, np.int64)
        self._rows = np.zeros(a_second, ROW_DTYPE)
        told = self._rows["outcome"]
        told["family"], told["cause"], told["ended"] = socket.AF_INET, StartCause.TABLE, 1
        told["acked_bytes"], told["delivered"], told["rtt_samples"] = 200_000, 140, 10
        told["rtt_us_sum"], told["age_ns"] = 500_000, 2_000_000_000

    def second(self, now_s: float) -> OutcomeRows:
        """The outcomes of a second, shape (a_second,)."""
        rows = self._rows.copy()
        told, size = rows["outcome"], len(rows)
        prefixes = self._rng.integers(0, self._prefixes, size)
        self._visits[prefixes] += 1
        rows["time_s"] = now_s
        told["visit"], told["busy_us"] = self._visits[prefixes], self._rng.uniform(1e6, 3e6, size)
        told["cookie"] = self._rng.integers(1, 2**62, size)
        told["daddr"][:, 0], told["daddr"][:, 1], told["daddr"][:, 2] = 10, prefixes >> 8, prefixes & 255
        told["daddr"][:, 3] = self._rng.integers(1, self._hosts + 1, size)
        entries = self._table.entries[prefixes]
        weights = entries["choice"]["weight"].astype(np.int64)
        told["weights"] = weights.sum(axis=1)
        place = (self._rng.random(size) * told["weights"] >= weights[:, 0]).astype(np.int64)
        told["weight"] = weights[np.arange(size), place]
        told["arm"] = entries["choice"]["arm"][np.arange(size), place]
        told["generation"] = entries["generation"]
        return rows


def measure(
    prefixes: int, a_second: int, seconds: int, hosts: int = 1, *, numbers: bool = False
) -> tuple[Floats, LiveLearner]:
    """Measure the processor time of the step that learns and of the step that plans. With `numbers`, flows
    also tell the numbers that describe their paths. Returns both times in ms, shape (seconds, 2), and the
    learner.
    """
    table = _Table()
    arms = [int(arm) for arm in (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)]
    live = LiveLearner(arms, int(ArmId.CUBIC), StartingArms(table, 600), 600)
    flows, no_flows = _Flows(table, prefixes, a_second, hosts), FlowTable()
    rng = np.random.default_rng(SEED)
    paths = rng.lognormal(size=(1 << 16, len(Number)))
    took_ms = np.empty((seconds, 2))
    for second in range(seconds):
        if second == seconds // 2:
            known = len(live.prefixes)
            live.learner.purse.earn(np.arange(known), np.full(known, EARLIER))
        now_s = BEGIN_S + second
        rows = flows.second(now_s)
        began_s = time.thread_time()
        live.take(rows, no_flows, _all_free, now_s)
        if numbers:
            of = live.prefixes.numbers()
            of = rng.choice(of, min(a_second, of.size))
            live.learner.tell_paths(of, paths[of])
        taken_s = time.thread_time()
        live.plan(_all_free, now_s)
        took_ms[second] = (taken_s - began_s) * 1e3, (time.thread_time() - taken_s) * 1e3
    return took_ms, live


def _all_free(prefixes: Sequence[str]) -> Bools:
    return np.ones(len(prefixes), np.bool_)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    prog = "python -m ltp_switcher.daemon.service.bench.visits"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--prefixes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--births", type=int, default=1000, help="flows a second")
    parser.add_argument("--hosts", type=int, default=1, help="hosts of each prefix")
    parser.add_argument("--numbers", action="store_true", help="flows also tell about their paths")
    parser.add_argument("--seconds", type=int, default=200, help="the second half is measured")
    options = parser.parse_args(arguments)
    if not (min(options.prefixes) >= 1 and max(options.prefixes) <= 1 << 16):
        parser.error("--prefixes must be 1 to 65536")
    if not 1 <= options.hosts < 255:
        parser.error("--hosts must be 1 to 254")
    if options.births < 1 or options.seconds < 2:
        parser.error("--births must be 1 or more, and --seconds 2 or more")
    print("prefixes  hosts  learn p50, p99 ms  plan p50, p99 ms  visits  trials  spent  memory MB")
    for prefixes in options.prefixes:
        took_ms, live = measure(
            prefixes, options.births, options.seconds, options.hosts, numbers=options.numbers
        )
        (learn50, plan50), (learn99, plan99) = np.percentile(
            took_ms[options.seconds // 2 :], (50, 99), axis=0
        )
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{prefixes:>8}  {live.prefixes.single_hosts:>5}  {learn50:>8.1f}, {learn99:>7.1f}  "
            f"{plan50:>7.1f}, {plan99:>7.1f}  {live.visits:>6}  {live.trials:>6}  "
            f"{live.learner.purse.share:>5.2%}  {memory_mb:>9}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
