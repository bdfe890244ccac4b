# SPDX-License-Identifier: Apache-2.0
"""From pulls to steps: an arm must settle on the path before its reward counts."""

from __future__ import annotations

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.mpts.selection import SuccessiveAcceptsRejects


class TeamSelection:
    """Run Algorithm 2 on a stream of decision steps.

    One pull is `settle_steps` steps whose rewards are dropped (they still belong to the queue that the
    arm before left behind), then `measure_steps` steps whose mean reward is the pull's reward.

    Raises:
        InvalidValueError: settle_steps < 0 or measure_steps < 1.
    """

    def __init__(
        self, search: SuccessiveAcceptsRejects, settle_steps: int = 10, measure_steps: int = 10
    ) -> None:
        if settle_steps < 0:
            raise InvalidValueError("settle_steps", settle_steps, "0 or more")
        if measure_steps < 1:
            raise InvalidValueError("measure_steps", measure_steps, "1 or more")
        self.search = search
        self.settle_steps = settle_steps
        self.measure_steps = measure_steps
        self._steps = 0
        self._sum = 0.0

    @property
    def arm(self) -> int | None:
        """The arm to run in the coming step, or None when the team is found."""
        return self.search.next_arm()

    @property
    def result(self) -> tuple[int, ...] | None:
        """The team, best first, or None while pulls are outstanding."""
        return self.search.result

    @property
    def steps_in_all(self) -> int:
        """Steps that the whole selection takes."""
        pulls = 0 if self.search.k == self.search.n_arms else self.search.budget
        return pulls * (self.settle_steps + self.measure_steps)

    def observe(self, reward: float) -> int | None:
        """Take the reward of one step under `arm`, and return the arm of the next step."""
        self._steps += 1
        if self._steps > self.settle_steps:
            self._sum += reward
        if self._steps == self.settle_steps + self.measure_steps:
            self.search.observe(self._sum / self.measure_steps)
            self._steps, self._sum = 0, 0.0
        return self.arm
