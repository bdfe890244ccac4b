# SPDX-License-Identifier: Apache-2.0
"""The flows of traffic runs as one table: their file, their means, and the best arm of each path.

Every scheme meets the same flows. So the value of a flow (see `daemon/gain/value.py`) is taken relative to
the mean of all schemes for the same flow. A difference of values is the logarithm of a ratio of rewards.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Bools, Ints
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.gain.outcomes import timed_visits
from ltp_switcher.errors import ArtifactError, ArtifactMissingError

FILE: Final = "flows.csv"
ALL: Final = "all"
CLASSES: Final = (ALL, *value.SIZE_NAMES)
"""Classes of flows by the requested bytes; see `value.SIZE_BOUNDS_BYTES`."""
_NAMES: Final = {int(arm): arm.name.lower() for arm in ArmId if arm}
"""Names of arms by id."""
ORACLE: Final = "oracle"
"""Name of the oracle, which runs the best arm of each path. The arm is chosen on other seeds."""

FLOW_DTYPE: Final[np.dtype[np.void]] = np.dtype(
    [
        ("scheme", np.int64),  # Place in the list of schemes.
        ("seed", np.int64),
        ("path", np.int64),  # Number of its path.
        ("at_s", np.float64),
        ("asked_bytes", np.int64),
        ("took_s", np.float64),  # From the request to the last byte; infinite if this byte never came.
        # Fields from here to `information` are NaN if the module reported nothing about the flow.
        ("retransmits", np.float64),
        ("delivered", np.float64),  # Packets.
        ("rtt_ms", np.float64),
        ("value", np.float64),  # Raw, or relative to the mean of all schemes for this flow; see `related`.
        ("information", np.float64),  # The flow's own, or the mean of all schemes for this flow.
        ("chance", np.float64),  # Probability of its lot; 1 if its visit drew none.
        # The last two fields are 0 if the module reported nothing about the flow.
        ("began", np.int64),  # Id of its first arm.
        ("lot", np.int64),  # Id of the arm that its visit drew; 0 for the decision's own choice.
    ]
)
FlowTable = npt.NDArray[np.void]
"""All flows of all runs, `FLOW_DTYPE`, shape (n,)."""


@dataclass(frozen=True, slots=True)
class FlowSet:
    """The flows of several runs."""

    schemes: tuple[str, ...]
    paths: tuple[str, ...]
    flows: FlowTable

    def of(self, scheme: str, seeds: Sequence[int]) -> FlowTable:
        """Return the flows of a scheme in its runs with these seeds."""
        found: FlowTable = self.flows[
            (self.flows["scheme"] == self.schemes.index(scheme)) & np.isin(self.flows["seed"], seeds)
        ]
        return found

    def composed(self, arms: Mapping[str, str], seeds: Sequence[int]) -> FlowTable:
        """Return the flows of a scheme that runs another arm on each path: each path's flows come from the
        runs of its arm.

        Args:
            arms: the arm of each path.
            seeds: seeds of the flows.
        """
        parts = [np.zeros(0, FLOW_DTYPE)]
        for number, path in enumerate(self.paths):
            flows = self.of(arms[path], seeds)
            parts.append(flows[flows["path"] == number])
        return np.concatenate(parts)


def related(flows: FlowTable) -> FlowTable:
    """Return the flows with values by which schemes can be compared.

    Every scheme has run the same downloads. A flow's value, the logarithm of its reward, loses the mean value
    of this download over all schemes. The rest is clipped (`value.clipped`). The flow's information, which is
    the weight of its value, becomes the mean over all schemes, too.
    """
    flows = flows.copy()
    _, twins = np.unique(flows[["seed", "path", "at_s"]], return_inverse=True)
    flows["value"] = value.clipped(flows["value"], twins)
    says = np.isfinite(flows["information"])
    sums = np.bincount(twins[says], weights=flows["information"][says], minlength=len(twins))
    counts = np.bincount(twins[says], minlength=len(twins))
    flows["information"] = (sums / np.maximum(counts, 1))[twins]
    return flows


def of_class(flows: FlowTable, name: str) -> Bools:
    """True for the flows of a class, shape (n,)."""
    if name == ALL:
        return np.ones(len(flows), np.bool_)
    numbers = np.searchsorted(value.SIZE_BOUNDS_BYTES, flows["asked_bytes"], side="right")
    chosen: Bools = numbers == value.SIZE_NAMES.index(name)
    return chosen


def visit_numbers(run: FlowTable) -> Ints:
    """Return the number of each flow's visit, shape (n,), from 1 on, for the flows of one run to one path.

    A visit is a group of flows to a path that began near each other.
    """
    return timed_visits(np.zeros(len(run), np.int64), run["at_s"], run["at_s"] + run["took_s"])


def retransmit_share(flows: FlowTable) -> float:
    """Return the ratio of retransmits to delivered packets; NaN if nothing is known."""
    delivered = float(np.nansum(flows["delivered"]))
    return float(np.nansum(flows["retransmits"])) / delivered if delivered else math.nan


def mean_value(flows: FlowTable) -> float:
    """Return the mean of the flows' values, weighted by their information; NaN if no value is known."""
    says = np.isfinite(flows["value"]) & (flows["information"] > 0)
    if not says.any():
        return math.nan
    return float(np.average(flows["value"][says], weights=flows["information"][says]))


