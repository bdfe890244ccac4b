# SPDX-License-Identifier: Apache-2.0
"""Checked reading of a scenario's tables. An error names the field, its value and the allowed values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from ltp_switcher.errors import ConfigError

LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "duration_s": (0.5, 3600.0),
    "rate_mbps": (0.1, 1000.0),
    "rtt_ms": (1.0, 2000.0),
    "buffer_bdp": (0.01, 100.0),
    "buffer_pkts": (1, 1_000_000),
    "loss": (0.0, 0.99),
    "jitter_ms": (0.0, 1000.0),
    "offset_s": (0.0, 86_400.0),
    "police_mbps": (0.1, 1000.0),
    "police_burst_pkts": (1, 100_000),
    "every_s": (0.01, 60.0),
    "step_ms": (0.001, 1000.0),
    "range_ms": (0.01, 1000.0),
    "seed": (0, 2**31 - 1),
    "silence_ms": (0.0, 10_000.0),
    "to_bad": (1e-6, 1.0),
    "to_good": (1e-6, 1.0),
    "loss_bad": (0.0, 1.0),
    "loss_good": (0.0, 0.99),
    "shape": (0.5, 5.0),
    "on_s": (0.01, 600.0),
    "off_s": (0.01, 600.0),
    "chunk_s": (1.0, 20.0),
    "buffer_s": (1.0, 600.0),
    "bitrates_mbps": (0.05, 200.0),
    "per_s": (0.01, 100.0),
    "flows": (1, 1000),
    "load": (0.01, 0.9),
    "smallest_kb": (1.0, 1_000_000.0),
    "largest_kb": (1.0, 1_000_000.0),
}
"""Least and largest allowed value of each number, by key."""


class Table:
    """A TOML table with a fixed set of keys. `path` is its dotted name in the document, empty for the whole
    document. Each read checks the value, and an error names the field.
    """

    def __init__(self, path: str, values: object, keys: Sequence[str]) -> None:
        if not isinstance(values, dict):
            raise ConfigError(path, values, f"a table with the keys {', '.join(keys)}")
        self._path = path
        self._values: dict[str, object] = values
        for key, value in self._values.items():
            if key not in keys:
                close = difflib.get_close_matches(key, keys, n=1)
                hint = f" (did you mean {close[0]}?)" if close else ""
                raise ConfigError(self.field(key), value, f"the keys {', '.join(keys)}{hint}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def field(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def required(self, key: str) -> object:
        if key not in self._values:
            raise ConfigError(self.field(key), None, "a value: the key is required")
        return self._values[key]

    def exactly_one(self, *keys: str) -> None:
        given = [key for key in keys if key in self._values]
        if len(given) != 1:
            raise ConfigError(self._path, given or None, f"exactly one of {' and '.join(keys)}")

    def only_with(self, key: str, other: str) -> None:
        if key in self._values and other not in self._values:
            raise ConfigError(self.field(key), self._values[key], f"no key without {self.field(other)}")

    def number(
        self, key: str, *, low: float | None = None, high: float | None = None, default: float | None = None
    ) -> float:
        if default is not None and key not in self._values:
            return default
        value = self.required(key)
        if low is None or high is None:
            low, high = LIMITS[key]
        # NaN compares false with everything, so it fails here too.
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigError(self.field(key), value, f"a number from {low:g} to {high:g}")
        return float(value)

    def numbers(self, key: str, most: int) -> tuple[float, ...]:
        """Return a list of one to `most` numbers."""
        values = self.required(key)
        if not isinstance(values, list) or not 1 <= len(values) <= most:
            raise ConfigError(self.field(key), values, f"a list of 1 to {most} numbers")
        low, high = LIMITS[key]
        return tuple(
            Table(self.field(key), {str(i): value}, (str(i),)).number(str(i), low=low, high=high)
            for i, value in enumerate(values)
        )

    def optional_number(self, key: str) -> float | None:
        return self.number(key) if key in self._values else None

    def integer(self, key: str) -> int:
        value = self.required(key)
        low, high = LIMITS[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(self.field(key), value, f"a whole number from {low:g} to {high:g}")
        return value

    def flag(self, key: str) -> bool:
        """Return a truth value, which is false if the key is missing."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(self.field(key), value, "true or false")
        return value

    def text(self, key: str) -> str:
        value = self.required(key)
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(self.field(key), value, "a text that is not empty")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, none of which is empty."""
        values = self.required(key)
        if not isinstance(values, list) or not all(isinstance(one, str) and one.strip() for one in values):
            raise ConfigError(self.field(key), values, "a list of texts")
        return tuple(values)

    def mapping(self, key: str) -> dict[str, object]:
        value = self.required(key)
        if not isinstance(value, dict):
            raise ConfigError(self.field(key), value, f"tables [{self.field(key)}.SECTION]")
        return value

    def table(self, key: str, keys: Sequence[str]) -> Table:
        return Table(self.field(key), self.required(key), keys)

    def tables(self, key: str, keys: Sequence[str]) -> list[Table]:
        values = self._values.get(key, [])
        if not isinstance(values, list):
            raise ConfigError(self.field(key), values, f"tables [[{self.field(key)}]]")
        return [Table(f"{self.field(key)}[{i}]", value, keys) for i, value in enumerate(values)]
