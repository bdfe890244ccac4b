# SPDX-License-Identifier: Apache-2.0
"""Reads YAML into dataclasses: a class's fields are the keys of a mapping, with their types and defaults.

Every error names the field, its value and the allowed values.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Literal, TypeVar, cast, dataclass_transform, get_args, get_origin, get_type_hints

import yaml

from ltp_switcher.errors import InvalidValueError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_WRAPPERS = ("list", "attributes")
"""Keys under which the kernel's schema hides a list."""


@dataclass_transform(frozen_default=True)
class Node:
    """A mapping of a YAML file. Its subclasses are frozen dataclasses."""

    path: str = ""
    """Leads to the mapping, for errors."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def check(self, key: str, value: object, allowed: Iterable[object]) -> None:
        """Raise `InvalidValueError` unless the value of this key is one of those allowed."""
        options = list(allowed)
        if value not in options:
            raise InvalidValueError(f"{self.path}.{key}", value, ", ".join(map(str, options)) or "nothing")


N = TypeVar("N", bound=Node)


def read(cls: type[N], path: Path) -> N:
    """Return the YAML file as this class. Raises `InvalidValueError` where it is none."""
    try:
        document: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidValueError(path.name, " ".join(str(error).split()), "a readable YAML file") from error
    return cast("N", _node(cls, document, path.name))


def _node(cls: type[Node], value: object, path: str) -> Node:
    value = {"name": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        raise InvalidValueError(path, value, "a mapping")
    hints = get_type_hints(cls)
    known = {field.name.replace("_", "-"): field for field in fields(cls)}  # type: ignore[arg-type]
    found: dict[str, object] = {}
    for key in value:
        if key not in known:
            raise InvalidValueError(f"{path}.{key}", value[key], f"one of the keys {', '.join(known)}")
        found[known[key].name] = _value(hints[known[key].name], value[key], f"{path}.{key}")
    for key, field in known.items():
        if key not in value and field.default is MISSING:
            raise InvalidValueError(f"{path}.{key}", None, "this key is required")
    if not _NAME.fullmatch(str(found.get("name", "none"))):
        raise InvalidValueError(f"{path}.name", found["name"], "lower-case words joined by '-'")
    node = cls(**found)
    object.__setattr__(node, "path", path)
    return node


def _value(kind: object, value: object, path: str) -> object:
    """Return a value of the YAML file as a field's type, which is one of those that `spec` uses."""
    if isinstance(kind, types.UnionType):
        members = [member for member in get_args(kind) if member is not type(None)]
        kind = next((m for m in members if type(value) is m), members[0])
    if get_origin(kind) is tuple:
        for wrapper in _WRAPPERS:
            if isinstance(value, dict) and list(value) == [wrapper]:
                value, path = value[wrapper], f"{path}.{wrapper}"
        if not isinstance(value, list):
            raise InvalidValueError(path, value, "a list")
        return _items(get_args(kind)[0], value, path)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InvalidValueError(path, value, ", ".join(get_args(kind)))
        return value
    if isinstance(kind, type) and issubclass(kind, Node):
        return _node(kind, value, path)
    if kind is int and type(value) is int and value >= 0:
        return value
    if kind is str and isinstance(value, str):
        return " ".join(value.split())
    raise InvalidValueError(path, value, "a string" if kind is str else "a non-negative integer")


def _items(kind: object, values: list[object], path: str) -> tuple[object, ...]:
    found, names = [], []
    for index, item in enumerate(values):
        label = item.get("name", index) if isinstance(item, dict) else index
        found.append(_value(kind, item, f"{path}[{label}]"))
        names.append(getattr(found[-1], "name", found[-1]))
        if names[-1] in names[:-1]:
            raise InvalidValueError(path, names[-1], "each name once")
    return tuple(found)
