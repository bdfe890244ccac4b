# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher evaluate`: judge policies from the log of decisions."""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import numpy as np

from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import Object, print_json, print_table
from ltp_switcher.daemon.gain import log
from ltp_switcher.daemon.gain.evaluate import Evaluation, evaluate
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Rows
from ltp_switcher.errors import ArtifactError, ConfigError


def judge(options: argparse.Namespace) -> int:
    """Estimate what a policy would have earned, or export the log."""
    place = options.log or place_of(options)
    parts = list(log.read(place, since(options)))
    rows = np.concatenate([np.zeros(0, ROW_DTYPE), *parts])
    names = log.read_names(place)
    if options.export is not None:
        export(rows, names, options.export)
        return 0
    if options.policy is None:
        raise ConfigError("policy", None, "--policy NAME or --export FILE")
    found = evaluate(rows, options.policy, names)
    return print_json(_json(found)) if options.json else _print(found)


def place_of(options: argparse.Namespace) -> Path:
    """The log of the settings' state directory."""
    return Path(settings(options).daemon.state_dir) / log.FOLDER


def since(options: argparse.Namespace) -> float:
    """The Unix time from which rows count; 0 for all."""
    return time.time() - options.since if options.since is not None else 0.0


def export(rows: Rows, names: dict[int, str], path: Path) -> None:
    """Write rows as Parquet. Raises `ArtifactError` where pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ArtifactError("Parquet needs pyarrow: pip install pyarrow") from error
    columns: dict[str, object] = {}
    for name in ROW_DTYPE.names or ():
        values = rows[name]
        if values.dtype.names:
            columns.update({f"{name}_{part}": values[part].copy() for part in values.dtype.names})
        elif values.ndim == 2:
            columns[name] = list(values)
        elif name in ("arm", "policy_arm", "ran"):
            columns[name] = [names.get(arm, str(arm)) for arm in values.tolist()]
        elif values.dtype.kind == "S":
            columns[name] = [value.decode() for value in values.tolist()]
        else:
            columns[name] = values.copy()
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _json(found: Evaluation) -> Object:
    made: Object = dataclasses.asdict(found)
    return made


def _print(found: Evaluation) -> int:
    print(
        f"{found.policy}: {found.decisions} decisions, effective sample size {found.effective:.0f}, "
        f"{found.clusters} independent units ({found.of}); {found.without_reward} decisions were too short"
    )
    rows = [
        [name, f"{mean.value:.4f}", f"{mean.lower:.4f} to {mean.upper:.4f}"]
        for name, mean in (
            ("logged policy", found.logged),
            ("IPS estimate", found.ips),
            ("SNIPS estimate", found.snips),
        )
    ]
    return print_table(["", "mean reward", "95 % interval"], rows)
