# SPDX-License-Identifier: Apache-2.0
"""A vectorised simulator of many bottleneck links at once, in numpy, for training the learned arms."""

from ltp_switcher.policies.simulator.paths import Flows, Paths, Steps
from ltp_switcher.policies.simulator.simulator import Roster, SimulatedInterval, Simulator

__all__ = ["Flows", "Paths", "Roster", "SimulatedInterval", "Simulator", "Steps"]
