# SPDX-License-Identifier: Apache-2.0
"""Reads TOML files that people write: settings, policies, scenarios and declarations of arms."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.nesting import children

DEPTH_MAX: Final = 32
"""Largest number of levels, from the document to its innermost values. All later users of the values can
handle far more.
"""
_WHOLE: Final = range(-(2**63), 2**63)
"""The range of whole numbers that every reader must accept according to TOML 1.0."""


def read(path: Path, field: str) -> dict[str, object]:
    """Return the content of a TOML file. A byte-order mark, which some editors write, is skipped.

    Raises:
        ConfigError: the file cannot be read, or is not TOML. The error names the setting `field`.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        _check(document)
    except OSError as error:
        raise ConfigError(field, str(path), f"a file that can be read ({error.strerror})") from error
    except RecursionError as error:
        raise ConfigError(field, str(path), "a TOML file (this one is nested too deep)") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, _UnfitError) as error:
        raise ConfigError(field, str(path), f"a TOML file ({error})") from error
    except ValueError as error:
        # Python reads no number of more than 4300 digits.
        raise ConfigError(
            field, str(path), "a TOML file (this one has a number of too many digits)"
        ) from error
    return document


class _UnfitError(ValueError):
    """A value that TOML allows, but that no part of the project can use."""


def _check(document: object) -> None:
    """Raise `_UnfitError` for numbers of more than 64 bits, and for deep nesting."""
    level = [document]
    for _ in range(DEPTH_MAX):
        for value in level:
            if isinstance(value, int) and value not in _WHOLE:
                raise _UnfitError(f"a whole number has at most 64 bits, unlike {str(value)[:20]}…")
        level = [child for parent in level for child in children(parent)]
        if not level:
            return
    raise _UnfitError("it is nested too deep")
