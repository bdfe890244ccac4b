# SPDX-License-Identifier: Apache-2.0
"""Makes the parts of the daemon from its settings and the kernel's arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import ltp_switcher
from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.choose.lab.baselines import DWELLS, KeepChooser, RandomChooser
from ltp_switcher.daemon.choose.lab.epsilon_greedy import EpsilonGreedyChooser
from ltp_switcher.daemon.choose.lab.schedule import ScheduleChooser
from ltp_switcher.daemon.choose.rule.roles import ROLES
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.choose.teams.teams import Preferring, Teams
from ltp_switcher.daemon.datapath import ArmInfo, Datapath, KernelConfig, protocol
from ltp_switcher.daemon.datapath.arms import arm_id, candidate_ids
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.gain import outcomes
from ltp_switcher.daemon.gain.log import FOLDER, DecisionWriter, LogWriter
from ltp_switcher.daemon.gain.trial import Design, Trial
from ltp_switcher.daemon.settings.schema import Config, KernelSection, LearnedSection
from ltp_switcher.daemon.steer import LEARNED, LearnedArms, can_begin, loader, with_policies
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.outcomes import Outcomes
from ltp_switcher.daemon.step.spans import Spans, model_version
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.errors import ConfigError
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge

VISIT_ARMS: Final = (*ROLES, ArmId.CUBIC)
"""The arms on which learning from flow to flow may begin flows, if the settings name none."""


def load_arms(datapath: Datapath, extra: Sequence[str], learned: LearnedSection) -> list[ArmInfo]:
    """Load the arms `extra`, and return all arms. Raises `ConfigError` if an arm of `extra` is not available.

    A learned arm is available if the kernel module can run it and its policy has weights.
    """
    for name in extra:
        arm = datapath.load_arm(name)
        if not arm.available:
            raise ConfigError("pool.extra", name, f"congestion controls of this kernel ({arm.reason})")
    return with_policies(datapath.arms(), learned)


def pool_of(config: Config, arms: Sequence[ArmInfo]) -> tuple[int, ...]:
    """The ids of the arms to choose among: the arms that the settings name, or else the usual arms of the
    policy. Raises `ConfigError` for an arm that is not available or named twice.
    """
    usual = ROLES if _guarded(config) or config.daemon.policy in {"rule", "epsilon-greedy"} else None
    return candidate_ids(arms, config.pool.arms, usual=usual)


def make_chooser(config: Config, arms: Sequence[ArmInfo], pool: Sequence[int]) -> Chooser:
    """Make the policy that the settings ask for, with the arms `pool` to choose among. Raises `ArtifactError`
    if the encoder cannot be loaded.
    """
    seed = config.daemon.seed
    if config.daemon.policy == "keep":
        return KeepChooser(pool)
    if config.daemon.policy == "schedule":
        return ScheduleChooser(config.daemon.schedule, arms)
    if config.daemon.policy == "rule":
        return _rule(config, arms, pool)
    if config.daemon.policy == "epsilon-greedy":
        return EpsilonGreedyChooser(pool, zeta=config.learning.zeta, kappa=config.learning.kappa, seed=seed)
    if config.daemon.policy != "mutant":
        dwells = DWELLS if config.daemon.policy == "dwell-random" else (1,)
        return RandomChooser(pool, dwells=dwells, seed=seed)
    # Only this policy needs these modules, and their import takes half of the time of the daemon's start.
    from ltp_switcher.daemon.choose.bandit import ArmTable, MutantAgent
    from ltp_switcher.daemon.choose.bandit.guarded import GuardedChooser
    from ltp_switcher.encoder import GRUEncoder

    available = [arm for arm in arms if arm.available]
    table = ArmTable(tuple(arm.id for arm in available), tuple(arm.name for arm in available))
    agent = MutantAgent(config.learning, config.daemon.step_ms, table, GRUEncoder.from_file(), seed)
    agent.set_pool(pool)
    return GuardedChooser(_rule(config, arms, pool), agent) if _guarded(config) else agent


def _rule(config: Config, arms: Sequence[ArmInfo], pool: Sequence[int]) -> RuleChooser:
    return RuleChooser(
        pool,
        config.rule,
        zeta=config.learning.zeta,
        kappa=config.learning.kappa,
        default_arm=arm_id(arms, config.kernel.default_arm, "kernel.default_arm"),
    )


def _guarded(config: Config) -> bool:
    """Whether the learned policy chooses over the rule, which guards it."""
    return config.daemon.policy == "mutant" and config.learning.baseline == "rule"


def make_learned(
    config: Config,
    chooser: Chooser,
    table: FlowTable,
    network: Callable[[], NetworkKnowledge | None] = lambda: None,
) -> LearnedArms:
    """Make the part that runs the learned arms. It asks the chooser which flows share a bottleneck, and the
    flow table for the flows' prefixes.
    """
    return LearnedArms(
        config.daemon.step_ms / 1000,
        loader(config.learned),
        network,
        together=chooser.together,
        paths=table.prefixes,
    )


def make_teams(config: Config, arms: Sequence[ArmInfo], pool: Sequence[int], chooser: Chooser) -> Teams:
    """Make team selection, which picks the best `k` arms of the pool by trying them. It starts by itself only
    with the policy `mutant`.
    """
    return Teams(
        config.mpts,
        pool,
        config.pool.k,
        chooser.set_pool,
        names={arm.id: arm.name for arm in arms if arm.available},
        learns=config.daemon.policy == "mutant",
        free=chooser.free if chooser.keeps_arms else None,
        preferring=Preferring(chooser.preferable, chooser.prefer) if chooser.preferable(pool) else None,
        zeta=config.learning.zeta,
        kappa=config.learning.kappa,
        seed=config.daemon.seed,
    )


def make_spans(
    config: Config, arms: Sequence[ArmInfo], pool: Sequence[int], chooser: Chooser
) -> Spans | None:
    """Make the part that runs experiments, explores, and logs decisions; None if the settings ask for none of
    these.

    Raises `ConfigError` if the baseline arm of an experiment is not available, or is a learned arm.
    """
    gain, state_dir = config.gain, config.daemon.state_dir
    writer = None
    if gain.log_mb and state_dir:
        names = {arm.id: arm.name for arm in arms}
        writer = DecisionWriter(Path(state_dir) / FOLDER, gain.log_mb * 1_000_000, names)
    if writer is None and gain.design == "none" and not gain.explore:
        return None
    trial = Trial()
    if gain.design != "none":
        baseline = baseline_arm(config, arms)
        design: Design = "holdback" if gain.design == "holdback" else "switchback"
        trial = Trial(design, gain.share, gain.block_s, gain.washout_s, baseline, config.daemon.seed)
    settings = config.rule if config.daemon.policy == "rule" else config.learning
    return Spans(
        writer,
        trial,
        explore=gain.explore,
        pool=pool,
        model=model_version(ltp_switcher.__version__, config.daemon.policy, settings, tuple(chooser.pool)),
        zeta=config.learning.zeta,
        kappa=config.learning.kappa,
        seed=config.daemon.seed,
    )


def make_outcomes(
    config: Config, arms: Sequence[ArmInfo], datapath: Datapath, home_netns: int
) -> Outcomes | None:
    """Make the part that takes the flows' outcomes (sums over their lives) from the module and logs them;
    None if the settings ask for no outcomes.
    """
    most_mb, state_dir = config.gain.outcomes_mb, config.daemon.state_dir
    if not wants_outcomes(config):
        return None
    writer = None
    if most_mb and state_dir:
        names = {arm.id: arm.name for arm in arms}
        place = Path(state_dir) / outcomes.FOLDER
        writer = LogWriter(outcomes.OUTCOMES, place, most_mb * 1_000_000, names)
    return Outcomes(datapath, writer, home_netns)


def wants_outcomes(config: Config) -> bool:
    """Whether the settings ask for outcomes of flows (sums over their lives), either to log them or to learn
    from them.
    """
    return bool(config.gain.outcomes_mb and config.daemon.state_dir) or config.visits.learn == "on"


def make_visits(config: Config, arms: Sequence[ArmInfo], starts: StartingArms) -> LiveLearner | None:
    """Make the part that learns from flow to flow; None if the settings turn it off. Raises `ConfigError` for
    an arm that is not available or cannot begin a flow.
    """
    if config.visits.learn == "off":
        return None
    default_arm = arm_id(arms, config.kernel.default_arm, "kernel.default_arm")
    return LiveLearner(visit_arms(config, arms), default_arm, starts, config.rule.prefix_s)


def visit_arms(config: Config, arms: Sequence[ArmInfo]) -> tuple[int, ...]:
    """The ids of the arms on which learning from flow to flow may begin flows. Raises `ConfigError` for an
    arm that cannot begin a flow.
    """
    found = candidate_ids(arms, config.visits.arms, "visits.arms", usual=VISIT_ARMS)
    for place, arm in enumerate(found):
        if not can_begin(arm, config.learned):
            allowed = "an arm of the kernel, or a learned one that sets windows: ltp, jury, owl"
            raise ConfigError(f"visits.arms[{place}]", LEARNED[arm], allowed)
    return found


def baseline_arm(config: Config, arms: Sequence[ArmInfo]) -> int:
    """The id of the arm that flows run without the daemon. Raises `ConfigError` for a learned arm, or for an
    arm that is not available.
    """
    name = config.gain.baseline_arm or config.kernel.default_arm
    baseline = arm_id(arms, name, "gain.baseline_arm")
    if baseline in LEARNED:
        raise ConfigError("gain.baseline_arm", name, "an arm of the kernel, not a learned one")
    return baseline


def kernel_config(section: KernelSection, arms: Sequence[ArmInfo]) -> KernelConfig:
    """The kernel module's settings, from the section [kernel]. Raises `ConfigError` for an arm that is not
    available.
    """
    return KernelConfig(
        default_arm=arm_id(arms, section.default_arm, "kernel.default_arm"),
        fallback_arm=arm_id(arms, section.fallback_arm, "kernel.fallback_arm"),
        watchdog_ms=section.watchdog_ms,
        restore=protocol.RestoreMode[section.restore.upper().replace("-", "_")],
        handover=protocol.HandoverMode[section.handover.upper().replace("-", "_")],
        flows_max=section.flows_max,
        resume=protocol.ResumeMode[section.resume.upper()],
        resume_max_jump_kb=section.resume_max_jump_kb,
    )
