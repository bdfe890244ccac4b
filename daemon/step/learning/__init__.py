# SPDX-License-Identifier: Apache-2.0
"""Learning from one flow to the next on a running server. `choose.visits` has the pure functions for this."""
