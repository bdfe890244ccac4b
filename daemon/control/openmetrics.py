# SPDX-License-Identifier: Apache-2.0
"""The daemon's metrics, defined once, and rendered as JSON values or OpenMetrics text.

Names and units follow OpenMetrics: base units (seconds, bytes), counters end in `_total`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ltp_switcher.daemon.control.client import Json

Kind = Literal["counter", "gauge", "info", "summary"]
CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. `suffix` is OpenMetrics' addition to the family's name (`_total`, `_sum`, …)."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one quantity. `unit` is the base unit that the name ends in, or empty."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    samples: Sequence[Sample] = ()


def counter(name: str, text: str, value: float, unit: str = "") -> Family:
    """A family of one counter."""
    return Family(name, "counter", text, unit, [Sample(value, {}, "_total")])


def gauge(name: str, text: str, value: float, unit: str = "") -> Family:
    """A family of one gauge."""
    return Family(name, "gauge", text, unit, [Sample(value)])


def labelled(
    name: str, kind: Kind, text: str, label: str, values: Mapping[str, float], unit: str = ""
) -> Family:
    """A family with one sample for each value of one label."""
    suffix = "_total" if kind == "counter" else ""
    return Family(name, kind, text, unit, [Sample(v, {label: key}, suffix) for key, v in values.items()])


def to_json(families: Iterable[Family]) -> list[Json]:
    """The families as JSON values, as the control method `metrics` gives them."""
    return [
        {
            "name": family.name,
            "type": family.kind,
            "help": family.help,
            "unit": family.unit,
            "samples": [
                {
                    "suffix": sample.suffix,
                    "labels": dict(sample.labels),
                    # JSON has no NaN and no Infinity.
                    "value": sample.value if math.isfinite(sample.value) else _number(sample.value),
                }
                for sample in family.samples
            ],
        }
        for family in families
    ]


def from_json(value: Json) -> list[Family]:
    """The result of `to_json` as families again. Raises `ValueError` for anything else."""
    try:
        return [_family(entry) for entry in _list(value)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a list of metric families: {error!r}") from error


def render_openmetrics(families: Iterable[Family]) -> str:
    """The OpenMetrics text of the families, its end marked."""
    lines = []
    for family in families:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {_escape(family.help)}")
        for sample in family.samples:
            labels = ",".join(f'{key}="{_escape(value)}"' for key, value in sample.labels.items())
            braces = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{sample.suffix}{braces} {_number(sample.value)}")
    lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _family(entry: Json) -> Family:
    fields = _dict(entry)
    kind = str(fields["type"])
    kinds: dict[str, Kind] = {"counter": "counter", "gauge": "gauge", "info": "info", "summary": "summary"}
    samples = []
    for sample in _list(fields["samples"]):
        parts = _dict(sample)
        labels = {key: str(text) for key, text in _dict(parts["labels"]).items()}
        value = parts["value"]
        if not isinstance(value, int | float) and value not in ("NaN", "+Inf", "-Inf"):
            raise TypeError(f"value {value!r}")
        samples.append(Sample(float(value), labels, str(parts["suffix"])))
    return Family(str(fields["name"]), kinds[kind], str(fields["help"]), str(fields["unit"]), samples)


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _dict(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object")
    return value


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
