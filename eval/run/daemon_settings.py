# SPDX-License-Identifier: Apache-2.0
"""The daemon's settings in a scenario: sections and keys of its configuration file.

A scenario cannot set the policy and the seed: the scheme sets the policy, and the run the seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from ltp_switcher.daemon.settings.load import check_values, flatten, parse_assignment, to_toml
from ltp_switcher.daemon.settings.rules import Value
from ltp_switcher.errors import ConfigError

Settings = tuple[tuple[str, Value], ...]
"""Sorted pairs of `section.key` and value."""

_NOT_OURS: Final = {
    "daemon.policy": "no key here: the scheme says it",
    "daemon.seed": "no key here: --seed",
    "daemon.control_socket": "no key here: the lab waits for the default one",
}


def parse_table(document: Mapping[str, object]) -> Settings:
    """Return the settings in tables that have the form of the daemon's configuration file.

    Raises:
        ConfigError: a key or a value is not allowed. The message has the key, its value and the allowed
            values.
    """
    return _checked(flatten(document))


def parse_assignments(texts: Sequence[str]) -> Settings:
    """Return the settings in texts `section.key=value`, in which commas separate the items of lists.

    Raises:
        ConfigError: a key or a value is not allowed. The message has the key, its value and the allowed
            values.
    """
    return _checked(dict(parse_assignment(text) for text in texts))


def merged(settings: Settings, over: Settings) -> Settings:
    """Return `settings` with the values of `over` in place of its own."""
    return tuple(sorted({**dict(settings), **dict(over)}.items()))


def to_config(settings: Settings) -> str:
    """Return the text of a configuration file with these settings."""
    lines = []
    for section, entries in itertools.groupby(settings, key=lambda item: item[0].partition(".")[0]):
        lines.append(f"[{section}]")
        lines += [f"{name.partition('.')[2]} = {to_toml(value)}" for name, value in entries]
    return "".join(f"{line}\n" for line in lines)


def _checked(values: Mapping[str, object]) -> Settings:
    for name, allowed in _NOT_OURS.items():
        if name in values:
            raise ConfigError(f"settings.{name}", values[name], allowed)
    return tuple(sorted(check_values(values).items()))
