# SPDX-License-Identifier: Apache-2.0
"""The lab: stock kernels in a virtual machine whose every run is a pure function of its input."""

from ltp_switcher.eval.lab.boot import BootResult, boot
from ltp_switcher.eval.lab.run import RunFiles, run_inputs, run_scenario

__all__ = ["BootResult", "RunFiles", "boot", "run_inputs", "run_scenario"]
