# SPDX-License-Identifier: Apache-2.0
"""Compare the simulator with the lab: the same scenarios in both, printed as one table.

The lab's results are the `summary.json` files of `ltp-eval`; `--commands` prints the commands that make them.
The name of a run is its scenario, with Cubic on all flows. In a run `SCENARIO@RATE` all flows send at this
constant rate in Mbit/s instead.

    python -m ltp_switcher.policies.simulator.validate --commands | sh
    python -m ltp_switcher.policies.simulator.validate [--json]

The lab counts goodput in payload bytes and the link in IP packets; the comparison accounts for this
difference. The mean RTT is over bins of 100 ms in both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher import toml_file
from ltp_switcher.commands import program
from ltp_switcher.errors import ConfigError, reason
from ltp_switcher.policies.simulator.delivery_traces import read_trace, traces_folder
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import NEVER, PACKET_BYTES, Flows, Paths, Steps
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.totals import Totals

PAYLOAD_BYTES: Final = 1448
"""Payload of a full-sized TCP segment with time stamps."""
BIN_S: Final = 0.1
REPEATS: Final = 8
"""Number of simulated runs of a scenario, with different seeds. Their mean is compared with the lab."""
UTILISATION_POINTS: Final = 5.0
RTT_PERCENT: Final = 10.0

RUNS: Final = (
    "fixed", "step", "high-rtt", "low-capacity", "large-queue", "satellite", "multi-flow",
    "cellular-tmobile-lte", "fixed@36", "fixed@60", "step@30", "satellite@15", "multi-flow@10",
)  # fmt: skip
"""Names of the runs to compare. The constant rates are below the link's rate, above it, between the rates of
a changing link, and shared by flows.
"""


@dataclass(frozen=True)
class Comparison:
    """The figures of one run, from the lab and from the simulator. RTT is the mean over the flows, and
    utilisation counts payload.
    """

    run: str
    lab_utilisation: float
    utilisation: float
    lab_rtt_ms: float
    rtt_ms: float

    @property
    def points(self) -> float:
        """Difference of utilisation in percentage points."""
        return 100.0 * (self.utilisation - self.lab_utilisation)

    @property
    def percent(self) -> float:
        """Difference of mean RTT in percent of the lab's mean RTT."""
        return 100.0 * (self.rtt_ms / self.lab_rtt_ms - 1.0)

    @property
    def agrees(self) -> bool:
        """Whether utilisation and RTT both agree within their limits."""
        return abs(self.points) <= UTILISATION_POINTS and abs(self.percent) <= RTT_PERCENT


def simulate(scenario: Mapping[str, object], schemes: Sequence[str], traces: Path) -> tuple[float, float]:
    """Simulate a scenario with a scheme for each flow; return utilisation and mean RTT in ms.

    Raises:
        ConfigError: the scenario lacks a key, or has one that the simulator does not model.
    """
    paths, flows, roster, duration_s = _build(scenario, schemes, traces)
    simulator = Simulator(paths, flows, roster, seed=1, interval_s=BIN_S)
    totals = Totals.none(roster.count, paths.count)
    rtt_sum, bins = np.zeros((roster.count, 1)), np.zeros((roster.count, 1))
    for seen, _ in directed(simulator, None, duration_s=duration_s):
        totals.add(seen)
        heard = (seen.acked_pkts > 0.0) & seen.active
        rtt_sum += np.where(heard, seen.rtt_s, 0.0).sum(axis=1, keepdims=True)
        bins += heard.sum(axis=1, keepdims=True)
    utilisation = totals.acked_pkts.sum() / totals.served_pkts.sum() * PAYLOAD_BYTES / PACKET_BYTES
    return float(utilisation), float((rtt_sum / bins).mean() * 1e3)


def _build(
    scenario: Mapping[str, object], schemes: Sequence[str], traces: Path
) -> tuple[Paths, Flows, Roster, float]:
    try:
        link = dict(scenario["link"])  # type: ignore[call-overload]
        duration_s = float(str(scenario["duration_s"]))
        tables = [dict(flow) for flow in scenario["flow"]]  # type: ignore[attr-defined]
        paths = _link(link, traces)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError("scenario", scenario.get("name"), f"a scenario of ltp-eval ({error!r})") from error
    # The simulator's rows are by kind: Cubic first, then the constant rates.
    order = sorted(range(len(tables)), key=lambda index: schemes[index] != "cubic")
    shape = (len(tables), REPEATS)
    flows = Flows(np.zeros(shape), np.full(shape, NEVER), np.full(shape, np.nan))
    for row, index in enumerate(order):
        table, scheme = tables[index], schemes[index]
        flows.start_s[row] = table.get("start_s", 0.0)
        flows.stop_s[row] = table.get("stop_s", duration_s)
        flows.rtt_ms[row] = table.get("rtt_ms", np.nan)
        if scheme != "cubic":
            flows.rate_mbps[row] = _constant_rate(scheme)
    cubic = sum(scheme == "cubic" for scheme in schemes)
    return paths, flows, Roster(cubic=cubic, fixed=len(tables) - cubic), duration_s


