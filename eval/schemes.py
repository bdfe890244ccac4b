# SPDX-License-Identifier: Apache-2.0
"""The names that a flow's `scheme` may take."""

from __future__ import annotations

from typing import Final

from ltp_switcher.errors import ConfigError

KERNEL_ARMS: Final = (
    "cubic", "bbr", "vegas", "westwood", "hybla", "htcp", "veno", "yeah", "bic", "highspeed", "illinois",
)  # fmt: skip
"""The 11 protocols of the paper's pool (§3.2, Actions), in the order of the netlink ids."""

LEARNED_ARMS: Final = ("ltp", "jury", "spine", "owl")
DAEMON_SCHEMES: Final = ("switcher", "random")
"""Schemes in which the daemon drives a `mutant` flow: by its agent, or by uniform choice."""

PINNED_PREFIX: Final = "mutant:"
"""`mutant:<arm>` runs a flow under `mutant` that never leaves the arm."""

NOT_YET: Final = (*LEARNED_ARMS, "bpftune")
AVAILABLE: Final = (*KERNEL_ARMS, "reno", *DAEMON_SCHEMES, *(f"{PINNED_PREFIX}{arm}" for arm in KERNEL_ARMS))
_ALLOWED: Final = (
    f"{', '.join((*KERNEL_ARMS, 'reno', *DAEMON_SCHEMES))}, {PINNED_PREFIX}<one of the first 11>"
)


def check_scheme(field: str, name: object) -> str:
    """Return `name` if this version can run it.

    Raises:
        ConfigError: `name` is unknown, or not available yet; the error carries `field`.
    """
    if isinstance(name, str) and name in AVAILABLE:
        return name
    if name in NOT_YET:
        raise ConfigError(field, name, f"{_ALLOWED} ({name} is planned and not available yet)")
    raise ConfigError(field, name, _ALLOWED)
