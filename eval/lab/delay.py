# SPDX-License-Identifier: Apache-2.0
"""Measures how long the daemon's steps take in the guest, and fits a model of this time.

`python -m ltp_switcher.eval.lab.delay` runs the daemon inside the guest, once for each policy, and writes
`host/delays.json`. A daemon beside the guest takes no virtual time of its own. So the guest sleeps for the
model's time in each step, after the daemon has read the flows' records and before it acts.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.beside import DELAYS
from ltp_switcher.eval.lab.boot import boot
from ltp_switcher.eval.lab.layers import GUEST
from ltp_switcher.eval.lab.run import overlay_of
from ltp_switcher.eval.lab.script import daemon_of, script
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario
from ltp_switcher.eval.run.schemes import LEARNED_ARMS
from ltp_switcher.files import write_atomically

SCHEMES: Final = {
    "rule": "rule",
    "mutant": "bandit",
    "random": "random",
    "epsilon-greedy": "epsilon-greedy",
    "schedule": "schedule:bbr@0,cubic@2,vegas@4",
    **{f"keep {arm}": arm for arm in LEARNED_ARMS},
}
"""The scheme of each run. One run measures one policy of the daemon. The policy `keep` has one run for each
learned arm.
"""
Steps = npt.NDArray[np.int64]
FLOWS, EVERY_S, DURATION_S = 8, 1.0, 9.0
"""Number of flows, time in seconds between their starts, and length of a run in seconds. A further flow opens
every second, so each number of open flows occurs.
"""
SEED: Final = 1
KERNEL: Final = "6.1"
_STEPS: Final = "/run/lab/steps.npy"
_TIMED: Final = """python3() { shift 2; PYTHONHASHSEED=0 exec env python3 /lab/timed.py "$@"; }"""
"""Shell function of the guest's script that replaces the daemon's program by the timed program."""
_STOP: Final = 'kill -TERM "$daemon"; wait "$daemon" || { cat /run/lab/daemon.log; exit 1; }'


def measure(scheme: str) -> Steps:
    """Return the steps of a run, shape (steps, learned arms + 2). A row has the number of flows, the number
    of flows that want each learned arm, in the order of the arms' ids, and the step's time in ns.

    Raises:
        LabError: the guest failed.
    """
    flows = tuple(Flow(scheme, EVERY_S * at, DURATION_S) for at in range(FLOWS))
    scenario = Scenario("delay", DURATION_S, Link(rate_mbps=12.0, rtt_ms=40.0, buffer_bdp=1.0), flows)
    daemon = daemon_of(scenario)
    if daemon is None:
        raise LabError(f"the scheme {scheme} runs no daemon")
    first, *rest = script(scenario, replace(daemon, after=())).splitlines()
    result = boot(
        kernel=KERNEL,
        script="\n".join([first, _TIMED, *rest, _STOP]),
        overlay={
            **overlay_of(scenario, daemon, seed=SEED, kernel=KERNEL),
            "lab/timed.py": GUEST / "timed.py",
        },
        collect=[_STEPS],
        python=True,
        seed=SEED,
    )
    if not result.ok:
        raise LabError(f"{scheme}: the guest failed with {result.exit_code}:\n{result.console[-2000:]}")
    steps: Steps = np.load(io.BytesIO(result.files[_STEPS]))
    return steps


def fit(runs: Mapping[str, Steps]) -> dict[str, dict[str, int]]:
    """Return a model of the time that a step of the daemon takes, in ns, fitted to all runs by least squares.
    No part of the model is below 0.

    The keys of `runs` are the names of a policy, or of a policy and an arm ("keep ltp"). The model has an
    entry for each policy and each learned arm. A step of a policy takes `step`, and `flow` for each flow. A
    step without records takes `empty`, which is the mean of such steps, and not fitted. If a flow wants a
    learned arm, the arm adds its `step` once, and its `flow` for each such flow.
    """
    arms = [LEARNED[arm] for arm in sorted(LEARNED)]
    parts: dict[tuple[str, str], list[npt.NDArray[np.float64]]] = {}
    model: dict[str, dict[str, int]] = {}
    busy = {name: steps[steps[:, 0] > 0] for name, steps in runs.items()}
    for name, steps in runs.items():
        policy = name.partition(" ")[0]
        empty = steps[steps[:, 0] == 0, -1]
        known = model.setdefault(policy, {"empty": 0, "step": 0, "flow": 0})
        known["empty"] = max(known["empty"], round(float(empty.mean())) if empty.size else 0)
        for at, steps_of in enumerate(busy.values()):
            own = float(at == list(busy).index(name))
            columns = parts.setdefault((policy, "step"), [np.zeros(len(s)) for s in busy.values()])
            columns[at] += own
            columns = parts.setdefault((policy, "flow"), [np.zeros(len(s)) for s in busy.values()])
            columns[at] += own * steps_of[:, 0]
    for at, arm in enumerate(arms, start=1):
        model[arm] = {"step": 0, "flow": 0}
        parts[arm, "step"] = [np.minimum(steps[:, at], 1.0) for steps in busy.values()]
        parts[arm, "flow"] = [steps[:, at].astype(float) for steps in busy.values()]
    took_ns = np.concatenate([steps[:, -1] for steps in busy.values()])
    names = list(parts)
    matrix = np.column_stack([np.concatenate(parts[name]) for name in names])
    for (entry, part), value in zip(names, _not_negative(matrix, took_ns), strict=True):
        model[entry][part] = round(float(value))
    return model


def _not_negative(matrix: npt.NDArray[np.float64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the least-squares solution without negative parts. They are set to 0 one by one, the lowest
    first.
    """
    used = np.flatnonzero(matrix.any(axis=0))
    while True:
        found = np.linalg.lstsq(matrix[:, used], values, rcond=None)[0]
        if found.min() >= 0:
            break
        used = np.delete(used, found.argmin())
    solved = np.zeros(matrix.shape[1])
    solved[used] = found
    return solved


def main() -> int:
    """Make the runs, print the model of each run, and write the model of all runs together."""
    runs: dict[str, Steps] = {}
    for name, scheme in SCHEMES.items():
        runs[name] = measure(scheme)
        print(f"{name}: {len(runs[name])} steps, {fit({name: runs[name]})}", flush=True)
    model = fit(runs)
    # The policy that collects data does the same as `random`, but draws less often.
    model["dwell-random"] = model["random"]
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(parts)}" for name, parts in model.items())
    write_atomically(DELAYS, f"{{\n{lines}\n}}\n".encode())
    print(f"{DELAYS}: {', '.join(model)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
