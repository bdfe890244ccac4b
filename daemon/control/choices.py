# SPDX-License-Identifier: Apache-2.0
"""The operators' choices: settings that override the configuration, policies, and pins of flows. Each change
is kept with its author.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from ltp_switcher.daemon.control.answers import StaleError
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.keeper import Keeper, Save
from ltp_switcher.daemon.control.kept import Found, read
from ltp_switcher.daemon.control.overrides import (
    CHANGES_MAX,
    FILE_NAME,
    UNDO_MAX,
    Change,
    Overrides,
    Pin,
    digest,
)
from ltp_switcher.daemon.settings.layers import Layers, Origin
from ltp_switcher.daemon.settings.load import as_dict, key_of
from ltp_switcher.daemon.settings.policies import Policies, Policy, difference, parse
from ltp_switcher.daemon.settings.rules import Value, check
from ltp_switcher.daemon.settings.schema import Config, schema
from ltp_switcher.errors import ConfigError, InvalidValueError, LtpSwitcherError, RefusedError
from ltp_switcher.log_fields import fields

log = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MODE: Final = "daemon.mode"
_POLICIES: Final = "policies"


class Choices:
    """The operators' settings, policies and pins, over the layers of the configuration.

    Args:
        layers: the configuration.
        folder: the folder of the overrides' file. With None no choice is kept.
        check: raises `LtpSwitcherError` if this machine cannot take settings. A kept value that `check`
            refuses is dropped with a warning.
    """

    def __init__(self, layers: Layers, folder: Path | None, check: Callable[[Config], None]) -> None:
        path = None if folder is None else folder / FILE_NAME
        found = Found(Overrides()) if path is None else read(path)
        self._kept = found.overrides
        self._configured = layers
        self._runtime: dict[str, Value] = {}
        self._boot = _boot()
        self.layers = layers
        """The layers of settings in force."""
        self.heard: Callable[[str, str], object] = lambda what, who: None
        """A function that is called with the words of each change and its author."""
        self.held = ""
        """The reason why the daemon steers nothing until an operator sets the mode; empty if it may steer."""
        usable: dict[str, Value] = {}
        for name, raw in self._kept.settings.items():
            try:
                usable[name] = _live_value(name, raw)
                check(layers.over(Origin.OVERRIDE, usable).config())
            except LtpSwitcherError as error:
                usable.pop(name, None)
                log.warning("the override of %s counts no longer: %s", name, error)
        self._settings = usable
        self._pins = dict(self._kept.pins) if self._kept.boot == self._boot else {}
        self._changes = list(self._kept.changes)
        policies, unreadable = _usable(self._kept.policies)
        self.policies = policies
        """The policies in force. This machine may lack some of their arms."""
        self._trial = self._kept.trial
        self._until_s = float("-inf")
        self._trying: float | None = None
        self._put_together()
        damaged = found.damaged
        if path is not None and unreadable and path not in damaged:
            damaged = (path, *damaged)
        self._keeper = Keeper(path, damaged, self._changes[-1].number if self._changes else 0)
        for fault in found.faults:
            log.error("%s", fault)
        lost_mode = _MODE in self._kept.settings.keys() - usable.keys()
        if found.lost:
            self._hold(f"the policies are unknown ({'; '.join(found.faults)})")
        elif unreadable:
            self._hold(f"policies that this release cannot read: {'; '.join(unreadable)}")
        elif lost_mode:
            self._hold("the mode that an operator had set is one that this release cannot take")
        elif found.faults or not found.equal:
            self.save()
        if self._trial:
            # A change can cut its operator off from this machine. Then only a restart can undo the change.
            log.warning("changes that nobody confirmed before this start are undone")
            self.give_up(check, lambda _: None, fresh=True)

    @property
    def config(self) -> Config:
        """The settings that result from the configuration and the operators' choices. Some of them may wait
        for a restart.
        """
        return self.layers.config()

    @property
    def pins(self) -> Mapping[int, Pin]:
        """The flows that operators have pinned to an arm, by the flows' cookies."""
        return self._pins

    @property
    def changes(self) -> list[Change]:
        """The last changes that operators made, the latest change at the end."""
        return self._changes

    def reload(self, layers: Layers, apply: Callable[[Config], None]) -> None:
        """Take another configuration under the same overrides. `apply` puts the settings in force, or raises
        an error, which this method passes on.
        """
        before = self._configured
        self._configured = layers
        try:
            self._take(self._settings, self._runtime, apply)
        except LtpSwitcherError:
            self._configured = before
            raise

    def change(
        self,
        values: Mapping[str, Json],
        apply: Callable[[Config], None],
        caller: Caller,
        *,
        runtime: bool = False,
    ) -> Save:
        """Set values by key path, or drop the overrides of keys whose value is None. If one change fails,
        none is made.

        With `runtime` the values last until the daemon ends. `apply` puts the settings in force. Raises
        `ConfigError` for a key or value that is not allowed, and the errors of `apply`.
        """
        settings, for_now = dict(self._settings), dict(self._runtime)
        for name, raw in values.items():
            if raw is None:
                key_of(name)
                settings.pop(name, None)
                for_now.pop(name, None)
            elif runtime:
                for_now[name] = _live_value(name, raw)
            else:
                settings[name] = _live_value(name, raw)
                for_now.pop(name, None)
        self._replace(values, settings, for_now, apply, caller, lasts=not runtime)
        return self.save()

    def clear(self, apply: Callable[[Config], None], caller: Caller) -> Save:
        """Drop all settings that override the configuration. `apply` puts the other settings in force; its
        errors are passed on.
        """
        names = list(dict.fromkeys([*self._settings, *self._runtime]))
        self._replace(names, {}, {}, apply, caller, lasts=True)
        return self.save()

    def pinned(self, cookie: int, pin: Pin | None, caller: Caller) -> Save:
        """Record that an operator pinned a flow to an arm, or unpinned the flow (`pin` is None)."""
        before = self._pins.pop(cookie, None)
        if pin is not None:
            self._pins[cookie] = pin
        self.tell(
            f"pin of flow {cookie}",
            None if before is None else before.arm,
            None if pin is None else pin.arm,
            caller,
            lasts=pin is None or pin.lasts,
            cookie=cookie,
        )
        return self.save()

    def set_policies(self, policies: Policies, apply: Callable[[Policies], None], caller: Caller) -> Save:
        """Replace all policies by these. `apply` puts the policies in force; its errors are passed on."""
        before = self.policies
        gone, come = difference(before, policies)
        if gone or come:
            apply(policies)
            self.policies = policies
            self.tell(
                _POLICIES,
                [str(policy) for policy in gone],
                [str(policy) for policy in come],
                caller,
                undo=entries(before),
                made=digest(entries(policies)),
            )
        return self.save()

    @contextlib.contextmanager
    def trying(self, within_s: float | None) -> Iterator[None]:
        """Put the changes made in this context on trial: the daemon undoes them `within_s` seconds later,
        unless somebody calls `confirm`. With None the changes stay.

        Raises `RefusedError` if earlier changes are still on trial.
        """
        if within_s is not None and self._trial:
            waiting = ", ".join(map(str, self.waiting))
            raise RefusedError(
                f"change {waiting} waits to be confirmed; `ltp-switcher changes --confirm` keeps it"
            )
        self._trying = within_s
        try:
            yield
        finally:
            self._trying = None

    @property
    def waiting(self) -> Mapping[int, float]:
        """Seconds left to confirm each change that is on trial, by the number of the change."""
        left_s = max(self._until_s - time.monotonic(), 0.0)
        return {change.number: left_s for change in self._trial}

    @property
    def overdue(self) -> bool:
        """Whether changes are on trial, and the time to confirm them is over."""
        return bool(self._trial) and time.monotonic() >= self._until_s

    def confirm(self, caller: Caller) -> tuple[tuple[int, ...], Save]:
        """Keep the changes that are on trial, and return their numbers. Raises `RefusedError` if there are
        none.
        """
        if not self._trial:
            raise RefusedError("no change waits to be confirmed")
        confirmed, self._trial = tuple(self.waiting), ()
        for number in confirmed:
            self.tell(f"change {number}", "waiting", "confirmed", caller)
        return confirmed, self.save()

    def give_up(
        self, apply: Callable[[Config], None], govern: Callable[[Policies], None], *, fresh: bool = False
    ) -> None:
        """Undo the changes on trial, which nobody has confirmed. A value that was changed again since then
        stays.

        `apply` and `govern` put the earlier settings and the earlier policies in force. `fresh` is true if an
        earlier run of the daemon made the changes, so that its runtime values are gone.
        """
        trial, self._trial = self._trial, ()
        for change in trial:
            again = "" if self._stands(change, fresh=fresh) else ", but was changed again since, and stays"
            log.warning("change %d (%s) was not confirmed%s", change.number, change.what, again)
        standing = [change for change in trial if self._stands(change, fresh=fresh)]
        try:
            self._undo(standing, apply, govern, Caller(os.getuid(), os.getpid()), fresh=fresh)
        except LtpSwitcherError as error:
            log.error("changes that nobody has confirmed cannot be undone: %s", error)
        self.save()

    def revert(
        self,
        number: int,
        apply: Callable[[Config], None],
        govern: Callable[[Policies], None],
        caller: Caller,
    ) -> Save:
        """Undo the change with this number. `apply` and `govern` put the earlier settings and the earlier
        policies in force.

        Raises `InvalidValueError` if the change cannot be undone, `StaleError` if the value has been changed
        again, and the errors of `apply` and `govern`.
        """
        known = {change.number: change for change in self._changes if change.undo is not None}
        if number not in known:
            told = ", ".join(map(str, known)) or "none"
            raise InvalidValueError("number", number, f"a change of a setting or of the policies: {told}")
        change = known[number]
        if not self._stands(change):
            later = [one.number for one in self._changes if one.what == change.what and one.number > number]
            since = f" by change {later[-1]}" if later else ""
            raise StaleError(
                f"{change.what} has been changed since change {number}{since}; revert that first"
            )
        self._undo([change], apply, govern, caller)
        self._trial = tuple(waiting for waiting in self._trial if waiting.number != number)
        return self.save()

    def forget_pins(self, is_open: Callable[[int], bool]) -> None:
        """Forget the pins of flows that have ended."""
        self._pins = {cookie: pin for cookie, pin in self._pins.items() if is_open(cookie)}

    def tell(
        self,
        what: str,
        before: Json,
        after: Json,
        caller: Caller,
        *,
        lasts: bool = True,
        undo: Json = None,
        made: Json = None,
        **more: object,
    ) -> None:
        """Record a change of the value `what`, and log the change with its author. `more` has extra fields
        for the log line.

        `lasts`, `undo` and `made` become members of the `Change`.
        """
        number = self._changes[-1].number + 1 if self._changes else 1
        change = Change(round(time.time(), 3), caller, what, before, after, lasts, number, undo, made)
        past = [replace(old, undo=None) if old.number <= number - UNDO_MAX else old for old in self._changes]
        self._changes = [*past, change][-CHANGES_MAX:]
        until = "" if lasts else " until the daemon ends"
        if self._trying is not None and undo is not None:
            self._trial = (*self._trial, change)
            self._until_s = time.monotonic() + self._trying
            until += f" (for {self._trying:g} s, unless it is confirmed)"
        words = f"{what} is {_words(after)} now{until}, was {_words(before)}"
        log.info("%s (%s)", words, caller, extra=fields(change=what, uid=caller.uid, **more))
        self.heard(words, str(caller))

    def save(self) -> Save:
        """Write the present choices to disk."""
        kept = Overrides(
            cast("dict[str, Json]", _json(self._settings)),
            dict(self._pins),
            self._boot,
            tuple(entries(self.policies)),
            tuple(self._changes),
            self._trial,
        )
        return self._keeper.save(kept)

    def close(self) -> None:
        """Finish the write under way."""
        self._keeper.close()

    def _hold(self, why: str) -> None:
        """Steer nothing from now on: flows that a lost policy excludes must be left alone.

        The mode becomes an override, so that neither a reload nor another start ends this.
        """
        before = self.config.daemon.mode
        mode = "off" if before == "off" else "advise"
        self._settings[_MODE] = mode
        self._put_together()
        self.held = (
            f"{why}; so nothing is steered: see that `ltp-switcher policy` shows the policies that you want, "
            "then `ltp-switcher mode active`"
        )
        log.error("%s", self.held)
        if mode != before:
            self.tell(_MODE, before, mode, Caller(os.getuid(), os.getpid()))

    def _replace(
        self,
        names: Iterable[str],
        settings: dict[str, Value],
        runtime: dict[str, Value],
        apply: Callable[[Config], None],
        caller: Caller,
        *,
        lasts: bool,
    ) -> None:
        """Put other values over the configuration, and record which of the settings `names` changed."""
        names = list(names)
        undo: dict[str, Json] = {name: cast("Json", self._chosen(name)) for name in names}
        before, origins_before = _flat(self.config), self.layers.origins()
        self._take(settings, runtime, apply)
        if _MODE in names:
            self.held = ""
        after, origins_after = _flat(self.config), self.layers.origins()
        for name in names:
            if (before[name], origins_before[name]) != (after[name], origins_after[name]):
                made = cast("Json", self._chosen(name))
                self.tell(name, before[name], after[name], caller, lasts=lasts, undo=undo[name], made=made)

    def _chosen(self, name: str) -> dict[str, Json]:
        """The values of a setting that override the configuration, by layer; null for none."""
        return {"override": _json(self._settings.get(name)), "runtime": _json(self._runtime.get(name))}

    def _stands(self, change: Change, *, fresh: bool = False) -> bool:
        """Whether the value that a change chose is still in force. In a `fresh` daemon, runtime values do not
        count.
        """
        if change.what == _POLICIES:
            return change.made == digest(entries(self.policies))
        gone: dict[str, Json] = {"runtime": None} if fresh else {}
        made = cast("dict[str, Json]", change.made)
        return {**self._chosen(change.what), **gone} == {**made, **gone}

    def _undo(
        self,
        changes: Sequence[Change],
        apply: Callable[[Config], None],
        govern: Callable[[Policies], None],
        caller: Caller,
        *,
        fresh: bool = False,
    ) -> None:
        """Restore the choices before these changes. Raises the errors of `apply` and `govern`."""
        settings, runtime = dict(self._settings), dict(self._runtime)
        names = []
        for change in reversed(changes):
            if change.what == _POLICIES:
                self.set_policies(_usable(cast("list[Json]", change.undo))[0], govern, caller)
                continue
            names.append(change.what)
            was = cast("dict[str, Json]", change.undo)
            for values, raw in ((settings, was["override"]), (runtime, None if fresh else was["runtime"])):
                values.pop(change.what, None)
                if raw is not None:
                    values[change.what] = _live_value(change.what, raw)
        if names:
            self._replace(names, settings, runtime, apply, caller, lasts=True)

    def _take(
        self, settings: dict[str, Value], runtime: dict[str, Value], apply: Callable[[Config], None]
    ) -> None:
        before = self.layers, self._settings, self._runtime
        self._settings, self._runtime = settings, runtime
        try:
            self._put_together()
            apply(self.config)
        except LtpSwitcherError:
            self.layers, self._settings, self._runtime = before
            raise

    def _put_together(self) -> None:
        self.layers = self._configured.over(Origin.OVERRIDE, self._settings).over(
            Origin.RUNTIME, self._runtime
        )


