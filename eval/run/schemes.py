# SPDX-License-Identifier: Apache-2.0
"""The names that a flow's `scheme` may take, and the protocol and settings of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ltp_switcher.daemon.choose.lab.schedule import parse_schedule
from ltp_switcher.daemon.settings.schema import DaemonSection
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.daemon_settings import Settings
from ltp_switcher.policies.runtime.declaration import declarations

KERNEL_ARMS: Final = (
    "cubic", "bbr", "vegas", "westwood", "hybla", "htcp", "veno", "yeah", "bic", "highspeed", "illinois",
)  # fmt: skip
"""The 11 protocols of Mutant's pool (§3.2, Actions), in the order of the netlink ids."""

LEARNED_ARMS: Final = tuple(LEARNED.values())
"""The learned arms. A flow with such a scheme never leaves the arm, and the daemon controls the flow by the
arm's learned policy.
"""

DAEMON_SCHEMES: Final[Mapping[str, str | None]] = {
    "switcher": None,
    "rule": "rule",
    "bandit": "mutant",
    "paper-preset": "mutant",
    "linucb": "mutant",
    "learnt": "mutant",
    "random": "random",
    "epsilon-greedy": "epsilon-greedy",
}
"""Schemes in which the daemon chooses the arms of a `mutant` flow, each with the daemon's policy. `switcher`
uses the default policy of an installed daemon."""

RENAMED: Final[Mapping[str, str]] = {"paper": "paper-preset"}
"""Former names of schemes, each with the present name."""

_ALONE: Final[Settings] = (("learning.baseline", "none"), ("pool.arms", ("bbr", "ltp", "vegas")))
PRESETS: Final[Mapping[str, Settings]] = {
    "paper-preset": (("learning.preset", "paper"),),
    "linucb": (*_ALONE, ("learning.trained_cap", 0.0), ("learning.global_cap", 0.0)),
    "learnt": _ALONE,
}
"""Settings of the daemon that belong to a scheme of `DAEMON_SCHEMES`.

`linucb` and `learnt` choose without the rule. `linucb` begins without knowledge, `learnt` with the rewards in
the encoder's training data."""

VARIANTS: Final[Mapping[str, str]] = {
    variant.name: arm for arm in LEARNED_ARMS for variant in declarations()[arm].variants[1:]
}
"""Variants of learned arms, each with its arm. An arm's first variant is missing, because the arm's own name
means it.
"""

NETWORK_AGENT: Final = "127.0.0.1:9481"
"""Address of the agent that measures the lab's link. The agent runs if a scheme needs it."""
INFORMED: Final[Mapping[str, tuple[str, Settings]]] = {
    "owl-network": ("owl", (("learned.owl_network_urls", (f"http://{NETWORK_AGENT}",)),)),
}
"""Schemes that run a learned arm with further settings of the daemon. The only one is Owl with the network's
signals.
"""

BPFTUNE: Final = "bpftune"
"""The scheme in which Oracle's bpftune chooses. The application sets no protocol, so a flow begins with the
system's default."""

PINNED_PREFIX: Final = "mutant:"
"""`mutant:<arm>` runs a flow under `mutant` that never leaves the arm."""

MEASURED_PREFIX: Final = "measured:"
"""`measured:<arm>` runs a flow under `mutant` that never leaves the arm, while a program reads the module's
records of the flow. So the module measures the flow.
"""

SCHEDULE_PREFIX: Final = "schedule:"
"""`schedule:<arm>@0,<arm>@<s>,...` changes arms at these seconds of the flow's life."""

FIXED_PREFIX: Final = "fixed:"
"""`fixed:<rate>` sends at a constant rate in Mbit/s of IP packets, whatever comes back."""
FIXED_MBPS: Final = (0.1, 1000.0)

