# SPDX-License-Identifier: Apache-2.0
"""The live half of learning from flow to flow; `choose.visits` is the pure one."""
