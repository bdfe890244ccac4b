# SPDX-License-Identifier: Apache-2.0
"""The self-check: an arm has to earn about as much as other arms have shown on the same path.

All other reasons of the rule come from measurements of the path. The self-check looks at the reward, so it
also notices causes that no reason foresaw. It compares the log reward of each look with two levels. The first
is the best mean log reward of another arm, less its standard error. The second is the running arm's own
level. Page's cumulative sum test weighs the differences by the noise of the path. So a cellular link has to
show a larger difference than a wired link.

An arm that has never come near the level of another arm starves. The rule bars it, and the other arm runs. At
the end of a probe the steady arm runs in its place, if the steady arm has not run on the path yet. An arm
that has fallen from its own level may starve, too, or its link may have become slower. In this case all
levels are forgotten, and the probing arm measures the path anew. If losses alone explain the fall, the link
has not become slower, and the levels stay. They also stay if the RTT is high by a delay on the way back. In
that case an arm that is far below another arm's level starves, although it had come near to that level
before.

A bar ends early where the link has become slower, and the running arm earns less than twice as much as the
barred arm did. The careful arm does not starve behind a queue that stands, because it has all that the link
has. If the length of the queue does not explain the lack, all other levels are forgotten, and nobody is
barred.

The probing arm also runs if no other arm has a level yet, because then there is nothing to compare with. And
it runs if an arm has lost more than half of its reward by losses, because another arm may lose less. Such a
probe costs reward. So the time between probes doubles until a probe finds more reward than the arm before it
had.

The sum grows by the log likelihood ratio of "at most half" against "nearly as much" (E. S. Page, "Continuous
inspection schemes", Biometrika 41, 1954). A sum of `ALARM` raises an alarm. So a steady path raises one false
alarm in 2,400 looks on average.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints, Slots
from ltp_switcher.daemon.choose.rule.roles import CAREFUL, PROBING, ROLE_COUNT
from ltp_switcher.slots import SlotArrays, column

NEARLY: Final = 0.2
"""An arm does nearly as well as another arm if its log reward is lower by no more than this."""
HALF: Final = float(np.log(2.0))
"""An arm starves if its log reward is lower than another arm's by this much."""
FAR: Final = float(np.log(4.0))
"""An arm whose log reward is lower by more than this is barred for the longest time at once."""
SURE: Final = 3.0
"""A difference of log rewards counts in `bar` and in `lacks` only if it also exceeds this multiple of its
standard error.
"""
ALARM: Final = float(np.log(2400.0))
"""The sum that raises an alarm: one false alarm in 2,400 looks, or ten minutes."""
LOOKS_LEAST: Final = 3
"""Least number of looks that can raise an alarm, however low their rewards are."""
FULL: Final = 2
"""Number of looks in which a queue has to stand, so that the link has no more for the flow."""
MEMORY: Final = 8
"""Number of looks over which an arm's level, its mean log reward, is taken."""
ALONE: Final = 8
"""Number of looks at an arm after which the probing arm runs, too, if no other arm has been seen."""
NOISE: Final = (0.15, 3.0)
"""Least and largest noise of a path: the standard deviation of the log reward from look to look."""
NOISE_LOOKS: Final = 16
"""Number of looks over which the variance of the log reward is a mean."""
DRIFT_S: Final = 60.0
"""Time in seconds after which an arm's mean log reward is as uncertain as the log reward of a single look."""
SAME: Final = 1.5
"""The rewards of two arms compare if the path's RTT floor changed by less than this factor between them."""
WAIT_S: Final = (10.0, 160.0)
"""Shortest and longest time in seconds for which an arm may not run after it starved. The same bounds hold
for the time between two runs of the probing arm.
"""
DEAD: Final = -6.0
"""Log reward of a look without any reward, relative to the arm's level, or to the look without its losses."""


class Found(NamedTuple):
    """The findings of one look at each of n players; each array has the shape (n,). A probe is a run of the
    probing arm, BBR, which shows what the path has.
    """

    starves: Bools
    """True where the arm earns much less than another arm has shown."""
    fell: Bools
    """True where the arm fell below its own level, and a probe is due."""
    alone: Bools
    """True where no other arm has a level, and a probe is due."""
    losing: Bools
    """True where losses take more than half of the arm's reward, and a probe is due."""
    freed: Bools
    """True where another arm's bar has ended early, because the running arm earns less than twice as much."""


