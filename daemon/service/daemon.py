# SPDX-License-Identifier: Apache-2.0
"""The daemon: it puts its parts together and runs them from start to stop."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

import ltp_switcher
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choices import Choices
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.keeper import Save
from ltp_switcher.daemon.control.methods import READS, Methods
from ltp_switcher.daemon.control.rollouts import Rollouts
from ltp_switcher.daemon.control.server import ControlServer, api_uid
from ltp_switcher.daemon.datapath import (
    ArmInfo,
    Datapath,
    FlowNotFoundError,
    KernelConfig,
    RequestRefusedError,
    netlink,
)
from ltp_switcher.daemon.datapath.arms import arm_id
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.datapath.recording import Recorder
from ltp_switcher.daemon.named.store import POLICIES_FILE, write_policies
from ltp_switcher.daemon.service import log as logs
from ltp_switcher.daemon.service.assembly import (
    baseline_arm,
    kernel_config,
    load_arms,
    make_chooser,
    make_learned,
    make_outcomes,
    make_spans,
    make_teams,
    make_visits,
    pool_of,
    visit_arms,
    wants_outcomes,
)
from ltp_switcher.daemon.service.default_congestion_control import Takeover
from ltp_switcher.daemon.service.loop import Signals, StepLoop
from ltp_switcher.daemon.service.memory import Room, limit_bytes
from ltp_switcher.daemon.service.state import FILE_NAME, Saver, read_state
from ltp_switcher.daemon.service.systemd import ServiceManager, inherited
from ltp_switcher.daemon.settings.layers import Layers, with_fixed
from ltp_switcher.daemon.settings.load import changed
from ltp_switcher.daemon.settings.policies import Policies
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.daemon.steer import ToldNetwork, with_policies
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.errors import ArtifactError, ConfigError, LtpSwitcherError
from ltp_switcher.files import set_aside

log = logging.getLogger(__name__)

STATUS_INTERVAL_S: Final = 10.0
ROLLOUT_INTERVAL_S: Final = 1.0
OUTCOMES_WAITING: Final = 8192
"""Largest number of outcomes that wait in the module for the daemon. If 1,000 flows end in a second, this is
enough for 8 s. The outcomes take 1.4 MB.
"""
_POLICY, _TEAMS, _VISITS = "policy.", "teams.", "visits."


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """Optional requests of a session with the module; see `Datapath.open_session`. A zero asks
    for nothing.
    """

    rtt_quarters: int = 0
    outcomes_max: int = 0
    start_seed: int = 0


class Every:
    """A timer that is due once in `interval_s` seconds. With an interval of 0 it is never due."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._next_s = time.monotonic() + interval_s

    def due(self) -> bool:
        """Whether the timer is due. If so, the call starts the next interval."""
        now_s = time.monotonic()
        if not self.interval_s or now_s < self._next_s:
            return False
        self._next_s = now_s + self.interval_s
        return True


