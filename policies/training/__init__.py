# SPDX-License-Identifier: Apache-2.0
"""The trainer of the learned arms: TD3 for LTP, Jury and Spine, DQN for Owl. It needs the extra `[train]`."""
