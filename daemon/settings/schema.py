# SPDX-License-Identifier: Apache-2.0
"""The daemon's settings. The example file, the checks and their messages are all made from this one schema.

Sources of a value are tried in this order: override (over the control socket), command line flag, environment
(`LTP_SWITCHER_<SECTION>_<KEY>`), file, default.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.gain import GainSection, RolloutSection
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.daemon.settings.rules import Key, Section, did_you_mean, key, keys_of, plain
from ltp_switcher.errors import ConfigError
from ltp_switcher.policies.runtime.declaration import declarations

DEFAULT_PATH: Final = "/etc/ltp-switcher/config.toml"
GONE: Final[dict[str, str]] = {"rule.short_ms": "a short path has no case of its own"}
"""Keys of earlier versions, and the reason why each was removed. A file with such a key can still be read."""
MODES: Final = ("active", "advise", "off")
STEP_MAX_MS: Final = 2000.0
"""Longest step in ms. The daemon tells the service manager after each step that it lives. The manager kills a
service that is silent for 10 s.
"""
Ucb = Literal["linucb", "algorithm1"]
Credit = Literal["sent", "acked"]
MinRtt = Literal["kernel", "adwin"]
Preset = Literal["default", "paper"]
Guarding = Literal["rule", "none"]


@dataclass(frozen=True, slots=True)
class DaemonSection(Section):
    """The daemon itself: its mode, its policy, its steps and its files."""

    mode: str = key(
        "advise",
        "active: decide and switch. advise: decide and log, but switch nothing. off: measure only. "
        "Only active controls learned arms. The other modes move their flows to kernel.fallback_arm.",
        choices=MODES,
        live=True,
    )
    policy: str = key(
        "rule",
        "rule: bbr first, then ltp, or vegas where the rate varies; section [rule]. mutant: the "
        "learning chooser (Algorithm 1 of the paper) over the rule; section [learning]. random: a random arm "
        "at each step, as a baseline. epsilon-greedy: mostly the arm with the best mean reward, as one, too. "
        "dwell-random: random arms held for 20, 40, 80 or 160 steps, to collect data. keep: each flow keeps "
        "its first arm. schedule: the arms of daemon.schedule, for experiments. With rule, keep and "
        "schedule, steps are as long as the arms allow.",
        choices=("rule", "mutant", "random", "epsilon-greedy", "dwell-random", "keep", "schedule"),
    )
    schedule: tuple[str, ...] = key(
        (),
        "For the policy schedule: arms, and the seconds of a flow at which they begin: bbr@0, vegas@2.5.",
    )
    step_ms: float = key(
        10.0,
        "Least time between decisions, δ of the paper, ms. At most half of kernel.watchdog_ms. The policies "
        "rule and mutant wait longer by themselves: 50 ms, or 30 ms while a flow runs a learned arm.",
        minimum=1,
        maximum=STEP_MAX_MS,
    )
    idle_step_ms: float = key(
        100.0,
        "Time between steps while no flow moves data, ms. At most half of kernel.watchdog_ms.",
        minimum=1,
        maximum=STEP_MAX_MS,
    )
    rtt_quarters: int = key(
        0,
        "Least time between two reports of a flow, in quarters of its round trip time. With it "
        "thousands of flows cost less. 0: a report at every step. A module that is older than "
        "this setting reports at every step.",
        minimum=0,
        maximum=16,
        live=True,
    )
    seed: int = key(1, "Seed of all random choices.", minimum=0, maximum=2**32 - 1)
    control_socket: str = key(
        "/run/ltp-switcher/control.sock", "UNIX socket of the command line and the API."
    )
    state_dir: str = key("/var/lib/ltp-switcher", "Directory of the learned state. Empty: nothing is saved.")
    save_interval_s: float = key(
        30.0, "Time between saves of the learned state, s.", minimum=1, maximum=86_400
    )
    log_level: str = key(
        "info", "Level of the log.", choices=("debug", "info", "warning", "error"), live=True
    )
    decisions_per_s: float = key(
        1.0,
        "Largest number of decisions that are logged per second, each with its reason. 0: none.",
        minimum=0,
        maximum=1000,
        live=True,
    )
    record: str = key(
        "",
        "File for a recording of every aggregate and decision, as `ltp-switcher run --record` makes it. It "
        "grows without end. Empty: none.",
    )
    statistics_interval_s: float = key(
        60.0, "Time between summaries in the log, s. 0: none.", minimum=0, maximum=86_400, live=True
    )


@dataclass(frozen=True, slots=True)
class KernelSection(Section):
    """Settings of the kernel module and of the system."""

    take_default: bool = key(
        False,
        "Make `mutant` the congestion control of new connections (net.ipv4.tcp_congestion_control). The "
        "daemon restores the earlier one when it stops.",
    )
    default_arm: str = key("cubic", "Arm of a new flow.", live=True)
    fallback_arm: str = key("cubic", "Arm of a flow while the daemon is silent.", live=True)
    watchdog_ms: int = key(
        1000,
        "Silence of the daemon after which its flows move to the fallback arm, ms. 0: never.",
        minimum=0,
        maximum=3_600_000,
        live=True,
    )
    restart_grace_ms: int = key(
        5000,
        "Time after a clean stop in which flows keep their arms, so that the next daemon can take"
        " over, ms. A daemon that dies grants no such time.",
        minimum=0,
        maximum=600_000,
    )
    restore: str = key(
        "rebase",
        "The state of an arm to which a flow returns. as-is: as the flow left it (the paper's way). "
        "rebase: the same, and the arm is told that time has passed. reinit: the arm starts anew.",
        choices=("as-is", "rebase", "reinit"),
        live=True,
    )
    handover: str = key(
        "bdp",
        "The window that a flow takes from one arm to the next. as-is: the whole window (the paper's way). "
        "bdp: at most the path's bandwidth-delay product. drain: less, until the queue is empty.",
        choices=("as-is", "bdp", "drain"),
        live=True,
    )
    flows_max: int = key(
        524_288,
        "Largest number of flows at a time. It is less if the service's memory holds fewer. A "
        "connection beyond it runs its first arm, and cannot be steered.",
        minimum=0,
        maximum=2**32 - 1,
        live=True,
    )
    resume: str = key(
        "off",
        "Careful Resume (RFC 9959). on: a flow begins with at most half of the window that an earlier flow "
        "to the same host had within five minutes, and takes it back after a loss.",
        choices=("off", "on"),
        live=True,
    )
    resume_max_jump_kb: int = key(
        1024,
        "Largest jump of the window of a flow that resumes, KiB.",
        minimum=0,
        maximum=1_048_576,
        live=True,
    )


@dataclass(frozen=True, slots=True)
class PoolSection(Section):
    """The arms to choose among."""

    arms: tuple[str, ...] = key(
        (),
        "Names of these arms. Empty: bbr, ltp and vegas for the policies rule, mutant over the "
        "rule, and epsilon-greedy; every available protocol of the kernel for the other policies."
        " The policy rule runs only bbr, ltp and vegas, or cubic if none of the three is among "
        "these arms.",
        live=True,
    )
    k: int = key(
        6,
        "Size of a team that is picked from these arms; at most their number.",
        minimum=1,
        maximum=20,
        live=True,
    )
    extra: tuple[str, ...] = key((), "More congestion controls of this kernel to load as arms.")


@dataclass(frozen=True, slots=True)
class LearningSection(Section):
    """The learned policy `mutant` (Mutant, Algorithm 1); see daemon/choose/bandit/README.md."""

    preset: Preset = key(
        "default",
        "default: use the keys below. paper: use the paper's values and ignore the keys below.",
        choices=get_args(Preset),
    )
    zeta: float = key(5.0, "Weight of loss in the reward, Eq. 1.", minimum=0, maximum=1000)
    kappa: float = key(2.0, "Weight of throughput over delay in the reward, Eq. 1.", minimum=0.1, maximum=10)
    baseline: Guarding = key(
        "rule",
        "rule: a flow runs the arm of the policy rule, unless the rewards exclude that it is the best. none: "
        "Algorithm 1 chooses alone.",
        choices=get_args(Guarding),
    )
    bound: float = key(
        0.5,
        "With a baseline: half of the width of a reward's interval, as a multiple of LinUCB's "
        "width. Another arm runs if its interval lies above the interval of the baseline's arm.",
        minimum=0,
        maximum=100,
    )
    explore_share: float = key(
        0.005,
        "With a baseline: largest share of the time of a destination prefix's flows in which they"
        " try another arm.",
        minimum=0,
        maximum=1,
    )
    ucb: Ucb = key(
        "linucb",
        "Bonus for little-known arms. linucb: the width of the estimate. algorithm1: by counts, line 15.",
        choices=get_args(Ucb),
    )
    alpha: float = key(0.05, "Weight of the bonus for little-known arms.", minimum=0, maximum=100)
    ridge: float = key(1.0, "Ridge of the linear model, λ.", minimum=1e-6, maximum=1e6)
    discount: float = key(
        0.98,
        "Factor on the weight of all earlier rewards of a flow, of any arm, at each new reward.",
        minimum=0.5,
        maximum=1,
    )
    hold_steps: int = key(1, "Least number of steps for which a decision lasts.", minimum=1, maximum=10_000)
    hold_rtts: float = key(
        4.0, "Least number of round trips for which a decision lasts.", minimum=0, maximum=1000
    )
    hold_ms: float = key(200.0, "Least time for which a decision lasts, ms.", minimum=0, maximum=60_000)
    credit: Credit = key(
        "sent",
        "Arm to which a sample is credited. sent: the arm that sent the data. acked: the arm at the ACK.",
        choices=get_args(Credit),
    )
    switch_margin: float = key(
        0.1, "Advantage in reward that another arm needs before a flow leaves its arm.", minimum=0, maximum=1
    )
    epsilon: float = key(0.0, "Probability of a random arm at a flow's first decision.", minimum=0, maximum=1)
    epsilon_decay: float = key(
        50.0,
        "Number of decisions after which the probability of a random arm has halved.",
        minimum=1,
        maximum=1e9,
    )
    trained_cap: float = key(
        30.0,
        "Largest number of updates per arm that a new flow takes over from training.",
        minimum=0,
        maximum=1e6,
    )
    global_cap: float = key(
        50.0,
        "Largest number of updates per arm that a new flow takes over from all flows.",
        minimum=0,
        maximum=1e6,
    )
    prefix_cap: float = key(
        100.0,
        "Largest number of updates per arm that a new flow takes over from flows to the same prefix.",
        minimum=0,
        maximum=1e6,
    )
    keep_on_change: float = key(
        0.9, "Share of its certainty that a flow keeps when its path changes.", minimum=0.01, maximum=1
    )
    decide_on_change: bool = key(True, "End the decision in force when the path changes.")
    adwin_delta: float = key(0.002, "Probability of a false change, ADWIN's δ.", minimum=1e-9, maximum=0.5)
    adwin_clock: int = key(32, "Samples between ADWIN's tests.", minimum=1, maximum=10_000)
    min_rtt: MinRtt = key(
        "kernel",
        "Least RTT of the path in R_max. adwin: from ADWIN's windows (the paper's way). kernel: also from "
        "the kernel's minimum over five minutes, so that a flow's own queue does not count as the path.",
        choices=get_args(MinRtt),
    )
    stale_s: float = key(
        10.0, "Age at which an arm's measurements no longer count for R_max, s.", minimum=0.1, maximum=3600
    )

    @classmethod
    def paper(cls) -> LearningSection:
        """The settings of Mutant as the paper publishes it: the preset `paper`.

        A decision lasts one step, and line 15 of Algorithm 1 chooses the arm. A flow inherits no knowledge
        from other flows. A reward goes to the arm that is active when the ACK arrives.
        """
        return cls(
            preset="paper",
            baseline="none",
            ucb="algorithm1",
            alpha=1.0,
            discount=1.0,
            hold_rtts=0.0,
            hold_ms=0.0,
            credit="acked",
            switch_margin=0.0,
            trained_cap=0.0,
            global_cap=0.0,
            prefix_cap=0.0,
            keep_on_change=1.0,
            decide_on_change=False,
            min_rtt="adwin",
        )

    def in_force(self) -> LearningSection:
        """The settings that apply: those of the paper with the preset `paper`, or else this
        section itself.
        """
        return LearningSection.paper() if self.preset == "paper" else self


@dataclass(frozen=True, slots=True)
class LearnedSection(Section):
    """The learned arms; see daemon/steer/README.md."""

    variants: tuple[str, ...] = key(
        (),
        "Variants of learned arms to run, at most one of each arm. An arm without one here runs its first. "
        "`arm.toml` of each policy lists them: spine-cubic tunes Cubic's beta and C, owl-loss ignores delay.",
    )
    spine_interval_ms: float = key(200.0, "Spine's monitor interval, ms.", minimum=10, maximum=10_000)
    owl_network_urls: tuple[str, ...] = key(
        (),
        "Measurement agents (`ltp-owl-agent`) on routers of the path, as http://HOST:PORT. `ltp-switcher "
        "network` asks each every second. While none answers, Owl works without the network's signals.",
    )

    def __post_init__(self) -> None:
        """Check that the variants exist, and that no two are of one arm."""
        Section.__post_init__(self)
        arms = {variant.name: arm.name for arm in declarations().values() for variant in arm.variants}
        chosen: dict[str, str] = {}
        for name in self.variants:
            if name not in arms:
                raise ConfigError(
                    "learned.variants", name, f"any of {', '.join(arms)}{did_you_mean(name, tuple(arms))}"
                )
            if arms[name] in chosen:
                raise ConfigError("learned.variants", name, f"one of {name} and {chosen[arms[name]]}")
            chosen[arms[name]] = name


@dataclass(frozen=True, slots=True)
class MptsSection(Section):
    """Team selection: it picks the k best arms for a prefix (Mutant, Section 5.2); see mpts/README.md."""

    enabled: bool = key(
        True,
        "Compare other arms with the arm that runs, in a paired tournament on the long flows of each "
        "destination prefix. The policies rule and mutant prefer the winner for ten minutes. With the policy "
        "mutant and a k below the number of arms, the k best become the prefix's team instead.",
        live=True,
    )
    budget: int = key(
        100,
        "Pulls of one selection by Algorithm 2 (`mpts start`), T of the paper.",
        minimum=1,
        maximum=100_000,
        live=True,
    )
    share: float = key(
        0.02,
        "Largest share of a flow's time that the pulls of Algorithm 2 may take, and largest share"
        " of the reward that a tournament may cost. After its first minute a tournament may cost "
        "half of this share. 1: one pull after the other.",
        minimum=0.001,
        maximum=1,
        live=True,
    )
    settle_rtts: float = key(
        4.0,
        "Round trips that an arm runs before its pull counts, so that the previous arm's queue drains.",
        minimum=0,
        maximum=1000,
        live=True,
    )
    measure_rtts: float = key(10.0, "Round trips that a pull measures.", minimum=0, maximum=1000, live=True)
    measure_ms: float = key(
        50.0, "Least time that a pull measures, ms.", minimum=1, maximum=60_000, live=True
    )


@dataclass(frozen=True, slots=True)
class VisitsSection(Section):
    """Learning from flow to flow: the arms on which the flows to a destination prefix begin."""

    learn: str = key(
        "off",
        "on: in mode active, visits to a destination prefix try other arms now and then, at a price of at "
        "most 1 % of all flows' reward, and run the arm that is surely better than the policy's own choice. "
        "See docs/visits.md.",
        choices=("off", "on"),
    )
    arms: tuple[str, ...] = key(
        (),
        "Arms that visits try beside the policy's own choice. Empty: bbr, ltp, vegas and cubic, as far as "
        "this machine has them.",
    )


@dataclass(frozen=True, slots=True)
class ApiSection(Section):
    """The REST API, a separate process (`ltp-switcher-api`)."""

    socket: str = key("/run/ltp-switcher-api/api.sock", "UNIX socket of the API.")
    tcp: str = key(
        "",
        "Loopback address and port of a TCP listener, such as 127.0.0.1:9480. Without a token it serves "
        "/metrics and /health alone. Empty: none.",
    )
    token_file: str = key(
        "/etc/ltp-switcher/tokens.json",
        "File with the digests of the tokens that the TCP listener takes. `ltp-switcher token "
        "add` writes the file.",
    )


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, by section. Raises `ConfigError` if two values do not fit together."""

    daemon: DaemonSection = field(default_factory=DaemonSection)
    kernel: KernelSection = field(default_factory=KernelSection)
    pool: PoolSection = field(default_factory=PoolSection)
    rule: RuleSection = field(default_factory=RuleSection)
    learning: LearningSection = field(default_factory=LearningSection)
    learned: LearnedSection = field(default_factory=LearnedSection)
    mpts: MptsSection = field(default_factory=MptsSection)
    visits: VisitsSection = field(default_factory=VisitsSection)
    fleet: FleetSection = field(default_factory=FleetSection)
    gain: GainSection = field(default_factory=GainSection)
    rollout: RolloutSection = field(default_factory=RolloutSection)
    api: ApiSection = field(default_factory=ApiSection)

    def __post_init__(self) -> None:
        """Check the rules across keys."""
        self._check_watchdog()
        if self.fleet.share == "on" and self.visits.learn == "off":
            raise ConfigError(
                "fleet.share", "on", "off, unless visits.learn is on: there is nothing to share"
            )

    def _check_watchdog(self) -> None:
        """Refuse steps so long that after one late step the kernel's watchdog takes the flows."""
        watchdog_ms = self.kernel.watchdog_ms
        longest_ms = watchdog_ms / 2
        for name in ("step_ms", "idle_step_ms"):
            step_ms = getattr(self.daemon, name)
            if watchdog_ms and step_ms > longest_ms:
                raise ConfigError(
                    f"daemon.{name}",
                    step_ms,
                    f"at most {plain(longest_ms)}, half of kernel.watchdog_ms = {watchdog_ms}; "
                    f"or kernel.watchdog_ms = 0, or at least {plain(2 * step_ms)}",
                )


def schema() -> dict[str, Key]:
    """Every key by its path, in the order of the example file."""
    return {key.path: key for section in _sections().values() for key in keys_of(section)}


def section_doc(section: str) -> str:
    """The text that introduces a section in the example file."""
    return str(_sections()[section].__doc__)


def _sections() -> dict[str, type[Section]]:
    config = Config()
    return {entry.name: type(getattr(config, entry.name)) for entry in dataclasses.fields(config)}