def _constant_rate(scheme: str) -> float:
    kind, _, rate_mbps = scheme.partition(":")
    if kind != "fixed":
        raise ConfigError("scheme", scheme, "cubic, or fixed:RATE in Mbit/s")
    return float(rate_mbps)


def _link(link: Mapping[str, object], traces: Path) -> Paths:
    def number(name: str, default: float) -> float:
        return float(str(link.get(name, default)))

    opportunities: tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...] = ()
    if "trace" in link:
        opportunities = (read_trace(traces / str(link["trace"])).astype(np.int64),)
        wire_mbps = len(opportunities[0]) / opportunities[0][-1] * 1e3 * PACKET_BYTES * 8e-6
    else:
        wire_mbps = number("rate_mbps", np.nan)
    rtt_ms = number("rtt_ms", np.nan)
    bdp_pkts = wire_mbps * 1e6 / 8 * rtt_ms / 1e3 / PACKET_BYTES
    # One more packet than the buffer is in service.
    buffer_pkts = number("buffer_pkts", np.maximum(1.0, np.round(number("buffer_bdp", 1.0) * bdp_pkts))) + 1.0
    paths = Paths.uniform(REPEATS, rate_mbps=wire_mbps, rtt_ms=rtt_ms, loss=number("loss", 0.0))
    steps = [dict(step) for step in link.get("step", [])]  # type: ignore[attr-defined]
    return replace(
        paths,
        buffer_pkts=np.full(REPEATS, buffer_pkts),
        trace=np.full(REPEATS, len(opportunities) - 1),
        traces=opportunities,
        steps=_steps(steps) if steps else None,
    )


def _steps(steps: Sequence[Mapping[str, float]]) -> Steps:
    def column(name: str, scale: float = 1.0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        values = [[float(step.get(name, np.nan)) * scale] for step in steps]
        return np.repeat(np.array(values), REPEATS, axis=1)

    rate_mbps = column("rate_mbps")
    return Steps(column("at_s"), rate_mbps, column("rtt_ms"), column("loss"))


def compare(run: str, scenario: Path, result: Path, traces: Path) -> Comparison:
    """Simulate the same run as the lab, and return both results side by side under the name `run`.

    Raises:
        ConfigError: a file cannot be read or is not of ltp-eval.
    """
    try:
        document = toml_file.read(scenario, "scenario")
        summary = json.loads(result.read_text(encoding="utf-8"))
        schemes = [str(flow["scheme"]) for flow in summary["flows"]]
        lab_rtt_ms = float(np.mean([flow["rtt_mean_ms"] for flow in summary["flows"]]))
        lab_utilisation = float(summary["utilisation"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "results", str(result), f"scenario and summary.json of ltp-eval ({reason(error)})"
        ) from error
    utilisation, rtt_ms = simulate(document, schemes, traces)
    return Comparison(run, lab_utilisation, utilisation, lab_rtt_ms, rtt_ms)


@program("validate")
def main(given: Sequence[str] | None) -> int:
    """Print the table. The exit status is 1 if a scenario disagrees or a file is faulty."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", default=RUNS, help=f"default: {' '.join(RUNS)}")
    parser.add_argument(
        "--scenarios", type=Path, default=Path("eval/scenarios"), help="folder of the TOML files"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("out/validate"), help="folder of the lab's results"
    )
    parser.add_argument("--commands", action="store_true", help="print how to make the lab's results")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(given)
    if arguments.commands:
        for run in arguments.runs:
            name, _, rate = run.partition("@")
            scheme = f"fixed:{rate}" if rate else "cubic"
            scenario, out = arguments.scenarios / f"{name}.toml", arguments.results / run
            print(f"ltp-eval run {scenario} --scheme {scheme} --every-flow --out {out}")
        return 0
    traces = traces_folder()
    rows = [
        compare(
            run,
            arguments.scenarios / f"{run.partition('@')[0]}.toml",
            arguments.results / run / "summary.json",
            traces,
        )
        for run in arguments.runs
    ]
    if arguments.json:
        print(json.dumps([{**asdict(row), "agrees": row.agrees} for row in rows], indent=1))
    else:
        _print_table(rows)
    return 0 if all(row.agrees for row in rows) else 1


def _print_table(rows: Sequence[Comparison]) -> None:
    print(f"{'':24}{'utilisation %':^28}{'mean RTT ms':^28}")
    print(f"{'run':24}{'lab':>8}{'simul.':>8}{'points':>9}{'lab':>11}{'simul.':>8}{'%':>8}")
    for row in rows:
        verdict = "" if row.agrees else "   disagrees"
        print(
            f"{row.run:24}{100 * row.lab_utilisation:8.1f}{100 * row.utilisation:8.1f}{row.points:+9.1f}"
            f"{row.lab_rtt_ms:11.1f}{row.rtt_ms:8.1f}{row.percent:+8.1f}{verdict}"
        )


if __name__ == "__main__":
    sys.exit(main())
