# SPDX-License-Identifier: Apache-2.0
"""An arm's declaration, the file `arm.toml`. The code generator of the kernel module, the daemon and the
evaluation all read it.

The file holds a line that describes the arm, and the arm's variants. A variant is a law and the weights that
were trained for it. The first variant bears the arm's name and runs unless the settings say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ltp_switcher import toml_file
from ltp_switcher.errors import ArtifactError, InvalidValueError

if TYPE_CHECKING:
    from ltp_switcher.policies.runtime.inference import Network

FILE: Final = "arm.toml"
POLICIES: Final = Path(__file__).parents[1]
_ARM_NAME: Final = re.compile(r"[a-z][a-z0-9]{,12}")
"""Form of an arm's name. The kernel shows an arm as `m/<name>`, in at most 15 characters."""
_VARIANT_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Law(StrEnum):
    """The control law that the kernel executes between two decisions. It uses the parameters of the last
    decision.
    """

    WINDOW = "window"
    """A congestion window in packets, paced at window / RTT. The only parameter is window_pkts."""
    AIMD = "aimd"
    """Spine, Eq. 3 to 5, at every ACK. The parameters are (alpha_thr, alpha_lat, alpha_tol, alpha_loss)."""
    CUBIC = "cubic"
    """Cubic whose two constants are set (Spine-Cubic). The parameters are (beta, c)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run an arm: a law, and the weights that were trained for it."""

    name: str
    law: Law
    """The law that the kernel executes for the variant."""
    weights: Path | None
    """File of the variant's networks; None for a variant without networks."""

    def networks(self) -> Mapping[str, Network]:
        """Load the networks. Raises `ArtifactError` if the variant has none or the file is corrupt."""
        # This needs numpy, which the command line and the generator do not have.
        from ltp_switcher.policies.runtime.export import load

        if self.weights is None:
            raise ArtifactError(f"{self.name}: {FILE} names no weights")
        return load(self.weights)[0]


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of a learned arm, as its `arm.toml` gives it."""

    name: str
    summary: str
    """Description of the arm in one line."""
    variants: tuple[Variant, ...]

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws that the kernel must execute for the arm, in the order of `Law`."""
        return tuple(law for law in Law if any(variant.law is law for variant in self.variants))

    def variant(self, name: str) -> Variant:
        """Return the variant of this name. Raises `InvalidValueError` if there is none."""
        known = {variant.name: variant for variant in self.variants}
        if name not in known:
            raise InvalidValueError(f"variant of {self.name}", name, ", ".join(known))
        return known[name]


@cache
def declarations(policies: Path = POLICIES) -> Mapping[str, Declaration]:
    """Return the declarations of all learned arms by name, in alphabetical order.

    Args:
        policies: folder that holds a folder for each arm, with the arm's `arm.toml`.

    Raises:
        InvalidValueError: an `arm.toml` is faulty.
    """
    found = {file.parent.name: declaration(file.parent) for file in sorted(policies.glob(f"*/{FILE}"))}
    names = [variant.name for arm in found.values() for variant in arm.variants]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(f"{policies.name}/*/{FILE}: variant.name", name, "each name once")
    return found


@cache
def declaration(folder: Path) -> Declaration:
    """Return the declaration of the arm in this folder. Raises `InvalidValueError` if the folder's `arm.toml`
    is faulty.
    """
    where = f"{folder.parent.name}/{folder.name}/{FILE}"
    if not _ARM_NAME.fullmatch(folder.name):
        raise InvalidValueError(where, folder.name, "a folder name of 1 to 13 small letters and digits")
    document = toml_file.read(folder / FILE, where)
    _check_keys(document, where, required=("summary", "variant"))
    summary = _text(document, "summary", where)
    tables = document["variant"]
    if not isinstance(tables, list) or not tables:
        raise InvalidValueError(f"{where}: variant", tables, "at least one table [[variant]]")
    variants = tuple(_variant(table, folder, f"{where}: variant[{i}]") for i, table in enumerate(tables))
    if variants[0].name != folder.name:
        raise InvalidValueError(
            f"{where}: variant[0].name", variants[0].name, f"the arm's name, {folder.name}"
        )
    return Declaration(folder.name, summary, variants)


def _variant(value: object, folder: Path, where: str) -> Variant:
    if not isinstance(value, dict):
        raise InvalidValueError(where, value, "a table [[variant]]")
    table = cast("dict[str, object]", value)
    _check_keys(table, where, required=("name", "law"), optional=("weights",))
    name, law = _text(table, "name", where), _text(table, "law", where)
    if not _VARIANT_NAME.fullmatch(name):
        raise InvalidValueError(f"{where}.name", name, "small letters and digits, in words joined by '-'")
    if law not in tuple(Law):
        raise InvalidValueError(f"{where}.law", law, ", ".join(Law))
    weights = folder / _text(table, "weights", where) if "weights" in table else None
    return Variant(name, Law(law), weights)


def _check_keys(
    table: Mapping[str, object], where: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    for key in (*table, *required):
        if key not in (*required, *optional):
            raise InvalidValueError(
                f"{where}.{key}", table[key], f"a key of {', '.join(required + optional)}"
            )
        if key not in table:
            raise InvalidValueError(f"{where}.{key}", None, "this key is required")


def _text(table: Mapping[str, object], key: str, where: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value or "\n" in value:
        raise InvalidValueError(f"{where}.{key}", value, "a text of one line")
    return value