class Daemon:
    """All that runs between `ltp-switcher run` and SIGTERM.

    `reload` is a function that reads the settings anew. With `record`, every step's records are written to
    this file. Raises `LtpSwitcherError` if the daemon cannot start.
    """

    def __init__(self, layers: Layers, reload: Callable[[], Layers], *, record: Path | None = None) -> None:
        config = layers.config()
        self._reload = reload
        if record is None and config.daemon.record:
            record = Path(config.daemon.record)
        self._manager = ServiceManager()
        listener = next(iter(inherited()), None)
        self._selector = selectors.SelectSelector()
        state_dir = Path(config.daemon.state_dir) if config.daemon.state_dir else None
        self._takeover = Takeover(state_dir)
        self._state_path = state_dir / FILE_NAME if state_dir is not None else None

        self.datapath = Datapath()
        self.arms = load_arms(self.datapath, config.pool.extra, config.learned)
        self.names = {arm.id: arm.name for arm in self.arms}
        self.choices = Choices(layers, state_dir, self._check)
        config = self.config = with_fixed(config, self.choices.config)
        terms = self._steer(config.daemon.mode, self.choices.policies)
        self._room = Room(config.daemon.policy, limit_bytes(), visits=config.visits.learn == "on")
        self._configure_first(kernel_config(config.kernel, self.arms))
        pool = pool_of(config, self.arms)
        chooser = make_chooser(config, self.arms, pool)
        teams = make_teams(config, self.arms, pool, chooser)
        self.network = ToldNetwork()
        home_netns = netlink.own_namespace()
        table = FlowTable(home_netns=home_netns)
        learned = make_learned(config, chooser, table, self.network.latest)
        learned.rtt_quarters = terms.rtt_quarters
        learned.load(pool)
        starts = StartingArms(self.datapath, config.rule.prefix_s)
        starts.forget_lots()
        # This comes before the list of all flows, so that no birth is missed in between.
        self._events = self.datapath.events()
        self.engine = Engine(
            self.datapath,
            self._events,
            table,
            chooser,
            teams,
            DecisionLog(self.names, config.daemon.decisions_per_s, config.daemon.mode),
            learned,
            mode=config.daemon.mode,
            starts=starts,
            spans=make_spans(config, self.arms, pool, chooser),
            outcomes=(
                make_outcomes(config, self.arms, self.datapath, home_netns) if terms.outcomes_max else None
            ),
            visits=make_visits(config, self.arms, starts) if terms.outcomes_max else None,
            recorder=Recorder(record) if record is not None else None,
        )
        teams.active = config.daemon.mode == "active"
        self.choices.heard = lambda what, who: self.engine.events.tell(
            "configuration-changed", what=what, who=who
        )
        if self.choices.held:
            self.engine.events.tell("configuration-changed", what=self.choices.held, who="the daemon")
        self.rollouts = Rollouts(self, state_dir, lambda: baseline_arm(self.config, self.arms))
        self._saver = Saver(self._state_path, self.engine.statistics) if self._state_path else None
        self._restore()
        self._restore_pins()
        self._govern(self.choices.policies)
        self.rollouts.restore()
        self._selector.register(self._events, selectors.EVENT_READ, lambda _: self.engine.read_events())
        self._server = ControlServer(
            Path(config.daemon.control_socket), Methods(self).handle, self._selector, listener, api_uid(),
            READS,
        )  # fmt: skip
        self.engine.breathe = learned.breathe = self._server.breathe
        self._loop = StepLoop(
            step_s=config.daemon.step_ms / 1000,
            idle_s=config.daemon.idle_step_ms / 1000,
            step=self._step,
            busy=lambda: self.engine.busy,
            pump=self._server.pump,
            selector=self._selector,
        )
        self._look_for_room()
        self._save_due = Every(config.daemon.save_interval_s if self._saver is not None else 0)
        self._statistics_due = Every(config.daemon.statistics_interval_s)
        self._status_due = Every(STATUS_INTERVAL_S)
        self._rollout_due = Every(ROLLOUT_INTERVAL_S)

    @property
    def mode(self) -> str:
        """The mode: `active`, `advise` or `off`."""
        return self.engine.mode

    @property
    def faults(self) -> list[str]:
        """Sentences about faults that keep the daemon from a part of its task. Each sentence names the
        remedy.
        """
        return [fault for fault in (self.choices.held, self.rollouts.damaged, self._room.fault) if fault]

    def set_mode(self, mode: str) -> None:
        """Take another mode. If the mode is not active, flows under learned arms go to the fallback arm."""
        before = self.engine.mode
        self.engine.mode = mode
        self.engine.decisions.mode = mode
        self.engine.teams.active = mode == "active"
        if mode != before:
            self._steer(mode, self.choices.policies)
            log.info("mode is %s now, was %s", mode, before)
            self.engine.events.tell("mode-changed", before=before, after=mode)
            self.rollouts.mode_changed(mode)

    def _steer(self, mode: str, policies: Policies) -> SessionTerms:
        """Steer the flows from now on, or change the terms. Returns the terms that the module accepts."""
        starts, wanted = self._starts_count(mode, policies), self._terms
        # A module that is older than a setting refuses it. If another daemon steers, all settings are
        # refused.
        for terms in (wanted, SessionTerms(wanted.rtt_quarters), SessionTerms()):
            try:
                self.datapath.open_session(start_arms=starts, **dataclasses.asdict(terms))
            except RequestRefusedError:
                if terms == SessionTerms():
                    raise
                continue
            for setting, asked, counts in (
                ("daemon.rtt_quarters", wanted.rtt_quarters, terms.rtt_quarters),
                ("gain.outcomes_mb", wanted.outcomes_max, terms.outcomes_max),
                ("visits.learn", wanted.start_seed, terms.start_seed),
            ):
                if asked != counts:
                    log.warning("%s does not count: the loaded module is older than the setting", setting)
            return terms
        raise AssertionError("the last terms ask for nothing")

    @property
    def _terms(self) -> SessionTerms:
        """The terms that the settings ask for."""
        config = self.config
        return SessionTerms(
            config.daemon.rtt_quarters,
            OUTCOMES_WAITING if wants_outcomes(config) else 0,
            config.daemon.seed if config.visits.learn == "on" else 0,
        )

    def _starts_count(self, mode: str, policies: Policies) -> bool:
        """Whether new flows begin on the arms of the module's table. This needs mode active, and something
        that fills the table.
        """
        fills = self.config.daemon.policy == "rule" or self.config.visits.learn == "on"
        return mode == "active" and (fills or bool(policies))

    def load_arm(self, name: str) -> ArmInfo:
        """Load an arm. Flows can be pinned to it at once, but the daemon chooses it only after a restart."""
        arm = self.datapath.load_arm(name)
        self.arms = with_policies(self.datapath.arms(), self.config.learned)
        self.names.update({known.id: known.name for known in self.arms})
        return arm

    def run(self) -> None:
        """Run steps until SIGTERM or SIGINT. Then save, and restore the default congestion control."""
        handlers = {
            signal.SIGTERM: self._loop.stop,
            signal.SIGINT: self._loop.stop,
            signal.SIGHUP: self._hang_up,
        }
        signals = Signals(self._selector, handlers)
        if self.config.kernel.take_default:
            self._takeover.take()
        else:
            self._takeover.recover()
        log.info(
            "ltp-switcher %s: mode %s, policy %s, step %g ms, pool %s",
            ltp_switcher.__version__, self.mode, self.config.daemon.policy, self.config.daemon.step_ms,
            ", ".join(self.names[arm] for arm in self.engine.chooser.pool),
        )  # fmt: skip
        self._manager.ready()
        try:
            self._loop.run()
        finally:
            self._manager.stopping()
            self._takeover.give_back()
            self._log_statistics()
            if self._saver is not None:
                self._saver.finish(self._state())
            self._server.close()
            self.choices.close()
            self.rollouts.close()
            self.engine.close()
            signals.close()
            self._manager.close()
            self._events.close()
            self.datapath.close_session(self.config.kernel.restart_grace_ms)
            self.datapath.close()

    def change(self, values: Mapping[str, Json], caller: Caller, *, runtime: bool) -> Save:
        """Set values over the configuration, or drop the overrides whose values are None; see
        `Choices.change`.
        """
        return self.choices.change(values, self._apply, caller, runtime=runtime)

    def clear(self, caller: Caller) -> Save:
        """Drop all settings that override the configuration."""
        return self.choices.clear(self._apply, caller)

    def revert(self, number: int, caller: Caller) -> Save:
        """Undo a change; see `Choices.revert`."""
        return self.choices.revert(number, self._apply, self._govern, caller)

    def set_policies(self, policies: Policies, caller: Caller) -> Save:
        """Put these policies in force in place of all earlier ones; see `Choices.set_policies`."""
        return self.choices.set_policies(policies, self._govern, caller)

    def _govern(self, policies: Policies) -> None:
        """Put policies in force, except for those that name an arm which is not available."""
        ids = {arm.name: arm.id for arm in self.arms if arm.available}
        usable = [policy for policy in policies.entries if policy.arms <= ids.keys()]
        for policy in policies.entries:
            if policy not in usable:
                missing = ", ".join(sorted(policy.arms - ids.keys()))
                log.warning("the policy for %s does not count: no arm %s", policy.match, missing)
        known = policies.namespaces()
        for policy in usable:
            if policy.netns is not None and policy.netns not in known:
                log.warning(
                    "there is no network namespace %s yet; its policy counts for flows that come later",
                    policy.netns,
                )
        before = self.engine.governed.policies
        default_arm = kernel_config(self.config.kernel, self.arms).default_arm
        self.engine.govern(Policies(usable), ids, default_arm or 0)
        # While the policies are unknown, the earlier ones stay in force for new connections.
        if not (self.choices.held and policies is self.choices.policies):
            self._name(Policies(usable))
        if bool(before) != bool(usable):
            self._steer(self.mode, policies)

    def _name(self, policies: Policies) -> None:
        """Write the policies to the file that the service ltp-switcher-use reads. The service fills the
        kernel's table of flows that run `mutant`; see `daemon.named`.
        """
        if not self.config.daemon.state_dir:
            return
        try:
            write_policies(Path(self.config.daemon.state_dir) / POLICIES_FILE, policies)
        except ArtifactError as error:
            log.warning("new connections are chosen by the policies before these: %s", error)

    def reload(self) -> list[str]:
        """Read the settings anew, apply those that a running daemon can change, and return the keys that
        changed.

        Raises `LtpSwitcherError` and changes nothing if a setting is refused.
        """
        before = self.choices.config
        try:
            self.choices.reload(self._reload(), self._apply)
        except LtpSwitcherError as error:
            log.error("the new settings are refused, the old ones stay: %s", error)
            raise
        keys = changed(before, self.choices.config)
        for key in keys:
            if not key.rule.live:
                log.warning("%s has changed; restart the service to apply it", key.path)
        what = ", ".join(key.path for key in keys)
        log.info("settings reloaded: %s", what or "nothing changed")
        if keys:
            self.engine.events.tell("configuration-changed", what=f"settings reloaded: {what}")
        return [key.path for key in keys]

    def _hang_up(self) -> None:
        self._manager.reloading()
        with contextlib.suppress(LtpSwitcherError):
            self.reload()
        self._manager.ready()

    def _check(self, config: Config) -> None:
        """Raise `LtpSwitcherError` if this machine cannot take these settings."""
        kernel_config(config.kernel, self.arms)
        visit_arms(config, self.arms)
        Teams.check(config.mpts, config.pool.k, pool_of(config, self.arms))

    def _apply(self, wanted: Config) -> None:
        """Put settings in force, except for those that need a restart. With an error, none is
        put in force.
        """
        new = with_fixed(self.config, wanted)
        keys = changed(self.config, new)
        paths = {key.path for key in keys}
        teams = self.engine.teams
        kernel = kernel_config(new.kernel, self.arms)
        # An arm that was loaded since the start does not join a pool by itself.
        arms = pool_of(new, self.arms) if "pool.arms" in paths else teams.candidates
        # Everything that can be refused comes first and the kernel last, so that no change is half applied.
        teams.check(new.mpts, new.pool.k, arms)
        self.rollouts.check(wanted)
        if any(key.section == "kernel" for key in keys):
            self._configure_kernel(kernel)
        if "kernel.default_arm" in paths:
            self.engine.set_default_arm(kernel.default_arm)
        teams.configure(new.mpts, new.pool.k, arms)
        if self.engine.spans is not None:
            self.engine.spans.set_pool(arms)
        if "daemon.mode" in paths:
            self.set_mode(new.daemon.mode)
        logs.set_level(new.daemon.log_level)
        self.engine.decisions.set_rate(new.daemon.decisions_per_s)
        self._statistics_due = Every(new.daemon.statistics_interval_s)
        self.config = new
        if "daemon.rtt_quarters" in paths:
            terms = self._steer(self.mode, self.choices.policies)
            self.engine.learned.rtt_quarters = terms.rtt_quarters
        if self.choices.policies:
            # A policy may need another arm or team if the pool or k of the settings changes.
            self._govern(self.choices.policies)

    def _configure_kernel(self, config: KernelConfig) -> None:
        within = dataclasses.replace(config, flows_max=self._room.within(config.flows_max))
        self.datapath.set_config(**dataclasses.asdict(within))

    def _configure_first(self, config: KernelConfig) -> None:
        try:
            self._configure_kernel(config)
        except RequestRefusedError:
            # A module of another version refuses settings that it does not know. If its records differ, too,
            # `close_step` raises `ModuleVersionError`, which explains more.
            self.datapath.close_step()
            raise

    def _look_for_room(self) -> None:
        self._room.look(self.datapath.flow_counts())
        self.engine.statistics.resume = self.datapath.resume_counts()
        self.engine.statistics.flows_max = self._room.most
        self.engine.statistics.flows_refused = self._room.refused

    def _step(self) -> None:
        self.engine.step()
        if self.choices.overdue:
            self.choices.give_up(self._apply, self._govern)
        self._pace()
        self.engine.statistics.last_step_s = time.monotonic()
        self.engine.statistics.missed_steps = self._loop.missed
        self._manager.feed_watchdog()
        if self._rollout_due.due():
            self.rollouts.look()
        if self._save_due.due() and self._saver is not None:
            self._saver.start(self._state())
        if self._statistics_due.due():
            self._log_statistics()
        if self._status_due.due():
            self._look_for_room()
            self._manager.status("; ".join([f"{self.mode}: {len(self.engine.table)} flows", *self.faults]))

    def _pace(self) -> None:
        """Set the length of a step: the longest one that serves the policy and the learned arms in use."""
        settings, learned = self.config.daemon, self.engine.learned
        needed_s = min(self.engine.chooser.needed_step_s, learned.needed_step_s)
        longest_s = min(needed_s, max(settings.step_ms, settings.idle_step_ms) / 1000)
        self._loop.step_s = learned.step_s = max(settings.step_ms / 1000, longest_s)

    def _state(self) -> dict[str, np.ndarray]:
        parts = {_POLICY: self.engine.chooser.state(), _TEAMS: self.engine.teams.state()}
        if self.engine.visits is not None:
            parts[_VISITS] = self.engine.visits.state()
        return {prefix + name: array for prefix, part in parts.items() for name, array in part.items()}

    def _restore(self) -> None:
        """Take over an earlier daemon's state. An unusable file is set aside, and never fatal."""
        if self._state_path is None:
            return
        try:
            arrays = read_state(self._state_path)
            if arrays is None:
                return
            parts = {
                prefix: {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
                for prefix in (_POLICY, _TEAMS, _VISITS)
            }
            if parts[_POLICY]:
                self.engine.chooser.restore(parts[_POLICY])
            if parts[_TEAMS]:
                self.engine.teams.restore(parts[_TEAMS])
            visits = self.engine.visits
            if parts[_VISITS] and visits is not None and not visits.restore(parts[_VISITS]):
                log.warning("visits.arms has changed: what was learned from flow to flow is forgotten")
        except Exception as error:
            # Learned state is worth less than the service. If anything is wrong with the file, start without
            # it.
            aside = set_aside(self._state_path)
            log.warning("starting afresh: %s; the old state is kept as %s", error, aside)
        else:
            log.info("restored the learned state from %s", self._state_path)

    def _restore_pins(self) -> None:
        """Hold the flows that an operator has pinned, and release those whose pins were to end with the
        earlier daemon.
        """
        held = set()
        for cookie, pin in self.choices.pins.items():
            try:
                if not pin.lasts:
                    self.datapath.unpin(cookie)
                    continue
                # A flow that is pinned already may be pinned to the fallback arm, because its own arm is
                # missing.
                if not self.datapath.flow(cookie).record["flags"][0] & PINNED:
                    self.datapath.pin(cookie, arm_id(self.arms, pin.arm, f"pin of flow {cookie}"))
                held.add(cookie)
            except FlowNotFoundError:
                continue
            except ConfigError as error:
                log.warning("a pin counts no longer: %s", error)
        self.choices.forget_pins(held.__contains__)

    def _log_statistics(self) -> None:
        count = self.engine.statistics
        arm_time_s = self.engine.table.total_arm_time_s()
        total_s = max(float(arm_time_s.sum()), 1e-9)
        shares = sorted(((float(t), arm) for arm, t in enumerate(arm_time_s) if t > 0), reverse=True)
        log.info(
            "%d flows open; since the start %d steps (%d missed, p99 %.2f ms), %d decisions, %d changes, "
            "%d fallbacks; arms by time: %s",
            len(self.engine.table), count.steps, count.missed_steps, count.step_quantile_s(0.99) * 1e3,
            count.decisions, count.changes, count.fallbacks,
            ", ".join(f"{self.names.get(arm, arm)} {t / total_s:.0%}" for t, arm in shares) or "none",
        )  # fmt: skip
