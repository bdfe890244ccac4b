# SPDX-License-Identifier: Apache-2.0
"""Parsed TOML documents with one value changed."""


def with_value(document: dict[str, object], path: str, value: object) -> dict[str, object]:
    """The document with the value at a dotted path replaced, added, or (None) removed, in place."""
    changed: object = document
    *parents, leaf = path.split(".")
    for key in parents:
        changed = changed[int(key)] if isinstance(changed, list) else changed[key]  # type: ignore[index]
    assert isinstance(changed, dict)
    if value is None:
        del changed[leaf]
    else:
        changed[leaf] = value
    return document
