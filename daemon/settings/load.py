# SPDX-License-Identifier: Apache-2.0
"""Reads the settings from file, environment and flags, and writes the documented example."""

from __future__ import annotations

import dataclasses
import json
import logging
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ltp_switcher import toml_file
from ltp_switcher.daemon.settings.layers import Layers, Origin
from ltp_switcher.daemon.settings.rules import (
    ENVIRONMENT_PREFIX,
    Key,
    Value,
    allowed,
    check,
    did_you_mean,
    variable,
)
from ltp_switcher.daemon.settings.schema import DEFAULT_PATH, GONE, Config, schema, section_doc
from ltp_switcher.errors import ConfigError

CONFIG_VARIABLE: Final = "LTP_SWITCHER_CONFIG"
"""The environment variable that holds the path of the settings' file. The flag `--config` overrides it."""
SOCKET_VARIABLE: Final = "LTP_SWITCHER_SOCKET"
"""A short name for the variable `LTP_SWITCHER_DAEMON_CONTROL_SOCKET`. If both are set, the long name wins."""
ENVIRONMENT_OWN: Final = frozenset({CONFIG_VARIABLE, SOCKET_VARIABLE})
log = logging.getLogger(__name__)


def load(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Return the checked settings, with the values of their preset. See `layers` for the arguments."""
    return layers(path, environment, flags).config()


def layers(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Layers:
    """Read and check the values of file, environment and flags.

    If `path` is None, the environment variable `LTP_SWITCHER_CONFIG` names the file. Without this variable
    the default file is read, if it exists. `flags` has values by key path. Keys of an earlier version, in
    file or environment, are left out with a warning, so that an upgraded daemon starts with the old file.
    Raises `ConfigError`, which names the key, its value and the allowed values.
    """
    environment = environment or {}
    if path is None and environment.get(CONFIG_VARIABLE):
        path = Path(environment[CONFIG_VARIABLE])
    return Layers(
        {
            Origin.FILE: check_values(_read_file(path)),
            Origin.ENVIRONMENT: _of_environment(environment),
            Origin.FLAG: check_values(flags or {}),
        }
    )


def check_values(values: Mapping[str, object]) -> dict[str, Value]:
    """Check values by key path, and return them. Raises `ConfigError` for the first value that is not
    allowed.
    """
    keys = schema()
    return {name: check(_known(name, raw, keys), raw) for name, raw in values.items()}


def key_of(name: str) -> Key:
    """The key with this path. Raises `ConfigError` if there is no such key."""
    return _known(name, name, schema())


def flatten(document: Mapping[str, object]) -> dict[str, object]:
    """Turn a document of sections into values by key path."""
    flat: dict[str, object] = {}
    for section, entries in document.items():
        if isinstance(entries, Mapping):
            flat.update({f"{section}.{name}": value for name, value in entries.items()})
        else:
            flat[section] = entries
    return flat


def parse_assignment(text: str) -> tuple[str, object]:
    """Parse `section.key=value` into key path and value. Raises `ConfigError` if there is no such key."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError("setting", text, "section.key=value")
    return name, parse_text(_known(name, value, schema()), value)


def parse_text(key: Key, text: str) -> object:
    """Turn the text of an environment variable or a flag into the key's type. Commas separate the items of a
    list. A text that does not fit comes back unchanged, and `check` refuses it.
    """
    wanted = type(key.default)
    if wanted is bool:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    if wanted is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return wanted(text) if wanted in (int, float) else text
    except ValueError:
        return text


def example() -> str:
    """A configuration file that has every key, with its meaning, its range and its default."""
    lines = [
        "# Settings of ltp-switcher. The file lists every key with its default, commented out.",
        f"# Its place is {DEFAULT_PATH}. The environment variable",
        f"# {ENVIRONMENT_PREFIX}<SECTION>_<KEY> overrides a key, and a flag of `ltp-switcher run` both.",
        "# `systemctl reload ltp-switcher` applies the keys marked [live]. The others need a restart.",
    ]
    section = ""
    for key in schema().values():
        if key.section != section:
            section = key.section
            lines += ["", f"# {section_doc(section)}", f"[{section}]"]
        mark = " [live]" if key.rule.live else ""
        text = f"{key.rule.doc} Takes {allowed(key)}.{mark}"
        lines += textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
        lines.append(f"#{key.name} = {to_toml(key.default)}")
    return "\n".join(lines) + "\n"


def to_toml(value: Value) -> str:
    """Write a value as TOML."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def as_dict(config: Config) -> dict[str, dict[str, Value]]:
    """The values of the settings by section and key."""
    return dataclasses.asdict(config)


def changed(old: Config, new: Config) -> list[Key]:
    """The keys whose values differ between two settings."""
    before, after = as_dict(old), as_dict(new)
    return [k for k in schema().values() if before[k.section][k.name] != after[k.section][k.name]]


def _read_file(path: Path | None) -> dict[str, object]:
    file = path or Path(DEFAULT_PATH)
    if path is None and not file.exists():
        return {}
    values = flatten(toml_file.read(file, "config"))
    for name in [name for name in GONE if name in values]:
        _warn_of(name, f"a line of {file}")
        del values[name]
    return values


def _warn_of(name: str, place: str) -> None:
    log.warning("%s, %s, is no setting any more: %s; delete it", name, place, GONE[name])


def _known(name: str, value: object, keys: Mapping[str, Key]) -> Key:
    if name in keys:
        return keys[name]
    if name in GONE:
        raise ConfigError(name, value, f"nothing: it is no setting any more, since {GONE[name]}")
    section = name.split(".")[0]
    names = [k.name for k in keys.values() if k.section == section]
    if names:
        hint = did_you_mean(name, list(keys))
        raise ConfigError(name, value, f"no such key; section {section} has {', '.join(names)}{hint}")
    sections = list(dict.fromkeys(k.section for k in keys.values()))
    hint = did_you_mean(section, sections)
    raise ConfigError(name, value, f"no such section; there are {', '.join(sections)}{hint}")


def _of_environment(environment: Mapping[str, str]) -> dict[str, Value]:
    keys = schema()
    values: dict[str, Value] = {}
    if environment.get(SOCKET_VARIABLE):
        values["daemon.control_socket"] = environment[SOCKET_VARIABLE]
    gone = {variable(name): name for name in GONE}
    for name, text in environment.items():
        if name in gone:
            _warn_of(gone[name], f"the environment variable {name}")
        elif name.startswith(ENVIRONMENT_PREFIX) and name not in ENVIRONMENT_OWN:
            found = _of_variable(name, text, keys)
            values[found.path] = check(found, parse_text(found, text), name)
    return values


def _of_variable(name: str, text: str, keys: Mapping[str, Key]) -> Key:
    variables = {k.environment: k for k in keys.values()}
    if name not in variables:
        raise ConfigError(name, text, f"no such key{did_you_mean(name, list(variables))}")
    return variables[name]
