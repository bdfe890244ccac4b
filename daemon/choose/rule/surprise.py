# SPDX-License-Identifier: Apache-2.0
"""The self-check: an arm has to earn about as much as other arms have shown on the same path.

All other reasons of the rule look at the path. This one looks at the result, so it also notices a cause that
no reason foresaw. Each look's log reward is compared with two levels: the best level of another arm, less its
standard error, and the arm's own level. Page's cumulative sum test weighs the differences by the path's own
noise: a cellular link has to show more than a wired one.

An arm that has never come near another one's level starves: it is barred, and the other arm runs. An arm that
has fallen from its own level may starve, too, or its link has become slower. Then no arm's level counts any
more, and the probing arm measures the path anew. It also runs once where no other arm has shown anything,
because then nothing could surprise. Such a probe costs reward. So the time to the next one doubles, until one
finds more than the arm before has.

The sum grows by the log likelihood ratio of "at most half" against "nearly as much" (E. S. Page, "Continuous
inspection schemes", Biometrika 41, 1954). It ends at `ALARM`, so that a steady path raises one false alarm in
2,400 looks on average.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints, Slots
from ltp_switcher.daemon.choose.rule.roles import CAREFUL, PROBING, ROLES
from ltp_switcher.slots import SlotArrays, column

NEARLY: Final = 0.2
"""An arm whose log reward is no more than this below another's does as well."""
HALF: Final = float(np.log(2.0))
"""An arm whose log reward is this far below another's starves."""
FAR: Final = float(np.log(4.0))
"""An arm that lacks more log reward than this is barred for the longest time at once."""
ALARM: Final = float(np.log(2400.0))
"""The sum at which an alarm is raised: 2,400 looks are ten minutes."""
LOOKS_LEAST: Final = 3
"""No fewer looks raise an alarm, whatever they show."""
MEMORY: Final = 8
"""Looks over which a level is a mean."""
ALONE: Final = 8
"""Looks after which an arm is compared where no other arm has a level."""
NOISE: Final = (0.15, 3.0)
"""Standard deviation of a look's log reward: at least, and at most."""
NOISE_LOOKS: Final = 16
"""Looks over which the noise is a mean."""
DRIFT_S: Final = 60.0
"""Time in which a level becomes as uncertain as one look."""
SAME: Final = 1.5
"""Levels compare while the path's RTT floor is within this factor."""
WAIT_S: Final = (10.0, 160.0)
"""How long an arm is barred, and the time between two probes: at first, and at most."""
DEAD: Final = -6.0
"""A look in which nothing arrives counts as so far below the arm's level."""


class Found(NamedTuple):
    """The findings of the looks of n players, each of shape (n,)."""

    starves: Bools
    """True where the arm starves beside what another one has shown."""
    fell: Bools
    """True where the arm fell below its own level, and a probe is due."""
    alone: Bools
    """True where no other arm has shown anything, and a probe is due."""


