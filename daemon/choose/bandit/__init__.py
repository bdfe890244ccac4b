# SPDX-License-Identifier: Apache-2.0
"""The contextual bandit: from features, rewards and detected changes it picks the arm that each flow runs
next.
"""

from ltp_switcher.daemon.choose.bandit.agent import MutantAgent, StepResult
from ltp_switcher.daemon.choose.bandit.arm_table import ArmTable

__all__ = ["ArmTable", "MutantAgent", "StepResult"]
