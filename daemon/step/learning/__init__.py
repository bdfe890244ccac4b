# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow on a running server; `choose.visits` holds the pure functions."""
