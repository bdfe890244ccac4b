# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens for the API's TCP listener, and the file that keeps their digests.

A token has 256 random bits. So nobody can find it from its SHA-256 digest, and a slow hash is not needed.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ltp_switcher.errors import ArtifactError, ArtifactMissingError, InvalidValueError
from ltp_switcher.files import locked, read_whole, write_atomically

FORMAT_VERSION: Final = 1
TOKENS_MAX: Final = 100
BYTES_MAX: Final = 1 << 20
PREFIX: Final = "ltps_"
"""The beginning of every token. People and secret scanners recognise a token by it."""
GROUP: Final = "ltp-switcher"
"""The group of the API's process, which reads the file of tokens."""
MODE: Final = 0o640
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Scope(StrEnum):
    """The kinds of requests that a token allows."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the file stores it."""

    name: str
    scope: Scope
    created: str
    """Date of creation in UTC (RFC 3339)."""
    sha256: str
    """Digest of the token in hexadecimal."""


def is_name(text: str) -> bool:
    """Whether a token may have this name: 1 to 40 letters, digits and `._-`."""
    return _NAME.fullmatch(text) is not None


def load(path: Path) -> tuple[Token, ...]:
    """Load the tokens of a file; none if there is no file. Raises `ArtifactError` if the file cannot
    be used.
    """
    try:
        content = json.loads(read_whole(path, BYTES_MAX))
        if content["version"] != FORMAT_VERSION:
            raise ValueError(f"it has version {content['version']}; this release reads {FORMAT_VERSION}")
        return tuple(_token(entry) for entry in content["tokens"])
    except ArtifactMissingError:
        return ()
    except ArtifactError as error:
        raise ArtifactError(f"the tokens in {path} cannot be read: {error}") from error.__cause__
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"the tokens in {path} cannot be read: it is damaged ({error!r})") from error


def add(path: Path, name: str, scope: Scope) -> str:
    """Make a token, put its digest into the file, and return the token. Nobody can read the token again
    later.

    Raises `InvalidValueError` for a bad name, and `ArtifactError` if the file cannot be read or written.
    """
    if not is_name(name):
        raise InvalidValueError("name", name, "1 to 40 letters, digits, dots, dashes and underscores")
    with locked(path):
        tokens = load(path)
        if any(token.name == name for token in tokens):
            raise InvalidValueError("name", name, "a name that no token has; remove the other one first")
        if len(tokens) >= TOKENS_MAX:
            raise InvalidValueError("name", name, f"at most {TOKENS_MAX} tokens; remove one first")
        secret = PREFIX + secrets.token_urlsafe(32)
        created = time.strftime("%Y-%m-%d", time.gmtime())
        _save(path, (*tokens, Token(name, scope, created, digest(secret))))
    return secret


def remove(path: Path, name: str) -> None:
    """Take a token out of the file.

    Raises `InvalidValueError` if no token has the name, and `ArtifactError` if the file cannot be used.
    """
    with locked(path):
        tokens = load(path)
        kept = tuple(token for token in tokens if token.name != name)
        if len(kept) == len(tokens):
            raise InvalidValueError("name", name, "one of " + (", ".join(t.name for t in tokens) or "none"))
        _save(path, kept)


def find(tokens: Iterable[Token], shown: str) -> Token | None:
    """The stored token that belongs to the secret of a client; None if there is no such token.

    The time of the comparison does not depend on how much of the secret is right.
    """
    given = digest(shown)
    found = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, given):
            found = token
    return found


def digest(secret: str) -> str:
    """SHA-256 of a secret, in hexadecimal."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _token(entry: dict[str, object]) -> Token:
    name, sha256 = str(entry["name"]), str(entry["sha256"])
    if not is_name(name) or not _DIGEST.fullmatch(sha256):
        raise ValueError(f"{name!r} is no entry that this release writes")
    return Token(name, Scope(str(entry["scope"])), str(entry["created"]), sha256)


def _save(path: Path, tokens: tuple[Token, ...]) -> None:
    group = None
    if os.geteuid() == 0:
        with contextlib.suppress(KeyError):
            group = grp.getgrnam(GROUP).gr_gid
    content = {"version": FORMAT_VERSION, "tokens": [asdict(token) for token in tokens]}
    write_atomically(path, json.dumps(content, indent=1).encode() + b"\n", mode=MODE, group=group)
