# SPDX-License-Identifier: Apache-2.0
"""A learned arm at run time, in the daemon and in the simulator."""
