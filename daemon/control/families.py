# SPDX-License-Identifier: Apache-2.0
"""The shape of metrics on the control socket: families of samples, as JSON values.

Names and units follow OpenMetrics: units are base units (seconds, bytes), and names of counters end in
`_total`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from ltp_switcher.daemon.control.client import Json

Kind = Literal["counter", "gauge", "info", "summary", "histogram"]
_KINDS: Final = {kind: kind for kind in get_args(Kind)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. `suffix` is added to the family's name, as OpenMetrics defines it (`_total`,
    `_sum`, …).
    """

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one quantity. `unit` is the base unit at the end of the family's name, or empty."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    samples: Sequence[Sample] = ()


def counter(name: str, text: str, value: float, unit: str = "") -> Family:
    """A family that holds one counter."""
    return Family(name, "counter", text, unit, [Sample(value, {}, "_total")])


def gauge(name: str, text: str, value: float, unit: str = "") -> Family:
    """A family that holds one gauge."""
    return Family(name, "gauge", text, unit, [Sample(value)])


def labelled(
    name: str, kind: Kind, text: str, label: str, values: Mapping[str, float], unit: str = ""
) -> Family:
    """A family of one sample for each value of one label."""
    suffix = "_total" if kind == "counter" else ""
    return Family(name, kind, text, unit, [Sample(v, {label: key}, suffix) for key, v in values.items()])


def histogram(
    name: str,
    text: str,
    unit: str,
    bounds: Sequence[float],
    rows: Iterable[tuple[Mapping[str, str], Sequence[int], float]],
) -> Family:
    """A family of histograms. Each histogram has labels, counts by bucket, and the sum of its values.

    `bounds` are the upper ends of the buckets. The last bucket has no upper end, so there is one count more
    than bounds.
    """
    samples = []
    ends = [*map(_number, map(float, bounds)), "+Inf"]
    for labels, counts, total in rows:
        sums = itertools.accumulate(counts)
        samples += [Sample(n, {**labels, "le": end}, "_bucket") for end, n in zip(ends, sums, strict=True)]
        samples += [Sample(sum(counts), labels, "_count"), Sample(total, labels, "_sum")]
    return Family(name, "histogram", text, unit, samples)


def to_json(families: Iterable[Family]) -> list[Json]:
    """The families as JSON values, as the control method `metrics` returns them."""
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
    """The families from the result of `to_json`. Raises `ValueError` for anything else."""
    try:
        return [_family(entry) for entry in _list(value)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a list of metric families: {error!r}") from error


def _family(entry: Json) -> Family:
    fields = _dict(entry)
    kind = str(fields["type"])
    samples = []
    for sample in _list(fields["samples"]):
        parts = _dict(sample)
        labels = {key: str(text) for key, text in _dict(parts["labels"]).items()}
        value = parts["value"]
        if not isinstance(value, int | float) and value not in ("NaN", "+Inf", "-Inf"):
            raise TypeError(f"value {value!r}")
        samples.append(Sample(float(value), labels, str(parts["suffix"])))
    return Family(str(fields["name"]), _KINDS[kind], str(fields["help"]), str(fields["unit"]), samples)


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
