# SPDX-License-Identifier: Apache-2.0
"""Each claim's experiment in the paper and here, their difference, and the figures: docs/claims.json.

People write the texts. `ltp-eval claims --update` replaces the figures of the claims that were run. An
unknown value is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError, computed_field

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.report.claims.runner import Reached
from ltp_switcher.figures import Figure, Target

RECORD: Final = REPOSITORY / "docs" / "claims.json"
_DECIMALS: Final = 6
_EXPANDED: Final = 3
"""Number of levels of the JSON text on which each part has a line of its own. Deeper parts, such as the
fields of a figure, share a line.
"""


class Terms(StrEnum):
    """The relation of a target to the paper."""

    PAPER = "paper"
    """The paper's figure, over the paper's range, by the paper's definition."""
    NARROWER = "narrower"
    """The paper's claim, on a narrower range or by another definition."""
    OWN = "own"
    """A target of this project: the paper gives no figure."""


class Verdict(StrEnum):
    """The result of comparing a figure with its target."""

    MET = "met"
    NARROWER = "reached, narrower"
    OWN = "own target reached"
    MISSED = "missed"
    UNKNOWN = "not known"


_REACHED: Final = {
    Terms.PAPER: Verdict.MET,
    Terms.NARROWER: Verdict.NARROWER,
    Terms.OWN: Verdict.OWN,
}


def _ends(target: Target) -> dict[str, float]:
    ends = {"low": target.low, "high": target.high, "below": target.below}
    return {name: round(end, _DECIMALS) for name, end in ends.items() if math.isfinite(end)}


def _known_ends(target: object) -> object:
    if isinstance(target, dict) and not target.keys() <= {"low", "high", "below"}:
        raise ValueError("a target has the keys low, high and below")
    return target


TargetEnds = Annotated[Target, BeforeValidator(_known_ends), PlainSerializer(_ends)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Measured(_Part):
    """One figure of a scheme: its value, and how it was measured. Unknown fields are None.

    Attributes:
        spread: the least and the largest value that single seeds reached.
        ran_on: the kernel of the lab, or "simulator".
        revision: the full hash of the commit that ran.
        shortened: the part that was shorter than in a full run; None after a full run.
    """

    scheme: str
    figure: str
    value: float | None
    spread: tuple[float, float] | None
    seeds: tuple[int, ...] | None
    ran_on: str | None
    revision: str | None
    shortened: str | None

    @property
    def key(self) -> tuple[str, str]:
        """The scheme and the measured quantity. No other figure of the claim has the same pair."""
        return self.scheme, Figure(self.scheme, self.figure, math.nan).quantity


class Judged(Measured):
    """A figure with a target."""

    target: TargetEnds
    terms: Terms

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """The result of comparing the figure with its target."""
        if self.value is None:
            return Verdict.UNKNOWN
        return _REACHED[self.terms] if self.target.met(self.value) else Verdict.MISSED


class Row(_Part):
    """The paper's experiment, this project's experiment, their difference, and the figures.

    `command` makes the figures again; `claim` is None if the command is not `ltp-eval claims`. `picture` says
    how the claim's picture was made otherwise than by a full run. A full run draws the picture anew, and
    empties this text.
    """

    claim: str | None
    text: str
    paper: str
    here: str
    difference: str
    command: str
    figures: tuple[Judged, ...]
    notes: tuple[str, ...]
    picture: str = ""


class Baselines(_Part):
    """Figures of the kernel's own protocols on the paths of a claim."""

    claim: str
    text: str
    figures: tuple[Measured, ...]


class Constant(_Part):
    """A constant that was chosen on the links by which a claim is judged."""

    constant: str
    file: str
    chosen_on: str
    judges: str


class NotRun(_Part):
    """The experiments of a paper that this project has not run."""

    paper: str
    experiments: str


class Record(_Part):
    """All of docs/claims.json."""

    not_run: tuple[NotRun, ...] = ()
    rows: tuple[Row, ...]
    constants: tuple[Constant, ...]
    baselines: tuple[Baselines, ...]

    def figures_of(self, claim: str) -> list[Measured]:
        """Return the figures of a claim, and the figures of the kernel's own protocols on its paths."""
        parts: tuple[Row | Baselines, ...] = (*self.rows, *self.baselines)
        return [figure for part in parts if part.claim == claim for figure in part.figures]

    def updated(self, reached: Iterable[Reached], kernel: str, revision: str) -> Record:
        """Return the record with new figures for these claims.

        Raises:
            ArtifactError: the record has no row for a judged figure, so the paper's experiment is not
                described.
        """
        rows, baselines = self.rows, self.baselines
        for one in reached:
            name = one.claim.name
            known = {figure.key for row in rows if row.claim == name for figure in row.figures}
            for figure in one.figures:
                if figure.target is not None and (figure.scheme, figure.quantity) not in known:
                    raise ArtifactError(
                        f"{RECORD.name} has no row for {figure.what!r} of {figure.scheme} ({name}). "
                        "Add a row that describes the paper's experiment."
                    )
            new = {
                (figure.scheme, figure.quantity): _values(one, figure, kernel, revision)
                for figure in one.figures
            }
            rows = tuple(
                _replaced(row, new).model_copy(update={"picture": ""}) if row.claim == name else row
                for row in rows
            )
            baselines = tuple(_replaced(part, new) if part.claim == name else part for part in baselines)
        return self.model_copy(update={"rows": rows, "baselines": baselines})

    def to_json(self) -> str:
        """Return the text of the file."""
        return _pretty(self.model_dump(mode="json"), 0) + "\n"


def read_record(path: Path = RECORD) -> Record:
    """Read the record.

    Raises:
        ArtifactError: the file is missing, or does not have this form.
    """
    try:
        return Record.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ArtifactError(f"cannot read {path} ({error.strerror}). It is part of a checkout.") from error
    except ValidationError as error:
        raise ArtifactError(f"{path}: {error}") from error


Part = TypeVar("Part", Row, Baselines)


def _replaced(part: Part, new: Mapping[tuple[str, str], Mapping[str, object]]) -> Part:
    """The part with the new values of its figures; figures that were not measured anew stay."""
    figures = [figure.model_copy(update=new.get(figure.key, {})) for figure in part.figures]
    return part.model_copy(update={"figures": tuple(figures)})


def _values(one: Reached, figure: Figure, kernel: str, revision: str) -> Mapping[str, object]:
    spread = figure.spread
    values: dict[str, object] = {
        "figure": figure.what,
        "value": _rounded(figure.value),
        "spread": None if spread is None else (_rounded(spread[0]), _rounded(spread[1])),
        "seeds": one.claim.seeds[:1] if one.quick else one.claim.seeds,
        "ran_on": f"Linux {kernel}",
        "revision": revision,
        "shortened": one.claim.quick if one.quick else None,
    }
    if figure.target is not None:
        values["target"] = figure.target
    return values


def _rounded(value: float) -> float | None:
    return round(value, _DECIMALS) if math.isfinite(value) else None


def _pretty(value: object, depth: int) -> str:
    """JSON with one line for each part that lies deeper than `_EXPANDED`."""
    if depth > _EXPANDED or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_pretty(part, depth + 1)}" for key, part in value.items()]
    else:
        parts = [_pretty(part, depth + 1) for part in value]
    brackets = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(" " * (depth + 1) + part for part in parts)
    return f"{brackets[0]}\n{lines}\n{' ' * depth}{brackets[1]}"
