# SPDX-License-Identifier: Apache-2.0
"""The rule: three arms, chosen by the range of the RTT. It learns nothing.

A new flow runs the probing arm, BBR, for `start_s`. Then the highest RTT over the lowest decides. Above
`rtt_ratio` the rate of the path varies, as on cellular links, and the flow runs the careful arm, Vegas. Else
it runs the steady arm, LTP. When the path's RTT itself has changed, the flow runs the probing arm again, and
the ratio since the change decides: after a fall for `start_s`, after a rise for `change_s`, because all that
measure the RTT floor look back over seconds.

A choice after probing counts for the destination prefix, too: for `prefix_s`, flows to it begin with its arm.
They do not renew it, so that the prefix is probed again.

The RTT of the path has changed when its floor moved. A floor falls at the first lower sample. A rise needs
more care, because a queue looks the same at first: the lowest RTT of each look has to stay high and constant
for `rise_s`, and to exceed the floor by more than a few packets of the bottleneck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Slots
from ltp_switcher.daemon.choose.baselines import Draw
from ltp_switcher.daemon.choose.chooser import Estimate, Reasons
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.commands import PINNED, due
from ltp_switcher.daemon.datapath.measurements import mean_or
from ltp_switcher.daemon.datapath.protocol import ArmId, FlowFlags
from ltp_switcher.daemon.settings.schema import RuleSection
from ltp_switcher.measures import loss_rate, reward
from ltp_switcher.slots import SlotArrays, column

ROLES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)
"""The arms of the probing, the steady and the careful role, in this order."""
_PROBING, _STEADY, _CAREFUL = range(3)
_NEW, _KNOWN, _IS_STEADY, _VARIES, _FELL, _ROSE = range(6)
"""Reasons, in the order of `RuleChooser.reasons`."""
_SUBSTITUTES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""Where the pool lacks a role's arm, the first of these that it has takes the role."""

PREFIXES_MAX: Final = 65_536
"""Prefixes remembered; the one probed first makes room."""
LOOK_NS: Final = 250_000_000
LOOK_RTTS: Final = 2.0
"""A look at the RTT lasts this long, and this many round trips."""
CONSTANT: Final = 0.1
"""Looks count as constant while each is within this share of the first."""

_DRAINING: Final = np.uint32(FlowFlags.DRAINING)
_FIELDS: Final = Columns(
    "time_ns", "interval_ns", "rtt_samples", "rtt_stat.min", "rtt_stat.sum", "srtt_stat.max",
    "total_delivered", "total_lost", "srtt_us", "mss", "rtt_floor_us", "bdp", "round_trips",
)  # fmt: skip


