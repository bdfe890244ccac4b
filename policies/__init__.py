# SPDX-License-Identifier: Apache-2.0
"""The learned arms (LTP, Jury, Spine, Owl) and their common parts: runtime, simulator, training."""
