# SPDX-License-Identifier: Apache-2.0
"""Team selection: which k arms are worth choosing among on a path. `mpts/` has the statistics."""
