# SPDX-License-Identifier: Apache-2.0
"""Finds the ids of the arms (congestion controls) that settings and requests name."""

from __future__ import annotations

from collections.abc import Sequence

from ltp_switcher.daemon.datapath.protocol import ArmKind
from ltp_switcher.daemon.datapath.types import ArmInfo
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.errors import ConfigError


def arm_id(arms: Sequence[ArmInfo], name: str, field: str) -> int:
    """The id of the available arm `name`. Raises `ConfigError`, which names the setting `field`."""
    names = [arm.name for arm in arms if arm.available]
    hint = did_you_mean(name, names)
    for arm in arms:
        if arm.name == name and arm.available:
            return arm.id
        if arm.name == name:
            hint = f" ({name} is {arm.state.name.lower()}: {arm.reason})"
    raise ConfigError(field, name, f"one of {', '.join(names)}{hint}")


def candidate_ids(
    arms: Sequence[ArmInfo],
    names: Sequence[str],
    field: str = "pool.arms",
    *,
    usual: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The ids of the named arms or, if `names` is empty, of the usual arms that are available.

    With `usual` None, or if no arm of `usual` is available, the kernel's own protocols are the usual arms.
    Raises `ConfigError` for an arm that is not available or named twice; the error names the arm's place in
    `field`.
    """
    if not names:
        available = [arm for arm in arms if arm.available]
        chosen = tuple(arm.id for arm in available if usual is not None and arm.id in usual)
        return chosen or tuple(arm.id for arm in available if arm.kind != ArmKind.LEARNED)
    found: list[int] = []
    for index, name in enumerate(names):
        found.append(arm_id(arms, name, f"{field}[{index}]"))
        if name in names[:index]:
            raise ConfigError(f"{field}[{index}]", name, "each arm once")
    return tuple(found)
