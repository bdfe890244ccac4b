# SPDX-License-Identifier: Apache-2.0
"""The rollout of a daemon: in stages, the daemon steers a growing share of the traffic.

An operator begins the rollout. The daemon keeps it on disk, and judges it once a second. The rollout ends
when all stages are done, harm is proven, a stage lasts too long, or an operator ends it.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ltp_switcher import artifacts
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.keeper import Save
from ltp_switcher.daemon.gain.rollout import STAGES, End, Plan, Rollout, Units
from ltp_switcher.daemon.gain.trial import Trial
from ltp_switcher.daemon.step.spans import Spans
from ltp_switcher.errors import (
    ArtifactError,
    ArtifactMissingError,
    LtpSwitcherError,
    RefusedError,
)
from ltp_switcher.files import STATE_MODE, set_aside
from ltp_switcher.log_fields import fields

if TYPE_CHECKING:
    from ltp_switcher.daemon.control.controlled import Controlled
    from ltp_switcher.daemon.settings.schema import Config

log = logging.getLogger(__name__)

FILE_NAME: Final = "rollout.npz"
FORMAT_VERSION: Final = 1
PREFIXES_MIN: Final = 1000
"""Least number of prefixes for a rollout by prefixes, in which each prefix draws lots for itself. With fewer
prefixes, blocks of time draw lots for all flows together.
"""
ADVISE: Final = "advise"


class Rollouts:
    """The rollout of `daemon`, if there is one.

    Args:
        daemon: the daemon whose mode and experiment the rollout sets.
        folder: folder of the rollout's file. With None there can be no rollout, because a restart would
            forget it.
        baseline: returns the id of the arm that flows run without the daemon, or raises `ConfigError`.
    """

    def __init__(self, daemon: Controlled, folder: Path | None, baseline: Callable[[], int]) -> None:
        self._daemon = daemon
        self._path = None if folder is None else folder / FILE_NAME
        self._baseline = baseline
        self._rollout: Rollout | None = None
        self._by = ""
        """Author of the request that began the rollout."""
        self._reason = ""
        """The reason for the rollout's end, in a sentence."""
        self._ended_s: float | None = None
        self._writing: threading.Thread | None = None
        self.damaged = ""
        """A sentence about a file that could not be used; empty if there is none."""

    @property
    def running(self) -> bool:
        """Whether a rollout is under way."""
        return self._rollout is not None and self._rollout.end is None

    def start(self, units: Units | None, caller: Caller) -> Save:
        """Begin a rollout, and set the mode active. If `units` is None, the number of prefixes with open
        flows decides between prefixes and blocks of time.

        If the rollout cannot be written to disk, the rollout and its mode last until the daemon ends.
        Otherwise the next daemon would know the mode without the rollout, and steer all flows. Raises
        `RefusedError` if there can be no rollout now.
        """
        daemon, config = self._daemon, self._daemon.config
        spans = daemon.engine.spans
        if self.running:
            raise RefusedError("a rollout is under way; `ltp-switcher rollout abort` ends it")
        if config.gain.design != "none":
            raise RefusedError(
                f"gain.design is {config.gain.design}, and a rollout is an experiment of its own; "
                "`ltp-switcher config set gain.design=none` ends the other one"
            )
        if self._path is None or spans is None or spans.log is None:
            raise RefusedError(
                f"nothing measures the flows: gain.log_mb is {config.gain.log_mb}, and daemon.state_dir "
                f"{config.daemon.state_dir!r}; set both, and restart the daemon"
            )
        if units is None:
            known = len(set(daemon.engine.table.prefixes(np.array(daemon.engine.table.slots(), np.int64))))
            units = "prefixes" if known >= PREFIXES_MIN else "blocks"
        gain, stages = config.gain, config.rollout
        plan = Plan(
            units, secrets.randbits(32), gain.block_s, gain.washout_s, self._baseline(), stages.tolerance,
            stages.stage_min_s, stages.stage_max_s,
        )  # fmt: skip
        self._by, self._reason, self._ended_s, self.damaged = str(caller), "", None, ""
        rollout = Rollout(plan, time.time())
        self._finish_writing()
        failure = self._try_write(self._path, rollout.words() | self._about(), rollout.arrays())
        self._rollout = rollout
        self._take_part(spans, rollout)
        try:
            save = daemon.change({"daemon.mode": "active"}, caller, runtime=bool(failure))
        except LtpSwitcherError as error:
            rollout.abort()
            self._end(rollout, f"the mode cannot be active: {error}", caller)
            raise
        self._tell(f"started for {rollout.share:.0%} of the traffic, by {units}", caller)
        if failure:
            save = Save()
            save.end(failure)
        return save

    def abort(self, caller: Caller) -> Save:
        """End the rollout under way, and go back to mode advise. Raises `RefusedError` if there is none."""
        if self._rollout is None or not self.running:
            raise RefusedError("no rollout is under way; `ltp-switcher rollout start` begins one")
        self._rollout.abort()
        return self._end(self._rollout, f"it was aborted ({caller})", caller)

    def look(self) -> None:
        """Judge the rollout by the blocks of time that have ended. Call this once a second."""
        rollout = self._rollout
        if rollout is None or rollout.end is not None:
            return
        if rollout.look(time.time()):
            self._turn(rollout)
        if rollout.changed and rollout.settled:
            self._save(rollout)

    def check(self, wanted: Config) -> None:
        """Raise `RefusedError` if the settings `wanted` ask for another experiment (`gain.design`) while a
        rollout is under way.
        """
        design = wanted.gain.design
        if self.running and design not in ("none", self._daemon.config.gain.design):
            raise RefusedError(
                f"gain.design: {design!r} is not possible while a rollout is under way; "
                "`ltp-switcher rollout abort` ends it"
            )

    def mode_changed(self, mode: str) -> None:
        """Take note of another mode. The rollout ends in any mode but active."""
        if self._rollout is not None and self.running and mode != "active":
            self._rollout.abort()
            self._end(self._rollout, f"the mode was set to {mode}", None)

    def restore(self) -> None:
        """Continue the rollout of an earlier daemon. If that is impossible, go back to mode advise."""
        if self._path is None:
            return
        try:
            arrays, words = artifacts.read(
                self._path, what="rollout", version=FORMAT_VERSION, remedy="none was begun"
            )
            rollout = Rollout.restored(words, arrays)
            self._by, self._reason = str(words["by"]), str(words["reason"])
            ended_s = words["ended_s"]
            self._ended_s = float(ended_s) if isinstance(ended_s, int | float) else None
        except ArtifactMissingError:
            return
        except (ArtifactError, KeyError, ValueError) as error:
            self._give_up(self._path, error)
            return
        rollout.changed = False
        self._rollout = rollout
        spans = self._daemon.engine.spans
        if rollout.end is not None:
            return
        if spans is None or spans.log is None:
            rollout.abort()
            self._end(rollout, "gain.log_mb is 0, so that nothing measures the flows", None)
        elif self._daemon.mode != "active":
            self.mode_changed(self._daemon.mode)
        else:
            if self._daemon.config.gain.design != "none":
                log.error(
                    "gain.design = %s does not count while a rollout is under way; "
                    "`ltp-switcher rollout abort` ends it", self._daemon.config.gain.design,
                )  # fmt: skip
            self._take_part(spans, rollout)
            log.info("the rollout goes on: %.0f %% of the traffic", rollout.share * 100)

    def close(self) -> None:
        """Save the rollout's state, and finish the write under way."""
        if self._rollout is not None and self._rollout.changed and self._rollout.settled:
            self._save(self._rollout)
        self._finish_writing()

    def status(self) -> dict[str, Json]:
        """The state of the rollout, as the control method `rollout.get` answers."""
        rollout, now_s = self._rollout, time.time()
        if rollout is None:
            return {"state": "damaged" if self.damaged else "none", "reason": self.damaged, "rollout": None}
        plan, found = rollout.plan, rollout.status(now_s if self._ended_s is None else self._ended_s)
        return {
            "state": rollout.end or "running",
            "reason": self._reason,
            "rollout": {
                "by": self._by,
                "began": rollout.began_s,
                "ended": self._ended_s,
                "units": plan.units,
                "baseline_arm": self._daemon.names.get(plan.arm, str(plan.arm)),
                "tolerance": plan.tolerance,
                "share": found.share,
                "stage": found.stage + 1,
                "stages": [stage.share for stage in STAGES],
                "stage_s": round(found.stage_s, 3),
                "stage_min_s": plan.stage_min_s,
                "stage_max_s": plan.stage_max_s,
                "rounds": found.rounds,
                "round_s": found.round_s,
                "prefixes": found.prefixes,
                "estimate": found.estimate,
                "lower": found.lower,
                "upper": found.upper,
                "must_exclude": found.must_exclude,
                "detect_s": found.detect_s,
            },
        }

    def _turn(self, rollout: Rollout) -> None:
        """Let a new stage of the rollout take effect, or its end."""
        spans = self._daemon.engine.spans
        if rollout.end is None:
            if spans is not None:
                self._take_part(spans, rollout)
            self._tell(f"goes on to {rollout.share:.0%} of the traffic", None)
            return
        why: dict[End, str] = {
            "done": "all stages are done: a harm above the tolerance is excluded",
            "harm": "it is proven that the daemon's choices lower goodput",
            "undecided": "the stage had its longest time, and neither harm nor its absence is proven",
        }
        self._end(rollout, why[rollout.end], None)

    def _end(self, rollout: Rollout, reason: str, caller: Caller | None) -> Save:
        """Let the rollout's end take effect. After the last stage the daemon steers all flows. After any
        other end, the mode active becomes advise.
        """
        self._reason, self._ended_s = reason, time.time()
        spans = self._daemon.engine.spans
        if spans is not None:
            spans.set_trial(Trial())
        save = Save()
        save.end()
        if rollout.end != "done" and self._daemon.mode == "active":
            save = self._advise(caller)
        self._tell(f"ended ({rollout.end}) at {rollout.share:.0%} of the traffic: {reason}", caller)
        self._save(rollout)
        return save

    def _advise(self, caller: Caller | None) -> Save:
        return self._daemon.change({"daemon.mode": ADVISE}, caller or _ITSELF, runtime=False)

    def _give_up(self, path: Path, error: Exception) -> None:
        """Go back to mode advise: a rollout may have been under way, but its stage is unknown."""
        try:
            kept = f"the file is kept as {set_aside(path)}"
        except ArtifactError as failure:
            kept = str(failure)
        self.damaged = f"the rollout cannot go on, so the mode is {ADVISE}: {error}; {kept}"
        log.error("%s", self.damaged)
        if self._daemon.mode == "active":
            self._advise(None)
        self._daemon.engine.events.tell("rollout-changed", state="damaged", share=0.0, reason=self.damaged)

    def _take_part(self, spans: Spans, rollout: Rollout) -> None:
        spans.heard = rollout.take
        spans.set_trial(rollout.trial)

    def _tell(self, what: str, caller: Caller | None) -> None:
        rollout = self._rollout
        if rollout is None:
            return
        state = rollout.end or "running"
        if caller is None:
            log.warning("rollout: %s", what, extra=fields(change="rollout", uid=_ITSELF.uid))
        else:
            self._daemon.choices.tell("rollout", None, what, caller)
        self._daemon.engine.events.tell(
            "rollout-changed", state=state, share=rollout.share, reason=self._reason or what
        )

    def _about(self) -> dict[str, object]:
        return {"by": self._by, "reason": self._reason, "ended_s": self._ended_s}

    def _save(self, rollout: Rollout) -> None:
        """Save the rollout's present state, in a thread, so that no step waits for a disk."""
        if self._path is None:
            return
        rollout.changed = False
        # The earlier write has had the time of a block to finish.
        self._finish_writing()
        given = self._path, rollout.words() | self._about(), rollout.arrays()
        self._writing = threading.Thread(target=self._try_write, args=given, name="rollout", daemon=True)
        self._writing.start()

    @staticmethod
    def _try_write(path: Path, words: dict[str, object], arrays: artifacts.Arrays) -> str:
        """Write the file. Returns the reason for a failure, and "" after a success."""
        try:
            artifacts.write(path, arrays, words, version=FORMAT_VERSION, mode=STATE_MODE)
        except ArtifactError as error:
            log.warning("the rollout was not saved, and a restart would go back to what was: %s", error)
            return str(error)
        return ""

    def _finish_writing(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._writing = None


_ITSELF: Final = Caller(os.getuid(), os.getpid())
"""The daemon's own process, as the author of the changes that a rollout makes without an operator."""
