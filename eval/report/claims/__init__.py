# SPDX-License-Identifier: Apache-2.0
"""What the papers of the learned arms claim, as runs in the lab and the figures that these must reach."""