def _live_value(name: str, raw: Json) -> Value:
    key = key_of(name)
    if not key.rule.live:
        live = ", ".join(key.path for key in schema().values() if key.rule.live)
        raise ConfigError(name, raw, f"a value in the file and a restart; without one: {live}")
    return check(key, raw)


def entries(policies: Policies) -> list[Json]:
    """The policies in the form of a policy document. The most specific policy comes first."""
    return [cast("Json", policy.entry()) for policy in policies.entries]


def _usable(entries: Sequence[Json]) -> tuple[Policies, list[str]]:
    """The kept policies that this release can read, and the errors for the others."""
    found: list[Policy] = []
    unreadable = []
    for entry in entries:
        try:
            found += parse([entry]).entries
        except ConfigError as error:
            unreadable.append(str(error))
    return Policies(found), unreadable


def _boot() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _flat(config: Config) -> dict[str, Json]:
    return {
        f"{section}.{name}": _json(value)
        for section, entries in as_dict(config).items()
        for name, value in entries.items()
    }


def _json(value: object) -> Json:
    if isinstance(value, dict):
        return {name: _json(entry) for name, entry in value.items()}
    return list(value) if isinstance(value, tuple) else cast("Json", value)


def _words(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "empty"
    return "none" if value is None else str(value)