class Surprise(SlotArrays):
    """The rewards of the players' arms, by role, and the tests for a lack of reward. A slot is a player's
    number.
    """

    _level = column(np.float64, ROLE_COUNT)
    """Mean log reward of each role's last looks."""
    _lived = column(np.bool_, ROLE_COUNT)
    """Whether a look at the role has had any reward on this path."""
    _kept = column(np.float64, initial=1.0)
    """Mean share of the reward that losses left to the running arm."""
    _looks = column(np.int64)
    """Number of looks at the running arm."""
    _best = column(np.float64, ROLE_COUNT)
    """The highest level of each role on this path."""
    _count = column(np.int64, ROLE_COUNT)
    """Number of looks at each role on this path."""
    _seen_ns = column(np.float64, ROLE_COUNT)
    """Time of each role's last look, CLOCK_MONOTONIC."""
    _floor_us = column(np.float64, ROLE_COUNT)
    """RTT floor of the path at each role's last look."""
    _noise2 = column(np.float64, initial=NOISE[0] ** 2)
    """Variance of the log reward from look to look."""
    _calm2 = column(np.float64, initial=NOISE[0] ** 2)
    """The variance at the last time when both sums were 0, so that nothing spoke against the arm."""
    _last = column(np.float64, initial=np.nan)
    """Log reward of the last look under the same arm."""
    _sums = column(np.float64, 2)
    """The sums of two tests. The first is for the best level of another arm, the second for the arm's own
    level.
    """
    _barred_ns = column(np.float64, ROLE_COUNT)
    """End of the time for which a role is barred, CLOCK_MONOTONIC."""
    _wait_s = column(np.float64, ROLE_COUNT, initial=WAIT_S[0])
    """Time in seconds for which a role will be barred next. For the probing role it is the time between
    probes.
    """
    _full = column(np.int64)
    """Number of looks under the same arm, up to the last one, in which a queue stood without a break."""
    _owed = column(np.bool_)
    """Whether the arm has fallen while no probe was due."""
    _gap = column(np.float64)
    """Distance of the last look's log reward from the highest level of its arm."""
    _probe_ns = column(np.float64)
    """Earliest time of the next probe, CLOCK_MONOTONIC."""

    def look(
        self,
        slots: Slots,
        role: Ints,
        earned: Floats,
        whole: Floats,
        floor_us: Floats,
        now_ns: Floats,
        queued: Bools,
        stretch: Floats,
        elsewhere: Bools,
    ) -> Found:
        """Take in looks, and return the alarms that they raise. All arrays have the shape (n,).

        Args:
            slots: players.
            role: the roles that the players ran.
            earned: log reward of the look, in one unit for all. It is NaN if the look says nothing about the
                arm, and -inf if nothing arrived, or if losses took all of the reward.
            whole: log reward that the look would have had without its losses, in the same unit.
            floor_us: lowest RTT of the path.
            now_ns: end of the look, CLOCK_MONOTONIC.
            queued: true where the steady arm's queue stands. A probe waits until the queue is gone, because
                the probing arm would fill the buffer.
            stretch: log of the mean RTT over the floor, if a queue stood in all of the look; else 0. Behind
                such a queue an arm has all that the link leaves to the flow.
            elsewhere: true where the RTT is high by a delay on the way back alone. No slower link explains
                that.
        """
        own = np.where(self._lived[slots, role], self._level[slots, role], whole)
        dead = np.isneginf(earned)
        kept = np.exp(np.where(dead, -np.inf, earned) - np.where(dead, 0.0, whole))
        earned = np.where(np.isnan(earned), np.nan, np.fmax(earned, own + DEAD))
        (told,) = np.isfinite(earned).nonzero()
        at, role, earned, whole, kept = slots[told], role[told], earned[told], whole[told], kept[told]
        dead, floor_us, now_ns, queued = dead[told], floor_us[told], now_ns[told], queued[told]
        stretch, elsewhere = stretch[told], elsewhere[told]
        self._full[at] = np.where(stretch > 0, self._full[at] + 1, 0)
        other = self._best_other(at, role, floor_us, now_ns)
        noise2 = self._noise2[at]
        # The highest of many means is partly high by chance.
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
        # The level of another arm explains the lack, unless this arm has come near to that level.
        fell = (self._sums[at, 1] >= ALARM) | (starves & (best - level > 0.5 * (other - level)))
        fell &= ~(starves & elsewhere)
        fell |= self._owed[at] & (best - level > HALF)
        starves &= ~fell
        # A queue stands, and does not explain the lack, so the link is slower. Or another flow fills it: the
        # probing arm shows that soon, because no other arm has a level now.
        slower = starves & (role == CAREFUL) & (self._full[at] >= FULL)
        slower &= other - level - stretch > HALF
        starves &= ~slower
        same_link = (best - whole <= HALF) | elsewhere
        waits = queued | (now_ns < self._probe_ns[at])
        due = fell & (role != PROBING) & ~waits
        self._owed[at] = (self._owed[at] | fell) & waits
        # While no probe is due, the other arms' levels continue to count.
        other_path = ((due | (fell & (role == PROBING))) & ~same_link) | slower
        freed = np.zeros(at.shape, np.bool_)
        freed[other_path] = self._free(at[other_path], role[other_path], now_ns[other_path])
        self._other_path(at[other_path], role[other_path])
        self._sums[at[fell | starves | slower]] = 0.0
        soon_ns = now_ns[slower] + WAIT_S[0] * 1e9
        self._probe_ns[at[slower]] = np.minimum(self._probe_ns[at[slower]], soon_ns)
        others = self._lived[at] & (self._count[at] >= LOOKS_LEAST)
        others[np.arange(at.size), role] = False
        # The steady arm keeps the path full: it does not starve without a change that shows.
        alone = ~others.any(axis=1) & (role == CAREFUL) & (self._count[at, role] >= ALONE)
        alone &= (now_ns >= self._probe_ns[at]) & ~due
        self._looks[at] += 1
        self._kept[at] += (kept - self._kept[at]) / np.minimum(self._looks[at], MEMORY)
        losing = (role != PROBING) & (self._looks[at] >= MEMORY) & (self._kept[at] < np.exp(-HALF))
        losing &= ~waits & ~due & ~alone & ~starves
        probes = due | alone | losing
        probed = at[probes]
        self._probe_ns[probed] = now_ns[probes] + self._wait_ns(probed, np.full(probed.shape, PROBING))
        found = np.zeros((5, slots.size), np.bool_)
        found[:, told] = starves, due, alone, losing, freed
        return Found(*found)

    def bar(self, slots: Slots, role: Ints, now_ns: int) -> None:
        """Bar the given role of each player, because it starves. Both arrays have the shape (n,)."""
        far = self._lack(slots, role) > np.maximum(FAR, SURE * self._error(slots, role))
        # A trial may end before its first look counts, and such a look proves little.
        far &= self._count[slots, role] > 0
        self._wait_s[slots, role] = np.where(far, WAIT_S[1], self._wait_s[slots, role])
        self._barred_ns[slots, role] = now_ns + self._wait_ns(slots, role)
        # The last probe was worth its cost, so the next one need not wait for longer.
        self._wait_s[slots, PROBING] = WAIT_S[0]
        self._probe_ns[slots] = np.minimum(self._probe_ns[slots], now_ns + WAIT_S[0] * 1e9)

    def lacks(self, slots: Slots, role: Ints) -> Bools:
        """True where a role has shown less than half of another role's reward, shape (n,). The lack has to
        exceed the noise of the path, too.

        If a role has not run since its last bar ended, the result is false, so that it gets another chance.
        """
        news = (self._count[slots, role] > 0) & (self._seen_ns[slots, role] >= self._barred_ns[slots, role])
        gap = self._lack(slots, role)
        found: Bools = news & (gap > np.maximum(HALF, SURE * self._error(slots, role)))
        return found

    def barred(self, slots: Slots, role: Ints, now_ns: int) -> Bools:
        """True where the arm of a role (probing, steady or careful) may not run yet, shape (n,). The arm
        earned too little on the path a short time ago.
        """
        found: Bools = self._barred_ns[slots, role] > now_ns
        return found

    def more(self, slots: Slots, role: Ints) -> Floats:
        """The ratio of the best role's reward to the reward of the given role, by their levels, shape (n,).
        It is infinite if the role has earned nothing.
        """
        with np.errstate(over="ignore"):
            more: Floats = np.exp(self._lack(slots, role))
        return more

    def level(self, slots: Slots, role: int) -> Floats:
        """Mean log reward of the role's last looks on the path, shape (n,); NaN if it has not run there."""
        return np.where(self._count[slots, role] > 0, self._level[slots, role], np.nan)

    def below(self, slots: Slots, role: Ints, other: Ints) -> Bools:
        """True where a role has shown less than another one over `MEMORY` looks each, shape (n,)."""
        known = (self._looks[slots] >= MEMORY) & (self._count[slots, other] >= MEMORY) & (role != other)
        found: Bools = known & (self._level[slots, role] < self._level[slots, other])
        return found

    def left(self, slots: Slots) -> Floats:
        """The reward of the last look in percent of its arm's highest level, shape (n,)."""
        left: Floats = 100.0 * np.exp(-self._gap[slots])
        return left

    def lost(self, slots: Slots) -> Floats:
        """The share of the running arm's reward that losses took, in percent, shape (n,)."""
        lost: Floats = 100.0 * (1.0 - self._kept[slots])
        return lost

    def instead(self, slots: Slots, now_ns: int) -> Ints:
        """The role with the highest level that is not barred, shape (n,); else the probing role."""
        usable = (self._count[slots] > 0) & (self._barred_ns[slots] <= now_ns)
        shown = np.where(usable, self._level[slots], -np.inf)
        best: Ints = np.where(usable.any(axis=1), shown.argmax(axis=1), PROBING)
        return best

    def unseen(self, slots: Slots, role: int, now_ns: int) -> Bools:
        """True where a role may run on the path and has not run there yet, shape (n,)."""
        found: Bools = (self._count[slots, role] == 0) & (self._barred_ns[slots, role] <= now_ns)
        return found

    def other_arm(self, slots: Slots) -> None:
        """Reset the sums and the last look of these players, because their arms change now."""
        self._sums[slots] = 0.0
        self._owed[slots] = False
        self._looks[slots] = 0
        self._full[slots] = 0
        self._last[slots] = np.nan

    def forget(self, slots: Slots) -> None:
        """Forget the levels and the bars of these players, because their paths are new."""
        self._count[slots] = 0
        self._lived[slots] = False
        self._barred_ns[slots] = 0.0
        self._wait_s[slots] = WAIT_S[0]
        self.other_arm(slots)

    def _error(self, slots: Slots, role: Ints) -> Floats:
        """Standard error of the distance between a role's level and another role's, shape (n,)."""
        # One look at a link's worst time says little about the arm, however far its reward is below.
        looks = np.clip(self._count[slots, role], 1, MEMORY)
        error: Floats = np.sqrt(self._noise2[slots] * (1.0 / looks + 1.0 / MEMORY))
        return error

    def _lack(self, slots: Slots, role: Ints) -> Floats:
        """Distance of the role's level from the highest level of any role, shape (n,)."""
        most = np.where(self._count[slots] > 0, self._level[slots], -np.inf).max(axis=1)
        lack: Floats = most - self._level[slots, role]
        return lack

    def _best_other(self, at: Slots, role: Ints, floor_us: Floats, now_ns: Floats) -> Floats:
        """The level of the best other role, less its standard error, shape (n,); -inf where no other role has
        a level that compares.
        """
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
        """Count these looks for levels and noise; all arrays have the shape (n,). Dead looks, those without
        any reward, do not count as noise.
        """
        # The level begins with the first look that has any reward: dead looks before it say less.
        begins = ~dead & ~self._lived[at, role]
        self._lived[at, role] |= ~dead
        self._count[at, role] = np.where(begins, 1, self._count[at, role] + 1)
        first = self._count[at, role] == 1
        off = earned - self._level[at, role]
        self._level[at, role] += off / np.minimum(self._count[at, role], MEMORY)
        before = np.where(first, -np.inf, self._best[at, role])
        self._best[at, role] = np.maximum(before, self._level[at, role])
        self._seen_ns[at, role] = now_ns
        self._floor_us[at, role] = floor_us
        step2 = (earned - self._last[at]) ** 2 / 2.0
        spread2 = np.where(first, np.nan, off**2)
        # A fall that raises an alarm must not count as noise.
        most = 9.0 * self._noise2[at]
        seen2 = np.minimum(np.fmax(step2, spread2), most)
        noise2 = self._noise2[at]
        noise2 = noise2 + (np.where(np.isnan(seen2) | dead, noise2, seen2) - noise2) / NOISE_LOOKS
        self._noise2[at] = np.clip(noise2, NOISE[0] ** 2, NOISE[1] ** 2)
        self._last[at] = np.where(dead, np.nan, earned)

    def _other_path(self, at: Slots, role: Ints) -> None:
        """Forget all levels, because the running arm has fallen below its own. Its level begins anew with the
        last look, if that look had any reward.
        """
        own, count = self._last[at], self._count[at]
        count[:] = 0
        count[np.arange(at.size), role] = np.isfinite(own)
        self._count[at] = count
        self._lived[at] = count > 0
        self._level[at, role] = self._best[at, role] = np.nan_to_num(own)
        # The fall must not count as noise.
        self._noise2[at] = self._calm2[at]

    def _free(self, at: Slots, role: Ints, now_ns: Floats) -> Bools:
        """End the bars of other arms that the running arm's reward does not justify. Returns true where a bar
        has ended, shape (n,).

        An arm is barred because another arm earned at least twice as much. Here the running arm has fallen to
        less than twice the reward of the barred arm. So the link has become slower, and the bar was wrong.
        """
        unpaid = self._barred_ns[at] > now_ns[:, np.newaxis]
        unpaid &= self._last[at, np.newaxis] < self._level[at] + HALF
        unpaid[np.arange(at.size), role] = False
        self._barred_ns[at] = np.where(unpaid, 0.0, self._barred_ns[at])
        self._wait_s[at] = np.where(unpaid, WAIT_S[0], self._wait_s[at])
        return np.asarray(unpaid.any(axis=1))

    def _wait_ns(self, slots: Slots, role: Ints) -> Floats:
        """The waiting times, shape (n,). Each call doubles the next one, up to the longest."""
        wait_ns: Floats = self._wait_s[slots, role] * 1e9
        self._wait_s[slots, role] = np.minimum(2 * self._wait_s[slots, role], WAIT_S[1])
        return wait_ns
