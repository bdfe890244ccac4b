# SPDX-License-Identifier: Apache-2.0
"""Layers of the settings' values by origin. A later layer overrides the earlier ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ltp_switcher.daemon.settings.rules import Value
from ltp_switcher.daemon.settings.schema import Config, schema


class Origin(StrEnum):
    """The sources of a value, from the weakest to the strongest."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"
    OVERRIDE = "override"
    """A value that was set over the control socket, and that is kept."""
    RUNTIME = "runtime"
    """A value that was set over the control socket, and that lasts until the daemon ends."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Checked values by key path, from each origin except the defaults."""

    given: Mapping[Origin, Mapping[str, Value]] = field(default_factory=dict)

    def over(self, origin: Origin, values: Mapping[str, Value]) -> Layers:
        """Return the layers with these values in place of all values of `origin`."""
        return Layers({**self.given, origin: dict(values)})

    def config(self) -> Config:
        """The settings that result when later origins override earlier ones. Raises `ConfigError` if two
        values do not fit together.
        """
        values: dict[str, Value] = {}
        for origin in Origin:
            values.update(self.given.get(origin, {}))
        return _build(values)

    def origins(self) -> dict[str, Origin]:
        """The origin of each key's value, by key path."""
        found = dict.fromkeys(schema(), Origin.DEFAULT)
        for origin in Origin:
            found.update(dict.fromkeys(self.given.get(origin, {}), origin))
        return found

    def origins_by_section(self) -> dict[str, dict[str, str]]:
        """The origin of each key's value, by section and key."""
        found: dict[str, dict[str, str]] = {}
        for path, origin in self.origins().items():
            section, _, name = path.partition(".")
            found.setdefault(section, {})[name] = origin.value
        return found


def with_fixed(old: Config, new: Config) -> Config:
    """Return the settings `new`, with the values of `old` for all keys that a running daemon
    cannot change.
    """
    merged = {}
    for section in dataclasses.fields(Config):
        before, after = getattr(old, section.name), getattr(new, section.name)
        fixed = {
            key.name: getattr(before, key.name)
            for key in schema().values()
            if key.section == section.name and not key.rule.live
        }
        merged[section.name] = dataclasses.replace(after, **fixed)
    return Config(**merged)


def _build(values: Mapping[str, Value]) -> Config:
    defaults = Config()
    sections = {}
    for section in dataclasses.fields(Config):
        given = {
            name.split(".", 1)[1]: v for name, v in values.items() if name.startswith(section.name + ".")
        }
        sections[section.name] = dataclasses.replace(getattr(defaults, section.name), **given)
    config = Config(**sections)
    return dataclasses.replace(config, learning=config.learning.in_force())
