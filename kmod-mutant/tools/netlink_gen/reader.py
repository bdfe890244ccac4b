# SPDX-License-Identifier: Apache-2.0
"""Typed reading of parsed YAML: every error names the field, the value and the allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from ltp_switcher.errors import InvalidValueError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Reader:
    """A mapping of the YAML file, and the path that leads to it."""

    def __init__(self, value: object, path: str, keys: Iterable[str]) -> None:
        if not isinstance(value, Mapping):
            raise InvalidValueError(path, value, "a mapping")
        allowed = list(keys)
        for key in value:
            if key not in allowed:
                raise InvalidValueError(f"{path}.{key}", value[key], f"one of the keys {', '.join(allowed)}")
        self.path = path
        self._value: dict[str, object] = {str(k): v for k, v in value.items()}

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def at(self, key: str) -> str:
        """Return the path of a key, for an error's text."""
        return f"{self.path}.{key}"

    def raw(self, key: str) -> object:
        """Return the value of a key that must be there."""
        if key not in self._value:
            raise InvalidValueError(self.at(key), None, "this key is required")
        return self._value[key]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string, folded to one line."""
        value = default if key not in self._value and default is not None else self.raw(key)
        if not isinstance(value, str):
            raise InvalidValueError(self.at(key), value, "a string")
        return " ".join(value.split())

    def name(self, key: str = "name") -> str:
        """Return a string fit to become an identifier."""
        value = self.text(key)
        if not _NAME.fullmatch(value):
            raise InvalidValueError(self.at(key), value, "lower-case words joined by '-'")
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """Return a string that is one of `allowed`."""
        value = self.text(key, default)
        options = list(allowed)
        if value not in options:
            raise InvalidValueError(self.at(key), value, ", ".join(options) or "nothing is defined")
        return value

    def number(self, key: str, names: Mapping[str, int] | None = None, default: int | None = None) -> int:
        """Return a non-negative integer, or the value of a constant's name."""
        value = default if key not in self._value and default is not None else self.raw(key)
        if isinstance(value, str) and names and value in names:
            return names[value]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            allowed = "a non-negative integer" + (f" or one of {', '.join(names)}" if names else "")
            raise InvalidValueError(self.at(key), value, allowed)
        return value

    def items(self, key: str) -> Iterator[tuple[object, str]]:
        """Yield the elements of a list with their paths; nothing when the key is missing."""
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise InvalidValueError(self.at(key), value, "a list")
        for index, item in enumerate(value):
            label = item.get("name", index) if isinstance(item, dict) else index
            yield item, f"{self.at(key)}[{label}]"

    def names(self, key: str, allowed: Iterable[str]) -> tuple[str, ...]:
        """Return a list of strings out of `allowed`, none of them twice."""
        options = list(allowed)
        found: list[str] = []
        for item, path in self.items(key):
            if not isinstance(item, str) or item not in options:
                raise InvalidValueError(path, item, ", ".join(options))
            if item in found:
                raise InvalidValueError(path, item, "each name once")
            found.append(item)
        return tuple(found)


def unique(names: Iterable[str], path: str) -> None:
    """Raise `InvalidValueError` where a name comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidValueError(path, name, "each name once")
        seen.add(name)


def parse(path: Path) -> object:
    """Return the YAML file as Python objects; `InvalidValueError` where it is none."""
    try:
        document: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InvalidValueError(path.name, reason, "a readable YAML file") from error
    return document
