# SPDX-License-Identifier: Apache-2.0
"""Rules of the settings: the meaning, the type and the allowed values of each key."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ltp_switcher.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "LTP_SWITCHER_"
Value = bool | int | float | str | tuple[str, ...]
T = TypeVar("T", bound=Value)


@dataclass(frozen=True, slots=True)
class Rule:
    """The default of a key, its meaning, and its allowed values."""

    default: Value
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False
    """Whether a running daemon can take a new value, without a restart."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the settings, with its section, its name and its rule."""

    section: str
    name: str
    rule: Rule

    @property
    def default(self) -> Value:
        """The value of the key if no source gives one."""
        return self.rule.default

    @property
    def path(self) -> str:
        """The key as messages name it, `section.name`."""
        return f"{self.section}.{self.name}"

    @property
    def environment(self) -> str:
        """The environment variable that overrides the file's value."""
        return variable(self.path)


@dataclass(frozen=True, slots=True)
class Section:
    """The base of the sections. A section raises `ConfigError` if a value breaks the rule of its key."""

    def __post_init__(self) -> None:
        """Check every value."""
        for key in keys_of(type(self)):
            check(key, getattr(self, key.name))


def key(
    default: T,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = False,
) -> T:
    """Make a dataclass field with its rule. As with `dataclasses.field`, the declared return type is the
    value's type.
    """
    rule = Rule(default, doc, minimum, maximum, choices, live)
    made: T = field(default=default, metadata={"rule": rule})
    return made


def variable(path: str) -> str:
    """The environment variable of a key, from the key's path."""
    return ENVIRONMENT_PREFIX + path.replace(".", "_").upper()


def section_name(section: type[Section]) -> str:
    """The name of a section in the file. For example, the class `DaemonSection` has the name `daemon`."""
    return section.__name__.removesuffix("Section").lower()


def keys_of(section: type[Section]) -> list[Key]:
    """The keys of a section, in the order of the example file."""
    return [
        Key(section_name(section), entry.name, entry.metadata["rule"])
        for entry in dataclasses.fields(section)
    ]


def check(key: Key, raw: object, source: str = "") -> Value:
    """Check a value, and convert it to the type of the key.

    Raises `ConfigError`. The error names `source`, or else the key's path.
    """
    name = source or key.path
    wanted = type(key.default)
    value: Value
    if wanted is float and isinstance(raw, int) and not isinstance(raw, bool):
        value = float(raw)
    elif wanted is tuple and isinstance(raw, list | tuple) and all(isinstance(item, str) for item in raw):
        value = tuple(raw)
    elif type(raw) is wanted:
        value = raw
    else:
        raise ConfigError(name, raw, allowed(key))
    rule = key.rule
    if rule.choices and value not in rule.choices:
        raise ConfigError(name, raw, allowed(key) + did_you_mean(str(value), rule.choices))
    if isinstance(value, int | float) and not (
        (rule.minimum is None or value >= rule.minimum) and (rule.maximum is None or value <= rule.maximum)
    ):
        raise ConfigError(name, raw, allowed(key))
    return value


def allowed(key: Key) -> str:
    """The allowed values of the key, in words."""
    rule = key.rule
    if rule.choices:
        return "one of " + ", ".join(rule.choices)
    words = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a text",
        tuple: "a list of texts",
    }
    bounds = ""
    if rule.minimum is not None and rule.maximum is not None:
        bounds = f" from {plain(rule.minimum)} to {plain(rule.maximum)}"
    elif rule.minimum is not None:
        bounds = f" of at least {plain(rule.minimum)}"
    return words[type(key.default)] + bounds


def plain(number: float) -> str:
    """A number as people write it, such as 1000 or 0.5."""
    return str(int(number)) if number == int(number) else str(number)


def did_you_mean(text: str, candidates: Sequence[str]) -> str:
    """A hint at the candidate nearest to a wrong name; empty if none is near."""
    near = difflib.get_close_matches(text, candidates, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