def value_by_path(paths: Sequence[str], flows: FlowTable) -> dict[str, float]:
    """Return the mean value of the flows on each path. A flow's path is an index into `paths`."""
    return {path: mean_value(flows[flows["path"] == n]) for n, path in enumerate(paths)}


def best_arms(made: FlowSet, arms: Sequence[str], seeds: Sequence[int]) -> dict[str, str]:
    """Return the arm with the highest mean value on each path, over these seeds."""
    values = {arm: value_by_path(made.paths, made.of(arm, seeds)) for arm in arms}
    return {path: max(arms, key=lambda arm: values[arm][path]) for path in made.paths}


def flows_csv(made: FlowSet) -> str:
    """Return every flow of every run as CSV, one line for each flow."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = FLOW_DTYPE.names or ()
    writer.writerow(columns)
    for flow in made.flows:
        cells = [f"{flow[name]:.6g}" if flow[name].dtype.kind == "f" else str(flow[name]) for name in columns]
        named = dict(zip(columns, cells, strict=True))
        named |= {"scheme": made.schemes[flow["scheme"]], "path": made.paths[flow["path"]]}
        named |= {
            "began": _NAMES.get(int(flow["began"]), ""),
            "lot": _NAMES.get(int(flow["lot"]), "decision"),
        }
        writer.writerow(named.values())
    return text.getvalue()


def read_flows(folders: Sequence[Path]) -> FlowSet:
    """Read the flows of one folder of results, or of several together, in order of folders and lines.

    First arms and lots are left out. The values are raw. They are computed from the other columns: the
    completion time takes the place of the busy time, and packets sent again take the place of lost packets.
    The file's own values are not used. They are relative to the mean of the schemes in its folder, so values
    of two files cannot be compared.

    Raises:
        ArtifactError: a folder has no file of flows, or the file is damaged.
    """
    schemes: dict[str, int] = {}
    paths: dict[str, int] = {}
    rows: list[tuple[float, ...]] = []
    columns = FLOW_DTYPE.names or ()
    for folder in folders:
        file = folder / FILE
        try:
            for line in csv.DictReader(io.StringIO(file.read_text())):
                scheme = schemes.setdefault(line["scheme"], len(schemes))
                path = paths.setdefault(line["path"], len(paths))
                known = {"scheme": scheme, "path": path, "chance": 1.0, "began": 0, "lot": 0}
                rows.append(tuple(known[name] if name in known else float(line[name]) for name in columns))
        except FileNotFoundError:
            raise ArtifactMissingError(
                f"{file}: no such file; `ltp-eval traffic --out {folder}` makes it"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"{file}: not a table of flows ({error!r}); `ltp-eval traffic --out {folder}` makes it anew"
            ) from None
    if not rows:
        raise ArtifactError(f"{', '.join(map(str, folders))}: no flow; `ltp-eval traffic` makes {FILE} anew")
    flows = np.array(rows, FLOW_DTYPE)
    flows["value"] = value.of(
        flows["asked_bytes"], flows["took_s"], flows["retransmits"], flows["delivered"], flows["rtt_ms"] * 1e3
    )
    return FlowSet(tuple(schemes), tuple(paths), flows)