class Surprise(SlotArrays):
    """The rewards of players' arms, and the share that the running ones lack. A slot is a player's number."""

    _level = column(np.float64, len(ROLES))
    """Mean log reward of each role's last looks."""
    _best = column(np.float64, len(ROLES))
    """The highest level of each role on this path."""
    _count = column(np.int64, len(ROLES))
    """Looks at each role on this path."""
    _seen_ns = column(np.float64, len(ROLES))
    """Time of each role's last look, CLOCK_MONOTONIC."""
    _floor_us = column(np.float64, len(ROLES))
    """RTT floor of the path at each role's last look."""
    _noise2 = column(np.float64, initial=NOISE[0] ** 2)
    """Variance of the log reward from look to look."""
    _calm2 = column(np.float64, initial=NOISE[0] ** 2)
    """The variance when nothing spoke against the arm."""
    _last = column(np.float64, initial=np.nan)
    """Log reward of the last look under the same arm."""
    _sums = column(np.float64, 2)
    """The sums of the tests: below the best other arm's level, and below its own."""
    _barred_ns = column(np.float64, len(ROLES))
    """End of the time in which a role is barred, CLOCK_MONOTONIC."""
    _wait_s = column(np.float64, len(ROLES), initial=WAIT_S[0])
    """Time for which a role is barred the next time; for the probing role, from a probe to the next."""
    _owed = column(np.bool_)
    """Whether the arm fell at a time at which no probe was due."""
    _gap = column(np.float64)
    """Lack of log reward at the last surprise, below the level that was not reached."""
    _probe_ns = column(np.float64)
    """Earliest time of the next probe, CLOCK_MONOTONIC."""

    def look(
        self, slots: Slots, role: Ints, earned: Floats, floor_us: Floats, now_ns: Floats, queued: Bools
    ) -> Found:
        """Take in looks, and tell what surprises. All arrays have shape (n,).

        Args:
            slots: players.
            role: the roles that they ran.
            earned: log reward of the look, in one unit for all. It is NaN where it says nothing of the arm,
                and -inf where nothing arrived.
            floor_us: lowest RTT of the path.
            now_ns: end of the look, CLOCK_MONOTONIC.
            queued: True where the steady arm's queue stands. A probe waits until it is gone, because the
                probing arm would fill the buffer.

        Returns:
            What was found for each player.
        """
        own = np.where(self._count[slots, role] > 0, self._level[slots, role], np.nan)
        dead = np.isneginf(earned)
        earned = np.where(np.isnan(earned), np.nan, np.fmax(earned, own + DEAD))
        (told,) = np.isfinite(earned).nonzero()
        at, role, earned, dead = slots[told], role[told], earned[told], dead[told]
        floor_us, now_ns, queued = floor_us[told], now_ns[told], queued[told]
        other = self._best_other(at, role, floor_us, now_ns)
        noise2 = self._noise2[at]
        # The highest of many means is high by chance, too.
        own = np.where(self._count[at, role] > 0, self._best[at, role] - np.sqrt(noise2 / MEMORY), np.nan)
        calm = ~self._sums[at].any(axis=1)
        self._calm2[at[calm]] = noise2[calm]
        for test, lack in enumerate((other - earned, np.nan_to_num(own - earned))):
            gain = (HALF - NEARLY) / noise2 * (np.nan_to_num(lack, neginf=-HALF) - (HALF + NEARLY) / 2)
            self._sums[at, test] = np.maximum(
                self._sums[at, test] + np.minimum(gain, ALARM / LOOKS_LEAST), 0.0
            )
        self._take(at, role, earned, dead, floor_us, now_ns)
        best, level = self._best[at, role], self._level[at, role]
        self._gap[at] = best - earned
        starves = self._sums[at, 0] >= ALARM
        # What another arm has shown explains the lack, unless this one has come near to it.
        fell = (self._sums[at, 1] >= ALARM) | (starves & (best - level > 0.5 * (other - level)))
        fell |= self._owed[at] & (best - level > HALF)
        starves &= ~fell
        waits = queued | (now_ns < self._probe_ns[at])
        due = fell & (role != PROBING) & ~waits
        self._owed[at] = (self._owed[at] | fell) & waits
        # Where no probe is due yet, the other arms' levels go on to count.
        other_path = due | (fell & (role == PROBING))
        self._other_path(at[other_path], role[other_path])
        self._sums[at[fell | starves]] = 0.0
        others = self._count[at] >= LOOKS_LEAST
        others[np.arange(at.size), role] = False
        # The steady arm keeps the path full: it does not starve without a change that shows.
        alone = ~others.any(axis=1) & (role == CAREFUL) & (self._count[at, role] >= ALONE)
        alone &= (now_ns >= self._probe_ns[at]) & ~due
        probes = due | alone
        probed = at[probes]
        self._probe_ns[probed] = now_ns[probes] + self._wait_ns(probed, np.full(probed.shape, PROBING))
        found = np.zeros((3, slots.size), np.bool_)
        found[:, told] = starves, due, alone
        return Found(*found)

    def bar(self, slots: Slots, role: Ints, now_ns: int) -> None:
        """Bar the roles of these players, which starve, shape (n,)."""
        self._gap[slots] = self._most(slots) - self._level[slots, role]
        self._wait_s[slots, role] = np.where(self._gap[slots] > FAR, WAIT_S[1], self._wait_s[slots, role])
        self._barred_ns[slots, role] = now_ns + self._wait_ns(slots, role)
        # The last probe has paid.
        self._wait_s[slots, PROBING] = WAIT_S[0]
        self._probe_ns[slots] = np.minimum(self._probe_ns[slots], now_ns + WAIT_S[0] * 1e9)

    def lacks(self, slots: Slots, role: Ints) -> Bools:
        """True where a role has shown less than half of another one's reward, shape (n,).

        A role that was barred since then is given another chance.
        """
        news = (self._count[slots, role] > 0) & (self._seen_ns[slots, role] >= self._barred_ns[slots, role])
        found: Bools = news & (self._most(slots) - self._level[slots, role] > HALF)
        return found

    def barred(self, slots: Slots, role: Ints, now_ns: int) -> Bools:
        """True where a role starved on the path a short time ago, shape (n,)."""
        found: Bools = self._barred_ns[slots, role] > now_ns
        return found

    def more(self, slots: Slots) -> Floats:
        """The reward of the role that has shown the most, over that of the last one barred, shape (n,)."""
        more: Floats = np.exp(self._gap[slots])
        return more

    def left(self, slots: Slots) -> Floats:
        """The part of the reward that is left after a fall, in percent, shape (n,)."""
        left: Floats = 100.0 * np.exp(-self._gap[slots])
        return left

    def instead(self, slots: Slots, now_ns: int) -> Ints:
        """The role that has shown the most of those that are not barred, shape (n,); else the probing one."""
        usable = (self._count[slots] > 0) & (self._barred_ns[slots] <= now_ns)
        shown = np.where(usable, self._level[slots], -np.inf)
        best: Ints = np.where(usable.any(axis=1), shown.argmax(axis=1), PROBING)
        return best

    def other_arm(self, slots: Slots) -> None:
        """These players change their arms: the sums and the last look are the old arm's."""
        self._sums[slots] = 0.0
        self._owed[slots] = False
        self._last[slots] = np.nan

    def forget(self, slots: Slots) -> None:
        """The path is another one: nothing that was shown counts, and every arm may run."""
        self._count[slots] = 0
        self._barred_ns[slots] = 0.0
        self._wait_s[slots] = WAIT_S[0]
        self.other_arm(slots)

    def _most(self, slots: Slots) -> Floats:
        """The highest level that any role has, shape (n,); -inf where none has one."""
        most: Floats = np.where(self._count[slots] > 0, self._level[slots], -np.inf).max(axis=1)
        return most

    def _best_other(self, at: Slots, role: Ints, floor_us: Floats, now_ns: Floats) -> Floats:
        """The best other role's reward, less its standard error, shape (n,); -inf where none has one."""
        count = self._count[at]
        age_s = (now_ns[:, np.newaxis] - self._seen_ns[at]) * 1e-9
        error2 = self._noise2[at, np.newaxis] * (1.0 / np.clip(count, 1, MEMORY) + age_s / DRIFT_S)
        apart = np.maximum(self._floor_us[at], 1.0) / np.maximum(floor_us[:, np.newaxis], 1.0)
        compares = (count > 0) & (apart < SAME) & (apart > 1.0 / SAME)
        compares[np.arange(at.size), role] = False
        best: Floats = np.where(compares, self._level[at] - np.sqrt(error2), -np.inf).max(axis=1)
        return best

    def _take(
        self, at: Slots, role: Ints, earned: Floats, dead: Bools, floor_us: Floats, now_ns: Floats
    ) -> None:
        """Count these looks for levels and noise, each of shape (n,). Dead ones are no noise."""
        self._count[at, role] += 1
        first = self._count[at, role] == 1
        off = earned - self._level[at, role]
        self._level[at, role] += off / np.minimum(self._count[at, role], MEMORY)
        before = np.where(first, -np.inf, self._best[at, role])
        self._best[at, role] = np.maximum(before, self._level[at, role])
        self._seen_ns[at, role] = now_ns
        self._floor_us[at, role] = floor_us
        step2 = (earned - self._last[at]) ** 2 / 2.0
        spread2 = np.where(first, np.nan, off**2)
        # A fall that raises an alarm is no noise.
        most = 9.0 * self._noise2[at]
        seen2 = np.minimum(np.fmax(step2, spread2), most)
        noise2 = self._noise2[at]
        noise2 = noise2 + (np.where(np.isnan(seen2) | dead, noise2, seen2) - noise2) / NOISE_LOOKS
        self._noise2[at] = np.clip(noise2, NOISE[0] ** 2, NOISE[1] ** 2)
        self._last[at] = np.where(dead, np.nan, earned)

    def _other_path(self, at: Slots, role: Ints) -> None:
        """The running arm fell below its own level: no level of before compares with what comes."""
        own, count = self._last[at], self._count[at]
        count[:] = 0
        count[np.arange(at.size), role] = np.isfinite(own)
        self._count[at] = count
        self._level[at, role] = self._best[at, role] = np.nan_to_num(own)
        # The fall was no noise.
        self._noise2[at] = self._calm2[at]

    def _wait_ns(self, slots: Slots, role: Ints) -> Floats:
        """The waiting times, shape (n,). Each call doubles the next one, up to the longest."""
        wait_ns: Floats = self._wait_s[slots, role] * 1e9
        self._wait_s[slots, role] = np.minimum(2 * self._wait_s[slots, role], WAIT_S[1])
        return wait_ns
