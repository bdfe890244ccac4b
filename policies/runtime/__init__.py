# SPDX-License-Identifier: Apache-2.0
"""What a learned arm is at run time, in the daemon as in the simulator."""
