# SPDX-License-Identifier: Apache-2.0
"""Mutant's contextual bandit: it picks the arm that each flow runs next, from features, rewards and detected
changes of the path. An arm is a congestion control.
"""

from ltp_switcher.daemon.choose.bandit.agent import MutantAgent, StepResult
from ltp_switcher.daemon.choose.bandit.arm_table import ArmTable

__all__ = ["ArmTable", "MutantAgent", "StepResult"]
