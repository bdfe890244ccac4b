# SPDX-License-Identifier: Apache-2.0
"""The learned arms (LTP, Jury, Spine, Owl), and the parts that they share: runtime, simulator, training."""
