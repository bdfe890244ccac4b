# SPDX-License-Identifier: Apache-2.0
"""Outcomes that are kept in the cache: an interrupted run goes on, and a later one tries the survivors alone.

A fault that was caught stays so while neither the code nor the test that caught it changes. A survivor is
tried again when any test changes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ltp_switcher.cache import cache_dir
from mutation.faults import Mutant
from mutation.reach import code_state, digest, tests_of
from mutation.trial import Outcome


class Kept:
    """Outcomes on the code of a repository as it is."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tests = digest(root, tests_of(root))
        self._folder = cache_dir() / "mutation" / code_state(root)
        self._folder.mkdir(parents=True, exist_ok=True)

    def of(self, mutant: Mutant) -> Outcome | None:
        """Return what came of the fault before, or None."""
        path = self._folder / self._name(mutant)
        if not path.exists():
            return None
        outcome, judges = json.loads(path.read_text())
        found = Outcome(mutant, *outcome)
        return found if judges == self._judges(found) else None

    def keep(self, outcome: Outcome) -> None:
        """Write an outcome down."""
        path = self._folder / self._name(outcome.mutant)
        path.write_text(json.dumps([[outcome.caught, outcome.by, outcome.wall_s], self._judges(outcome)]))

    def _judges(self, outcome: Outcome) -> str:
        """A digest of the tests on which the outcome depends."""
        by = outcome.by.partition("::")[0]
        alone = outcome.caught and (self._root / by).exists()
        return digest(self._root, [by]) if alone else self._tests

    @staticmethod
    def _name(mutant: Mutant) -> str:
        return hashlib.sha256(f"{mutant.path}\0{mutant.text}".encode()).hexdigest()[:24] + ".json"
