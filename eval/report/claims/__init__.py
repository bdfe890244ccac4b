# SPDX-License-Identifier: Apache-2.0
"""The claims of the learned arms' papers: runs in the lab, and the figures that they must reach."""
