# SPDX-License-Identifier: Apache-2.0
"""Features, reward, change detection, contextual bandit: which arm each flow runs next."""

from ltp_switcher.daemon.learning.agent import Agent, StepResult
from ltp_switcher.daemon.learning.config import AgentConfig, ArmTable

__all__ = ["Agent", "AgentConfig", "ArmTable", "StepResult"]
