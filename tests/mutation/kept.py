# SPDX-License-Identifier: Apache-2.0
"""Outcomes that are kept in the cache, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json

from ltp_switcher.cache import cache_dir
from mutation.faults import Mutant
from mutation.trial import Outcome


class Kept:
    """Outcomes on one state of the tree (`reach.state`)."""

    def __init__(self, state: str) -> None:
        self._folder = cache_dir() / "mutation" / state
        self._folder.mkdir(parents=True, exist_ok=True)

    def of(self, mutant: Mutant) -> Outcome | None:
        """Return what came of the fault before, or None."""
        path = self._folder / self._name(mutant)
        if not path.exists():
            return None
        caught, by, wall_s = json.loads(path.read_text())
        return Outcome(mutant, caught, by, wall_s)

    def keep(self, outcome: Outcome) -> None:
        """Write an outcome down."""
        path = self._folder / self._name(outcome.mutant)
        path.write_text(json.dumps([outcome.caught, outcome.by, outcome.wall_s]))

    @staticmethod
    def _name(mutant: Mutant) -> str:
        return hashlib.sha256(f"{mutant.path}\0{mutant.text}".encode()).hexdigest()[:24] + ".json"
