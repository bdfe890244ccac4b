# SPDX-License-Identifier: Apache-2.0
"""The daemon's settings: one schema, from which the example file, the checks and their messages come.

A value is looked for in this order: command line flag, environment (`LTP_SWITCHER_<SECTION>_<KEY>`),
file, default.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final, TypeVar

Value = bool | int | float | str | tuple[str, ...]
DEFAULT_PATH: Final = "/etc/ltp-switcher/config.toml"
MODES: Final = ("active", "advise", "off")
T = TypeVar("T", bound=Value)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a key means and which values it takes."""

    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False
    """Whether a reload applies a new value to the running daemon."""


def key(
    default: T,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = False,
) -> T:
    """A dataclass field with its rule. Typed as its value, as `dataclasses.field` itself is."""
    rule = Rule(doc, minimum, maximum, choices, live)
    made: T = field(default=default, metadata={"rule": rule})
    return made


@dataclass(frozen=True, slots=True)
class DaemonSection:
    """How the daemon runs."""

    mode: str = key(
        "active",
        "active: decide and switch. advise: decide and log, change nothing. off: only measure. "
        "Learned arms are controlled in active alone: else their flows go to kernel.fallback_arm.",
        choices=MODES,
        live=True,
    )
    policy: str = key(
        "mutant",
        "mutant: Algorithm 1 of the paper. random: any arm at every step, a baseline. dwell-random: "
        "random arms held for 20, 40, 80 or 160 steps, for collecting data. keep: each flow stays with the "
        "arm that it began with, and steps are as long as the learned arms in use allow.",
        choices=("mutant", "random", "dwell-random", "keep"),
    )
    step_ms: float = key(10.0, "Time between decisions, δ of the paper, ms.", minimum=1, maximum=10_000)
    idle_step_ms: float = key(
        100.0,
        "Time between looks at the kernel while no flow moves data, ms. Must be well under "
        "kernel.watchdog_ms.",
        minimum=1,
        maximum=10_000,
    )
    seed: int = key(1, "Seed of every random choice.", minimum=0, maximum=2**32 - 1)
    control_socket: str = key(
        "/run/ltp-switcher/control.sock", "UNIX socket of the command line and the API."
    )
    state_dir: str = key("/var/lib/ltp-switcher", "Where learned state lives. Empty: nothing is saved.")
    save_interval_s: float = key(
        30.0, "Time between saves of the learned state, s.", minimum=1, maximum=86_400
    )
    log_level: str = key(
        "info", "How much is logged.", choices=("debug", "info", "warning", "error"), live=True
    )
    decisions_per_s: float = key(
        1.0,
        "Most decisions that are logged, each with its reason, per second. 0: none.",
        minimum=0,
        maximum=1000,
        live=True,
    )
    statistics_interval_s: float = key(
        60.0, "Time between summaries in the log, s. 0: none.", minimum=0, maximum=86_400, live=True
    )


@dataclass(frozen=True, slots=True)
class KernelSection:
    """What the daemon asks of the module and of the system."""

    take_default: bool = key(
        False,
        "Make `mutant` the congestion control of new connections while the daemon runs "
        "(net.ipv4.tcp_congestion_control), and put back what was there when it stops.",
    )
    default_arm: str = key("cubic", "The arm that a new flow starts with.", live=True)
    fallback_arm: str = key("cubic", "The arm that flows run while the daemon is silent.", live=True)
    watchdog_ms: int = key(
        1000,
        "Silence of the daemon after which its flows fall back, ms. 0: never.",
        minimum=0,
        maximum=3_600_000,
        live=True,
    )
    restore: str = key(
        "as-is",
        "An arm's own state when a flow returns to it. as-is: as it was left (the paper's way). "
        "rebase: as it was left, and told that time has passed. reinit: new.",
        choices=("as-is", "rebase", "reinit"),
        live=True,
    )


@dataclass(frozen=True, slots=True)
class PoolSection:
    """Which arms are chosen among."""

    arms: tuple[str, ...] = key(
        (), "Arms to choose among, by name. Empty: every available one of the kernel's.", live=True
    )
    k: int = key(6, "Size of the team that is picked out of them.", minimum=1, maximum=20, live=True)
    extra: tuple[str, ...] = key((), "More congestion control modules of this kernel to load as arms.")


