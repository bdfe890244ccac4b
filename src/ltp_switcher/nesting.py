# SPDX-License-Identifier: Apache-2.0
"""The nesting of values from JSON and TOML, for readers that bound its depth."""

from __future__ import annotations


def children(value: object) -> list[object]:
    """Return the values directly inside a mapping or a list. Any other value has none."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
