# SPDX-License-Identifier: Apache-2.0
"""Features, reward, change detection, contextual bandit: which arm each flow runs next."""

from ltp_switcher.daemon.choose.bandit.agent import MutantAgent, StepResult
from ltp_switcher.daemon.choose.bandit.arm_table import ArmTable

__all__ = ["ArmTable", "MutantAgent", "StepResult"]