_NAMED: Final = (*KERNEL_ARMS, "reno", *LEARNED_ARMS, *VARIANTS, *INFORMED, *DAEMON_SCHEMES, BPFTUNE)
AVAILABLE: Final = (
    *_NAMED,
    *(f"{prefix}{arm}" for prefix in (PINNED_PREFIX, MEASURED_PREFIX) for arm in KERNEL_ARMS),
)
"""All schemes except constant rates and schedules, of which there are infinitely many."""
NAMES: Final = (
    f"{', '.join(_NAMED)}, {PINNED_PREFIX}<one of the first 11>, "
    f"{MEASURED_PREFIX}<one of them>, {FIXED_PREFIX}<Mbit/s>, {SCHEDULE_PREFIX}<arm>@0,<arm>@<s>,..."
)
"""The names of the schemes as a text for messages."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """The protocol and settings of a flow's scheme."""

    protocol: str
    """Congestion control of the flow's socket."""
    arm: str | None = None
    """The arm that a flow under `mutant` starts with; None for the module's own choice."""
    policy: str | None = None
    """The daemon's policy; None if the flow needs no daemon."""
    variant: str | None = None
    """Variant of the arm; None for the arm's first variant."""
    settings: Settings = ()
    """Settings of the daemon that the scheme needs."""
    rate_mbps: float | None = None
    """Rate in Mbit/s of a flow that sends at a constant rate; None for all other flows."""
    measured: bool = False
    """Whether a program reads the module's records of the flow although no daemon runs."""
    bpftune: bool = False
    """Whether bpftune runs."""


def resolve(name: str) -> Scheme:
    """Return the scheme `name`; it must have passed `check_scheme`."""
    if name.startswith(FIXED_PREFIX):
        return Scheme("fixed", rate_mbps=float(name.removeprefix(FIXED_PREFIX)))
    if name.startswith(PINNED_PREFIX):
        return Scheme("mutant", arm=name.removeprefix(PINNED_PREFIX))
    if name.startswith(MEASURED_PREFIX):
        return Scheme("mutant", arm=name.removeprefix(MEASURED_PREFIX), measured=True)
    if name.startswith(SCHEDULE_PREFIX):
        entries = tuple(name.removeprefix(SCHEDULE_PREFIX).split(","))
        return Scheme("mutant", policy="schedule", settings=(("daemon.schedule", entries),))
    if name in LEARNED_ARMS:
        return Scheme("mutant", arm=name, policy="keep")
    if name in VARIANTS:
        return Scheme("mutant", arm=VARIANTS[name], policy="keep", variant=name)
    if name in INFORMED:
        arm, settings = INFORMED[name]
        return Scheme("mutant", arm=arm, policy="keep", settings=settings)
    if name in DAEMON_SCHEMES:
        policy = DAEMON_SCHEMES[name] or DaemonSection().policy
        return Scheme("mutant", policy=policy, settings=PRESETS.get(name, ()))
    if name == BPFTUNE:
        return Scheme("cubic", bpftune=True)
    return Scheme(name)


def check_scheme(field: str, name: object, more: Iterable[str] = ()) -> str:
    """Return `name` if this version can run it.

    Args:
        field: name of the scenario's field for the error message.
        name: name of a scheme.
        more: further names for the error's list of allowed names. This function does not accept them; they
            may repeat schemes.

    Raises:
        ConfigError: `name` is unknown or a former name, or its rate or schedule is not allowed. The error
            names `field`.
    """
    if isinstance(name, str):
        if name in AVAILABLE:
            return name
        if name.startswith(FIXED_PREFIX):
            return _check_rate(field, name)
        if name.startswith(SCHEDULE_PREFIX):
            parse_schedule(field, name.removeprefix(SCHEDULE_PREFIX).split(","))
            return name
        if name in RENAMED:
            raise ConfigError(field, name, f"{RENAMED[name]}, as this scheme is called now")
    raise ConfigError(field, name, ", ".join((NAMES, *(one for one in more if one not in AVAILABLE))))


def _check_rate(field: str, name: str) -> str:
    low, high = FIXED_MBPS
    try:
        rate_mbps = float(name.removeprefix(FIXED_PREFIX))
    except ValueError:
        rate_mbps = float("nan")
    # NaN compares false with everything, so it fails here too.
    if not low <= rate_mbps <= high:
        raise ConfigError(field, name, f"{FIXED_PREFIX}<{low:g} to {high:g} Mbit/s>")
    return name