@dataclass(frozen=True, slots=True)
class LearningSection:
    """The decision (Mutant Algorithm 1); see daemon/choose/bandit/README.md."""

    preset: str = key(
        "default",
        "default: the keys below. paper: the values of the paper, whatever the keys below say.",
        choices=("default", "paper"),
    )
    zeta: float = key(5.0, "Weight of loss in the reward, Eq. 1.", minimum=0, maximum=1000)
    kappa: float = key(2.0, "Weight of throughput over delay in the reward, Eq. 1.", minimum=0.1, maximum=10)
    ucb: str = key(
        "linucb",
        "The bonus for what is little known. linucb: its width in the model. algorithm1: by counts, line 15.",
        choices=("linucb", "algorithm1"),
    )
    alpha: float = key(0.05, "Weight of that bonus.", minimum=0, maximum=100)
    ridge: float = key(1.0, "Ridge of the linear model, λ.", minimum=1e-6, maximum=1e6)
    discount: float = key(0.98, "Factor on an arm's past at each of its updates.", minimum=0.5, maximum=1)
    hold_steps: int = key(1, "A decision stands for this many steps at least.", minimum=1, maximum=10_000)
    hold_rtts: float = key(4.0, "And for this many round trips.", minimum=0, maximum=1000)
    hold_ms: float = key(200.0, "And for this long, ms.", minimum=0, maximum=60_000)
    credit: str = key(
        "sent",
        "Whom a sample belongs to. sent: the arm under which its data left. acked: the arm of the ACK.",
        choices=("sent", "acked"),
    )
    switch_margin: float = key(
        0.1,
        "How much better another arm must seem, in reward, to leave the present one.",
        minimum=0,
        maximum=1,
    )
    epsilon: float = key(0.0, "Probability of a random arm at a flow's first decision.", minimum=0, maximum=1)
    epsilon_decay: float = key(
        50.0, "Decisions after which that probability is half.", minimum=1, maximum=1e9
    )
    trained_cap: float = key(
        30.0, "Most updates an arm that a flow takes over from training.", minimum=0, maximum=1e6
    )
    global_cap: float = key(50.0, "The same, from all flows.", minimum=0, maximum=1e6)
    prefix_cap: float = key(100.0, "The same, from flows to the same prefix.", minimum=0, maximum=1e6)
    keep_on_change: float = key(
        0.9, "Share of its certainty that a flow keeps when its path changes.", minimum=0.01, maximum=1
    )
    decide_on_change: bool = key(True, "End the decision in force when the path changes.")
    adwin_delta: float = key(
        0.002, "Chance of seeing a change where there is none, ADWIN's δ.", minimum=1e-9, maximum=0.5
    )
    adwin_clock: int = key(32, "Samples between ADWIN's tests.", minimum=1, maximum=10_000)
    min_rtt: str = key(
        "kernel",
        "The path's least RTT in R_max. adwin: of the windows (the paper's). kernel: of the kernel's five "
        "minutes too, so that a queue of our own making is not taken for the path.",
        choices=("kernel", "adwin"),
    )
    stale_s: float = key(
        10.0, "Age at which an arm's measurements no longer count for R_max, s.", minimum=0.1, maximum=3600
    )


@dataclass(frozen=True, slots=True)
class LearnedSection:
    """The learned arms; see daemon/steer/README.md."""

    spine_law: str = key(
        "aimd",
        "What Spine tunes in the kernel. aimd: its own law. cubic: Cubic's beta and C (Spine-Cubic).",
        choices=("aimd", "cubic"),
    )
    spine_interval_ms: float = key(200.0, "Spine's monitor interval, ms.", minimum=10, maximum=10_000)
    owl_variant: str = key(
        "owl",
        "Which Owl. owl: for throughput, few losses and low delay. owl-loss: without regard to delay.",
        choices=("owl", "owl-loss"),
    )
    owl_network_urls: tuple[str, ...] = key(
        (),
        "Measurement agents (`ltp-owl-agent`) of routers on the path, http://HOST:PORT, asked every second. "
        "Empty, or while they are silent: Owl does without the network's signals.",
    )


@dataclass(frozen=True, slots=True)
class MptsSection:
    """Team selection (Mutant §5.2, Algorithm 2)."""

    enabled: bool = key(
        True,
        "Pick a team for each destination prefix when its first flow comes. Needs k below the number "
        "of arms.",
        live=True,
    )
    budget: int = key(100, "Pulls in all, T of the paper.", minimum=1, maximum=100_000, live=True)
    share: float = key(
        0.02,
        "Share of a flow's time that pulls may take; in the rest it follows the policy. 1: pull on pull.",
        minimum=0.001,
        maximum=1,
        live=True,
    )
    settle_rtts: float = key(
        4.0,
        "Round trips that an arm runs before its pull counts: the queue that the arm before it left is "
        "gone by then.",
        minimum=0,
        maximum=1000,
        live=True,
    )
    measure_rtts: float = key(8.0, "Round trips that a pull counts.", minimum=0, maximum=1000, live=True)
    measure_ms: float = key(
        50.0, "A pull counts for this long at least, ms.", minimum=1, maximum=60_000, live=True
    )


@dataclass(frozen=True, slots=True)
class ApiSection:
    """The REST API, a process of its own (`ltp-switcher-api`)."""

    socket: str = key("/run/ltp-switcher/api.sock", "UNIX socket that it listens on.")
    tcp: str = key("", "Loopback address and port that it listens on too, read-only. Empty: none.")


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, by section."""

    daemon: DaemonSection = field(default_factory=DaemonSection)
    kernel: KernelSection = field(default_factory=KernelSection)
    pool: PoolSection = field(default_factory=PoolSection)
    learning: LearningSection = field(default_factory=LearningSection)
    learned: LearnedSection = field(default_factory=LearnedSection)
    mpts: MptsSection = field(default_factory=MptsSection)
    api: ApiSection = field(default_factory=ApiSection)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the schema: where it stands, its default and its rule."""

    section: str
    name: str
    default: Value
    rule: Rule

    @property
    def path(self) -> str:
        """`section.name`, as messages name it."""
        return f"{self.section}.{self.name}"

    @property
    def environment(self) -> str:
        """The environment variable that overrides the file."""
        return f"LTP_SWITCHER_{self.section}_{self.name}".upper()


def schema() -> dict[str, Key]:
    """Every key by its path, in the order of the example file."""
    found = {}
    for section in dataclasses.fields(Config):
        defaults = getattr(Config(), section.name)
        for entry in dataclasses.fields(defaults):
            made = Key(section.name, entry.name, getattr(defaults, entry.name), entry.metadata["rule"])
            found[made.path] = made
    return found


def section_doc(section: str) -> str:
    """The sentence that introduces a section."""
    return str(type(getattr(Config(), section)).__doc__)
