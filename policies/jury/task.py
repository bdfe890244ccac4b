# SPDX-License-Identifier: Apache-2.0
"""Jury as a learning problem in the simulator. The reward is Jury, Eq. 9, summed over a link's agents (Jury's
flows).

The paper trains each flow on its own reward. Then a flow gains by pushing, because its gain is its own, while
delay and loss are everyone's. The more flows there are, the longer a queue they accept before any gives way.
With the sum over the agents of a link, no agent can win from another one. Cubic's flows do not count:
with them the policy learned to leave the link to Cubic.

The actor sees only changes, and a critic that saw no more could not predict the reward. The reward depends on
the queue and on the flow's share, and an action's effect depends on the estimate of this share. So the
critics, which only training needs, see queue, share and estimate, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s, Floats
from ltp_switcher.policies.jury.reward import reward
from ltp_switcher.policies.jury.signals import JurySignals
from ltp_switcher.policies.runtime.measurements import NOTHING
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.tasks import SignalsTask, episode_seed

TRUTHS: Final = 8
"""Number of true values that only critics see. They follow the observations of `JurySignals`."""
START: Final = (0.1, 1.5)
"""Range of an agent's first window, as a multiple of its even share of the bandwidth-delay product. A window
is drawn log-uniformly. If most links started overfull, an actor would learn only to shrink.
"""


class JuryTask(SignalsTask):
    """Jury's learning problem; see `SignalsTask`."""

    def __init__(self, agents: int) -> None:
        self._jury = JurySignals(guarded=False)
        super().__init__(self._jury, agents)
        self.observation_size += TRUTHS

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """See `Task`."""
        rng = np.random.default_rng(episode_seed(paths))
        self.signals = self._jury = JurySignals(int(rng.integers(1 << 62)), guarded=False)
        super().begin(simulator, paths, flows)
        agents = np.isfinite(flows.start_s[: self.agents]).sum(axis=0)
        start = np.exp(rng.uniform(np.log(START[0]), np.log(START[1]), self.bdp_pkts.shape))
        window_pkts = np.maximum(self.bdp_pkts * start / agents, 2.0)
        simulator.set_window(window_pkts)
        self._window_pkts = window_pkts.reshape(-1)
        self.signals.begin(self._slots, self._window_pkts)
        # Flows begin with the knowledge of the share that they will have once all flows are there. To learn
        # this share would take an episode.
        sharing = np.isfinite(flows.start_s).sum(axis=0)
        self._jury.occupancy.assume(self._slots, np.tile(1.0 / sharing, self.agents))
        self._was_active = flows.start_s[: self.agents].reshape(-1) <= 0.0
        self._path_loss = paths.loss
        self._base_rtt_s = flows.rtt_ms[: self.agents] / 1e3

    def observe(self, interval: SimulatedInterval) -> tuple[Float32s, Float32s]:
        """See `Task`. The true values follow the flow's own observations."""
        observations, rewards = super().observe(interval)
        return np.concatenate((observations, self._truths(interval)), axis=1), rewards

    def rewards(self, interval: SimulatedInterval) -> Floats:
        """See `SignalsTask`."""
        own = slice(self.agents)
        loss = _loss(interval)[own]
        least = np.minimum(self._path_loss, loss)
        # A flow that gives way to Cubic's queue meets the same queue a little later, with less of the link.
        alone = ~interval.active[self.agents :].any(axis=0)
        flows = reward(_share(interval)[own], alone * _queueing_s(interval)[own], loss, least)
        flows *= interval.active[own]
        return np.broadcast_to(flows.sum(axis=0), flows.shape)

    def _truths(self, interval: SimulatedInterval) -> Float32s:
        share, own = _share(interval), slice(self.agents)
        truths = np.broadcast_arrays(
            10.0 * _queueing_s(interval)[own],
            10.0 * interval.queued_pkts / interval.capacity_pps,
            share[own],
            self._jury.occupancy.ratio(self._slots).reshape(share[own].shape),
            share[own].sum(axis=0),
            share.sum(axis=0),
            5.0 * _loss(interval)[own],
            np.log(self._base_rtt_s / 0.030),
        )
        return np.stack(truths, axis=2).reshape(-1, TRUTHS).astype(np.float32)


def _share(interval: SimulatedInterval) -> Floats:
    """Return each flow's true share of the link, shape (F, E). Jury, Eq. 5, estimates this share."""
    share: Floats = np.clip(interval.delivered_pps / interval.capacity_pps, 0.0, 1.0)
    return share


def _queueing_s(interval: SimulatedInterval) -> Floats:
    queueing_s: Floats = interval.rtt_s - np.minimum(interval.rtt_min_s, interval.rtt_s)
    return queueing_s


def _loss(interval: SimulatedInterval) -> Floats:
    heard = interval.acked_pkts + interval.lost_pkts
    loss: Floats = np.divide(interval.lost_pkts, heard, out=np.zeros_like(heard), where=heard > NOTHING)
    return loss
