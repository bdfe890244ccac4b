# SPDX-License-Identifier: Apache-2.0
"""A vectorised simulator of many bottleneck links at once, in numpy, for training the learned arms."""

from ltp_switcher.policies.simulator.paths import Flows, Paths, Steps
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.statistics import Echo, Interval

__all__ = ["Echo", "Flows", "Interval", "Paths", "Roster", "Simulator", "Steps"]
