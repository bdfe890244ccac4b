# SPDX-License-Identifier: Apache-2.0
"""Team selection: it finds the team of a path, the k arms that the learned policy chooses among there.

`mpts/` has the statistics.
"""
