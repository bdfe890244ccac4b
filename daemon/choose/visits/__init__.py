# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow: the arms on which flows to a destination begin, and the cost of trials."""
