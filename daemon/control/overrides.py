# SPDX-License-Identifier: Apache-2.0
"""Overrides: the operators' values over the configuration, and the file that keeps them.

The file is JSON with a version and a checksum (SHA-256 of the content as canonical JSON), so that any damage
is found. The reader checks the values, because another release may allow other ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from ltp_switcher.daemon.control import strict_json
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.errors import ArtifactError

FILE_NAME: Final = "overrides.json"
FORMAT_VERSION: Final = 1
CHANGES_MAX: Final = 100
"""Number of latest changes that the daemon remembers. The audit file has the changes of months."""
UNDO_MAX: Final = 20
"""Number of latest changes that can be reverted. There are few of them, because the old value of a change of
policies can be long.
"""
CONFIRM_MAX_S: Final = 86_400
"""Longest time that an operator may have to confirm a change, in seconds."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A flow that is pinned to an arm."""

    arm: str
    lasts: bool
    """Whether the pin outlives the daemon. The kernel holds every pin, but the next daemon removes one that
    does not last.
    """


@dataclass(frozen=True, slots=True)
class Change:
    """One change: its time, its author, the name of the value, and the value before and after."""

    time_s: float
    """Unix time of the change."""
    caller: Caller
    what: str
    before: Json
    after: Json
    lasts: bool
    number: int = 0
    """Number of the change, one more than the number of the change before."""
    undo: Json = None
    """The value to which `Choices.revert` goes back; None if the change cannot be undone."""
    made: Json = None
    """The value that the change put in force. If another value is in force now, a later change
    put it there.
    """


@dataclass(frozen=True, slots=True)
class Overrides:
    """All choices that are written to disk. An instance never changes, so a thread can write it while others
    read it.
    """

    settings: Mapping[str, Json] = field(default_factory=dict)
    pins: Mapping[int, Pin] = field(default_factory=dict)
    """Pins by the cookies of flows. A cookie names the same flow until the next boot."""
    boot: str = ""
    """Id of the boot in which the pins' cookies are valid."""
    policies: tuple[Json, ...] = ()
    """The operators' policies, in the form that `settings.policies.parse` takes."""
    changes: tuple[Change, ...] = ()
    """The latest changes that the daemon remembers, the newest one at the end."""
    trial: tuple[Change, ...] = ()
    """The changes that the next start undoes, because nobody has confirmed them yet."""


def encode(overrides: Overrides) -> bytes:
    """Encode overrides as the content of the file."""
    content: dict[str, Json] = {
        "settings": dict(overrides.settings),
        "boot": overrides.boot,
        "pins": {str(cookie): {"arm": p.arm, "lasts": p.lasts} for cookie, p in overrides.pins.items()},
        "policies": list(overrides.policies),
        "changes": [asdict(change) for change in overrides.changes],
        "trial": [asdict(change) for change in overrides.trial],
    }
    whole = {"version": FORMAT_VERSION, "sha256": digest(content), "overrides": content}
    return json.dumps(whole, indent=1).encode() + b"\n"


def decode(text: bytes) -> Overrides:
    """Decode overrides that `encode` wrote. Raises `ArtifactError` with the reason if the
    content is damaged.
    """
    try:
        whole = strict_json.parse(text)
    except ValueError as error:
        raise ArtifactError(f"it is not JSON: {error}") from error
    if not isinstance(whole, dict) or whole.get("version") != FORMAT_VERSION:
        found = whole.get("version") if isinstance(whole, dict) else None
        raise ArtifactError(f"it has version {found}; this release reads {FORMAT_VERSION}")
    content = whole.get("overrides")
    if not isinstance(content, dict) or whole.get("sha256") != digest(content):
        raise ArtifactError("its checksum does not match")
    try:
        return _decoded(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"it has no such content as this release writes: {error!r}") from error


def _decoded(content: dict[str, Json]) -> Overrides:
    pins = _object(content["pins"])
    # A file of an earlier release has no trial.
    changes, policies, trial = content["changes"], content["policies"], content.get("trial", [])
    if not isinstance(changes, list) or not isinstance(policies, list) or not isinstance(trial, list):
        raise TypeError(changes)
    return Overrides(
        settings=_object(content["settings"]),
        pins={int(cookie): _pin(_object(pin)) for cookie, pin in pins.items()},
        boot=str(content["boot"]),
        policies=tuple(policies),
        changes=tuple(_change(_object(change), place) for place, change in enumerate(changes, 1)),
        trial=tuple(_change(_object(change), place) for place, change in enumerate(trial, 1)),
    )


def _pin(content: dict[str, Json]) -> Pin:
    return Pin(str(content["arm"]), bool(content["lasts"]))


def _change(content: dict[str, Json], place: int) -> Change:
    return Change(
        time_s=float(str(content["time_s"])),
        caller=_caller(_object(content["caller"])),
        what=str(content["what"]),
        before=content["before"],
        after=content["after"],
        lasts=bool(content["lasts"]),
        # A file of an earlier release has no numbers.
        number=int(str(content.get("number", place))),
        undo=content.get("undo"),
        made=content.get("made"),
    )


def _caller(content: dict[str, Json]) -> Caller:
    via = content["via"]
    # A file of an earlier release has no token.
    token = content.get("token")
    return Caller(
        int(str(content["uid"])),
        int(str(content["pid"])),
        None if via is None else _caller(_object(via)),
        None if token is None else str(token),
    )


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def digest(content: Json) -> str:
    """SHA-256 of a value as canonical JSON, in hexadecimal."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def tag(value: Json) -> str:
    """A short text that differs for different values. It serves as an entity tag (RFC 9110, 8.8.3)."""
    return digest(value)[:16]