class RuleChooser(SlotArrays):
    """The rule for all flows of a step at once.

    Args:
        pool: ids of the arms that it may choose; a role goes to another arm where its own is not among them.
        settings: the rule's thresholds.
        zeta: weight of loss in the reward that it shows, Eq. 1.
        kappa: weight of throughput in it.
    """

    _arms = column(np.uint8, len(ROLES))
    """The arm of each role."""
    _role = column(np.intp)
    _since_ns = column(np.int64)
    """Start of the flow, or of the path as it is now; 0 before the first record."""
    _hold_ns = column(np.int64)
    """How long the probing arm runs from there on."""
    _floor_us = column(np.float64, initial=np.inf)
    """Lowest RTT since then."""
    _peak_us = column(np.float64)
    """Highest smoothed RTT since then."""
    _look_ns = column(np.int64)
    """End of the look under way."""
    _least_us = column(np.float64, initial=np.inf)
    """Lowest RTT of that look."""
    _raised_ns = column(np.int64)
    """Since when the looks' lowest RTT is high and constant; 0: it is not."""
    _raised_us = column(np.float64)
    """The lowest RTT of the first such look."""
    _sums = column(np.float64, 2)
    """RTT samples of the look, µs summed and counted."""
    _marks = column(np.float64, 3)
    """Time and packets delivered and lost, as they were at the look's start."""
    _top_Bps = column(np.float64)  # noqa: N815 - B is bytes
    """Highest throughput of a look since the start or change."""
    _reward = column(np.float64, initial=np.nan)
    _code = column(np.intp)
    """The reason of the role."""
    _value = column(np.float64, initial=np.nan)
    """The number that the reason tells."""

    def __init__(
        self, pool: Sequence[int], settings: RuleSection, *, zeta: float = 5.0, kappa: float = 2.0
    ) -> None:
        super().__init__()
        self._settings = settings
        self._zeta, self._kappa = zeta, kappa
        self._pool = tuple(pool)
        self._prefix: dict[int, str] = {}
        self._known: dict[str, tuple[int, int]] = {}
        """By prefix: the role that probing chose, and when, CLOCK_MONOTONIC in ns."""
        self._news: dict[str, int] = {}
        self._now_ns = 0
        ratio, rise = f"{settings.rtt_ratio:g}", f"{settings.rise_s:g}"
        self.reasons: Sequence[str] = (
            "the flow was new, and this arm probes its path",
            "flows to the same network were probed before, and this arm suited them",
            f"the highest RTT was {{value:.1f}} times the lowest, no more than {ratio}: the rate was steady",
            f"the highest RTT was {{value:.1f}} times the lowest, more than {ratio}: the rate varied",
            "the lowest RTT fell to {value:.1f} ms: the path had changed, and this arm probes it anew",
            f"the lowest RTT stayed at {{value:.1f}} ms for {rise} s: the path had changed, "
            "and this arm probes it anew",
        )

    needed_step_s = 0.05
    """A new flow waits so long for its first arm, at most."""

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms that a new flow may run."""
        return self._pool

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Give the roles to these arms: of these flows, or of all and those to come."""
        if slots is None:
            self._pool = tuple(arms)
            self._arms[:] = roles_of(arms)
        else:
            self._arms[slots] = roles_of(arms)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """New flows. Each begins with the arm that its prefix is known for, else with the probing arm."""
        self.reset(slots)
        self._arms[slots] = roles_of(self._pool)
        for slot, prefix in zip(slots.tolist(), prefixes, strict=True):
            self._prefix[slot] = prefix
            known = self._known.get(prefix)
            if known is not None and self._now_ns - known[1] < self._settings.prefix_s * 1e9:
                self._role[slot] = known[0]
                self._code[slot] = _KNOWN

    def close(self, slots: Slots) -> None:
        """Flows that ended; their slots may come again."""
        for slot in slots.tolist():
            del self._prefix[slot]

    def step(self, slots: Slots, records: RecordArray) -> Draw:
        """Look at the flows whose look is over; the others keep their arms."""
        seen = _FIELDS.read(records).T
        self._now_ns = int(seen[0].max(initial=self._now_ns))
        self._observe(slots, seen)
        over = seen[0] >= self._look_ns[slots]
        if over.any():
            self._look(slots[over], seen[:, over], (records["flags"][over] & _DRAINING) != 0)
        # The arm of a pinned flow is not ours to choose.
        pinned = records["flags"] & PINNED
        arms = np.where(pinned, records["want_arm"], self._arms[slots, self._role[slots]])
        settled = not over.any() and not due(records, arms).any()
        return Draw(arms, self._reward[slots], np.zeros(slots.shape, np.bool_), settled)

    def starts(self) -> dict[str, int]:
        """The arms of the prefixes probed since the last call."""
        news, self._news = self._news, {}
        return news

    def reason(self, slots: Slots) -> Reasons:
        """The measurement behind each flow's role."""
        return Reasons(self._code[slots], self._value[slots])

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """Nothing: the rule expects no reward."""
        return ()

    def state(self) -> dict[str, np.ndarray]:
        """Nothing: the choice for a prefix counts for minutes only."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Nothing to take up."""

    def _observe(self, slots: Slots, seen: Floats) -> None:
        """Take in a step's RTT samples, and begin the flows that are new."""
        now_ns, interval_ns, samples, least_us, _, peak_us, delivered, lost = seen[:8]
        known = samples > 0
        self._least_us[slots] = np.minimum(self._least_us[slots], np.where(known, least_us, np.inf))
        self._peak_us[slots] = np.maximum(self._peak_us[slots], peak_us)
        self._sums[slots] += seen[[4, 2]].T
        new = self._since_ns[slots] == 0
        if new.any():
            born, began_ns = slots[new], (now_ns - interval_ns)[new]
            self._since_ns[born] = began_ns
            self._hold_ns[born] = int(self._settings.start_s * 1e9)
            self._look_ns[born] = began_ns + LOOK_NS
            self._marks[born] = np.array((began_ns, delivered[new], lost[new])).T

    def _look(self, slots: Slots, seen: Floats, draining: Bools) -> None:
        """End a look of these flows, shape (n,): measure, notice changes, and give roles."""
        now_ns, srtt_us, settled = seen[0], seen[8], seen[12] >= self._settings.settle_rtts
        self._show_reward(slots, seen)
        least_us = self._least_us[slots]
        probing = self._role[slots] == _PROBING
        # While an arm empties the queue, or an earlier arm's queue drains, the RTT is not the arm's own.
        judged = ~probing & settled & ~draining
        fell, rose = self._path_changed(slots, least_us, seen)
        changed = judged & (fell | rose)
        kept = probing | (judged & ~changed)
        self._floor_us[slots[kept]] = np.minimum(self._floor_us[slots[kept]], least_us[kept])
        if changed.any():
            hold_s = np.where(rose, self._settings.change_s, self._settings.start_s)
            self._begin_anew(slots[changed], least_us[changed], now_ns[changed], hold_s[changed])
            self._code[slots[changed]] = np.where(rose[changed], _ROSE, _FELL)
            self._value[slots[changed]] = least_us[changed] * 1e-3
        varies = self._peak_us[slots] > self._settings.rtt_ratio * self._floor_us[slots]
        ready = probing & ~draining & (now_ns - self._since_ns[slots] >= self._hold_ns[slots])
        if ready.any():
            self._give_role(slots[ready], varies[ready])
        self._look_ns[slots] = now_ns + np.maximum(LOOK_NS, LOOK_RTTS * srtt_us * 1e3)
        self._least_us[slots] = np.inf

    def _give_role(self, slots: Slots, varies: Bools) -> None:
        """End the probing of these flows, and remember its result for their prefixes."""
        self._role[slots] = np.where(varies, _CAREFUL, _STEADY)
        self._code[slots] = np.where(varies, _VARIES, _IS_STEADY)
        self._value[slots] = self._peak_us[slots] / self._floor_us[slots]
        for slot in slots.tolist():
            self._learn(slot, int(self._role[slot]))

    def _learn(self, slot: int, role: int) -> None:
        prefix = self._prefix[slot]
        self._news[prefix] = int(self._arms[slot, role])
        self._known.pop(prefix, None)
        self._known[prefix] = role, self._now_ns
        if len(self._known) > PREFIXES_MAX:
            del self._known[next(iter(self._known))]

    def _path_changed(self, slots: Slots, least_us: Floats, seen: Floats) -> tuple[Bools, Bools]:
        """Whether the lowest RTT of the look shows a shorter path, or a longer one; each of shape (n,)."""
        now_ns, kernel_floor_us, bdp_pkts = seen[0], seen[10], seen[11]
        settings = self._settings
        floor_us = self._floor_us[slots]
        known = np.isfinite(least_us) & np.isfinite(floor_us)
        fell = known & (least_us * settings.rtt_step < floor_us)
        excess_us = np.where(known, least_us - floor_us, 0.0)
        queued_pkts = bdp_pkts * excess_us / np.maximum(kernel_floor_us, 1.0)
        high = (
            known & (excess_us > (settings.rtt_step - 1.0) * floor_us) & (queued_pkts > settings.queue_pkts)
        )
        first_us = self._raised_us[slots]
        constant = np.abs(least_us - first_us) <= CONSTANT * first_us
        goes_on = high & (self._raised_ns[slots] > 0) & constant
        begins = high & ~goes_on
        self._raised_us[slots] = np.where(begins, least_us, first_us)
        self._raised_ns[slots] = np.where(goes_on, self._raised_ns[slots], np.where(begins, now_ns, 0.0))
        rose: Bools = goes_on & (now_ns - self._raised_ns[slots] >= settings.rise_s * 1e9)
        return fell, rose

    def _begin_anew(self, slots: Slots, floor_us: Floats, now_ns: Floats, hold_s: Floats) -> None:
        """The path is another one: forget what the old one showed."""
        self._role[slots] = _PROBING
        self._since_ns[slots] = now_ns
        self._hold_ns[slots] = (hold_s * 1e9).astype(np.int64)
        self._floor_us[slots] = floor_us
        self._peak_us[slots] = 0.0
        self._raised_ns[slots] = 0
        self._top_Bps[slots] = 0.0

    def _show_reward(self, slots: Slots, seen: Floats) -> None:
        """Eq. 1 over the look, over the highest throughput and the lowest RTT so far."""
        now = seen[[0, 6, 7]].T
        time_ns, delivered_pkts, lost_pkts = (now - self._marks[slots]).T
        throughput_Bps = delivered_pkts * seen[9] / np.maximum(time_ns * 1e-9, 1e-9)
        top_Bps = np.maximum(self._top_Bps[slots], throughput_Bps)
        sum_us, samples = self._sums[slots].T
        rtt_us = mean_or(sum_us, samples, seen[8])
        floor_us = np.minimum(self._floor_us[slots], self._least_us[slots])
        share = reward(
            throughput_Bps / np.maximum(top_Bps, 1.0),
            loss_rate(lost_pkts, delivered_pkts),
            rtt_us / floor_us,
            zeta=self._zeta,
            kappa=self._kappa,
        )
        self._reward[slots] = np.minimum(share, 1.0)
        self._top_Bps[slots] = top_Bps
        self._marks[slots] = now
        self._sums[slots] = 0.0


def roles_of(pool: Sequence[int]) -> ArmIds:
    """The arm of each role among those of the pool, shape (3,)."""
    order = [int(arm) for arm in _SUBSTITUTES if arm in pool] or list(pool)
    return np.array([arm if arm in pool else order[0] for arm in ROLES], np.uint8)
