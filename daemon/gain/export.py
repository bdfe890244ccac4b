# SPDX-License-Identifier: Apache-2.0
"""The decision log as a table for other programs: CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Rows
from ltp_switcher.errors import ArtifactError, ConfigError, reason


class ExportError(ArtifactError):
    """The file cannot be written, or pyarrow is not installed."""


ENDINGS: Final = (".csv", ".parquet")
_ARMS: Final = ("arm", "policy_arm", "ran")
"""Fields of a row whose values are ids of arms."""


def export(
    parts: Iterable[Rows], names: Mapping[int, str], path: Path, tell: Callable[[int], None] = lambda _: None
) -> None:
    """Write rows of the decision log to a file. The file's ending chooses the format.

    Args:
        parts: the rows in parts, each with the shape (n,).
        names: names of the arms by id.
        path: the file. It is written as a whole or not at all.
        tell: a function that is called after each part with the number of rows written so far.

    Raises:
        ConfigError: the file's ending is not in `ENDINGS`.
        ExportError: the file cannot be written, or pyarrow is not installed.
    """
    if path.suffix not in ENDINGS:
        raise ConfigError("--export", str(path), f"a file that ends in {' or '.join(ENDINGS)}")
    partial = path.with_name(path.name + ".partial")
    write = _write_csv if path.suffix == ".csv" else _write_parquet
    try:
        write(parts, names, partial, tell)
        partial.replace(path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {reason(error)}") from error
    finally:
        partial.unlink(missing_ok=True)


def _write_csv(
    parts: Iterable[Rows], names: Mapping[int, str], path: Path, tell: Callable[[int], None]
) -> None:
    """Write a table with a column for each number, such as `probability_bbr`, `context_loss` and `rtt_us_1`.
    Unknown numbers are empty.
    """
    written = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_flat(np.zeros(0, ROW_DTYPE), names))
        for rows in parts:
            table.writerows(zip(*_flat(rows, names).values(), strict=True))
            written += len(rows)
            tell(written)


def _flat(rows: Rows, names: Mapping[int, str]) -> dict[str, list[object]]:
    """Return the columns of a table by name, with n cells each."""
    columns: dict[str, list[object]] = {}
    for name in ROW_DTYPE.names or ():
        values = rows[name]
        if name == "probability":
            columns |= {f"{name}_{arm}": _cells(values[:, at]) for at, arm in names.items()}
        elif values.dtype.names:
            columns |= {f"{name}_{part}": _cells(values[part]) for part in values.dtype.names}
        elif values.ndim == 2:
            columns |= {f"{name}_{at + 1}": _cells(values[:, at]) for at in range(values.shape[1])}
        elif name in _ARMS:
            columns[name] = [names.get(arm, str(arm)) for arm in values.tolist()]
        else:
            columns[name] = _cells(values)
    return columns


def _cells(values: np.ndarray) -> list[object]:
    """Return the cells of a column, from values of shape (n,). A number has as many digits as it takes to
    tell it from its neighbours. NaN becomes an empty text.
    """
    if values.dtype.kind == "S":
        return [value.decode() for value in values.tolist()]
    if values.dtype.kind == "f":
        return ["" if text == "nan" else text for text in values.astype(np.str_).tolist()]
    return list((values.astype(np.uint8) if values.dtype.kind == "b" else values).tolist())


def _write_parquet(
    parts: Iterable[Rows], names: Mapping[int, str], path: Path, tell: Callable[[int], None]
) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ExportError(
            "Parquet needs pyarrow: pip install pyarrow; or name a file that ends in .csv"
        ) from error
    rows = np.concatenate([np.zeros(0, ROW_DTYPE), *parts])
    columns: dict[str, object] = {}
    for name in ROW_DTYPE.names or ():
        values = rows[name]
        if values.dtype.names:
            columns.update({f"{name}_{part}": values[part].copy() for part in values.dtype.names})
        elif values.ndim == 2:
            columns[name] = list(values)
        elif name in _ARMS:
            columns[name] = [names.get(arm, str(arm)) for arm in values.tolist()]
        elif values.dtype.kind == "S":
            columns[name] = [value.decode() for value in values.tolist()]
        else:
            columns[name] = values.copy()
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    tell(len(rows))
