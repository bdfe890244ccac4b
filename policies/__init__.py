# SPDX-License-Identifier: Apache-2.0
"""The learned arms (LTP, Jury, Spine, Owl) and what they share: simulator, trainer, export, inference."""
